// The cluster as a map of slots and owners, with what can be done to it. Read before console.js; see there.
"use strict";

const SPANS = 12; // ranges of slots that are named

// What an owner is to each slot: it leads, is in sync, is being filled, or is away.
function strip(owner, slots) {
  const behind = owner.state.startsWith("up") ? "filling" : "away";
  const cells = slots.map((slot) => el("i", {
    class: slot.leader === owner.name ? "leads" : slot.in_sync.includes(owner.name) ? "in-sync" : slot.replicas.includes(owner.name) ? behind : "",
    "data-slot": slot.slot, title: `slot ${slot.slot}: ${slot.leader ? `led by ${slot.leader}` : "led by nobody"}, in sync ${slot.in_sync.join(", ")}` }));
  // A click is a short way to the fields below, which the keyboard has as well.
  return el("div", { class: "strip", role: "img", onclick: (event) => { const slot = event.target.dataset.slot; if (slot) document.getElementById("move-slot").value = state.move.slot = slot; },
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

const STEPS = 120; // of one move, a second apart

// A slot's leadership goes step by step: another owner is filled, then it is handed over. What was chosen outlives a new drawing.
function moving(owners, slots) {
  const own = state.move;
  const go = async () => {
    const [number, to] = ["move-slot", "move-to"].map((id) => document.getElementById(id).value.trim());
    const slot = slots.find((one) => `${one.slot}` === number);
    if (!slot) { say(`Say which slot: a number from 0 to ${slots.length - 1}.`); return; }
    if (!await confirmed("Move a slot", `Slot ${number} is led by ${slot.leader || "nobody"}; ${to} shall lead it. Its messages stay; clients wait a moment.`, number)) return;
    act(async () => {
      for (let step = 0; step < STEPS; step += 1) {
        const told = await api("POST", `/slots/${part(number)}/move`, { to });
        if (told.state === "done") return told;
        say(`slot ${number}: ${told.state} …`);
        await new Promise((on) => { setTimeout(on, 1000); });
      }
      return { state: "not done yet: ask again" };
    }, (t) => `slot ${number} to ${to}: ${t.state}`);
  };
  return el("div", { class: "bar" },
    el("label", {}, "Move slot ", el("input", { id: "move-slot", type: "number", min: "0", max: `${slots.length - 1}`, value: own.slot,
      oninput: (event) => { own.slot = event.target.value; } })),
    el("label", {}, "to ", el("select", { id: "move-to", onchange: (event) => { own.to = event.target.value; } },
      owners.map((owner) => el("option", { value: owner.name, selected: owner.name === own.to }, owner.name)))),
    el("button", { onclick: go }, "Move"));
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
    moving(owners, slots.items),
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

