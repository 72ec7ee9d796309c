// Long lists: of 100,000 queues those rows are in the page that are on the screen, and a few above and below. Pages of the
// API follow each other without holes: each begins behind the last row of the one before, also when that has changed since.
// What is on the screen is watched. Read before console.js, whose functions it uses; see there.
"use strict";

const PAGE = 100; // rows of one question
const ROW = 36; // pixels; console.css has the same
const BESIDE = 12; // rows above and below the screen
const AHEAD = 200; // so many rows before the end of what is known, more is asked for
const SETTLED_MS = 200; // nobody has scrolled for so long: what is on the screen is watched

class List {
  // columns: of table(), made anew for each drawing. empty: said where there are no rows.
  constructor(kind, columns, empty) {
    Object.assign(this, { kind, columns, empty, asking: null, settled: 0, round: 0 });
    this.top = el("div", {});
    this.told = el("span", { class: "soft", role: "status" });
    this.body = el("tbody", {});
    this.head = el("thead", {});
    this.table = el("table", { class: `fixed ${kind}` }, this.head, this.body);
    this.box = el("div", { class: "wide tall", tabindex: "0", role: "region", "aria-label": `Table of ${kind}` }, this.table);
    this.box.addEventListener("scroll", () => this.scrolled());
    this.begin();
  }

  // With the search and sort of now, from the first row on.
  begin() {
    this.pages = [];
    this.total = 0;
    this.asking = null;
    this.round += 1;
    this.box.scrollTop = 0;
  }

  path(nth) {
    const own = state[this.kind];
    const query = new URLSearchParams({ limit: `${PAGE}`, sort: own.sort });
    if (own.q) query.set("q", own.q);
    if (nth) query.set("page", this.pages[nth - 1].next);
    return `/${this.kind}?${query}`;
  }

  get length() {
    return this.pages.reduce((all, page) => all + page.items.length, 0);
  }

  get more() {
    return this.pages.length > 0 && this.pages[this.pages.length - 1].next !== null;
  }

  // What a page says now. Where it ends elsewhere than before, the next one begins elsewhere: it is asked again.
  take(nth, told) {
    const before = this.pages[nth];
    this.pages[nth] = { items: told.items, next: told.next, stale: false };
    this.total = told.total;
    if (told.next === null) this.pages.length = nth + 1;
    else if (before && before.next !== told.next && this.pages[nth + 1]) this.pages[nth + 1].stale = true;
    this.top.replaceChildren(...missing(told));
  }

  // Takes what a page says, unless nobody wants it any more by then: the list has begun anew, with another search, or the
  // page before ends elsewhere.
  async ask(nth, how) {
    const round = this.round;
    const path = this.path(nth);
    const told = await how(path);
    if (round !== this.round || nth > this.pages.length || path !== this.path(nth)) return false;
    this.take(nth, told);
    return true;
  }

  // The rows that are to be in the page: from, and behind the last one.
  span() {
    const from = Math.max(0, Math.floor(this.box.scrollTop / ROW) - BESIDE);
    return [from, Math.min(this.length, from + Math.ceil((this.box.clientHeight || 600) / ROW) + 2 * BESIDE)];
  }

  shownPages() {
    const [from, to] = this.span();
    const last = Math.max(0, this.pages.length - 1);
    return [Math.min(last, Math.floor(from / PAGE)), Math.min(last, Math.floor(Math.max(from, to - 1) / PAGE))];
  }

  // Asks for what is missing, a page at a time, and again until nothing is.
  async fill() {
    if (this.asking) return this.asking;
    const mine = (async () => {
      for (;;) {
        const [first, last] = this.shownPages();
        let wanted = this.pages.findIndex((page, nth) => page.stale && nth >= first && nth <= last);
        if (wanted < 0 && (!this.pages.length || (this.more && this.span()[1] + AHEAD > this.length))) wanted = this.pages.length;
        if (wanted < 0) return;
        const taken = await this.ask(wanted, (path) => api("GET", path));
        if (this.asking !== mine) return; // begun anew meanwhile
        if (taken) this.render();
      }
    })();
    this.asking = mine;
    try {
      await mine;
    } finally {
      if (this.asking === mine) this.asking = null;
    }
  }

  // Looks at the pages on the screen: by what is watched, or a question.
  async look() {
    const round = this.round;
    if (!this.pages.length) await this.ask(0, look);
    const [first, last] = this.shownPages();
    for (let nth = first; round === this.round && nth <= Math.min(last, this.pages.length - 1); nth += 1) {
      if (!this.pages[nth].stale) await this.ask(nth, look);
    }
    this.fill().catch((error) => say(String(error.message || error)));
  }

  scrolled() {
    if (this.drawn !== undefined && this.drawn === Math.floor(this.box.scrollTop / ROW)) return;
    this.render();
    this.fill().catch((error) => say(String(error.message || error)));
    clearTimeout(this.settled);
    this.settled = setTimeout(() => { if (this.box.isConnected) show(); }, SETTLED_MS);
  }

  render() {
    const columns = this.columns();
    const [from, to] = this.span();
    this.drawn = Math.floor(this.box.scrollTop / ROW);
    const focused = mark(document.activeElement);
    const inside = this.box.contains(document.activeElement) && document.activeElement !== this.box;
    const rows = this.pages.flatMap((page) => page.items).slice(from, to);
    this.head.replaceChildren(heading(columns));
    this.table.setAttribute("aria-rowcount", `${this.total + 1}`);
    const made = rows.map((row, nth) => line(columns, row, { "aria-rowindex": `${from + nth + 2}` }));
    this.body.replaceChildren(space(from), ...made, space(this.length - to));
    this.told.textContent = !this.total ? this.empty : `${count(this.total)} in all`;
    if (inside) refocus(focused, this.box);
  }
}

// Stands for rows that are not in the page.
function space(rows) {
  const cell = el("td", {});
  const made = el("tr", { class: "space", "aria-hidden": "true" }, cell);
  cell.style.height = `${rows * ROW}px`;
  made.hidden = !rows;
  return made;
}

const lists = {};

function listing(kind, columns, empty) {
  return async () => {
    const own = state[kind];
    const list = lists[kind] ||= new List(kind, () => columns(sorter(kind)), empty);
    const known = list.box.isConnected;
    if (!known) list.begin();
    await list.look();
    list.render();
    if (known) return null;
    const search = el("input", { type: "search", id: "search", value: own.q, placeholder: "part of the name", "aria-label": "Search",
      onchange: (event) => { own.q = event.target.value; again(kind); } });
    return [el("h1", {}, kind[0].toUpperCase() + kind.slice(1)), list.top, el("div", { class: "bar" }, search, list.told), list.box];
  };
}

function again(kind) {
  lists[kind].begin();
  live.told.clear();
  show();
}

// Up, then down.
const sorter = (kind) => (name) => () => {
  state[kind].sort = state[kind].sort === `-${name}` ? name : `-${name}`;
  again(kind);
};
const unsorted = () => undefined;

const queueColumns = (by = unsorted) => [
  { title: "Queue", text: true, sort: by("name"), cell: (r) => el("a", { href: `#queue/${part(fqqn(r))}` }, fqqn(r)) },
  { title: "Messages", num: true, sort: by("messages"), cell: (r) => count(r.messages) },
  { title: "Trend", optional: true, cell: trend },
  { title: "Unacknowledged", num: true, optional: true, sort: by("delivering"), cell: (r) => count(r.delivering) },
  { title: "Consumers", num: true, sort: by("consumers"), cell: (r) => count(r.consumers) },
  { title: "Type", optional: true, cell: (r) => `${r.routing.toLowerCase()}${r.paused ? ", paused" : ""}` },
];

const addressColumns = (by) => [
  { title: "Address", text: true, sort: by("name"), cell: (r) => r.name },
  { title: "Types", optional: true, cell: (r) => r.routing.join(", ").toLowerCase() || "—" },
  { title: "Queues", num: true, sort: by("queues"), cell: (r) => count(r.queues) },
  { title: "Messages", num: true, cell: (r) => count(r.messages) },
  { title: "Consumers", num: true, optional: true, cell: (r) => count(r.consumers) },
];

const connectionColumns = (by) => [
  { title: "Id", sort: by("id"), cell: (r) => linked(r.id, r.edge) },
  { title: "From", text: true, sort: by("peer"), cell: (r) => r.peer },
  { title: "User", text: true, sort: by("user"), cell: (r) => r.user || "—" },
  { title: "Client-id", text: true, optional: true, sort: by("client_id"), cell: (r) => r.client_id || "—" },
  { title: "STOMP", optional: true, cell: (r) => r.version || "—" },
  { title: "Subscriptions", num: true, optional: true, sort: by("subscriptions"), cell: (r) => count(r.subscriptions) },
  { title: "Read", num: true, optional: true, sort: by("bytes_in"), cell: (r) => bytes(r.bytes_in) },
  { title: "Blocked by", text: true, optional: true, cell: (r) => r.blocked_by.join("; ") || "—" },
];
