"""Messages looked at: a page at a time, one whole, and dead letters by where they come from and why.

A page token is a browser that is kept open; it is closed when it has not been used for KEPT_S, or when OPEN others
have come, and a token of it is stale then.

Rule: takes nothing; a page has PAGE_BYTES of bodies at most. Must not know how messages are carried.
"""

from __future__ import annotations

import asyncio
from collections import Counter, OrderedDict
from typing import Any, Final

from broker.admin.desk import shown_messages
from broker.admin.desk.desk import Desk, Errand, ErrandFeed
from broker.core.message import Run
from broker.seams.clock import Clock
from broker.seams.entropy import token
from broker.selector import compile

from .access import Who
from .actions import both, by_slot
from .calls import ApiOp, Call, named
from .params import Param
from .ports import Answer, Missing
from .problems import Problem, unknown
from .reading import Reading

OPEN: Final = 32
KEPT_S: Final = 120.0
PIECE: Final = 25
"""Messages made into rows in one step."""
LOOKED: Final = 20_000
"""Dead letters that are counted."""
QUEUES: Final = 20
"""Of dead letters, that are looked into at once."""

_SELECTOR = Param("selector", "only messages that match (docs/selectors.md)")


class _Look:
    """A browser over the parts of a queue, one after the other."""

    def __init__(
        self, desk: Desk, name: str, parts: list[dict[str, Any]], selector: str | None, missing: list[Missing]
    ) -> None:  # fmt: skip
        """missing: whose parts it cannot look into."""
        self.name = name
        self.missing = missing
        self.used = 0.0
        self._parts = parts
        self._selector = selector
        self._errand: Errand = desk.errand()
        self._feed: ErrandFeed | None = None

    async def next(self) -> tuple[int, Run] | None:
        """Slot and messages; None: that was all."""
        while True:
            if self._feed is None:
                if not self._parts:
                    return None
                part = self._parts.pop(0)
                self._feed = await self._errand.subscribe(
                    part["slot"], part["address"], part["name"], self._selector, browse=True
                )
            run = await self._feed.next()
            if run is not None:
                return self._feed.command.slot, run
            self._feed = None

    def put_back(self, run: Run) -> None:
        assert self._feed is not None
        self._feed.put_back(run)

    def close(self) -> None:
        self._errand.close()


class Browsing:
    """The handlers."""

    def __init__(self, reading: Reading, desk: Desk, clock: Clock) -> None:
        self._reading = reading
        self._desk = desk
        self._clock = clock
        self._looks: OrderedDict[str, _Look] = OrderedDict()

    def routes(self) -> list[ApiOp]:
        """All of them."""
        return [
            ApiOp("GET", "/queues/{queue}/messages", "messages", "What waits in a queue, in order; takes nothing.",
                  self.messages, "Message",
                  (Param("limit", "messages of a page", "number", 50, least=1, most=200), _SELECTOR,
                   Param("preview", "bytes of each body", "number", 1024, most=65536),
                   Param("raw", "with the whole message as it is stored, in base64", "flag", False),
                   Param("once", "this page alone: `next` is null, and nothing is kept open for it", "flag", False),
                   Param("page", "`next` of the page before")), listed=True),
            ApiOp("GET", "/queues/{queue}/messages/{id}", "message", "One message; its body to 1 MiB.", self.message,
                  "Message"),
            ApiOp("GET", "/queues/{queue}/dead-letters", "dead-letters", "Its dead letters by where they come from and "
                  f"why: the first {LOOKED}.", self.dead_letters, "DeadLetters"),
            ApiOp("GET", "/dead-letters", "all-dead-letters", "Dead letters of all queues that have some, by "
                  f"origin and reason: of the {QUEUES} longest, the first {LOOKED} of each.", self.all_dead_letters,
                  "AllDeadLetters"),
        ]  # fmt: skip

    async def messages(self, call: Call) -> Any:
        query = call.query
        name, look = await self._look(call)
        rows: list[dict[str, Any]] = []
        try:
            while len(rows) < query["limit"]:
                found = await look.next()
                if found is None:
                    break
                slot, run = found
                some = min(len(run.ids), query["limit"] - len(rows), PIECE)
                rows += [shown_messages.row(slot, run, at, query["preview"], query["raw"]) for at in range(some)]
                if some < len(run.ids):
                    look.put_back(run.cut(slice(some, None)))
                await asyncio.sleep(0)
            following = await look.next() if len(rows) == query["limit"] else None
        except BaseException:
            look.close()
            raise
        once = call.watched or query["once"]
        if following is None or once:
            look.close()  # of who looks on one browser each time would be kept, and two answers were never the same
        else:
            look.put_back(following[1])
            self._keep(name, look)
        return {
            "items": rows,
            "total": len(rows),
            "next": name if following and not once else None,
            "missing": named(look.missing),
        }

    async def message(self, call: Call) -> Any:
        slot, run = await self.one(call.who, call.path["queue"], call.path["id"])
        return shown_messages.row(slot, run, 0, 1024 * 1024, True)

    async def one(self, who: Who, queue: str, id: str) -> tuple[int, Run]:
        """One message, first of its run. Raises Problem."""
        ids = by_slot([id])
        assert ids is not None
        (slot,) = ids
        rows, _ = await self._reading.find(who, queue)
        look = _Look(self._desk, "", [row for row in rows if row["slot"] == slot], both(None, ids[slot]), [])
        try:
            found = await look.next()
        finally:
            look.close()
        if found is None:
            raise unknown("message", id, "it has been consumed, or is with a consumer or not due: those are not shown")
        return found

    async def dead_letters(self, call: Call) -> Any:
        rows, missing = await self._reading.find(call.who, call.path["queue"])
        groups, seen, complete = await self._grouped(rows)
        return {"groups": groups, "counted": seen, "complete": complete, "missing": named(missing)}

    async def all_dead_letters(self, call: Call) -> Any:
        found, missing = await self._reading.dead_letter_queues(call.who, QUEUES + 1)
        queues = []
        for row in found[:QUEUES]:
            parts, _ = await self._reading.find(call.who, f"{row['address']}::{row['name']}")
            groups, seen, complete = await self._grouped(parts)
            queues.append({
                "name": row["name"], "address": row["address"], "messages": row["messages"], "groups": groups,
                "counted": seen, "complete": complete,
            })  # fmt: skip
        return {"queues": queues, "complete": len(found) <= QUEUES, "missing": named(missing)}

    async def _grouped(self, rows: list[Answer]) -> tuple[list[Answer], int, bool]:
        """Of the parts of one queue: its dead letters by origin, how many were looked at, and were that all."""
        counts: Counter[shown_messages.DeadLetterOrigin] = Counter()
        look = _Look(self._desk, "", list(rows), None, [])
        seen = 0
        try:
            while seen < LOOKED and (found := await look.next()) is not None:
                run = found[1]
                for at in range(len(run.ids)):
                    counts[shown_messages.origin(run, at)] += 1
                    if not at % PIECE:
                        await asyncio.sleep(0)
                seen += len(run.ids)
            complete = seen < LOOKED
        finally:
            look.close()
        groups = [
            {"address": origin.address, "queue": origin.queue, "reason": origin.reason, "count": count}
            for origin, count in counts.most_common(1000)
        ]
        return groups, seen, complete

    # ── pages ──────────────────────────────────────────────────────────────────────────────────────

    async def _look(self, call: Call) -> tuple[str, _Look]:
        page = call.query.get("page")
        queue = f"{call.who.name} {call.path['queue']} {call.query.get('selector') or ''}"
        self._tidy()
        if page:
            found = self._looks.pop(page, None)
            if found is None or found.name != queue:
                raise Problem(
                    400, "stale-page", "Not a page of this list", f"page {page[:100]!r} is no open one",
                    f"begin anew without `page`: one is kept for {KEPT_S:.0f} s after it was used", parameter="page",
                )  # fmt: skip
            return page, found
        selector = call.query.get("selector") or None
        if selector:
            compile(selector)
        rows, missing = await self._reading.find(call.who, call.path["queue"])
        return token(16), _Look(self._desk, queue, list(rows), selector, missing)

    def _keep(self, name: str, look: _Look) -> None:
        look.used = self._clock.monotonic()
        self._looks[name] = look
        while len(self._looks) > OPEN:
            self._looks.popitem(last=False)[1].close()

    def _tidy(self) -> None:
        now = self._clock.monotonic()
        for name, look in list(self._looks.items()):
            if look.used + KEPT_S < now:
                del self._looks[name]
                look.close()
