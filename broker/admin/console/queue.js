// One queue: why nothing is delivered, what waits in it, and what can be done to that. Read before console.js, whose
// functions it uses; see there.
"use strict";

// A body as its bytes are, or as what they may mean.
function shown(row) {
  if (row.large) return "large";
  const rest = row.complete ? "" : " …";
  if (state.show.as === "hex" || row.encoding === "base64") {
    const raw = row.encoding === "base64" ? Uint8Array.from(atob(row.body), (c) => c.charCodeAt(0)) : new TextEncoder().encode(row.body);
    const lines = [];
    for (let from = 0; from < raw.length; from += 16) {
      const some = [...raw.slice(from, from + 16)];
      lines.push(`${from.toString(16).padStart(4, "0")}  ${some.map((b) => b.toString(16).padStart(2, "0")).join(" ").padEnd(48)} ${
        some.map((b) => (b > 31 && b < 127 ? String.fromCharCode(b) : ".")).join("")}`);
    }
    return lines.join("\n") + rest;
  }
  if (state.show.as === "JSON") {
    try { return JSON.stringify(JSON.parse(row.body), null, 2); } catch { return row.body + rest; }
  }
  return row.body + rest;
}

// What is listed below is what these buttons are about: the selector chooses both.
function carrying(name, at) {
  const own = state.show;
  const which = () => (own.selector ? { selector: own.selector } : {});
  const said = () => (own.selector ? `Messages that match ${own.selector}` : "All messages that wait");
  const go = (what, text, more, done) => async () => {
    const given = more();
    const seen = given && await foreseen(`${at}/${what}`, { ...which(), ...given.body });
    if (seen && await confirmed(text, `${said()} ${given.why}: ${seen.count}. The first of them are listed on this page.`, name)) {
      act(() => api("POST", `${at}/${what}`, { ...which(), ...given.body }), (t) => `${count(t.done)} messages ${done}`);
    }
  };
  const to = () => document.getElementById("carry-to").value.trim();
  const somewhere = (verb) => () => (to() ? { why: `${verb} to ${to()}`, body: { to: to() } } : (say("Say where to: an address, or ADDRESS::QUEUE."), null));
  return el("div", { class: "bar" },
    el("select", { id: "show-as", "aria-label": "Show bodies as", onchange: (event) => { own.as = event.target.value; show(); } },
      ["text", "JSON", "hex"].map((as) => el("option", { value: as, selected: own.as === as }, as))),
    el("input", { type: "search", id: "selector", value: own.selector, placeholder: "selector, like n > 3", "aria-label": "Selector",
      onchange: (event) => { own.selector = event.target.value.trim(); show(); } }),
    el("input", { id: "carry-to", placeholder: "to ADDRESS", "aria-label": "Where to" }),
    el("button", { onclick: go("move", "Move", somewhere("go"), "moved") }, "Move"),
    el("button", { onclick: go("copy", "Copy", somewhere("are copied"), "copied") }, "Copy"),
    el("button", { class: "danger", onclick: go("expire", "Expire", () => ({ why: "count as expired now", body: {} }), "expired") }, "Expire"),
    own.selector ? el("button", { class: "danger", onclick: go("purge", "Delete", () => ({ why: "will be gone", body: {} }), "deleted") }, "Delete what matches") : []);
}

// What it would be about: how many in words, and lines of the first. null: it would be refused, which is said.
async function foreseen(path, body) {
  try {
    const { preview, left } = await api("POST", path, { ...body, dry_run: true });
    return { count: `${count(preview.count)}${preview.complete ? "" : " or more"}`, lines: [
      ...preview.first.map((row) => `${row.id}: ${row.large ? "large" : shown(row)}`), ...left.map((l) => `${count(l.count)} stay: ${l.why}`)] };
  } catch (error) {
    say(String(error.message || error));
    return null;
  }
}

const whence = (group) => (group.queue && group.queue !== group.address ? `${group.address}::${group.queue}` : group.address);

// Shows what goes back before it does; both are the broker's answer to the same question.
async function retried(name, group) {
  const at = `/queues/${part(name)}/retry`;
  const body = { address: group.address, queue: group.queue, reason: group.reason };
  const seen = await foreseen(at, body);
  if (!seen) return;
  const text = `${seen.count} messages go back to ${whence(group)}${group.reason ? `; they left for: ${group.reason}` : ""}.`;
  if (!await filled(`Retry ${group.address}`, [text, ...(seen.lines.length ? ["The first of them:", ...seen.lines] : [])].join("\n"), [], "Retry")) return;
  act(() => api("POST", at, body), (t) => `${count(t.done)} messages are back in ${whence(group)}`);
}

async function queue(name) {
  const at = `/queues/${part(name)}`;
  const [told, consumers, messages, dead] = await Promise.all([
    look(at), unlessLate(look(`${at}/consumers?limit=50&sort=-unacknowledged`), { items: [] }),
    unlessLate(look(`${at}/messages?limit=20&preview=2000&once=true${state.show.selector ? `&selector=${part(state.show.selector)}` : ""}`), { items: [] }), unlessLate(look(`${at}/dead-letters`), { groups: [] })]);
  const groups = dead.groups.filter((g) => g.address);
  const paused = told.parts.every((p) => p.paused);
  const sum = (field) => told.parts.reduce((total, p) => total + p[field], 0);
  const makers = [...new Set(told.parts.map((p) => p.maker).filter(Boolean))];
  return [
    el("h1", {}, name), missing(told),
    el("div", { class: "cards" }, card("messages", count(sum("messages"))), card("waiting", count(sum("waiting"))),
      card("unacknowledged", count(sum("delivering"))), card("not due yet", count(sum("scheduled"))), card("consumers", count(sum("consumers"))),
      card("bytes", bytes(sum("bytes")))),
    makers.length ? el("p", {}, `Counts for ${makers.map((maker) => `user ${maker}`).join(", ")} (edge.quotas).`) : [],
    el("h2", {}, "Why is nothing delivered?"), told.parts.map((p) => el("ul", { class: "why" }, p.why.map((w) => el("li", {}, w)))),
    el("div", { class: "bar" },
      paused ? el("button", { onclick: () => act(() => api("POST", `${at}/resume`, {}), () => "resumed") }, "Resume")
        : el("button", { onclick: () => act(() => api("POST", `${at}/pause`, {}), () => "paused") }, "Pause"),
      el("button", { class: "danger", onclick: async () => {
        if (await confirmed("Purge", "Everything in it will be gone, also what consumers hold.", name)) {
          act(() => api("POST", `${at}/purge`, {}), (t) => `${count(t.done)} messages purged`);
        } } }, "Purge"),
      el("button", { class: "danger", onclick: async () => {
        if (await confirmed("Delete", "The queue and its messages will be gone.", name)) {
          act(() => api("DELETE", at), () => { location.hash = "#queues"; return "deleted"; });
        } } }, "Delete")),
    groups.length ? [el("h2", {}, "Dead letters"), table([
      { title: "From", text: true, cell: whence },
      { title: "Reason", cell: (g) => g.reason || "—" },
      { title: "Messages", num: true, cell: (g) => count(g.count) },
      { title: "Do", cell: (g) => el("button", { "aria-label": `Retry what comes from ${g.address} for ${g.reason}`, onclick: () => retried(name, g) }, "Retry") },
    ], groups, "")] : [],
    el("h2", {}, "Messages"), carrying(name, at), table([
      { title: "Id", id: true, cell: (r) => r.id },
      { title: "Headers", text: true, optional: true, cell: (r) => el("pre", {}, r.headers.map(([k, v]) => `${k}: ${v}`).join("\n")) },
      { title: "Body", text: true, cell: (r) => [el("pre", {}, shown(r)), el("a", { href: `/api/v1${at}/messages/${part(r.id)}/body`, download: `${r.id}.body`,
        "aria-label": `Download the body of ${r.id}` }, `download (${bytes(r.length)})`)] },
      { title: "Do", cell: (r) => el("button", { class: "danger", "aria-label": `Delete message ${r.id}`, onclick: async () => {
        if (await confirmed("Delete a message", `Message ${r.id} will be gone.`, r.id)) {
          act(() => api("POST", `${at}/purge`, { ids: [r.id] }), (t) => `${t.done} deleted`);
        } } }, "Delete") },
    ], messages.items, messages.why || "Nothing waits."),
    el("h2", {}, "Consumers"), table([
      { title: "Connection", cell: (r) => linked(r.session, r.edge) },
      { title: "Unacknowledged", num: true, cell: (r) => count(r.unacknowledged) },
      { title: "Mode", optional: true, cell: (r) => r.ack },
      { title: "Selector", text: true, optional: true, cell: (r) => r.selector || "—" },
      { title: "Waits for", text: true, cell: (r) => r.waits_for || "messages" },
    ], consumers.items, consumers.why || "Nobody."),
  ];
}
