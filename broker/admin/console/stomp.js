// STOMP 1.2 over a WebSocket: as much of a client as the page Try needs. Knows no page.
"use strict";

const ESCAPED = { "\\": "\\\\", "\n": "\\n", "\r": "\\r", ":": "\\c" };
const PLAIN = { n: "\n", r: "\r", c: ":", "\\": "\\" };
const BEAT_MS = 10000;
const encoder = new TextEncoder();
const decoder = new TextDecoder();

class StompClient {
  // told: {connected, message, receipt, ended}, each a function.
  constructor(url, login, passcode, told) {
    this.told = told;
    this.rest = new Uint8Array(0);
    this.socket = new WebSocket(url, ["v12.stomp"]);
    this.socket.binaryType = "arraybuffer";
    const headers = { "accept-version": "1.2", host: new URL(url).hostname, "heart-beat": `${BEAT_MS},${BEAT_MS}` };
    if (login) Object.assign(headers, { login, passcode });
    this.socket.onopen = () => this.frame("CONNECT", headers, "", true);
    this.socket.onmessage = (event) => this.read(new Uint8Array(typeof event.data === "string" ? encoder.encode(event.data) : event.data));
    this.socket.onclose = (event) => {
      clearInterval(this.beats);
      told.ended(this.error || event.reason || (this.open ? "the connection has ended" : `nothing that speaks STOMP answers at ${url}`));
    };
  }

  // CONNECT is the one frame whose headers are not escaped.
  frame(command, headers, body = "", raw = false) {
    const text = (value) => (raw ? String(value) : String(value).replace(/[\\\n\r:]/g, (one) => ESCAPED[one]));
    const lines = Object.entries(headers).map(([name, value]) => `${text(name)}:${text(value)}`);
    this.socket.send(`${[command, ...lines].join("\n")}\n\n${body}\0`);
  }

  send(destination, headers, body) {
    this.frame("SEND", { destination, ...headers, "content-length": encoder.encode(body).length }, body);
  }

  close() {
    this.socket.close();
  }

  read(data) {
    const all = new Uint8Array(this.rest.length + data.length);
    all.set(this.rest);
    all.set(data, this.rest.length);
    let at = 0;
    for (;;) {
      while (all[at] === 10 || all[at] === 13) at += 1; // heart-beats
      const frame = at < all.length && parsed(all, at);
      if (!frame) break;
      at = frame.end;
      this.heard(frame);
    }
    this.rest = all.slice(at);
  }

  heard({ command, headers, body }) {
    if (command === "CONNECTED") {
      this.open = true;
      this.beats = setInterval(() => this.socket.send("\n"), BEAT_MS / 2);
      this.told.connected(headers);
    } else if (command === "MESSAGE") this.told.message(headers, body);
    else if (command === "RECEIPT") this.told.receipt(headers["receipt-id"]);
    else if (command === "ERROR") this.error = body || headers.message || "ERROR";
  }
}

// One frame from there on; null: it is not whole yet.
function parsed(all, from) {
  let blank = from;
  for (;; blank += 1) {
    blank = all.indexOf(10, blank);
    if (blank < 0 || blank + 1 >= all.length) return null;
    if (all[blank + 1] === 10) break;
  }
  const [command, ...lines] = decoder.decode(all.subarray(from, blank)).split("\n");
  const headers = {};
  for (const line of lines) {
    const colon = line.indexOf(":");
    const [name, value] = [line.slice(0, colon), line.slice(colon + 1)].map((one) => one.replace(/\\(.)/g, (_, letter) => PLAIN[letter] ?? ""));
    headers[name] ??= value; // of repeated headers the first one counts
  }
  const start = blank + 2;
  const length = headers["content-length"];
  const end = length === undefined ? all.indexOf(0, start) : start + Number(length);
  if (end < 0 || end >= all.length) return null;
  return { command, headers, body: decoder.decode(all.subarray(start, end)), end: end + 1 };
}
