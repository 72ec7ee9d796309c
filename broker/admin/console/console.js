// The console: pages over /api/v1. Everything shown goes in as text, never as markup. What a page shows it watches
// (/api/v1/events), only while it is visible; what operators do is confirmed by typing the name where it destroys.
"use strict";

const AGAIN_MS = 10000; // where there are no events
const WATCHED = 6; // the most of one stream
const SLOW_MS = 300; // then an empty page says that it waits
const LATE_MS = 1500; // for what stands further below on a page
const page = document.getElementById("page");
const problem = document.getElementById("problem");
const light = document.getElementById("light");
let timer = 0;
let turn = 0;
let asked = []; // what the page that is drawn has looked at
const live = { source: null, paths: [], told: new Map() };

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

async function look(path) {
  if (!asked.includes(path)) asked.push(path);
  const told = live.told.get(path) || await api("GET", path);
  if (told.status && String(told.type).startsWith("urn:stampede:problem:")) throw new Refused(`${told.title}: ${told.detail} — ${told.fix || ""}`);
  return told;
}

// A part of a page that is late, or refused, does not keep the rest from being shown: it comes when it comes (watch), and says why not.
function unlessLate(asking, empty) {
  const late = new Promise((on) => { setTimeout(() => on({ ...empty, why: "It takes its time: an owner does not answer." }), LATE_MS); });
  return Promise.race([asking.catch((error) => ({ ...empty, why: String(error.message || error) })), late]);
}

function watch(paths) {
  if (live.source && live.paths.join() === paths.join()) return;
  unwatch();
  if (document.visibilityState !== "visible" || !paths.length) return;
  live.paths = paths;
  live.source = new EventSource(`/api/v1/events?${paths.map((path) => `watch=${part(path)}`).join("&")}`);
  paths.forEach((path, nth) => live.source.addEventListener(String(nth), (event) => {
    live.told.set(path, JSON.parse(event.data));
    clearTimeout(timer);
    timer = setTimeout(show, 100);
  }));
  live.source.onopen = () => { light.textContent = "live"; };
  live.source.onerror = () => {
    light.textContent = "not live";
    live.told.clear();
    if (live.source.readyState === EventSource.CLOSED) { unwatch(); timer = setTimeout(show, AGAIN_MS); }
  };
}

function unwatch() {
  if (live.source) live.source.close();
  live.source = null;
  live.paths = [];
  live.told.clear();
  light.textContent = "";
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
    if (["onclick", "oninput", "onchange", "onsubmit"].includes(key)) made.addEventListener(key.slice(2), value);
    else if (value !== false && value !== undefined) made.setAttribute(key, value === true ? "" : value);
  }
  for (const child of children.flat()) made.append(child instanceof Node ? child : document.createTextNode(String(child)));
  return made;
}

const heading = (columns) => el("tr", {}, columns.map((c) => el("th", { scope: "col", class: [c.num && "num", c.optional && "optional"].filter(Boolean).join(" ") },
  c.sort ? el("button", { onclick: c.sort, "aria-label": `Sort by ${c.title}` }, c.title) : c.title)));
const line = (columns, row, more) => el("tr", more, columns.map((c) => el("td", { class: [c.num && "num", c.text && "text", c.id && "id", c.optional && "optional"]
  .filter(Boolean).join(" ") }, c.cell(row))));

function table(columns, rows, empty) {
  if (!rows.length) return el("p", { class: "soft" }, empty);
  return el("div", { class: "wide", tabindex: "0", role: "region", "aria-label": `Table: ${columns.map((c) => c.title).join(", ")}` },
    el("table", {}, el("thead", {}, heading(columns)), el("tbody", {}, rows.map((row) => line(columns, row)))));
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
    say(`${said(told)}${told.more ? ", and there is more: once again" : ""}${left ? ". " + left : ""}`, !told.more && !left);
  } catch (error) {
    say(String(error.message || error));
  }
  live.told.clear();
  show();
}

// done: all of it, and nothing to worry about.
function say(text, done = false) {
  problem.textContent = text;
  problem.className = done ? "done" : "";
  problem.hidden = !text;
}

// ── pages ────────────────────────────────────────────────────────────────────────────────────────────────────────────

const state = { show: { as: "text", selector: "" },  may: { user: "", address: "", told: null }, audit: { q: "" }, queues: { sort: "-messages", q: "" }, subscriptions: { sort: "-messages", q: "" },
  connections: { sort: "-subscriptions", q: "" }, addresses: { sort: "name", q: "" }, settings: { q: "" }, move: { slot: "", to: "" } };

async function overview() {
  const [told, busiest] = await Promise.all([look("/overview"), look("/queues?sort=-messages&limit=8")]);
  const m = told.messaging;
  return [
    el("h1", {}, told.id === told.role ? "This broker " : `${told.id} `, el("span", { class: "soft" },
      `${told.role}, ${told.version}${told.ready ? "" : ", not ready"}`)),
    missing(told),
    el("div", { class: "cards" },
      card("queues", count(m.queues)), card("messages", count(m.messages)), card("unacknowledged", count(m.delivering)),
      card("not due yet", count(m.scheduled)), card("paused queues", count(m.paused)), card("consumers", count(m.consumers)),
      card("connections", count(told.clients.connections)), card("accepted since start", count(m.since_start.accepted)),
      card("acknowledged", count(m.since_start.acked)), card("dead letters made", count(m.since_start.dead_lettered)),
      card("disk used", bytes(m.disk.bytes)), card("disk free", bytes(m.disk.free))),
    plots(m),
    el("h2", {}, "Longest queues"), table(queueColumns(), busiest.items, "No queues."),
  ];
}

async function dead() {
  const told = await look("/dead-letters");
  const rows = told.queues.flatMap((q) => (q.groups.length ? q.groups : [{ address: "", queue: "", reason: "", count: q.messages }])
    .map((g) => ({ ...g, in: fqqn(q) })));
  const retry = (r) => (r.address ? el("button", { "aria-label": `Retry ${r.address}, ${r.reason}`, onclick: () => retried(r.in, r) }, "Retry") : "");
  return [
    el("h1", {}, "Dead letters"), missing(told),
    el("p", { class: "soft" }, told.complete && told.queues.every((q) => q.complete) ? "By where they come from and why."
      : "By where they come from and why; there are more than are counted here."),
    table([
      { title: "From", text: true, cell: (r) => (r.address ? el("a", { href: `#queue/${part(whence(r))}` }, whence(r)) : "not known") },
      { title: "Why", text: true, cell: (r) => r.reason || "—" }, { title: "Messages", num: true, cell: (r) => count(r.count) },
      { title: "Are in", text: true, optional: true, cell: (r) => el("a", { href: `#queue/${part(r.in)}` }, r.in) },
      { title: "Do", cell: retry },
    ], rows, "No dead letters."),
  ];
}

async function audit() {
  const told = await look(`/audit?limit=200${state.audit.q ? `&q=${part(state.audit.q)}` : ""}`);
  const search = el("input", { type: "search", id: "search", value: state.audit.q, placeholder: "who, what, on what", "aria-label": "Search",
    onchange: (event) => { state.audit.q = event.target.value; show(); } });
  return [
    el("h1", {}, "Audit"), missing(told), el("p", { class: "soft" }, "What was asked for, through any edge; the log stampede.audit of each has what is older."),
    el("div", { class: "bar" }, search),
    table([
      { title: "When", id: true, cell: (r) => new Date(r.at).toLocaleString() }, { title: "Who", text: true, cell: (r) => r.who || "nobody" },
      { title: "From", optional: true, cell: (r) => (r.edge ? `${r.from}, at ${r.edge}` : r.from) }, { title: "What", text: true, cell: (r) => r.action },
      { title: "On", text: true, cell: (r) => r.target }, { title: "Ended", text: true, cell: (r) => r.outcome },
      { title: "More", text: true, optional: true, cell: (r) => Object.entries(r.more).map(([name, value]) => `${name}: ${value}`).join("; ") || "—" },
    ], told.items, "Nothing was changed since the broker began."),
  ];
}

// Each edge of a cluster numbers its own.
const linked = (id, edge) => el("a", { href: `#connection/${part(edge ? `${id}@${edge}` : id)}` }, edge ? `${id} at ${edge}` : id);
const read = []; // of one connection: when, and how many bytes it had sent

function readRate(told) {
  if (read.length && read[0].key !== `${told.id}@${told.edge}`) read.length = 0;
  read.push({ key: `${told.id}@${told.edge}`, at: Date.now(), bytes: told.bytes_in });
  if (read.length > 6) read.shift();
  const passed = (read[read.length - 1].at - read[0].at) / 1000;
  return passed < 0.9 ? "—" : `${bytes(Math.round((told.bytes_in - read[0].bytes) / passed))}/s`;
}

async function connection(which) {
  const [id, edge] = which.split("@");
  const at = `/connections/${part(id)}${edge ? `?edge=${part(edge)}` : ""}`;
  const told = await look(at);
  const beats = told.heart_beat || {};
  return [
    el("h1", {}, `Connection ${id} `, el("span", { class: "soft" }, `${told.peer}${edge ? `, at ${edge}` : ""}`)),
    el("div", { class: "cards" }, card("user", told.user || "—"), card("client-id", told.client_id || "—"), card("STOMP", told.version || "—"),
      card("read", bytes(told.bytes_in)), card("reads now", readRate(told)), card("written", bytes(told.bytes_out)),
      card("sent to full addresses", bytes(told.blocked_bytes)),
      ...Object.entries(beats).map(([name, value]) => card(`heart-beat: ${name.replaceAll("_", " ")}`, value === null ? "—" : `${value}`))),
    told.blocked_by.length ? el("ul", { class: "why" }, told.blocked_by.map((why) => el("li", {}, `It cannot send on: ${why}.`))) : [],
    el("div", { class: "bar" }, el("button", { class: "danger", onclick: async () => {
      if (await confirmed("Disconnect", "It gets an ERROR.", String(id))) {
        act(() => api("DELETE", at), () => { location.hash = "#connections"; return "disconnected"; });
      } } }, "Disconnect")),
    table([
      { title: "Queue", text: true, cell: (r) => el("a", { href: `#queue/${part(fqqn({ name: r.queue, address: r.address }))}` }, r.queue) },
      { title: "Unacknowledged", num: true, cell: (r) => count(r.unacknowledged) }, { title: "Waits for", text: true, cell: (r) => r.waits_for || "messages" },
    ], told.consumers, "It consumes nothing."),
  ];
}

const PAGES = { overview, dead, try: tryPage, audit, queue, connection, settings, cluster, users,
  addresses: listing("addresses", addressColumns, "No addresses."), queues: listing("queues", queueColumns, "No queues."),
  subscriptions: listing("subscriptions", queueColumns, "No durable subscriptions."),
  connections: listing("connections", connectionColumns, "Nobody is connected.") };

// Where a page of one thing belongs in the menu.
const LISTED = { queue: "queues", connection: "connections" };

// Whoever works by keyboard stays where he is when the page is drawn anew.
const mark = (node) => node && page.contains(node) && [node.tagName, node.id, node.getAttribute("aria-label"), node.getAttribute("href"),
  node.textContent].join("|");

function draw(parts) {
  const focused = mark(document.activeElement);
  const scrolled = [...page.querySelectorAll(".wide")].map((wide) => wide.scrollLeft);
  page.replaceChildren(...parts.flat(3));
  page.querySelectorAll(".wide").forEach((wide, nth) => { wide.scrollLeft = scrolled[nth] || 0; });
  if (focused) refocus(focused, page);
}

// Where that is gone, the box around it has the keyboard.
function refocus(focused, box) {
  const found = [...box.querySelectorAll("a, button, input, select, [tabindex]")].find((node) => mark(node) === focused);
  if (found) found.focus({ preventScroll: true }); else if (box !== page) box.focus({ preventScroll: true });
}

async function show() {
  clearTimeout(timer);
  const mine = ++turn;
  const [kind, name] = (location.hash.slice(1) || "overview").split("/");
  for (const link of document.querySelectorAll("nav a")) {
    if (link.hash === `#${LISTED[kind] || kind}`) link.setAttribute("aria-current", "page"); else link.removeAttribute("aria-current");
  }
  asked = [];
  const mineAsked = asked;
  const slow = setTimeout(() => {
    if (mine === turn && !page.childElementCount) page.replaceChildren(el("p", { class: "soft", role: "status" }, "Asking the broker: somebody takes his time."));
  }, SLOW_MS);
  try {
    const parts = await (PAGES[kind] || overview)(name === undefined ? undefined : decodeURIComponent(name));
    if (mine !== turn) return;
    const typing = document.activeElement && document.activeElement.tagName === "INPUT" && page.contains(document.activeElement);
    if (parts && !typing && !document.querySelector("dialog[open]")) draw(parts);
    watch(mineAsked.slice(0, WATCHED));
  } catch (error) {
    if (mine !== turn) return;
    unwatch();
    page.replaceChildren(el("h1", {}, name === undefined ? kind : decodeURIComponent(name)), el("p", { class: "why" }, String(error.message || error)));
    timer = setTimeout(show, AGAIN_MS);
  } finally {
    clearTimeout(slow);
  }
}

addEventListener("hashchange", () => { say(""); state.show.selector = ""; page.replaceChildren(); unwatch(); show(); });
for (const dialog of document.querySelectorAll("dialog")) dialog.addEventListener("close", () => show());
document.addEventListener("visibilitychange", () => { if (document.visibilityState === "visible") show(); else unwatch(); });
show();
