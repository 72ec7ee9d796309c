// The page Try: a client in the browser that subscribes, sends, and says how fast it went. It is a client like any other:
// it logs in by itself, and may what its user may. Needs console.js and stomp.js.
"use strict";

const SHOWN = 30; // messages that are kept on the page
const MOST = 100000; // messages of one run
const AT_ONCE = 500; // frames written between two looks at what comes in
const trying = { client: null, port: "", login: "", destination: "/queue/try", body: "hello", persistent: false, count: 1, got: 0, shown: [], run: null };

async function tryPage() {
  const told = await look("/acceptors");
  const ports = told.items.filter((one) => one.transport !== "stomp");
  const here = [el("h1", {}, "Try"), el("p", { class: "soft" }, "A client in this page, over WebSocket: it subscribes, sends, and counts.")];
  if (!ports.length) return [...here, el("p", { class: "why" }, "No port here speaks STOMP over WebSocket: edge.ws_port is -1.")];
  if (!ports.some((one) => one.name === trying.port)) trying.port = ports[0].name;
  const on = Boolean(trying.client);
  const field = (name, label, more = {}) => el("label", {}, `${label} `, el("input", { id: `try-${name}`, value: trying[name], ...more,
    onchange: (event) => { trying[name] = event.target.value; } }));
  const login = [field("login", "User", { autocomplete: "off", disabled: on }),
    el("label", {}, "Passcode ", el("input", { id: "try-passcode", type: "password", autocomplete: "off", disabled: on }))];
  return [
    ...here,
    el("form", { class: "bar", onsubmit: (event) => { event.preventDefault(); if (on) trying.client.close(); else connectTo(ports); } },
      el("label", {}, "Port ", el("select", { id: "try-port", disabled: on, onchange: (event) => { trying.port = event.target.value; } },
        ports.map((one) => el("option", { value: one.name, selected: one.name === trying.port }, `${one.port} (${one.label})`)))),
      login, field("destination", "Destination", { disabled: on }),
      el("button", { id: "try-connect" }, on ? "Disconnect" : "Connect and subscribe")),
    el("div", { class: "bar" }, field("body", "Body"), field("count", "How many", { type: "number", min: "1", max: String(MOST) }),
      el("label", {}, el("input", { id: "try-persistent", type: "checkbox", checked: trying.persistent, onchange: (event) => { trying.persistent = event.target.checked; } }),
        " persistent"),
      el("button", { id: "try-send", disabled: !on || Boolean(trying.run && !trying.run.done), onclick: sendAll }, "Send")),
    el("p", { id: "try-result", role: "status" }, result()),
    el("h2", {}, "Messages"), el("div", { id: "try-messages" }, messages()),
  ];
}

function connectTo(ports) {
  const port = ports.find((one) => one.name === trying.port);
  const url = `${port.tls ? "wss" : "ws"}://${location.hostname}:${port.port}${port.path || "/"}`;
  Object.assign(trying, { got: 0, shown: [], run: null });
  const client = new StompClient(url, trying.login, document.getElementById("try-passcode").value, {
    connected: () => { client.frame("SUBSCRIBE", { id: "try", destination: trying.destination, ack: "auto", receipt: "subscribed" }); },
    receipt: (id) => { if (id === "subscribed") { trying.client = client; say(""); show(); } else safe(); },
    message: came,
    ended: (why) => {
      if (trying.client === client || !trying.client) { trying.client = null; say(`Try: ${why}`); show(); }
    },
  });
}

// Each message says when it was sent, by this page's clock; the last one asks for a receipt.
async function sendAll() {
  const count = Math.min(MOST, Math.max(1, Math.floor(Number(trying.count)) || 1));
  const client = trying.client;
  const run = { count, begun: performance.now(), waits: [], safe: 0, done: false };
  trying.run = run;
  const headers = trying.persistent ? { persistent: "true" } : {};
  for (let sent = 0; sent < count && trying.client === client; sent += 1) {
    const last = sent === count - 1 ? { receipt: "last" } : {};
    client.send(trying.destination, { ...headers, ...last, "try-sent": performance.now().toFixed(3) }, trying.body);
    if (sent % AT_ONCE === AT_ONCE - 1) await new Promise((on) => { setTimeout(on); });
  }
}

function safe() {
  const run = trying.run;
  run.safe = performance.now() - run.begun;
  finished();
}

function came(headers, body) {
  trying.got += 1;
  const run = trying.run;
  if (run && headers["try-sent"] !== undefined) {
    run.waits.push(performance.now() - Number(headers["try-sent"]));
    run.last = performance.now();
  }
  trying.shown.unshift({ headers, body });
  trying.shown.length = Math.min(trying.shown.length, SHOWN);
  finished();
}

let painting = 0;
function finished() {
  const run = trying.run;
  if (run && run.safe && run.waits.length >= run.count && !run.done) {
    run.done = true;
    if (location.hash === "#try") show();
  }
  clearTimeout(painting);
  painting = setTimeout(() => {
    const [line, list] = [document.getElementById("try-result"), document.getElementById("try-messages")];
    if (line) line.textContent = result();
    if (list) list.replaceChildren(messages());
  }, 50);
}

function result() {
  const run = trying.run;
  if (!trying.client) return "Not connected.";
  if (!run) return `Subscribed to ${trying.destination}; ${count(trying.got)} messages have come.`;
  const waits = [...run.waits].sort((a, b) => a - b);
  const at = (part) => waits[Math.min(waits.length - 1, Math.floor(part * waits.length))].toFixed(1);
  const sent = run.safe ? `all ${count(run.count)} are with the broker after ${run.safe.toFixed(0)} ms (${count(Math.round(run.count / run.safe * 1000))}/s)`
    : "the receipt of the last one has not come yet";
  return `${sent}; ${count(waits.length)} came back${waits.length ? `, after ${at(0.5)} ms in the middle and ${at(0.99)} ms for 99 of 100` : ""}`;
}

function messages() {
  return table([
    { title: "Headers", id: true, cell: (r) => Object.entries(r.headers).map(([name, value]) => `${name}: ${value}`).join("\n") },
    { title: "Body", text: true, cell: (r) => r.body.slice(0, 500) },
  ], trying.shown, "None yet.");
}
