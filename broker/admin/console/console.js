// The console: pages over /api/v1. Everything shown goes in as text, never as markup. One look every few seconds, only while the page
// is visible; what operators do is confirmed by typing the name where it destroys.
"use strict";

const EVERY_MS = 3000;
const page = document.getElementById("page");
const problem = document.getElementById("problem");
let timer = 0;
let turn = 0;

class Refused extends Error {}

async function api(method, path, body) {
  const options = { method, headers: { Accept: "application/json" } };
  if (body !== undefined) {
    options.headers["Content-Type"] = "application/json";
    options.body = JSON.stringify(body);
  }
  const answer = await fetch("/api/v1" + path, options);
  const told = await answer.json().catch(() => ({}));
  if (!answer.ok) throw new Refused(`${told.title || answer.status}: ${told.detail || ""} ${told.fix ? "— " + told.fix : ""}`);
  return told;
}

const part = (name) => encodeURIComponent(name);
const fqqn = (row) => (row.name === row.address ? row.name : `${row.address}::${row.name}`);
const count = (n) => Number(n).toLocaleString("en");
const bytes = (n) => {
  const units = ["B", "KiB", "MiB", "GiB", "TiB"];
  let at = 0;
  while (n >= 1024 && at < units.length - 1) { n /= 1024; at += 1; }
  return `${at ? n.toFixed(1) : n} ${units[at]}`;
};

function el(name, attributes, ...children) {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(attributes || {})) {
    if (key === "onclick" || key === "oninput" || key === "onchange") made.addEventListener(key.slice(2), value);
    else if (value !== false && value !== undefined) made.setAttribute(key, value === true ? "" : value);
  }
  for (const child of children.flat()) made.append(child instanceof Node ? child : document.createTextNode(String(child)));
  return made;
}

function table(columns, rows, empty) {
  if (!rows.length) return el("p", { class: "soft" }, empty);
  const head = el("tr", {}, columns.map((c) => el("th", { scope: "col", class: [c.num && "num", c.optional && "optional"].filter(Boolean).join(" ") },
    c.sort ? el("button", { onclick: c.sort, "aria-label": `Sort by ${c.title}` }, c.title) : c.title)));
  const body = rows.map((row) => el("tr", {}, columns.map((c) => el("td", { class: [c.num && "num", c.text && "text", c.id && "id", c.optional && "optional"]
    .filter(Boolean).join(" ") }, c.cell(row)))));
  return el("div", { class: "wide", tabindex: "0", role: "region", "aria-label": "Table" }, el("table", {}, el("thead", {}, head), el("tbody", {}, body)));
}

const card = (label, value) => el("div", { class: "card" }, el("b", {}, value), el("span", {}, label));
const missing = (told) => (told.missing || []).map((m) => el("p", { class: "why" }, `${m.owner} is missing: ${m.why}`));

function confirmed(title, text, name) {
  const dialog = document.getElementById("dialog");
  const input = document.getElementById("dialog-input");
  const yes = document.getElementById("dialog-yes");
  document.getElementById("dialog-title").textContent = title;
  document.getElementById("dialog-text").textContent = text;
  document.getElementById("dialog-label").textContent = `Type ${name} to go on`;
  input.value = "";
  yes.disabled = true;
  input.oninput = () => { yes.disabled = input.value !== name; };
  dialog.returnValue = "no";
  dialog.showModal();
  input.focus();
  return new Promise((done) => { dialog.onclose = () => done(dialog.returnValue === "yes" && input.value === name); });
}

async function act(work, said) {
  try {
    const told = await work();
    const left = (told.left || []).map((l) => `${l.count} stay: ${l.why}`).join("; ");
    say(`${said(told)}${told.more ? ", and there is more: once again" : ""}${left ? ". " + left : ""}`);
  } catch (error) {
    say(String(error.message || error));
  }
  show();
}

function say(text) {
  problem.textContent = text;
  problem.hidden = !text;
}

// ── pages ────────────────────────────────────────────────────────────────────────────────────────────────────────────

const state = { queues: { sort: "-messages", q: "", pages: [] }, subscriptions: { sort: "-messages", q: "", pages: [] },
  connections: { sort: "-subscriptions", q: "", pages: [] }, settings: { q: "" } };

async function overview() {
  const told = await api("GET", "/overview");
  const m = told.messaging;
  const busiest = await api("GET", "/queues?sort=-messages&limit=8");
  return [
    el("h1", {}, told.id === told.role ? "This broker " : `${told.id} `, el("span", { class: "soft" },
      `${told.role}, ${told.version}${told.ready ? "" : ", not ready"}`)),
    missing(told),
    el("div", { class: "cards" },
      card("queues", count(m.queues)), card("messages", count(m.messages)), card("unacknowledged", count(m.delivering)),
      card("not due yet", count(m.scheduled)), card("paused queues", count(m.paused)), card("consumers", count(m.consumers)),
      card("connections here", count(told.clients.connections)), card("accepted since start", count(m.since_start.accepted)),
      card("acknowledged", count(m.since_start.acked)), card("dead letters made", count(m.since_start.dead_lettered)),
      card("disk used", bytes(m.disk.bytes)), card("disk free", bytes(m.disk.free))),
    el("h2", {}, "Longest queues"), queueTable(busiest.items),
  ];
}

function queueTable(rows, sortable) {
  const by = (name) => sortable && (() => { sortable.sort = sortable.sort === `-${name}` ? name : `-${name}`; sortable.pages = []; show(); });
  return table([
    { title: "Queue", text: true, sort: by("name"), cell: (r) => el("a", { href: `#queue/${part(fqqn(r))}` }, fqqn(r)) },
    { title: "Messages", num: true, sort: by("messages"), cell: (r) => count(r.messages) },
    { title: "Unacknowledged", num: true, optional: true, sort: by("delivering"), cell: (r) => count(r.delivering) },
    { title: "Consumers", num: true, sort: by("consumers"), cell: (r) => count(r.consumers) },
    { title: "Type", optional: true, cell: (r) => `${r.routing.toLowerCase()}${r.paused ? ", paused" : ""}` },
  ], rows, "No queues.");
}

function listing(kind, draw) {
  return async () => {
    const own = state[kind];
    const query = new URLSearchParams({ limit: "50", sort: own.sort });
    if (own.q) query.set("q", own.q);
    if (own.pages.length) query.set("page", own.pages[own.pages.length - 1]);
    const told = await api("GET", `/${kind}?${query}`);
    const search = el("input", { type: "search", id: "search", value: own.q, placeholder: "part of the name", "aria-label": "Search",
      onchange: (event) => { own.q = event.target.value; own.pages = []; show(); } });
    return [
      el("h1", {}, kind[0].toUpperCase() + kind.slice(1)), missing(told),
      el("div", { class: "bar" }, search, el("span", { class: "soft" }, `${count(told.total)} in all`)),
      draw(told.items, own),
      el("div", { class: "bar" },
        el("button", { disabled: !own.pages.length, onclick: () => { own.pages.pop(); show(); } }, "Back"),
        el("button", { disabled: !told.next, onclick: () => { own.pages.push(told.next); show(); } }, "Next")),
    ];
  };
}

async function queue(name) {
  const at = `/queues/${part(name)}`;
  const [told, consumers, messages, dead] = await Promise.all([
    api("GET", at), api("GET", `${at}/consumers?limit=50&sort=-unacknowledged`), api("GET", `${at}/messages?limit=20&preview=300`),
    api("GET", `${at}/dead-letters`)]);
  const groups = dead.groups.filter((g) => g.address);
  const paused = told.parts.every((p) => p.paused);
  const sum = (field) => told.parts.reduce((total, p) => total + p[field], 0);
  return [
    el("h1", {}, name), missing(told),
    el("div", { class: "cards" }, card("messages", count(sum("messages"))), card("waiting", count(sum("waiting"))),
      card("unacknowledged", count(sum("delivering"))), card("not due yet", count(sum("scheduled"))), card("consumers", count(sum("consumers"))),
      card("bytes", bytes(sum("bytes")))),
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
      { title: "From", text: true, cell: (g) => (g.queue === g.address || !g.queue ? g.address : `${g.address}::${g.queue}`) },
      { title: "Reason", cell: (g) => g.reason || "—" },
      { title: "Messages", num: true, cell: (g) => count(g.count) },
      { title: "", cell: (g) => el("button", { "aria-label": `Retry what comes from ${g.address} for ${g.reason}`, onclick: () => act(
        () => api("POST", `${at}/retry`, { address: g.address, ...(g.reason ? { reason: g.reason } : {}) }),
        (t) => `${count(t.done)} messages are back in ${g.address}`) }, "Retry") },
    ], groups, "")] : [],
    el("h2", {}, "Messages"), table([
      { title: "Id", id: true, cell: (r) => r.id },
      { title: "Headers", text: true, optional: true, cell: (r) => el("pre", {}, r.headers.map(([k, v]) => `${k}: ${v}`).join("\n")) },
      { title: "Body", text: true, cell: (r) => el("pre", {}, r.large ? `large: ${bytes(r.length)}` : r.body + (r.complete ? "" : " …")) },
      { title: "", cell: (r) => el("button", { class: "danger", "aria-label": `Delete message ${r.id}`, onclick: async () => {
        if (await confirmed("Delete a message", `Message ${r.id} will be gone.`, r.id)) {
          act(() => api("POST", `${at}/purge`, { ids: [r.id] }), (t) => `${t.done} deleted`);
        } } }, "Delete") },
    ], messages.items, "Nothing waits."),
    el("h2", {}, "Consumers"), table([
      { title: "Connection", cell: (r) => el("a", { href: `#connection/${r.session}` }, r.session) },
      { title: "Unacknowledged", num: true, cell: (r) => count(r.unacknowledged) },
      { title: "Mode", optional: true, cell: (r) => r.ack },
      { title: "Selector", text: true, optional: true, cell: (r) => r.selector || "—" },
      { title: "Waits for", text: true, cell: (r) => r.waits_for || "messages" },
    ], consumers.items, "Nobody."),
  ];
}

async function connection(id) {
  const told = await api("GET", `/connections/${part(id)}`);
  return [
    el("h1", {}, `Connection ${id} `, el("span", { class: "soft" }, told.peer)),
    el("div", { class: "cards" }, card("user", told.user || "—"), card("client-id", told.client_id || "—"), card("STOMP", told.version || "—"),
      card("read", bytes(told.bytes_in)), card("written", bytes(told.bytes_out))),
    el("div", { class: "bar" }, el("button", { class: "danger", onclick: async () => {
      if (await confirmed("Disconnect", "It gets an ERROR.", String(id))) {
        act(() => api("DELETE", `/connections/${part(id)}`), () => { location.hash = "#connections"; return "disconnected"; });
      } } }, "Disconnect")),
    table([
      { title: "Queue", text: true, cell: (r) => el("a", { href: `#queue/${part(fqqn({ name: r.queue, address: r.address }))}` }, r.queue) },
      { title: "Unacknowledged", num: true, cell: (r) => count(r.unacknowledged) }, { title: "Waits for", text: true, cell: (r) => r.waits_for || "messages" },
    ], told.consumers, "It consumes nothing."),
  ];
}

async function settings() {
  const told = await api("GET", `/settings${state.settings.q ? `?q=${part(state.settings.q)}` : ""}`);
  const search = el("input", { type: "search", id: "search", value: state.settings.q, placeholder: "part of the name", "aria-label": "Search",
    onchange: (event) => { state.settings.q = event.target.value; show(); } });
  return [el("h1", {}, "Settings"), el("div", { class: "bar" }, search), table([
    { title: "Setting", text: true, cell: (r) => r.name },
    { title: "Value", text: true, cell: (r) => (typeof r.value === "object" ? JSON.stringify(r.value) : `${r.value}`) + (r.source === "default" ? "" : " (set)") },
    { title: "What it does", text: true, optional: true, cell: (r) => r.help + (r.why ? ` Why: ${r.why}.` : "") },
  ], told.items, "None.")];
}

const connections = (rows) => table([
  { title: "Id", cell: (r) => el("a", { href: `#connection/${r.id}` }, r.id) },
  { title: "From", text: true, cell: (r) => r.peer },
  { title: "User", text: true, cell: (r) => r.user || "—" },
  { title: "Client-id", text: true, optional: true, cell: (r) => r.client_id || "—" },
  { title: "Subscriptions", num: true, cell: (r) => count(r.subscriptions) },
  { title: "Read", num: true, optional: true, cell: (r) => bytes(r.bytes_in) },
], rows, "Nobody is connected.");

const PAGES = { overview, queue, connection, settings, queues: listing("queues", queueTable),
  subscriptions: listing("subscriptions", queueTable), connections: listing("connections", connections) };

async function show() {
  clearTimeout(timer);
  const mine = ++turn;
  const [kind, name] = (location.hash.slice(1) || "overview").split("/");
  const draw = PAGES[kind] || overview;
  for (const link of document.querySelectorAll("nav a")) {
    if (link.hash === `#${kind}`) link.setAttribute("aria-current", "page"); else link.removeAttribute("aria-current");
  }
  try {
    const parts = await draw(name === undefined ? undefined : decodeURIComponent(name));
    if (mine !== turn) return;
    const typing = document.activeElement && ["INPUT", "BUTTON"].includes(document.activeElement.tagName) && page.contains(document.activeElement);
    if (!(typing && document.activeElement.tagName === "INPUT")) page.replaceChildren(...parts.flat(3));
  } catch (error) {
    if (mine === turn) { say(String(error.message || error)); if (!(error instanceof Refused)) page.replaceChildren(); }
  }
  timer = setTimeout(() => { if (document.visibilityState === "visible" && !document.getElementById("dialog").open) show(); else timer = setTimeout(show, EVERY_MS); }, EVERY_MS);
}

addEventListener("hashchange", () => { say(""); page.replaceChildren(); show(); });
show();
