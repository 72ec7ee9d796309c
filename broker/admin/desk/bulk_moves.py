"""Messages of one queue carried somewhere else, or away: move, retry, expire, purge by selector, copy.

The errand consumes them like a client and commits, batch by batch, what it sends and what it settles: one atomic
record of the log each, so a kill in between loses nothing and doubles nothing, and asking again goes on where it
stopped. What is left at the end goes back in its order, and nobody's attempts are counted. Where what stays fills the
window, it goes back at once and another consumer passes it by: what is behind it has its turn.

Rule: bounded by `limit` messages, by the window of the consumer and by the pace that was asked for. Must not know HTTP.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

from broker.core.address import Outcome, Routing
from broker.core.commands import Command, Publish, Settle, Transact
from broker.core.errors import Code, RefusedError
from broker.core.ids import slot_of
from broker.core.message import Run
from broker.selector import compile, conjunction

from .desk import Desk, Errand, ErrandFeed
from .shown_messages import DeadLetterOrigin, from_elsewhere, onward, origin, outdated, row, stored, unlabelled

LOOKS = 50
"""Messages looked at in one step."""
BATCH = 1000
"""Messages of one transaction."""
BATCH_BYTES = 2 * 1024 * 1024
AT_ONCE = 4
"""Transactions under way."""
QUIET_S = 0.05
"""Nothing has come for so long: is there anything left?"""
PATIENT = 40
"""So often that is asked before the operator is told that it does not come."""


NOWHERE = "it does not say where it comes from, or comes from where you may manage nothing"
NOT_COPIED = "large messages are moved, not copied"
LOOKED = 20_000
"""Messages that a preview looks at."""
FIRST = 5
"""Of them it shows."""
PREVIEW = 200
"""Bytes of the body of each."""
PACED_S = 30.0
"""So long something goes on that has a pace: the client that asked for it asks again."""
PIECES = 10
"""Transactions a second of what has a pace."""
FILLED = 1000
"""Messages that stay fill the window."""
PASSED_BY = 50
"""Origins that are passed by at most."""


class MoveTarget(NamedTuple):
    """Where messages go.    queue   one queue of the address; None: as the address routes.    made   if need be, as the
    broker makes the one for expired messages of an address."""

    address: str
    queue: str | None
    made: bool = False


class MoveSource(NamedTuple):
    """A queue in one slot.    last   its newest message when it began."""

    slot: int
    address: str
    queue: str
    last: int


class MoveOrder(NamedTuple):
    """to   where each message goes: by where it comes from; None of it: it stays where it is.
    gone   the messages are settled and sent nowhere (a purge).    bare   labels of dead letters are taken off, and they
    say where it goes.
    expired   when (epoch ms) they count as expired, and are labelled so; 0: they do not.
    rate   messages a second; 0: as fast as it goes.    copied   they stay as well, and large ones only stay."""

    to: Callable[[DeadLetterOrigin], MoveTarget | None]
    bare: bool = False
    gone: bool = False
    expired: int = 0
    rate: int = 0
    copied: bool = False


class MoveReport:
    """What has become of it."""

    def __init__(self) -> None:
        self.done = 0
        self.more = False
        """The limit was reached before the end."""
        self.late = False
        """It was PACED_S."""
        self.left: dict[str, int] = {}
        """Why messages stay → how many."""

    def stops(self) -> None:
        """The limit is reached, and there is more."""
        self.more = True

    def stays(self, why: str, count: int) -> None:
        self.left[why] = self.left.get(why, 0) + count

    def data(self) -> dict[str, Any]:
        return {"done": self.done, "more": self.more, "left": [{"why": w, "count": n} for w, n in self.left.items()]}


class MovePreview(MoveReport):
    """What would become of it.    done   would be.    cut   not all was looked at."""

    def __init__(self) -> None:
        super().__init__()
        self.looked = 0
        self.first: list[dict[str, Any]] = []

    @property
    def cut(self) -> bool:
        return self.more or self.looked >= LOOKED

    def sees(self, slot: int, run: Run, at: int, why: str) -> None:
        """One more message.    why   it stays; empty: it does not."""
        self.looked += 1
        if why:
            self.stays(why, 1)
            return
        self.done += 1
        if len(self.first) < FIRST:
            self.first.append(row(slot, run, at, PREVIEW, False))

    def data(self) -> dict[str, Any]:
        told = {"count": self.done, "complete": not self.cut, "first": self.first}
        return {**super().data(), "done": 0, "preview": told}


class _Pace:
    """So many messages a second, from now on."""

    def __init__(self, rate: int) -> None:
        self.batch = BATCH if not rate else max(min(rate // PIECES, BATCH), 1)
        """Messages of one transaction."""
        self.at_once = 1 if rate else AT_ONCE
        self._rate = rate
        self._began = asyncio.get_running_loop().time()
        self._done = 0

    async def moved(self, count: int) -> None:
        """Returns when more may follow."""
        if self._rate:
            self._done += count
            await asyncio.sleep(self._began + self._done / self._rate - asyncio.get_running_loop().time())

    @property
    def over(self) -> bool:
        return bool(self._rate) and asyncio.get_running_loop().time() > self._began + PACED_S


class _Batch:
    """What goes to one place in one transaction."""

    def __init__(self, target: MoveTarget | None, most: int) -> None:
        self.target = target
        self._most = most
        self.ids: list[int] = []
        self.runs: list[Run] = []
        self.nbytes = 0

    @property
    def full(self) -> bool:
        return len(self.ids) >= self._most or self.nbytes >= BATCH_BYTES

    def add(self, run: Run, at: int, record: bytes, outdated: bool) -> None:
        self.ids.append(run.ids[at])
        self.nbytes += len(record)
        if self.target is None:
            return
        made = onward(run, [record], outdated)
        if self.runs and made.blob is None:
            before = self.runs[-1]
            alike = (before.flags, before.priority, before.expires) == (made.flags, made.priority, made.expires)
            if alike and before.blob is None:
                before.records.append(record)
                before.nbytes += made.nbytes
                return
        self.runs.append(made)


async def carry(
    desk: Desk, source: MoveSource, order: MoveOrder, selector: str | None, limit: int, report: MoveReport
) -> None:  # fmt: skip
    """Carries out the order for what matches and was there when it began, up to `limit` messages."""
    work, before, wanted = _Work(desk, source, order, report, limit), "", selector
    while await _round(desk, source, wanted, work, report):
        passed = work.passed()
        if passed is None or passed == before or not _can_be_asked(wanted := _both(selector, passed)):
            report.stops()
            return
        before = passed


def _both(selector: str | None, passed: str) -> str:
    return conjunction(selector, passed) if selector else passed


def _can_be_asked(selector: str) -> bool:
    """It may have become too long."""
    try:
        compile(selector)
    except RefusedError:
        return False
    return True


async def _round(desk: Desk, source: MoveSource, wanted: str | None, work: _Work, report: MoveReport) -> bool:
    """What one consumer gets; True: what stays fills its window, and there is more."""
    with desk.errand() as errand:
        feed = await errand.subscribe(source.slot, source.address, source.queue, wanted, browse=False)
        work.begin(errand, feed)
        quiet = 0
        while not (work.over or work.filled or feed.ended):
            run = await feed.next(QUIET_S)
            if run is not None:
                await work.carry([run, *feed.ready()])
                quiet = 0
                continue
            if not await _more(desk, source, wanted):
                break
            quiet += 1
            if quiet >= PATIENT:
                report.stays("it is not handed out: others come first (GET the queue: `why`), or it is paused", 1)
                break
        if feed.why:
            report.stays(f"the consumer was ended: {feed.why}", 1)
        return work.filled and not work.over and not feed.why


async def _more(desk: Desk, source: MoveSource, selector: str | None) -> bool:
    """Is there anything left that was there when it began."""
    with desk.errand() as errand:
        feed = await errand.subscribe(source.slot, source.address, source.queue, selector, browse=True, room=1)
        run = await feed.next()
        return run is not None and run.ids[0] <= source.last


class _Work:
    """over: nothing more is wanted.    filled: what stays fills the window of the consumer."""

    def __init__(self, desk: Desk, source: MoveSource, order: MoveOrder, report: MoveReport, limit: int) -> None:
        self._desk = desk
        self._source = source
        self._order = order
        self._report = report
        self._limit = limit
        self._refused: dict[MoveTarget, str] = {}
        self._pace = _Pace(order.rate)
        self._newer = self._kept = 0
        self._came_later = False
        self._nowhere: set[str] = set()
        """Addresses of which nothing goes back; "": it does not say."""
        self.over = self.filled = False

    def begin(self, errand: Errand, feed: ErrandFeed) -> None:
        """The next consumer's turn."""
        self._errand, self._feed = errand, feed
        self._newer = self._kept = 0
        self.filled = False

    def passed(self) -> str | None:
        """A selector for what does not stay, as far as is known; None: all stays, or there is too much to say."""
        if self._refused and not self._order.bare:
            return None  # all of it goes to the one place that does not take it
        if len(self._nowhere) + len(self._refused) > PASSED_BY:
            return None
        queues = [(target.address, target.queue or "") for target in self._refused]
        later = [f"AMQMessageID <= {self._source.last}"] if self._came_later else []
        return " AND ".join(later + from_elsewhere(self._nowhere, queues))

    async def carry(self, runs: Iterable[Run]) -> None:
        batches: list[_Batch] = []
        open_: dict[MoveTarget | None, _Batch] = {}
        for run in runs:
            for at in range(len(run.ids)):
                if self._limit <= 0:
                    self._report.more = self.over = True
                    break
                if run.ids[at] > self._source.last:
                    self._newer += 1
                    self._came_later = True
                    continue
                self._sort(run, at, batches, open_)
        pace = self._pace
        for start in range(0, len(batches), pace.at_once):
            if pace.over:
                self._report.more = self._report.late = self.over = True
                break
            some = batches[start : start + pace.at_once]
            await asyncio.gather(*[self._commit(batch) for batch in some])
            await pace.moved(sum([len(batch.ids) for batch in some]))
        self.filled = self._newer + self._kept > FILLED  # then nothing more would come

    def _sort(self, run: Run, at: int, batches: list[_Batch], open_: dict[MoveTarget | None, _Batch]) -> None:
        target: MoveTarget | None = None
        order = self._order
        if not order.gone:
            whence = origin(run, at)
            target = order.to(whence)
            if target is None:
                self._kept += 1
                self._nowhere.add(whence.address)
                self._report.stays(NOWHERE, 1)
                return
            if target in self._refused:
                self._kept += 1
                self._report.stays(self._refused[target], 1)
                return
        batch = open_.get(target)
        if batch is None or batch.full:
            batch = open_[target] = _Batch(target, self._pace.batch)
            batches.append(batch)
        batch.add(run, at, self._written(run, at), bool(self._order.expired))
        self._limit -= 1

    def _written(self, run: Run, at: int) -> bytes:
        """The message as it goes on."""
        record, source, order = stored(run, at), self._source, self._order
        if order.expired:
            return outdated(record, run.ids[at], source.address, source.queue, order.expired)
        return unlabelled(record) if order.bare else record

    async def _commit(self, batch: _Batch) -> None:
        source, consumer = self._source, self._feed.command.consumer

        def settle(session: int, seq: int) -> Command:
            return Settle(source.slot, session, seq, consumer, batch.ids, Outcome.ACK)

        def transact(session: int, seq: int) -> Command:
            target = batch.target
            assert target is not None
            slot = slot_of(target.address)
            create = target.made or target.queue is None or target.queue == target.address
            routing = Routing.MULTICAST if target.made and target.queue else Routing.UNSET
            parts: list[Publish | Settle] = [
                Publish(slot, session, 0, target.address, routing, run, target.queue, create) for run in batch.runs
            ]
            parts.append(Settle(source.slot, session, 0, consumer, batch.ids, Outcome.ACK))
            return Transact(source.slot, session, seq, parts)

        try:
            await self._errand.ask(settle if batch.target is None else transact)
        except RefusedError as refused:
            if batch.target is None or refused.code in _LOST:
                raise
            why = f"{'::'.join(filter(None, batch.target[:2]))}: {refused}"
            self._refused[batch.target] = why
            self._kept += len(batch.ids)
            self._report.stays(why, len(batch.ids))
            self._limit += len(batch.ids)
            return
        self._report.done += len(batch.ids)


async def preview(
    desk: Desk, source: MoveSource, order: MoveOrder, selector: str | None, limit: int, report: MovePreview
) -> None:  # fmt: skip
    """What carry() with the same would take; nothing is done, and what consumers hold is not looked at."""
    with desk.errand() as errand:
        feed = await errand.subscribe(source.slot, source.address, source.queue, selector, browse=True)
        while not report.cut and (run := await feed.next()) is not None:
            for at in range(len(run.ids)):
                if run.ids[at] > source.last:
                    continue
                if report.done >= limit:
                    report.stops()
                    return
                report.sees(source.slot, run, at, _hindrance(order, run, at))
                if not report.looked % LOOKS:
                    await asyncio.sleep(0)
        if not report.cut and (feed.why or not feed.ended):
            report.stops()
            report.stays(f"not all was looked at: {feed.why or 'the owner takes its time'}", 1)


def _hindrance(order: MoveOrder, run: Run, at: int) -> str:
    """Why that message would stay; empty: it would not, as far as can be told before."""
    if order.copied and run.blob is not None:
        return NOT_COPIED
    return "" if order.gone or order.to(origin(run, at)) is not None else NOWHERE


_LOST = (Code.OWNER_UNAVAILABLE, Code.OWNER_STOPPED, Code.SHUTDOWN)


async def copy(
    desk: Desk, source: MoveSource, order: MoveOrder, selector: str | None, limit: int, report: MoveReport
) -> None:  # fmt: skip
    """Sends what is there to another place; the messages stay. Not resumable: asked again it sends them again."""
    with desk.errand() as errand:
        feed = await errand.subscribe(source.slot, source.address, source.queue, selector, browse=True)
        pace = _Pace(order.rate)
        while limit > 0 and (run := await feed.next()) is not None:
            whole = [stored(run, at) for at in range(min(len(run.ids), limit))]
            target = order.to(origin(run, 0))
            if run.blob is not None or target is None:
                report.stays(NOT_COPIED, len(whole))
                continue
            limit -= len(whole)
            step = pace.batch if order.rate else len(whole)
            for start in range(0, len(whole), step):
                records = whole[start : start + step]
                made = onward(run, records)
                await errand.ask(lambda session, seq, made=made, target=target: Publish(  # type: ignore[misc]
                    slot_of(target.address), session, seq, target.address, Routing.UNSET, made, target.queue
                ))  # fmt: skip
                report.done += len(records)
                await pace.moved(len(records))
        report.more = limit <= 0
