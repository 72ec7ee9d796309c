"""What an owner tells operators of its slots: lists a page at a time, one queue in detail, totals.

Rule: a question and its answer are JSON, so that an edge may ask from another process; an answer is worked out in
pieces of microseconds. Reads engines and changes nothing (who may keep no more by edge.quotas comes with the question
what is kept, and is handed on). Must not know who asks, nor what he may see: filters come with the question.
"""

# Example. Slots 7 and 9 are led here; orders.a and bills are in 7, orders.b and orders.c in 9. A user who may see
# `orders.#` only asks for queues by name, two of them.
#     question   {"kind": "queues", "sort": "name", "limit": 2, "may": [["orders.#", true], ["#", false]]}
#     per slot   the two best that pass the filters: orders.a of 7; orders.b and orders.c of 9. Both are kept, so that
#                a question that comes again looks only at slots in which something has happened (listing_cache.py)
#     joined     orders.a, orders.b; total 3: bills is not counted, he cannot know of it; more: true
#     described  the two alone: messages, bytes, consumers, and their place, `at`: ["orders.b", ["orders.b", …]]
# With "after": that place comes orders.c, whatever has come or gone in front of it meanwhile. Between all these steps
# the loop has messages to serve.

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

import msgspec

from broker.core.address import Routing
from broker.core.pages import PIECE, ROWS, Ask, Page, PageKey, choose, merged
from broker.engine.address.address_settings import first_said
from broker.engine.address.named_by import NamedBy
from broker.engine.consumers.consumer import Consumer
from broker.engine.engine import Engine
from broker.engine.queue.queue import Queue
from broker.engine.routing.dead_letter_queues import expiry_queue
from broker.engine.state import queue_views
from broker.engine.state.depth import busy
from broker.engine.state.slot import Slot
from broker.engine.state.slot_address import Address
from broker.engine.state.slot_counters import Counters
from broker.engine.state.tx_parts import Prepared
from broker.engine.state.why_queue_waits import why
from broker.seams.clock import Clock, Later
from broker.seams.read_turns import UNHURRIED

from .kept import Counts, SideBySide, kept_of_slot, side_by_side
from .listing_cache import KnownSlots
from .slot_looks import AddressesLook, Anew, QueueListLook, SlotLook, TotalsLook

if TYPE_CHECKING:
    from .shard import Shard

T = TypeVar("T")

_SUMS = ("addresses", "queues", "consumers", "waiting", "delivering", "scheduled", "paused", "bytes")

Question = Mapping[str, Any]
"""`kind` (KINDS), for lists `limit`, `sort`, `descending`, `after`, and filters (see each list).

may   [pattern of addresses, may it be seen] from specific to general, the first that matches decides; absent: all may.
delimiter   between the words of addresses."""
Answer = dict[str, Any]
"""Of a list: rows (each with its place as `at`), total, more."""
Work = Generator[None, None, Answer]


def _no_edge(_: int) -> str:
    return ""


_CONSUMERS: dict[str, Callable[[Consumer], Any]] = {
    "consumer": lambda consumer: consumer.id,
    "session": lambda consumer: consumer.session,
    "unacknowledged": lambda consumer: len(consumer.ledger or ()),
}
_ADDRESSES: dict[str, Callable[[Address], Any]] = {
    "name": lambda address: address.name,
    "queues": lambda address: len(address.queues),
}
_TRANSACTIONS: dict[str, Callable[[Prepared], Any]] = {
    "since": lambda prepared: prepared.since,
    "tx": lambda prepared: prepared.tx,
}
SORTS: dict[str, tuple[str, ...]] = {
    "queues": tuple(queue_views.QUEUE_VALUES),
    "addresses": tuple(_ADDRESSES),
    "consumers": tuple(_CONSUMERS),
    "transactions": tuple(_TRANSACTIONS),
}
"""What lists can be sorted by, the default first."""


class Views:
    """Of the slots that are led here. number: what people are told of the number of a session.    edge_of: the edge of
    that session, where there are several.    later   what was found out is forgotten by it; None: at once."""

    def __init__(
        self,
        shard: Shard,
        clock: Clock,
        number: Callable[[int], int] = int,
        edge_of: Callable[[int], str] = _no_edge,
        later: Later | None = None,
    ) -> None:
        self._number = number
        self._edge_of = edge_of
        self._shard = shard
        self._clock = clock
        self._known = KnownSlots(lambda: self._clock.monotonic(), later)

    def answer(self, question: Question) -> Work:
        """Yields between steps; returns the answer. Raises KeyError for a kind or a sort it does not know."""
        return _KINDS[question["kind"]](self, question)

    def _led(self) -> list[Engine]:
        return list(self._shard.engines.values())

    def _slots(self) -> Iterator[Slot]:
        for engine in self._led():
            yield engine.shown

    def _page(
        self, question: Question, look: Callable[[Slot, Ask], SlotLook]
    ) -> Generator[None, None, Page[tuple[Slot, Any]]]:
        """A page of a long list: the best of each slot, and of these the best."""
        ask = _ask(question)
        page: Page[tuple[Slot, Any]] = yield from self._known.look(
            _asked(question), self._led(), lambda slot: look(slot, ask), lambda pages: merged(pages, ask)
        )  # fmt: skip
        return page

    def _entries(self, of: Callable[[Slot], Iterable[Any]], most: int = PIECE) -> Iterator[list[tuple[Slot, Any]]]:
        """(slot, entry) for all entries, so many at a time."""
        for slot in self._slots():
            yield from _pieces(slot, list(of(slot)), most)

    # ── lists ──────────────────────────────────────────────────────────────────────────────────────

    def queues(self, question: Question) -> Work:
        """Filters: q (part of the name), address, addresses (any of these), routing, type (queue_views.kind_of),
        consumed, filled, paused (bool); or patterns: names of queues that everybody shares and one of these
        stands for."""
        if "patterns" in question:
            return (yield from self._names(question))
        return (yield from self._some_queues(question, _queue_filter(question), queue_views.queue_row))

    def _names(self, question: Question) -> Work:
        known = NamedBy(question.get("delimiter", "."))
        for at, pattern in enumerate(question["patterns"], 1):
            known.add(pattern)
            if not at % PIECE:
                yield

        def keep(queue: Queue) -> bool:
            return queue.routing is Routing.ANYCAST and queue.name == queue.address and bool(known.find(queue.name))

        return (yield from self._some_queues(question, keep, _name_row))

    def _some_queues(
        self,
        question: Question,
        keep: Callable[[Queue], bool] | None,
        row: Callable[[Slot, Queue], dict[str, Any]],
    ) -> Work:
        value = queue_views.QUEUE_VALUES[question["sort"]]
        page = yield from self._page(question, lambda slot, ask: QueueListLook(slot, ask, value, keep))
        return (yield from _listed(page, row))

    def addresses(self, question: Question) -> Work:
        """Filters: q. names: nothing is told of what their queues hold."""
        value = _ADDRESSES[question["sort"]]
        allowed = _allowed(question)
        part = question.get("q", "")

        def keep(entry: tuple[Slot, Address]) -> bool:
            address = entry[1]
            return part in address.name and (allowed is None or allowed(address.name))

        def look(slot: Slot, ask: Ask) -> SlotLook:
            def work() -> Generator[None, None, Page[tuple[Slot, Address]]]:
                return choose(
                    _pieces(slot, list(slot.addresses.values()), PIECE),
                    ask,
                    lambda entry: value(entry[1]),
                    lambda entry: (entry[1].name, entry[0].number),
                    keep if part or allowed is not None else None,
                )

            return AddressesLook(slot, work)

        page = yield from self._page(question, look)
        answer = yield from _listed(page, queue_views.address_row)
        if question.get("names"):
            return answer
        for at, (row, (_, (_, address))) in enumerate(zip(answer["rows"], page.entries, strict=True)):
            if not at % ROWS:
                yield
            row["messages"] = row["consumers"] = 0
            for seen, queue in enumerate(list(address.queues.values()), 1):
                row["messages"] += queue_views.messages(queue)
                row["consumers"] += len(queue.consumers)
                if not seen % PIECE:
                    yield
        return answer

    def consumers(self, question: Question) -> Work:
        """Filters: address and queue (of one), session, edge."""
        value = _CONSUMERS[question["sort"]]
        page = yield from choose(
            self._entries(_consumers_of(question)),
            _ask(question),
            lambda entry: value(entry[1]),
            lambda entry: (entry[1].id, entry[0].number),
            _consumer_filter(question, self._number, self._edge_of),
        )
        answer = yield from _listed(page, queue_views.consumer_row)
        for row in answer["rows"]:
            row["edge"] = self._edge_of(row["session"])
            row["session"] = self._number(row["session"])
        return answer

    def transactions(self, question: Question) -> Work:
        """COMMITs over several slots that slots have prepared and that are not carried out yet."""
        value = _TRANSACTIONS[question["sort"]]
        page = yield from choose(
            self._entries(lambda slot: slot.prepared.values()),
            _ask(question),
            lambda entry: value(entry[1]),
            lambda entry: (entry[1].tx, entry[0].number),
        )
        return (yield from _listed(page, queue_views.transaction_row))

    # ── one queue, and all together ────────────────────────────────────────────────────────────────

    def queue(self, question: Question) -> Work:
        """All queues of that name here (`address`, or any: then `name` is that of the address, or of a durable
        subscription), in detail, with the reasons why nothing is delivered."""
        rows: list[dict[str, Any]] = []
        for slot in self._slots():
            for queue in _named(slot, question["name"], question.get("address", "")):
                row = queue_views.queue_detail(slot, queue)
                row["expiry_queue"] = expiry_queue(queue.settings, queue.address)
                row["why"] = why(slot, queue, self._clock.wall_ms())
                rows.append(row)
            yield
        return {"rows": rows}

    def totals(self, _: Question) -> Work:
        """Counts of everything, and what the slots have done since the start."""
        sums, done = yield from self._known.look(b"totals", self._led(), TotalsLook, _added)
        messages = sums["waiting"] + sums["delivering"] + sums["scheduled"]
        journal = self._shard.journal
        disk = {"bytes": journal.disk_bytes(), "free": journal.free_bytes, "space": journal.space.name.lower()}
        timed = self._shard.latencies
        latency = timed.told() if timed is not None else {}
        return {
            **sums, "messages": messages, "since_start": {**done}, "disk": disk, "latency": latency,
            "slots": len(self._shard.engines),
        }  # fmt: skip

    def kept(self, question: Question) -> Work:
        """What edge.quotas counts, by whom it counts for (kept.py). fronts: of names of durable subscriptions →
        user. full: users who may keep no more, and for how many seconds that holds (`holds`); absent: who asks
        cannot tell."""
        if "full" in question:
            self._shard.full_makers.told(question["full"], question["holds"])
        fronts = question["fronts"]
        found: SideBySide = yield from self._known.look(
            msgspec.json.encode(["kept", fronts]), self._led(),
            lambda slot: Anew(lambda: _alone(slot, fronts)), side_by_side,
        )  # fmt: skip
        sums, untold = yield from found.together()
        return {"kept": sums, "untold": untold}


def busy_addresses(shard: Shard) -> Iterator[dict[str, Any] | None]:
    """Of the addresses that the settings name, in the slots led here, bit by bit (engine/state/depth.py)."""
    for engine in list(shard.engines.values()):
        yield from busy(engine.shown, shard.settings.engine.addresses)


def _alone(slot: Slot, fronts: Mapping[str, str]) -> Generator[None, None, Sequence[Counts]]:
    return [(yield from kept_of_slot(slot, fronts))]


def _pieces(slot: Slot, entries: list[T], most: int) -> Iterator[list[tuple[Slot, T]]]:
    """entries: a copy of references, as queues come and go between the steps of an answer; it is used up, since to give
    50,000 references back at once takes as long as to copy them."""
    entries.reverse()
    if len(entries) > most:
        yield []  # the copy alone is a step
    while entries:
        piece = entries[-most:]
        del entries[-most:]
        piece.reverse()
        yield [(slot, entry) for entry in piece]


def _added(parts: Sequence[tuple[dict[str, int], dict[str, int]]]) -> tuple[dict[str, int], dict[str, int]]:
    """What TotalsLook says, of several slots."""
    sums, done = dict.fromkeys(_SUMS, 0), dict.fromkeys(Counters.__slots__, 0)
    for its, did in parts:
        for name, count in its.items():
            sums[name] += count
        for name, count in did.items():
            if count:
                done[name] += count
    return sums, done


def _name_row(_: Slot, queue: Queue) -> dict[str, Any]:
    return {"name": queue.name}


def _asked(question: Question) -> bytes:
    """What it is known by: it is the same one, whether somebody waits for the answer or not."""
    return msgspec.json.encode({name: value for name, value in question.items() if name != UNHURRIED})


def _ask(question: Question) -> Ask:
    after = question.get("after")
    place = PageKey(after[0], tuple(after[1])) if after else None
    return Ask(question["limit"], question["sort"], question["descending"], place)


def _listed(page: Page[tuple[Slot, Any]], row: Callable[[Slot, Any], dict[str, Any]]) -> Work:
    rows: list[dict[str, Any]] = []
    for made, (place, (slot, entry)) in enumerate(page.entries):
        if not made % ROWS:
            yield  # before the first too: to choose the page was work enough for a step
        rows.append({**row(slot, entry), "at": [place.value, list(place.name)]})
    return {"rows": rows, "total": page.total, "more": page.more}


def _allowed(question: Question) -> Callable[[str], bool] | None:
    """May the address be seen; None: all may."""
    may = question.get("may")
    if may is None:
        return None
    return first_said([(pattern, bool(allowed)) for pattern, allowed in may], question.get("delimiter", "."))


def _queue_filter(question: Question) -> Callable[[Queue], bool] | None:
    tests: list[Callable[[Queue], bool]] = []
    if part := question.get("q"):
        tests.append(lambda queue: part in queue.name)
    if address := question.get("address"):
        tests.append(lambda queue: queue.address == address)
    if (addresses := question.get("addresses")) is not None:
        several = frozenset(addresses)
        tests.append(lambda queue: queue.address in several)
    if routing := question.get("routing"):
        tests.append(lambda queue: queue.routing.name == routing)
    if kind := question.get("type"):
        tests.append(lambda queue: queue_views.kind_of(queue) == kind)
    for name, value in (
        ("consumed", lambda queue: bool(queue.consumers)),
        ("filled", lambda queue: queue_views.messages(queue) > 0),
        ("paused", lambda queue: queue.paused or queue.settings.paused),
    ):
        if (wanted := question.get(name)) is not None:
            tests.append(_equals(value, wanted))
    allowed = _allowed(question)
    if not tests and allowed is None:
        return None
    if allowed is None and len(tests) == 1:
        return tests[0]
    return lambda queue: all(test(queue) for test in tests) and (allowed is None or allowed(queue.address))


def _equals(value: Callable[[Queue], bool], wanted: bool) -> Callable[[Queue], bool]:
    return lambda queue: value(queue) is wanted


def _consumers_of(question: Question) -> Callable[[Slot], Iterable[Consumer]]:
    name = question.get("queue")
    if not name:
        return lambda slot: slot.consumers.values()
    return lambda slot: [
        consumer for queue in _named(slot, name, question.get("address", "")) for consumer in queue.consumers
    ]


def _consumer_filter(
    question: Question, number: Callable[[int], int], edge_of: Callable[[int], str]
) -> Callable[[tuple[Slot, Consumer]], bool] | None:
    session, edge, allowed = question.get("session"), question.get("edge"), _allowed(question)
    if session is None and not edge and allowed is None:
        return None

    def keep(entry: tuple[Slot, Consumer]) -> bool:
        slot, consumer = entry
        if session is not None and number(consumer.session) != session:
            return False
        if edge and edge_of(consumer.session) != edge:
            return False
        queue = slot.queues.get(consumer.queue)
        return allowed is None or (queue is not None and allowed(queue.address))

    return keep


def _named(slot: Slot, name: str, address: str) -> list[Queue]:
    home = slot.addresses.get(address or name)
    found = home.queues.get(name) if home is not None else None
    if found is None and not address:
        found = slot.subscriptions.get(name)
    return [found] if found is not None else []


_KINDS: dict[str, Callable[[Views, Question], Work]] = {
    "queues": Views.queues,
    "addresses": Views.addresses,
    "consumers": Views.consumers,
    "queue": Views.queue,
    "totals": Views.totals,
    "kept": Views.kept,
    "transactions": Views.transactions,
}
