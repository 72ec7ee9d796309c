// Users, permissions and settings: who may what and why, and what can be changed without a restart. What is changed here the
// broker checks, keeps and uses before it answers; what it refuses stays as it was. Read before console.js; see there.
"use strict";

const RIGHTS = ["send", "consume", "browse", "create_address", "create_durable_queue", "create_non_durable_queue",
  "delete_durable_queue", "read", "manage"];
const TABLES = ["addresses", "queues", "diverts", "quotas", "bridges"];
const ROWS_SHOWN = 500;

// Answers {name: text} of the fields, or null. name, label, value, type; list: what may be chosen from.
function filled(title, text, fields, yes) {
  const dialog = document.getElementById("form");
  document.getElementById("form-title").textContent = title;
  document.getElementById("form-text").textContent = text;
  document.getElementById("form-yes").textContent = yes;
  document.getElementById("form-fields").replaceChildren(...fields.flatMap((f) => [
    el("label", { for: `field-${f.name}` }, f.label),
    f.choices ? el("select", { id: `field-${f.name}` }, f.choices.map((c) => el("option", { value: c, selected: c === f.value }, c)))
      : el("input", { id: `field-${f.name}`, type: f.type || "text", value: f.value || "", placeholder: f.hint || "",
        autocomplete: f.type === "password" ? "new-password" : "off", // what a browser remembers is the passcode of who sits there
        required: f.required })]));
  dialog.returnValue = "no";
  document.getElementById("form-no").onclick = () => dialog.close("no");
  dialog.showModal();
  (document.querySelector("#form-fields input, #form-fields select") || document.getElementById("form-yes")).focus();
  return new Promise((done) => {
    dialog.onclose = () => done(dialog.returnValue !== "yes" ? null
      : Object.fromEntries(fields.map((f) => [f.name, document.getElementById(`field-${f.name}`).value])));
  });
}

const names = (text) => text.split(",").map((name) => name.trim()).filter(Boolean);
const behind = (told) => ((told.missing || []).length ? `; ${told.missing.join(", ")} has not said yet that it knows` : "");

// ── users ────────────────────────────────────────────────────────────────────────────────────────────────────────────

// known: who is there, so that nobody is made anew by mistake: with another passcode, and without his groups.
async function setUser(user, known = []) {
  const given = await filled(user ? `Change ${user.name}` : "New user", user ? "A passcode that is left empty stays as it was." : "",
    [...(user ? [] : [{ name: "name", label: "User", required: true }]),
      { name: "passcode", label: "Passcode", type: "password", required: !user },
      { name: "groups", label: "Groups, with commas", value: user ? user.groups.join(", ") : "" }], "Save");
  if (!given) return;
  const name = user ? user.name : given.name.trim();
  if (known.some((one) => one.name === name)) { say(`There is a user ${name} already: change it in its row.`); return; }
  act(() => api("PUT", `/users/${part(name)}`, { groups: names(given.groups), ...(given.passcode ? { passcode: given.passcode } : {}) }),
    (t) => `${name} is in ${t.groups.join(", ") || "no group"}${behind(t)}`);
}

async function removeUser(name) {
  if (await confirmed("Remove a user", "The user can log in no more; connections of the user end.", name)) {
    act(() => api("DELETE", `/users/${part(name)}`), (t) => `${name} is removed${behind(t)}`);
  }
}

async function users() {
  const [people, permissions] = await Promise.all([look(`/users?limit=${ROWS_SHOWN}`), look(`/config?table=permissions&limit=${ROWS_SHOWN}`)]);
  const cut = (told) => (told.next ? el("p", { class: "soft" }, `The first ${count(told.items.length)} of ${count(told.total)}.`) : []);
  return [
    el("h1", {}, "Users and permissions"),
    table([{ title: "User", text: true, cell: (r) => r.name }, { title: "Groups", text: true, cell: (r) => r.groups.join(", ") || "—" },
      { title: "Do", cell: (r) => el("span", { class: "bar" },
        el("button", { "aria-label": `Change user ${r.name}`, onclick: () => setUser(r) }, "Change"),
        el("button", { class: "danger", "aria-label": `Remove user ${r.name}`, onclick: () => removeUser(r.name) }, "Remove")) }],
    people.items, "No users: everybody on this machine may everything, and nobody else anything."), cut(people),
    el("div", { class: "bar" }, el("button", { onclick: () => setUser(null, people.items) }, "New user")),
    el("h2", {}, "Permissions"), el("p", { class: "soft" }, "Of the entries that match an address the most specific one counts, alone."),
    table([
      { title: "Addresses", text: true, cell: (r) => r.name },
      { title: "Who may", text: true, cell: (r) => Object.entries(r.values).map(([what, groups]) => `${what}: ${groups || "nobody"}`).join("; ") || "nobody anything" },
      { title: "From", optional: true, cell: (r) => r.source }, { title: "Do", cell: (r) => entryButtons(r, setPermission) },
    ], permissions.items, "None: every user may send and receive everywhere."), cut(permissions),
    el("div", { class: "bar" }, el("button", { onclick: () => setPermission(null) }, "New permission")),
    el("h2", {}, "Who may what?"), may(people.items),
  ];
}

async function setPermission(entry) {
  const before = entry ? entry.values : {};
  const given = await filled(entry ? `Who may what at ${entry.name}` : "New permission",
    "Groups with commas; * is every user, nothing is nobody.",
    [...(entry ? [] : [{ name: "match", label: "Addresses, like orders.#", required: true }]),
      ...RIGHTS.map((right) => ({ name: right, label: right.replaceAll("_", " "), value: before[right] || "" }))], "Save");
  if (given) {
    const values = Object.fromEntries(RIGHTS.filter((right) => given[right].trim() !== (before[right] || "")).map((right) => [right, given[right].trim()]));
    change("permissions", entry ? entry.name : given.match.trim(), values);
  }
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

// ── entries of settings ──────────────────────────────────────────────────────────────────────────────────────────────

function change(tableName, name, values) {
  act(() => (Object.keys(values).length ? api("PATCH", `/config/${tableName}/${part(name)}`, { values }) : { missing: [] }),
    (t) => (t.values ? `${name} is in use as it is now, and kept${behind(t)}` : "nothing was changed"));
}

function entryButtons(row, edit) {
  return el("span", { class: "bar" },
    el("button", { "aria-label": `Change ${row.table} ${row.name}`, onclick: () => edit(row) }, "Change"),
    row.source === "file" ? [] : el("button", { class: "danger", "aria-label": `Take back ${row.table} ${row.name}`, onclick: async () => {
      if (await confirmed("Take back", "What was changed live of it is gone; what the config file says counts again.", row.name)) {
        act(() => api("DELETE", `/config/${row.table}/${part(row.name)}`), (t) => `${row.name} is ${t.exists ? "as the file has it" : "gone"}${behind(t)}`);
      } } }, "Take back"));
}

// Every value that there is, and one that is not there yet. Without a value: taken back.
async function setEntry(row) {
  const own = row ? Object.entries(row.values) : [];
  const given = await filled(row ? `${row.table}: ${row.name}` : "New entry",
    "In use at once, and kept over restarts. A field that is emptied takes the change of it back. docs/settings.md has what can be set.",
    [...(row ? [] : [{ name: "table", label: "Table", choices: TABLES }, { name: "entry", label: "Name", required: true }]),
      ...own.map(([name, value]) => ({ name: `old-${name}`, label: name, value: asText(value) })),
      { name: "setting", label: row ? "One more setting" : "Setting", hint: "max_delivery_attempts", required: !row },
      { name: "value", label: "Its value" }], "Save");
  if (!given) return;
  const values = Object.fromEntries(own.filter(([name, value]) => given[`old-${name}`] !== asText(value))
    .map(([name]) => [name, given[`old-${name}`].trim() || null]));
  if (given.setting.trim()) values[given.setting.trim()] = given.value.trim() || null;
  change(row ? row.table : given.table, row ? row.name : given.entry.trim(), values);
}

const asText = (value) => (typeof value === "object" ? JSON.stringify(value) : `${value}`);

async function settings() {
  const part_ = state.settings.q ? `&q=${part(state.settings.q)}` : "";
  const [told, entries] = await Promise.all([look(`/settings${part_ ? `?${part_.slice(1)}` : ""}`), look(`/config?limit=${ROWS_SHOWN}${part_}`)]);
  const search = el("input", { type: "search", id: "search", value: state.settings.q, placeholder: "part of the name", "aria-label": "Search",
    onchange: (event) => { state.settings.q = event.target.value; show(); } });
  return [el("h1", {}, "Settings"), el("div", { class: "bar" }, search),
    el("h2", {}, "What can be changed without a restart"), table([
      { title: "Table", optional: true, cell: (r) => r.table }, { title: "Name", text: true, cell: (r) => r.name },
      { title: "Values", text: true, cell: (r) => Object.entries(r.values).map(([name, value]) => `${name}: ${asText(value)}`).join("; ") || "—" },
      { title: "From", text: true, optional: true, cell: (r) => r.source + (r.why ? `: ${r.why}` : "") },
      { title: "Do", cell: (r) => entryButtons(r, r.table === "permissions" ? setPermission : setEntry) },
    ], entries.items, "No entries of addresses, queues, diverts, permissions, quotas or bridges."),
    entries.next ? el("p", { class: "soft" }, `The first ${count(entries.items.length)} of ${count(entries.total)}: search for others.`) : [],
    el("div", { class: "bar" }, el("button", { onclick: () => setEntry(null) }, "New entry"),
      el("button", { onclick: () => act(() => api("POST", "/config/reload", {}), (t) => `the config file was read again: ${count(t.total)} entries are other now${
        t.restart.length ? `; a restart is needed for ${t.restart.map((r) => r.name).join(", ")}` : ""}`) }, "Read the config file again")),
    el("h2", {}, "All settings"), table([
      { title: "Setting", text: true, cell: (r) => r.name },
      { title: "Value", text: true, cell: (r) => asText(r.value) },
      { title: "From", optional: true, cell: (r) => r.source + (r.restart !== null && r.restart !== undefined ? `, after a restart ${JSON.stringify(r.restart)}` : "") },
      { title: "What it does", text: true, optional: true, cell: (r) => r.help + (r.why ? ` Why: ${r.why}.` : "") },
    ], told.items, "None.")];
}
