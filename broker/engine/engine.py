"""The brain of one slot: commands in, effects, log records, fetches and moves out.

Rule: deterministic. No clock, no IO, no logging, no randomness; the owner's Turn is all it knows of the world.
This file is the table of who does what; see addresses, publish, dispatch, settle, redelivery, paging, state.
"""

from __future__ import annotations

from array import array
from bisect import insort
from collections.abc import Callable
from heapq import heappop
from typing import Any

from broker.config.settings import EngineSettings
from broker.core.commands import Barrier, Command, Disconnect, Grant, Hold, Publish, Settle, Subscribe, Unsubscribe
from broker.core.effects import Done, Effect, Move, Refused, Turn
from broker.core.errors import Code, RefusedError
from broker.core.message import Run
from broker.core.records import MetaRecord, RunRecord

from . import addresses, paging, redelivery, settle, state
from .browser import Browser
from .consumer import Consumer
from .dispatch import dispatch, sweep
from .publish import publish
from .queue import Queue
from .slot import SWEEP_MS, Budget, Held, Slot, progress


class Engine:
    """See docs/adr/0001 for how it is used."""

    __slots__ = ("_handlers", "_restore", "_slot")

    def __init__(self, slot: int, settings: EngineSettings, budget: Budget | None = None, first_id: int = 0) -> None:
        """`budget`: of queues, shared with the other engines of the process; None: one of its own."""
        self._slot = Slot(slot, settings, budget or Budget(settings.max_queues))
        self._slot.next_id = max(first_id, 1)
        self._restore: state.Restore | None = None
        self._handlers: dict[type, Callable[[Any, Turn], None]] = {
            Publish: self._publish,
            Settle: self._settle,
            Grant: self._grant,
            Subscribe: self._subscribe,
            Unsubscribe: self._unsubscribe,
            Hold: self._hold,
            Barrier: self._barrier,
            Disconnect: self._disconnect,
        }

    @property
    def number(self) -> int:
        """Which slot this is."""
        return self._slot.number

    # ── commands ───────────────────────────────────────────────────────────────────────────────────

    def handle(self, command: Command, turn: Turn) -> None:
        """Carries out any command but Transact; a refusal becomes a Refused effect."""
        try:
            self._handlers[type(command)](command, turn)
        except RefusedError as refused:
            session: int = getattr(command, "session", 0)
            turn.effects.append(Refused(session, getattr(command, "seq", 0), refused.code, refused.detail))

    def check(self, part: Publish | Settle) -> None:
        """Raises RefusedError if handle() would refuse it as a part of a transaction."""
        if isinstance(part, Publish):
            addresses.check_publish(self._slot, part)
        else:
            settle.check_settle(self._slot, part)
            self._slot.approved.add(part)

    def crowded(self, part: Publish) -> bool:
        """Would it, though not durable, be written because the memory of a queue is full."""
        slot = self._slot
        address = slot.addresses.get(part.address)
        if address is None:
            return False
        room = slot.limit - part.run.nbytes
        return any(q.paging or q.nbytes + q.gated_bytes > room for q in address.queues.values())

    def after(self, effect: Effect, turn: Turn) -> None:
        """Tells `effect` when everything appended so far in this turn is durable."""
        if progress(turn):
            self._slot.pending.append(Held(turn.number, effect))
        else:
            turn.effects.append(effect)

    def _publish(self, command: Publish, turn: Turn) -> None:
        publish(self._slot, command, turn)

    def _settle(self, command: Settle, turn: Turn) -> None:
        settle.settle(self._slot, command, turn)

    def _hold(self, command: Hold, turn: Turn) -> None:
        settle.hold(self._slot, command, turn)

    def _barrier(self, command: Barrier, turn: Turn) -> None:
        # Also when this turn writes nothing: an earlier commit may be under way.
        self._slot.pending.append(Held(turn.number, Done(command.session, command.seq)))

    def _grant(self, command: Grant, turn: Turn) -> None:
        slot = self._slot
        consumer = slot.consumers.get(command.consumer)
        if consumer is not None:
            consumer.room += command.nbytes
            queue = slot.queues.get(consumer.queue)
            if queue is not None and (queue.count or queue.browsers):
                slot.touched[queue] = None

    def _subscribe(self, command: Subscribe, turn: Turn) -> None:
        slot = self._slot
        if command.selector is not None:
            raise RefusedError(Code.BAD_SELECTOR, "this broker does not support selectors yet; remove the header")
        before = progress(turn)
        queue = addresses.subscribed_queue(slot, command, turn)
        consumer = Consumer(command, queue.id)
        slot.consumers[consumer.id] = consumer
        slot.sessions.setdefault(consumer.session, []).append(consumer.id)
        if command.browse:
            consumer.ledger = None
            if queue.returned:
                redelivery.bring_back(queue)
            queue.browsers.append(Browser(consumer, queue.in_order(), array("Q", queue.index)))
        else:
            insort(queue.consumers, consumer, key=_by_priority)
            queue.idle_since = 0
        slot.touched[queue] = None
        if command.seq and progress(turn) != before:
            # No message before the answer: the consumer begins when its queue is durable.
            slot.pending.append(Held(turn.number, consumer=consumer, room=consumer.room))
            consumer.room = 0
        slot.answer(command.session, command.seq, turn, before)

    def _unsubscribe(self, command: Unsubscribe, turn: Turn) -> None:
        slot = self._slot
        before = progress(turn)
        consumer = slot.consumers.get(command.consumer)
        doomed: Queue | None = None
        if command.delete_queue is not None:
            doomed = slot.subscriptions.get(command.delete_queue)
            if doomed is not None and doomed.address != command.address:
                raise RefusedError(Code.SUBSCRIPTION_CONFLICT, f"'{command.delete_queue}' belongs to another address")
            if doomed is not None and any(other is not consumer for other in doomed.consumers):
                raise RefusedError(Code.SUBSCRIPTION_IN_USE, f"'{command.delete_queue}' has other consumers")
        if command.consumer and (consumer is None or consumer.session != command.session):
            raise RefusedError(Code.NO_SUCH_SUBSCRIPTION, "it has ended already")
        if consumer is not None:
            settle.end_consumer(slot, consumer, turn)
        if doomed is not None:
            addresses.delete(slot, doomed, turn)
        elif command.delete_queue is not None and consumer is None:
            raise RefusedError(Code.NO_SUCH_SUBSCRIPTION, f"there is no durable subscription '{command.delete_queue}'")
        slot.answer(command.session, command.seq, turn, before)

    def _disconnect(self, command: Disconnect, turn: Turn) -> None:
        slot = self._slot
        for number in list(slot.sessions.get(command.session, ())):
            settle.end_consumer(slot, slot.consumers[number], turn)

    # ── the owner's calls ──────────────────────────────────────────────────────────────────────────

    @property
    def holding(self) -> bool:
        """Does anything wait for a release."""
        return bool(self._slot.pending)

    def moved(self, move: Move, turn: Turn) -> None:
        """The owner has published the run of `move` (or nobody takes it): the source is settled."""
        redelivery.moved(self._slot, move, turn)

    def release(self, number: int, turn: Turn) -> None:
        """Every record of turns <= number is durable."""
        self._slot.release(number, turn)

    def fetched(self, queue: int, runs: list[Run], turn: Turn) -> None:
        """The answer to a Fetch."""
        paging.fetched(self._slot, queue, runs, turn)

    def flush(self, turn: Turn) -> None:
        """Dispatches every queue this turn has touched."""
        slot = self._slot
        if slot.touched:
            touched, slot.touched = slot.touched, {}
            for queue in touched:
                if not queue.deleted:
                    dispatch(slot, queue, turn)
        if slot.approved:
            slot.approved.clear()

    # ── time ───────────────────────────────────────────────────────────────────────────────────────

    def next_due(self) -> int:
        """Epoch milliseconds of the next tick wanted; 0 = none."""
        return self._slot.due

    def tick(self, turn: Turn) -> None:
        """Delayed redelivery, expiry, auto-delete. Touched queues are dispatched by the flush that follows."""
        slot, now = self._slot, turn.now
        slot.due = 0
        timed, slot.timed = slot.timed, set()
        for queue in sorted(timed, key=_by_id):
            if queue.deleted:
                continue
            ready: list[Run] = []
            while queue.delayed and queue.delayed[0][0] <= now:
                ready.append(heappop(queue.delayed)[2])
            if ready:
                redelivery.to_head(queue, ready)
                slot.touched[queue] = None
            if queue.delayed:
                slot.wake(queue, queue.delayed[0][0])
            if queue.expiry:
                if queue.expiry <= now and queue.swept + SWEEP_MS <= now:
                    sweep(slot, queue, turn)
                else:
                    slot.watch_expiry(queue)
            if queue.idle_since:
                self._tick_idle(queue, turn)

    def _tick_idle(self, queue: Queue, turn: Turn) -> None:
        slot = self._slot
        due = queue.idle_since + queue.settings.auto_delete_delay_ms
        if queue.consumers or not queue.empty():
            queue.idle_since = 0
        elif due <= turn.now:
            addresses.delete(slot, queue, turn)
        else:
            slot.wake(queue, due)

    # ── recovery ───────────────────────────────────────────────────────────────────────────────────

    def snapshot(self) -> list[MetaRecord]:
        """The whole small state (kinds: state.py)."""
        return state.snapshot(self._slot)

    def restore_meta(self, record: MetaRecord) -> None:
        """All of them first, in log order."""
        self._restoring().meta(record)

    def restore_run(self, record: RunRecord, settled: dict[int, list[tuple[int, int]]]) -> None:
        """Then the runs with live messages, by ascending id."""
        self._restoring().run(record, settled)

    def restore_end(self, clean: bool, turn: Turn) -> None:
        """Then this, once. Not clean: what may have been delivered is REDELIVERED."""
        self._restoring().end(clean, turn)
        self._restore = None

    def _restoring(self) -> state.Restore:
        if self._restore is None:
            self._restore = state.Restore(self._slot)
        return self._restore

    # ── for metrics ────────────────────────────────────────────────────────────────────────────────

    def counters(self) -> dict[str, int]:
        """Totals since the start of the process."""
        counters = self._slot.counters
        return {name: getattr(counters, name) for name in counters.__slots__}

    def subscriptions(self) -> dict[str, str]:
        """Durable subscriptions and their addresses."""
        return {name: queue.address for name, queue in self._slot.subscriptions.items()}

    def stats(self) -> list[dict[str, Any]]:
        """One entry per queue, in messages and bytes."""
        return [
            {
                "name": queue.name, "address": queue.address, "routing": queue.routing.name, "durable": queue.durable,
                "ready": queue.count, "delivering": queue.delivering, "paged": queue.paged_count,
                "delayed": sum([len(run.records) for _, _, run in queue.delayed]),
                "bytes": queue.nbytes + queue.paged_bytes, "consumers": len(queue.consumers),
            }
            for queue in self._slot.queues.values()
        ]  # fmt: skip


def _by_priority(consumer: Consumer) -> int:
    return -consumer.priority


def _by_id(queue: Queue) -> int:
    return queue.id
