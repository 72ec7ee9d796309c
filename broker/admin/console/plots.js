// Lines over time: rates, depth and latency, drawn from what was told while the console was open. Nothing is asked for
// them, and nothing is kept elsewhere. Read before console.js, whose functions it uses; see there.
"use strict";

const HISTORY = 240; // points of a plot, about one a second
const past = []; // of the overview: when, and what had been accepted, acknowledged and delivered by then
const TREND = 60; // points of a sparkline
const DEPTHS = 2000; // queues that have one
const depths = new Map(); // of a queue: when, and how many messages, as long as this console is open
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
  const now = { at: Date.now(), accepted: m.since_start.accepted, acked: m.since_start.acked, messages: m.messages,
    delivered: (m.latency && m.latency.delivered) || {} };
  if (!last || now.at - last.at >= 900) past.push(now);
  if (past.length > HISTORY) past.shift();
  const rate = (field) => past.slice(1).map((point, nth) => [point.at,
    Math.max(0, (point[field] - past[nth][field]) / ((point.at - past[nth].at) / 1000))]);
  return el("div", { class: "plots" },
    plot("Messages a second", [["accepted", rate("accepted")], ["acknowledged", rate("acked")]]),
    plot("Milliseconds until delivered", [["p50", latencies(0.5)], ["p99", latencies(0.99)]], "Nothing has been delivered while this page is open."),
    plot("Messages in all queues", [["messages", past.map((point) => [point.at, point.messages])]]));
}

// From enqueuing to a consumer, of what was delivered between two points, by the broker's histogram: a message of a bucket is
// taken to be anywhere in it. Where nothing was delivered there is no point.
function latencies(quantile) {
  const found = [];
  past.slice(1).forEach((point, nth) => {
    const before = past[nth].delivered;
    const counts = Object.entries(point.delivered).map(([bound, many]) => [Number(bound), Math.max(0, many - (before[bound] ?? many))])
      .sort(([a], [b]) => (Number.isNaN(a) ? 1 : Number.isNaN(b) ? -1 : a - b));
    const all = counts.reduce((sum, [, many]) => sum + many, 0);
    if (!all) return;
    let [below, passed] = [0, 0];
    for (const [bound, many] of counts) {
      if (passed + many >= all * quantile) {
        found.push([point.at, Number.isNaN(bound) ? below : below + (bound - below) * (all * quantile - passed) / many]);
        return;
      }
      [below, passed] = [bound, passed + many];
    }
  });
  return found;
}

const rounded = (value) => (value < 10 ? Math.round(value * 10) / 10 : Math.round(value));

function plot(title, lines, none = "A moment: it is drawn while this page is open.") {
  const points = lines.flatMap(([, line]) => line);
  if (lines[0][1].length < 2) {
    return el("figure", { class: "card" }, el("figcaption", {}, title), el("p", { class: "soft" }, past.length < 2 ? "A moment: it is drawn while this page is open." : none));
  }
  const [first, latest] = [Math.min(...points.map((p) => p[0])), Math.max(...points.map((p) => p[0]))];
  const most = Math.max(1, ...points.map((p) => p[1]));
  const [w, h] = [520, 120];
  const place = ([at, value]) => `${((at - first) / Math.max(1, latest - first) * w).toFixed(1)},${(h - value / most * (h - 4) - 2).toFixed(1)}`;
  const newest = lines.map(([name, line]) => `${name} ${count(rounded(line[line.length - 1][1]))}`).join(", ");
  return el("figure", { class: "card" },
    el("figcaption", {}, `${title}: `, el("span", { class: "soft" }, `${newest}; at most ${count(rounded(most))} in the last ${Math.round((latest - first) / 1000)} s`)),
    svg("svg", { viewBox: `0 0 ${w} ${h}`, role: "img", "aria-label": `${title}: ${newest}`, preserveAspectRatio: "none" },
      ...lines.map(([, line], nth) => svg("polyline", { points: line.map(place).join(" "), class: `line${nth}` }))),
    lines.length > 1 ? el("p", { class: "soft legend" }, lines.flatMap(([name], nth) => [el("i", { class: `line${nth}` }), ` ${name} `])) : []);
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

