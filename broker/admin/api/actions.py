"""What operators do: create, delete, pause, resume and purge queues; move, copy, retry and expire messages; send one;
disconnect clients.

Rule: each is a command of its slot's owner, in the log before it is answered; who may is decided per address. What
takes long has a `limit`, says `more`, and goes on where it stopped when it is asked again.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from broker.admin.desk import bulk_moves, shown_messages
from broker.admin.desk.bulk_moves import MoveOrder, MovePreview, MoveReport, MoveSource, MoveTarget
from broker.admin.desk.desk import Desk
from broker.core.address import RECURRING, TEMPORARY, Routing
from broker.core.commands import Act, Command, Manage, Publish
from broker.core.ids import slot_of
from broker.core.strict_numbers import natural
from broker.core.virtual_host import host_of
from broker.seams.clock import Clock
from broker.selector import compile, conjunction
from broker.wire.rules import RESERVED

from .access import Who
from .calls import DOTS, DRY_RUN, ApiOp, Call, named
from .params import Param
from .problems import Problem, bad_value, unknown
from .reading import EDGE, FQQN, Reading, absent

MAX_IDS = 200
MOST = 1_000_000
AT_ONCE = 100_000
ENDED = 1000

_SELECTOR = Param("selector", "only messages that match (docs/selectors.md)")
_IDS = Param("ids", f"only these messages, by their ids (at most {MAX_IDS})", "texts")
_LIMIT = Param(
    "limit", f"messages at most ({AT_ONCE:,} where it is left out); `more` says whether some are left", "number",
    least=1, most=MOST,
)  # fmt: skip
_RATE = Param("rate", "messages a second at most; after 30 s it answers `more`", "number", least=1, most=MOST)
_CHOICE = (_SELECTOR, _IDS, _LIMIT, _RATE)
_DRY_RUN = Param(
    DRY_RUN, "nothing is done: `preview` says how many it would be (of the first "
    f"{bulk_moves.LOOKED:,}; `complete`: there are no others), and what the first of them are", "flag", False,
)  # fmt: skip
_NOTED = {"address": "origin", "queue": "origin_queue", "reason": "reason"}
"""What the audit log calls that of which a retry is."""
COPIED_S = 300
"""The longest that a copy with a rate may take: it begins anew when it is asked for again."""
_FORCE = Param("force", "also if somebody consumes it: consumers get an ERROR", "flag", False)


class Acting:
    """The handlers."""

    def __init__(self, reading: Reading, desk: Desk, clock: Clock) -> None:
        self._clock = clock
        self._reading = reading
        self._desk = desk

    def routes(self) -> list[ApiOp]:
        """All of them."""
        one = "/queues/{queue}"
        return [
            ApiOp("POST", "/queues", "create-queue", "Makes a queue that stays until deleted.", self.create, "Done",
                  body=(Param("address", "where its messages are sent to", required=True),
                        Param("name", "of the queue; as the address, if it is left out"),
                        Param("routing", "ANYCAST: one consumer gets each message", default="ANYCAST",
                              choices=("ANYCAST", "MULTICAST")),
                        Param("selector", "only matching messages enter it")), status=201),
            ApiOp("DELETE", one, "delete-queue", "Deletes a queue with everything in it.", self.delete, "Done",
                  query=(_FORCE,)),
            ApiOp("POST", one + "/pause", "pause-queue", "It takes messages and hands out none.", self._acts(Act.PAUSE),
                  "Done"),
            ApiOp("POST", one + "/resume", "resume-queue", "It hands out messages again.", self._acts(Act.RESUME),
                  "Done"),
            ApiOp("POST", one + "/purge", "purge-queue", "With nothing said: everything goes at once, also what "
                  "consumers hold. Else: what waits and matches.", self.purge, "Carried", body=(*_CHOICE, _DRY_RUN)),
            ApiOp("POST", one + "/move", "move-messages", "To another address or queue.", self.move, "Carried",
                  body=(Param("to", "ADDRESS, or ADDRESS::QUEUE", required=True), *_CHOICE, _DRY_RUN)),
            ApiOp("POST", one + "/copy", "copy-messages", "The same; they stay here as well.", self.copy, "Carried",
                  body=(Param("to", "ADDRESS, or ADDRESS::QUEUE", required=True), *_CHOICE, _DRY_RUN)),
            ApiOp("POST", one + "/retry", "retry-messages", "Dead letters go back to where they come from, in order.",
                  self.retry, "Carried", body=(Param("address", "only what comes from this address"),
                                               Param("queue", "only what comes from this queue of its address"),
                                               Param("reason", "only what left for this reason"), *_CHOICE, _DRY_RUN)),
            ApiOp("POST", one + "/expire", "expire-messages", "They count as expired now: they go to the expiry "
                  "address of their queue, or are gone where it has none.", self.expire, "Carried",
                  body=(*_CHOICE, _DRY_RUN)),
            ApiOp("POST", "/addresses/{address}/messages", "send-message", "Sends messages: one, or some that were "
                  "exported.", self.send, "Sent",
                  body=(Param("body", "text", default=""), Param("headers", "NAME:VALUE each", "texts"),
                        Param("queue", "only to this queue of the address"),
                        Param("durable", "survives a restart", "flag", True),
                        Param("priority", "0 to 9", "number", 4, most=9),
                        Param("exported", "messages as GET messages?raw=true tells them", "messages")), status=201),
            ApiOp("DELETE", "/connections/{id}", "disconnect", "Ends a connection with an ERROR.", self.disconnect,
                  "Done", query=(EDGE,), administrators=True),
            ApiOp("DELETE", "/connections", "disconnect-some", "Ends all connections of a user, or from an address, of "
                  "all edges, with an ERROR.", self.disconnect_some, "Disconnected",
                  query=(Param("user", "of this user"), Param("peer", "from this address, with or without its port"),
                         EDGE, Param("limit", "at most so many of each edge; `more` says whether some are left",
                                     "number", ENDED, least=1, most=ENDED)), administrators=True),
        ]  # fmt: skip

    # ── queues ─────────────────────────────────────────────────────────────────────────────────────

    async def create(self, call: Call) -> Any:
        body = call.body
        address = body["address"]
        self._check(call.who, address)
        name = body.get("name") or address
        call.noted.update(address=address, name=name)
        for text, what in ((address, "address"), (name, "name")):
            self._check_reserved(what, text)
            if not text or FQQN in text or not text.isprintable() or text in DOTS:
                raise bad_value(what, text, "a name of printable characters, without `::`, and neither `.` nor `..`")
        routing = Routing[body["routing"]]
        await self._reading.complete({"kind": "queue", "name": name, "address": address})
        await self._manage(slot_of(address), Act.CREATE, address, name, routing, body.get("selector"))
        return {"name": name, "address": address, "done": True}

    async def delete(self, call: Call) -> Any:
        return await self._each(call, Act.DELETE, call.query["force"])

    def _acts(self, act: Act) -> Callable[[Call], Any]:
        async def handle(call: Call) -> Any:
            return await self._each(call, act)

        return handle

    async def _each(self, call: Call, act: Act, force: bool = False) -> Any:
        rows = await self._parts(call)
        call.noted.update(before=_before(rows))
        for row in rows:
            await self._manage(row["slot"], act, row["address"], row["name"], force=force)
        if act in (Act.PAUSE, Act.RESUME):
            call.noted.update(after={"paused": act is Act.PAUSE})
        return {"name": rows[0]["name"], "address": rows[0]["address"], "done": True}

    async def _parts(self, call: Call) -> list[dict[str, Any]]:
        """All parts of the queue. Raises Problem if an owner is missing: half an action would be none."""
        rows, missing = await self._reading.find(call.who, call.path["queue"])
        if missing:
            raise absent(missing, "ask again when it is back: a part of the queue may be there")
        return rows

    async def _manage(
        self, slot: int, act: Act, address: str, name: str, routing: Routing = Routing.ANYCAST,
        selector: str | None = None, force: bool = False,
    ) -> None:  # fmt: skip
        with self._desk.errand() as errand:
            await errand.ask(
                lambda session, seq: Manage(slot, session, seq, act, address, name, routing, selector, force)
            )

    # ── messages ───────────────────────────────────────────────────────────────────────────────────

    async def purge(self, call: Call) -> Any:
        body = call.body
        # Who says anything, whatever it is worth, does not mean all of it.
        if body.keys().isdisjoint(choice.name for choice in _CHOICE):
            rows = await self._parts(call)
            call.noted.update(before=_before(rows))
            if body[DRY_RUN]:
                call.body["limit"] = bulk_moves.FIRST
                told = await self._preview(call, lambda _: MoveOrder(lambda _: None, gone=True), moving=False)
                told["preview"].update(count=sum([row["messages"] for row in rows]), complete=True)
                return {**told, "more": False}
            for row in rows:
                await self._manage(row["slot"], Act.PURGE, row["address"], row["name"])
            done = sum([row["messages"] for row in rows])
            call.noted.update(done=done)
            return {"done": done, "more": False, "left": []}
        return await self._carry(call, lambda _: MoveOrder(lambda _: None, gone=True))

    async def move(self, call: Call) -> Any:
        to = self._target(call)
        return await self._carry(call, lambda _: MoveOrder(lambda _: to))

    async def expire(self, call: Call) -> Any:
        now = self._clock.wall_ms()

        def order(row: dict[str, Any]) -> MoveOrder:
            if not row["expiry_address"]:
                return MoveOrder(lambda _: None, gone=True)
            self._check(call.who, row["expiry_address"])
            to = MoveTarget(row["expiry_address"], row.get("expiry_queue"), made=True)
            if to.address == row["address"]:
                raise _cannot(row, "it is where expired messages go", "purge them, or move them")
            return MoveOrder(lambda _: to, expired=now)

        return await self._carry(call, order)

    async def copy(self, call: Call) -> Any:
        to, rate, limit = self._target(call), call.body.get("rate", 0), call.body.get("limit", AT_ONCE)
        if call.body[DRY_RUN]:
            return await self._preview(call, lambda _: MoveOrder(lambda _: to, copied=True), moving=False)
        if rate and limit > rate * COPIED_S:
            raise bad_value("limit", str(limit), f"at most {COPIED_S} times the rate: a copy that is cut begins anew")
        report = MoveReport()
        for source, _, selector in await self._sources(call, None, moving=False):
            if limit - report.done <= 0:
                report.stops()
                break
            order = MoveOrder(lambda _: to, rate=rate)
            await bulk_moves.copy(self._desk, source, order, selector, limit - report.done, report)
            call.noted.update(done=report.done)
        return report.data()

    async def retry(self, call: Call) -> Any:
        given = {name: call.body[name] for name in shown_messages.NAMED if name in call.body}
        call.noted.update({_NOTED[name]: value for name, value in given.items()})
        host = host_of(call.path["queue"])

        def back(origin: shown_messages.DeadLetterOrigin) -> MoveTarget | None:
            if host_of(origin.address) != host or origin.address.startswith((RECURRING, TEMPORARY)):
                return None  # a client has written that
            if not origin.address or not self._reading.allowed(call.who, origin.address):
                return None
            return MoveTarget(origin.address, origin.queue or None)

        return await self._carry(call, lambda _: MoveOrder(back, bare=True), shown_messages.comes_from(given))

    async def _carry(
        self, call: Call, order: Callable[[dict[str, Any]], MoveOrder], condition: str | None = None
    ) -> Any:
        """order: by the part of the queue.    condition: of all messages that it is about."""
        if call.body[DRY_RUN]:
            return await self._preview(call, order, condition, moving=True)
        report = MoveReport()
        limit = call.body.get("limit", AT_ONCE)
        for source, row, selector in await self._sources(call, condition, moving=True):
            if limit - report.done <= 0 or report.late:
                report.stops()
                break
            wanted = order(row)._replace(rate=call.body.get("rate", 0))
            await bulk_moves.carry(self._desk, source, wanted, selector, limit - report.done, report)
            call.noted.update(done=report.done)
        return report.data()

    async def _preview(
        self, call: Call, order: Callable[[dict[str, Any]], MoveOrder], condition: str | None = None, *, moving: bool
    ) -> Any:
        """What it would be, by the same filters; refused where that would be."""
        report, limit = MovePreview(), call.body.get("limit", MOST)
        call.noted[DRY_RUN] = True
        for source, row, selector in await self._sources(call, condition, moving=moving):
            if report.cut:
                break
            await bulk_moves.preview(self._desk, source, order(row), selector, limit, report)
        return report.data()

    async def _sources(
        self, call: Call, condition: str | None, *, moving: bool
    ) -> list[tuple[MoveSource, dict[str, Any], str | None]]:
        rows = await self._parts(call)
        call.noted.update(before=_before(rows))
        selector = call.body.get("selector")
        if selector == "":
            raise bad_value("selector", "", "a selector; leave it out for all messages")
        if selector is not None:
            compile(selector)  # raises RefusedError(BAD_SELECTOR) before anything is done
        ids = by_slot(call.body.get("ids"))
        call.noted.update({"selector": selector} if selector else {}, **({"ids": call.body["ids"]} if ids else {}))
        found: list[tuple[MoveSource, dict[str, Any], str | None]] = []
        for row in rows:
            if moving and row["paused"]:
                raise _cannot(row, "it is paused, so it hands out nothing", "resume it first; to empty it, purge all")
            if moving and row["non_destructive"]:
                raise _cannot(row, "its messages stay when they are consumed (non_destructive)", "purge all of it")
            if moving and row["exclusive"] and row["consumers"]:
                raise _cannot(row, "another consumer has it for itself (exclusive)", "disconnect that first")
            if ids is not None and row["slot"] not in ids:
                continue
            wanted = both(selector, ids[row["slot"]] if ids is not None else None, condition)
            found.append((MoveSource(row["slot"], row["address"], row["name"], row["last_message"]), row, wanted))
        return found

    def _target(self, call: Call) -> MoveTarget:
        text = call.body["to"]
        address, mark, queue = text.partition(FQQN)
        if not address or (mark and not queue) or not text.isprintable():
            raise bad_value("to", text, "ADDRESS, or ADDRESS::QUEUE")
        call.noted.update(to=text)
        self._check(call.who, address)
        self._check_reserved("to", address)
        if address == call.path["queue"].partition(FQQN)[0] and not queue:
            raise bad_value("to", text, "another address than its own")
        return MoveTarget(address, queue or None)

    async def send(self, call: Call) -> Any:
        address, body = call.path["address"], call.body
        self._check(call.who, address)
        if "exported" in body:
            try:
                runs = [shown_messages.again(message) for message in body["exported"]]
            except (ValueError, KeyError, TypeError) as error:
                raise bad_value("exported", str(error), "what `stampede export` has written") from None
        else:
            headers = {"destination": address}
            for header in body.get("headers", ()):
                name, colon, value = header.partition(":")
                if not colon or not name or name in RESERVED:
                    raise bad_value("headers", header, "NAME:VALUE, of a header that is relayed: the broker's own are "
                                    f"not ({', '.join(sorted(RESERVED))})")  # fmt: skip
                headers[name] = value
            runs = [shown_messages.made(headers, body["body"].encode(), body["durable"], body["priority"])]
        if address.startswith(RECURRING) and not all([shown_messages.says_when(run) for run in runs]):
            raise bad_value("address", address, "only what was exported from there: other messages do not say when")
        slot = slot_of(address)
        with self._desk.errand() as errand:

            def publish(run: Any) -> Callable[[int, int], Command]:
                queue = body.get("queue")
                return lambda session, seq: Publish(slot, session, seq, address, Routing.UNSET, run, queue)

            for run in runs:
                await errand.ask(publish(run))
        call.noted.update(sent=len(runs))
        return {"address": address, "sent": len(runs)}

    # ── clients ────────────────────────────────────────────────────────────────────────────────────

    async def disconnect(self, call: Call) -> Any:
        id, edge = call.path["id"], call.query.get("edge")
        why = f"{call.who.name} has ended this connection"
        answers: list[dict[str, Any]] = []
        if (number := natural(id)) is not None:
            asked = self._reading.one_client("disconnect", number, edge, why=why)
            answers, missing = await self._reading.of_clients(asked)
            if missing and not any([answer["ended"] for answer in answers]):
                raise absent(missing, "ask again when it is back")
        if not any([answer["ended"] for answer in answers]):
            raise unknown("connection", id, "it has ended; GET connections lists those of now")
        return {"name": id, "address": "", "done": True}

    async def disconnect_some(self, call: Call) -> Any:
        query = call.query
        if "user" not in query and "peer" not in query:
            raise Problem(
                400, "missing-parameter", "Missing parameter", "the query has neither `user` nor `peer`",
                "say whose connections shall end", parameter="user",
            )  # fmt: skip
        why = f"{call.who.name} has ended this connection"
        answers, missing = await self._reading.of_clients({"kind": "disconnect_some", **query, "why": why})
        if missing and not answers:
            raise absent(missing, "ask again when it is back")
        done = sum([answer["ended"] for answer in answers])
        call.noted.update(of=query, done=done)
        return {"done": done, "more": any([answer["more"] for answer in answers]), "missing": named(missing)}

    def _check_reserved(self, what: str, name: str) -> None:
        """Raises Problem where a message would be dropped, or found by nobody."""
        if name.startswith((RECURRING, TEMPORARY)):
            raise bad_value(
                what,
                name,
                "an address of clients: what rests there is what they send again and again, or get as answers",
            )

    def _check(self, who: Who, address: str) -> None:
        if not self._reading.allowed(who, address):
            raise Problem(
                403, "not-allowed", "Not allowed", f"user {who.name!r} may not manage {address!r}",
                "give a group of the user's `manage` there (edge.permissions)",
            )  # fmt: skip


def _before(rows: list[dict[str, Any]]) -> dict[str, Any]:
    """What the audit log says of a queue."""
    return {
        "paused": all([row["paused"] for row in rows]), "messages": sum([row["messages"] for row in rows]),
        "consumers": sum([row["consumers"] for row in rows]),
    }  # fmt: skip


def _cannot(row: dict[str, Any], why: str, fix: str) -> Problem:
    return Problem(409, "not-now", "Not possible as it is", f"queue {row['name']!r}: {why}", fix)


def by_slot(ids: list[str] | None) -> dict[int, list[int]] | None:
    """Numbers of messages by their slots; None: all. Raises Problem."""
    if ids is None:
        return None
    if not 0 < len(ids) <= MAX_IDS:
        raise bad_value("ids", f"{len(ids)} ids", f"1 to {MAX_IDS} of them; use a selector for more")
    found: dict[int, list[int]] = {}
    for text in ids:
        slot, number = map(natural, text.partition("-")[::2])
        if slot is None or number is None:
            raise bad_value("ids", text, "as GET messages tells them")
        found.setdefault(slot, []).append(number)
    return found


def both(selector: str | None, ids: list[int] | None, condition: str | None = None) -> str | None:
    """A selector for what matches, is one of these and meets the condition; None: everything."""
    named = " OR ".join(f"AMQMessageID = {id}" for id in sorted(set(ids))) if ids is not None else None
    wanted = [text for text in (selector, named, condition) if text]
    return conjunction(*wanted) if len(wanted) > 1 else next(iter(wanted), None)
