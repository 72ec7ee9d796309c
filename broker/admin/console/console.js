// The console: pages over /api/v1. Everything shown goes in as text, never as markup. What a page shows it watches
// (/api/v1/events), only while it is visible; what operators do is confirmed by typing the name where it destroys.
"use strict";

const AGAIN_MS = 10000; // where there are no events
const WATCHED = 6; // the most of one stream
const SPANS = 12; // ranges of slots that are named
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

function table(columns, rows, empty) {
  if (!rows.length) return el("p", { class: "soft" }, empty);
  const head = el("tr", {}, columns.map((c) => el("th", { scope: "col", class: [c.num && "num", c.optional && "optional"].filter(Boolean).join(" ") },
    c.sort ? el("button", { onclick: c.sort, "aria-label": `Sort by ${c.title}` }, c.title) : c.title)));
  const body = rows.map((row) => el("tr", {}, columns.map((c) => el("td", { class: [c.num && "num", c.text && "text", c.id && "id", c.optional && "optional"]
    .filter(Boolean).join(" ") }, c.cell(row)))));
  return el("div", { class: "wide", tabindex: "0", role: "region", "aria-label": `Table: ${columns.map((c) => c.title).join(", ")}` }, el("table", {}, el("thead", {}, head), el("tbody", {}, body)));
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
  live.told.clear();
  show();
}

function say(text) {
  problem.textContent = text;
  problem.hidden = !text;
}

// ── pages ────────────────────────────────────────────────────────────────────────────────────────────────────────────

const HISTORY = 240; // points of a plot, about one a second
const past = []; // of the overview: when, and what had been accepted and acknowledged by then
const TREND = 60; // points of a sparkline
const DEPTHS = 2000; // queues that have one
const depths = new Map(); // of a queue: when, and how many messages, as long as this console is open
const state = { show: { as: "text", selector: "" },  may: { user: "", address: "", told: null }, audit: { q: "" }, queues: { sort: "-messages", q: "", pages: [] }, subscriptions: { sort: "-messages", q: "", pages: [] },
  connections: { sort: "-subscriptions", q: "", pages: [] }, addresses: { sort: "name", q: "", pages: [] }, settings: { q: "" } };

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
    el("h2", {}, "Longest queues"), queueTable(busiest.items),
  ];
}

const SVG = document.querySelector("svg").namespaceURI;

function svg(name, attributes, ...children) {
  const made = document.createElementNS(SVG, name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  made.append(...children);
  return made;
}

// Lines over time, from what was told while this page was open: nothing is asked for them.
function plots(m) {
  const last = past[past.length - 1];
  const now = { at: Date.now(), accepted: m.since_start.accepted, acked: m.since_start.acked, messages: m.messages };
  if (!last || now.at - last.at >= 900) past.push(now);
  if (past.length > HISTORY) past.shift();
  const rate = (field) => past.slice(1).map((point, nth) => [point.at,
    Math.max(0, (point[field] - past[nth][field]) / ((point.at - past[nth].at) / 1000))]);
  return el("div", { class: "plots" },
    plot("Messages a second", [["accepted", rate("accepted")], ["acknowledged", rate("acked")]]),
    plot("Messages in all queues", [["messages", past.map((point) => [point.at, point.messages])]]));
}

function plot(title, lines) {
  const points = lines.flatMap(([, line]) => line);
  if (lines[0][1].length < 2) {
    return el("figure", { class: "card" }, el("figcaption", {}, title), el("p", { class: "soft" }, "A moment: it is drawn while this page is open."));
  }
  const [first, latest] = [Math.min(...points.map((p) => p[0])), Math.max(...points.map((p) => p[0]))];
  const most = Math.max(1, ...points.map((p) => p[1]));
  const [w, h] = [520, 120];
  const place = ([at, value]) => `${((at - first) / Math.max(1, latest - first) * w).toFixed(1)},${(h - value / most * (h - 4) - 2).toFixed(1)}`;
  const newest = lines.map(([name, line]) => `${name} ${count(Math.round(line[line.length - 1][1]))}`).join(", ");
  return el("figure", { class: "card" },
    el("figcaption", {}, `${title}: `, el("span", { class: "soft" }, `${newest}; at most ${count(Math.round(most))} in the last ${Math.round((latest - first) / 1000)} s`)),
    svg("svg", { viewBox: `0 0 ${w} ${h}`, role: "img", "aria-label": `${title}: ${newest}`, preserveAspectRatio: "none" },
      ...lines.map(([, line], nth) => svg("polyline", { points: line.map(place).join(" "), class: `line${nth}` }))),
    lines.length > 1 ? el("p", { class: "soft legend" }, lines.flatMap(([name], nth) => [el("i", { class: `line${nth}` }), ` ${name} `])) : []);
}

async function dead() {
  const told = await look("/dead-letters");
  const rows = told.queues.flatMap((q) => (q.groups.length ? q.groups : [{ address: "", queue: "", reason: "", count: q.messages }])
    .map((g) => ({ ...g, in: fqqn(q) })));
  const retry = (r) => (r.address ? el("button", { "aria-label": `Retry ${r.address}, ${r.reason}`, onclick: () => act(
    () => api("POST", `/queues/${part(r.in)}/retry`, { address: r.address, reason: r.reason || undefined }),
    (t) => `${count(t.done)} messages are back in ${r.address}`) }, "Retry") : "");
  const from = (r) => (r.queue && r.queue !== r.address ? `${r.address}::${r.queue}` : r.address);
  return [
    el("h1", {}, "Dead letters"), missing(told),
    el("p", { class: "soft" }, told.complete && told.queues.every((q) => q.complete) ? "By where they come from and why."
      : "By where they come from and why; there are more than are counted here."),
    table([
      { title: "From", text: true, cell: (r) => (r.address ? el("a", { href: `#queue/${part(from(r))}` }, from(r)) : "not known") },
      { title: "Why", text: true, cell: (r) => r.reason || "—" }, { title: "Messages", num: true, cell: (r) => count(r.count) },
      { title: "Are in", text: true, cell: (r) => el("a", { href: `#queue/${part(r.in)}` }, r.in) },
      { title: "Do", cell: retry },
    ], rows, "No dead letters."),
  ];
}

async function audit() {
  const told = await look(`/audit?limit=200${state.audit.q ? `&q=${part(state.audit.q)}` : ""}`);
  const search = el("input", { type: "search", id: "search", value: state.audit.q, placeholder: "who, what, on what", "aria-label": "Search",
    onchange: (event) => { state.audit.q = event.target.value; show(); } });
  return [
    el("h1", {}, "Audit"), el("p", { class: "soft" }, "What was asked for through this process; the log stampede.audit has what is older."),
    el("div", { class: "bar" }, search),
    table([
      { title: "When", id: true, cell: (r) => new Date(r.at).toLocaleString() }, { title: "Who", text: true, cell: (r) => r.who || "nobody" },
      { title: "From", optional: true, cell: (r) => r.from }, { title: "What", text: true, cell: (r) => r.action },
      { title: "On", text: true, cell: (r) => r.target }, { title: "Ended", text: true, cell: (r) => r.outcome },
      { title: "More", text: true, optional: true, cell: (r) => Object.entries(r.more).map(([name, value]) => `${name}: ${value}`).join("; ") || "—" },
    ], told.items, "Nothing was changed since this process began."),
  ];
}

// Depth over time and by how much it changes, from what was told while this console was open: nothing is asked for it.
function trend(row) {
  const name = fqqn(row);
  const known = depths.get(name) || [];
  const last = known[known.length - 1];
  if (!last || Date.now() - last[0] >= 900) known.push([Date.now(), row.messages]);
  if (known.length > TREND) known.shift();
  depths.delete(name);
  depths.set(name, known);
  if (depths.size > DEPTHS) depths.delete(depths.keys().next().value);
  if (known.length < 2) return "—";
  const [first, now] = [known[Math.max(0, known.length - 6)], known[known.length - 1]];
  const rate = Math.round((now[1] - first[1]) / ((now[0] - first[0]) / 1000));
  const most = Math.max(1, ...known.map((point) => point[1]));
  const place = ([at, value]) => `${((at - known[0][0]) / Math.max(1, now[0] - known[0][0]) * 80).toFixed(1)},${(18 - value / most * 16 - 1).toFixed(1)}`;
  const told = rate > 0 ? `grows by ${count(rate)}/s` : rate < 0 ? `shrinks by ${count(-rate)}/s` : "steady";
  return el("span", { class: "trend" }, svg("svg", { viewBox: "0 0 80 18", role: "img", "aria-label": `${name} ${told}` },
    svg("polyline", { points: known.map(place).join(" "), class: "line0" })), el("span", { class: "soft" }, rate ? `${rate > 0 ? "+" : "−"}${count(Math.abs(rate))}/s` : ""));
}

function queueTable(rows, sortable) {
  const by = (name) => sortable && (() => { sortable.sort = sortable.sort === `-${name}` ? name : `-${name}`; sortable.pages = []; show(); });
  return table([
    { title: "Queue", text: true, sort: by("name"), cell: (r) => el("a", { href: `#queue/${part(fqqn(r))}` }, fqqn(r)) },
    { title: "Messages", num: true, sort: by("messages"), cell: (r) => count(r.messages) },
    { title: "Trend", optional: true, cell: trend },
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
    const told = await look(`/${kind}?${query}`);
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

async function settings() {
  const told = await look(`/settings${state.settings.q ? `?q=${part(state.settings.q)}` : ""}`);
  const search = el("input", { type: "search", id: "search", value: state.settings.q, placeholder: "part of the name", "aria-label": "Search",
    onchange: (event) => { state.settings.q = event.target.value; show(); } });
  return [el("h1", {}, "Settings"), el("div", { class: "bar" }, search), table([
    { title: "Setting", text: true, cell: (r) => r.name },
    { title: "Value", text: true, cell: (r) => (typeof r.value === "object" ? JSON.stringify(r.value) : `${r.value}`) },
    { title: "From", optional: true, cell: (r) => r.source + (r.restart !== null && r.restart !== undefined ? `, after a restart ${JSON.stringify(r.restart)}` : "") },
    { title: "What it does", text: true, optional: true, cell: (r) => r.help + (r.why ? ` Why: ${r.why}.` : "") },
  ], told.items, "None.")];
}

const connections = (rows) => table([
  { title: "Id", cell: (r) => linked(r.id, r.edge) },
  { title: "From", text: true, cell: (r) => r.peer },
  { title: "User", text: true, cell: (r) => r.user || "—" },
  { title: "Client-id", text: true, optional: true, cell: (r) => r.client_id || "—" },
  { title: "Subscriptions", num: true, cell: (r) => count(r.subscriptions) },
  { title: "Read", num: true, optional: true, cell: (r) => bytes(r.bytes_in) },
  { title: "Cannot send on", text: true, optional: true, cell: (r) => r.blocked_by.join("; ") || "—" },
], rows, "Nobody is connected.");

const addresses = (rows) => table([
  { title: "Address", text: true, cell: (r) => r.name },
  { title: "Types", optional: true, cell: (r) => r.routing.join(", ").toLowerCase() || "—" },
  { title: "Queues", num: true, cell: (r) => count(r.queues) },
  { title: "Messages", num: true, cell: (r) => count(r.messages) },
  { title: "Consumers", num: true, optional: true, cell: (r) => count(r.consumers) },
], rows, "No addresses.");

// What an owner is to each slot: it leads, is in sync, is being filled, or is away.
function strip(owner, slots) {
  const behind = owner.state.startsWith("up") ? "filling" : "away";
  const cells = slots.map((slot) => el("i", {
    class: slot.leader === owner.name ? "leads" : slot.in_sync.includes(owner.name) ? "in-sync" : slot.replicas.includes(owner.name) ? behind : "",
    title: `slot ${slot.slot}: ${slot.leader ? `led by ${slot.leader}` : "led by nobody"}, in sync ${slot.in_sync.join(", ")}` }));
  return el("div", { class: "strip", role: "img",
    "aria-label": `${owner.name} leads ${owner.leads} slots, keeps ${owner.replicas}, ${owner.in_sync} of them in sync` }, cells);
}

const trouble = (slot) => [
  slot.shelved && `shelved: ${slot.shelved}`, !slot.leader && "led by nobody", slot.target && `handed over to ${slot.target}`,
  ...slot.replicas.filter((name) => !slot.in_sync.includes(name)).map((name) => `${name} is not in sync`)].filter(Boolean);

// One row for what many slots have in common: a dead owner is one trouble, not 256.
function troubles(slots) {
  const rows = new Map();
  for (const slot of slots) {
    for (const what of trouble(slot)) {
      if (!rows.has(what)) rows.set(what, []);
      rows.get(what).push(slot.slot);
    }
  }
  return [...rows].map(([what, numbers]) => ({ what, numbers })).sort((a, b) => b.numbers.length - a.numbers.length);
}

// 1, 2, 3, 7 as "1–3, 7".
function ranges(numbers) {
  const spans = [];
  for (const number of numbers) {
    const last = spans[spans.length - 1];
    if (last && last[1] === number - 1) last[1] = number; else spans.push([number, number]);
  }
  return spans.slice(0, SPANS).map(([from, to]) => (from === to ? `${from}` : `${from}–${to}`)).join(", ") + (spans.length > SPANS ? ", …" : "");
}

async function cluster() {
  const [nodes, slots] = await Promise.all([look("/nodes"), look("/slots")]);
  if (!nodes.items.length) return [el("h1", {}, "Cluster"), el("p", { class: "soft" }, "This broker stands alone: all 256 slots are its own.")];
  const owners = nodes.items.filter((node) => node.kind === "owner");
  const bad = troubles(slots.items);
  const drained = (node) => node.state.includes("drain");
  const drain = (node) => drained(node)
    ? el("button", { "aria-label": `Undrain ${node.name}`, onclick: () => act(() => api("POST", `/nodes/${part(node.name)}/undrain`, {}),
      () => `${node.name} is given slots again`) }, "Undrain")
    : el("button", { class: "danger", "aria-label": `Drain ${node.name}`, onclick: async () => {
      if (await confirmed("Drain", "Leaders and replicas leave it until it is undrained.", node.name)) {
        act(() => api("POST", `/nodes/${part(node.name)}/drain`, {}), () => `${node.name} is being drained`);
      } } }, "Drain");
  return [
    el("h1", {}, "Cluster"),
    el("div", { class: "cards" }, card("slots", count(slots.total)), card("led by nobody", count(slots.items.filter((s) => !s.leader).length)),
      card("not fully in sync", count(slots.items.filter((s) => s.in_sync.length < s.replicas.length).length)),
      card("being handed over", count(slots.items.filter((s) => s.target).length))),
    el("h2", {}, "Owners"), table([
      { title: "Owner", text: true, cell: (r) => r.name },
      { title: "State", text: true, cell: (r) => r.state + (r.unreached.length ? `, not reached by ${r.unreached.join(", ")}` : "") },
      { title: "Leads", num: true, cell: (r) => count(r.leads) }, { title: "Keeps", num: true, optional: true, cell: (r) => count(r.replicas) },
      { title: "In sync", num: true, optional: true, cell: (r) => count(r.in_sync) },
      { title: "Zone", optional: true, cell: (r) => r.zone || "—" }, { title: "Address", text: true, optional: true, cell: (r) => r.address },
      { title: "Do", cell: drain },
    ], owners, "No owners."),
    el("h2", {}, "Slots"), owners.map((owner) => [el("h3", {}, owner.name), strip(owner, slots.items)]),
    el("p", { class: "soft legend" }, el("i", { class: "leads" }), " leads ", el("i", { class: "in-sync" }), " in sync ",
      el("i", { class: "filling" }), " is being filled ", el("i", { class: "away" }), " its owner is away"),
    bad.length ? [el("h2", {}, "Slots to look at"), table([
      { title: "What", text: true, cell: (r) => r.what }, { title: "Slots", num: true, cell: (r) => count(r.numbers.length) },
      { title: "Which", text: true, optional: true, cell: (r) => ranges(r.numbers) },
    ], bad.slice(0, 50), "")] : [],
    el("h2", {}, "Edges"), table([
      { title: "Edge", text: true, cell: (r) => r.name },
      { title: "State", text: true, cell: (r) => r.state + (r.unreached.length ? `, does not reach ${r.unreached.join(", ")}` : "") },
      { title: "Zone", optional: true, cell: (r) => r.zone || "—" }, { title: "Admin port", text: true, cell: (r) => r.admin || "—" },
    ], nodes.items.filter((node) => node.kind === "edge"), "No edges."),
  ];
}

async function users() {
  const [people, permissions] = await Promise.all([look("/users?limit=500"), look("/config?table=permissions&limit=500")]);
  return [
    el("h1", {}, "Users and permissions"),
    table([{ title: "User", text: true, cell: (r) => r.name }, { title: "Groups", text: true, cell: (r) => r.groups.join(", ") || "—" }],
      people.items, "No users: everybody on this machine may everything, and nobody else anything."),
    el("h2", {}, "Permissions"), el("p", { class: "soft" }, "Of the entries that match an address the most specific one counts, alone."),
    table([
      { title: "Addresses", text: true, cell: (r) => r.name },
      { title: "Who may", text: true, cell: (r) => Object.entries(r.values).map(([what, groups]) => `${what}: ${groups || "nobody"}`).join("; ") || "nobody anything" },
      { title: "From", optional: true, cell: (r) => r.source },
    ], permissions.items, "None: every user may send and receive everywhere."),
    el("h2", {}, "Who may what?"), may(people.items),
  ];
}

// The answer is what the broker asks itself at a SEND or SUBSCRIBE.
function may(people) {
  const own = state.may;
  const input = (field, label, more) => el("input", { id: `may-${field}`, value: own[field], "aria-label": label, placeholder: label, ...more,
    onchange: (event) => { own[field] = event.target.value; } });
  const ask = async () => {
    try {
      own.told = await api("GET", `/rights?user=${part(own.user)}&address=${part(own.address)}`);
      say("");
    } catch (error) {
      own.told = null;
      say(String(error.message || error));
    }
    show();
  };
  const because = (r) => (r.entry === null ? "no entry is about all of it, so it is for nobody"
    : `the entry ${r.entry} says ${r.groups.map((name) => (name === "*" ? "every user" : name)).join(", ") || "nobody"}`);
  const asking = el("div", { class: "bar" }, input("user", "user", { list: "people" }),
    el("datalist", { id: "people" }, people.map((p) => el("option", { value: p.name }))),
    input("address", "address, pattern or ADDRESS::QUEUE"), el("button", { id: "may-ask", onclick: ask }, "Ask"));
  if (!own.told) return [asking];
  if (own.told.open) return [asking, el("p", {}, "There are no permissions: every user may do everything.")];
  return [
    asking, el("p", {}, `${own.told.user} is in ${own.told.groups.join(", ") || "no group"}. At ${own.told.address}:`),
    table([{ title: "Operation", text: true, cell: (r) => r.operation }, { title: "May", cell: (r) => (r.allowed ? "yes" : "no") },
      { title: "Because", text: true, cell: because }], own.told.rights, ""),
  ];
}

const PAGES = { overview, dead, try: tryPage, audit, queue, connection, settings, cluster, users, addresses: listing("addresses", addresses), queues: listing("queues", queueTable),
  subscriptions: listing("subscriptions", queueTable), connections: listing("connections", connections) };

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
  if (focused) [...page.querySelectorAll("a, button, input, [tabindex]")].find((node) => mark(node) === focused)?.focus();
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
    if (!typing && !document.getElementById("dialog").open) draw(parts);
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
document.getElementById("dialog").addEventListener("close", () => show());
document.addEventListener("visibilitychange", () => { if (document.visibilityState === "visible") show(); else unwatch(); });
show();
