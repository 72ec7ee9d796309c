"""Transactions over slots of several owners, and dead letters that go to another slot: two phases (ADR 4).

The coordinator slot's log holds the decision, in the same group as its own part. Before it is durable there nobody acts
on it; after that it is told to the others until each has answered.

Rule: what is unknown is asked for, never guessed: a participant that hears nothing inquires, and no decision means no.
Must not know the network: commands go to a port that reaches every slot and repeats itself over fail-over.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection
from functools import partial
from typing import Any, Protocol

from broker.core.address import Routing
from broker.core.commands import Command, Decide, Inquire, Prepare, Publish, Settle, Transact
from broker.core.effects import Done, Effect, Move, Refused, Turn
from broker.core.errors import Code, RefusedError
from broker.core.message import Blob, Run
from broker.engine.engine import Engine

from .carry import Carry, Sink, Source
from .transact import merge

log = logging.getLogger("stampede.owner")

RETRY_S = 1.0
"""How soon what could not be asked is asked again, and how often prepared transactions are looked at."""
SESSION = 1
"""This process asks under this number at its own port."""
PASSING = (Code.OWNER_UNAVAILABLE, Code.OWNER_STOPPED, Code.DISK_FULL)
"""Refusals that time may heal."""

Parts = list[Publish | Settle]
Then = Callable[[Refused | None], None]


class Turns(Protocol):
    """What it needs of the shard."""

    engines: dict[int, Engine]

    def in_turn(self, slot: int, step: Callable[[Engine, Turn], None]) -> None: ...
    def when_ready(self, slot: int, callback: Callable[[], None]) -> None: ...
    def engine(self, slot: int) -> Engine: ...


class _Crossing:
    """One of them under way.

    check     raises RefusedError if this slot's part cannot be done (any more).    own   does it, in a group.
    done      tells that it has happened (in the turn that logs it).
    refused   tells that it has not."""

    __slots__ = ("check", "done", "failed", "key", "others", "own", "refused", "slot", "tx", "waiting")

    def __init__(
        self,
        tx: str,
        slot: int,
        others: dict[int, Parts],
        check: Callable[[Engine], None],
        own: Callable[[Engine, Turn], None],
        done: Callable[[Engine, Turn], None],
        refused: Callable[[Refused], None],
        key: object = None,
    ) -> None:
        self.tx = tx
        self.slot = slot
        self.others = others
        self.check = check
        self.own = own
        self.done = done
        self.refused = refused
        self.key = key
        self.waiting = len(others)
        self.failed: Refused | None = None


class Coordinator:
    """`Crossing` for the shard of an owner, and the listener of its port.

    submit   the port's; `now_ms` the wall clock (only to see what has been in doubt for long)."""

    def __init__(
        self,
        shard: Turns,
        submit: Callable[[list[Command]], bool],
        boot: str,
        now_ms: Callable[[], int],
        later: Callable[[float, Callable[[], None]], Any],
        open_body: Callable[[int, Blob], Source],
        new_body: Callable[[int, Callable[[], None]], Sink],
    ) -> None:
        """`open_body`: of this owner's; `new_body`: at the owner of a slot (the port's write_body)."""
        self._open_body = open_body
        self._new_body = new_body
        self._shard = shard
        self._submit = submit
        self._boot = boot
        self._now_ms = now_ms
        self._later = later
        self._count = 0
        self._seq = 0
        self._asked: dict[int, Then] = {}
        self._active: set[object] = set()
        self._inquiring: set[tuple[int, str]] = set()

    # ── what the shard hands over ──────────────────────────────────────────────────────────────────

    def transact(self, command: Transact, turn: Turn) -> None:
        """A COMMIT with parts in several slots. One that is replayed while it is under way is answered once."""
        key = command.dedup
        engine = self._shard.engine(command.slot)
        if key is not None:
            if key in self._active:
                return
            if engine.duplicate(key):
                engine.again(command, turn)
                return
        own: Parts = [part for part in command.parts if part.slot == command.slot]
        others: dict[int, Parts] = {}
        for part in command.parts:
            if part.slot != command.slot:
                others.setdefault(part.slot, []).append(part)

        def check(led: Engine) -> None:
            for part in own:
                led.check(part)

        def apply(led: Engine, group: Turn) -> None:
            for part in own:
                if isinstance(part, Publish):
                    part.atomic = True
                led.handle(part, group)
            if key is not None:
                led.remember(key, group)

        def done(led: Engine, turn: Turn) -> None:
            led.after(Done(command.session, command.seq), turn)

        def refused(why: Refused) -> None:
            error = RefusedError(why.code, why.detail)
            self._shard.in_turn(command.slot, lambda led, turn: led.refuse(command, error, turn))

        try:
            check(engine)
        except RefusedError as error:
            engine.refuse(command, error, turn)
            return
        self._begin(
            engine, _Crossing(self._name(command.slot, key), command.slot, others, check, apply, done, refused, key)
        )

    def move(self, move: Move, slot: int) -> None:
        """A dead letter for an address in `slot`."""
        blob = move.run.blob
        if blob is None:
            self._move(move, slot, move.run)
            return

        def carried(there: Blob | None, why: str) -> None:
            if there is None:
                log.info("a large dead letter waits: %s", why)
                self._later(RETRY_S, partial(self.move, move, slot))
            else:
                run = move.run.cut(slice(None))
                run.blob = there
                self._move(move, slot, run)

        Carry(self._open_body(move.slot, blob), partial(self._new_body, slot), carried)

    def _move(self, move: Move, slot: int, run: Run) -> None:
        engine = self._shard.engines.get(move.slot)
        if engine is None:
            return  # led elsewhere by now: the new leader finds the message where it was
        publish = Publish(slot, SESSION, 0, move.address, Routing.UNSET, run)

        def refused(why: Refused) -> None:
            if why.code in PASSING:
                self._later(RETRY_S, partial(self.move, move, slot))
                return
            log.warning("message dropped: %s takes no dead letters (%s)", move.address, why.detail or why.code.text)
            self._shard.in_turn(move.slot, lambda led, turn: led.moved(move, turn))

        def own(led: Engine, group: Turn) -> None:
            led.moved(move, group)

        crossing = _Crossing(self._name(move.slot), move.slot, {slot: [publish]}, _fine, own, _nothing, refused)
        self._begin(engine, crossing)

    def resume(self, engine: Engine) -> None:
        """The slot is led here from now on: what its log has decided is told to the others again."""
        for tx, participants in engine.undecided():
            self._tell(engine.number, tx, participants)

    def poll(self) -> None:
        """Looks for prepared transactions whose coordinator has been silent. Call every RETRY_S."""
        now = self._now_ms()
        for engine in list(self._shard.engines.values()):
            for tx, coordinator in engine.in_doubt(now):
                what = (engine.number, tx)
                if what not in self._inquiring:
                    self._inquiring.add(what)
                    self._ask(partial(self._inquire, coordinator, tx), partial(self._verdict, engine.number, tx))

    # ── first phase ────────────────────────────────────────────────────────────────────────────────

    def _name(self, slot: int, key: tuple[int, int] | None = None) -> str:
        """A COMMIT that is replayed to another leader finds its own prepared parts under the same name."""
        if key is not None:
            return f"{slot}.{key[0]:x}.{key[1]}"
        self._count += 1
        return f"{slot}.{self._boot}.{self._count}"

    def _begin(self, engine: Engine, crossing: _Crossing) -> None:
        if crossing.key is not None:
            self._active.add(crossing.key)
        engine.deciding(crossing.tx)
        for slot, parts in crossing.others.items():
            self._ask(partial(self._prepare, crossing, slot, parts), partial(self._prepared, crossing))

    @staticmethod
    def _prepare(crossing: _Crossing, slot: int, parts: Parts, seq: int) -> Command:
        return Prepare(slot, SESSION, seq, crossing.tx, crossing.slot, parts)

    def _prepared(self, crossing: _Crossing, refused: Refused | None) -> None:
        crossing.waiting -= 1
        if refused is not None:
            crossing.failed = refused
        if crossing.waiting:
            return
        if crossing.failed is not None:
            self._abort(crossing, crossing.failed)
        else:
            self._shard.in_turn(crossing.slot, partial(self._decide, crossing))

    # ── second phase ───────────────────────────────────────────────────────────────────────────────

    def _decide(self, crossing: _Crossing, engine: Engine, turn: Turn) -> None:
        """Everybody can: this slot's part and the decision become one log record."""
        group = Turn(turn.now, turn.number)
        participants = list(crossing.others)
        try:
            crossing.check(engine)
            engine.decide(crossing.tx, participants, group)
        except RefusedError as error:
            self._abort(crossing, Refused(0, 0, error.code, error.detail))
            return
        crossing.own(engine, group)
        merge(group, turn)
        crossing.done(engine, turn)
        self._active.discard(crossing.key)
        self._shard.when_ready(crossing.slot, partial(self._tell, crossing.slot, crossing.tx, participants))

    def _tell(self, slot: int, tx: str, participants: list[int]) -> None:
        left = set(participants)

        def answered(participant: int, refused: Refused | None) -> None:
            if refused is not None:
                self._later(RETRY_S, partial(tell, participant))
                return
            left.discard(participant)
            if not left:
                self._shard.in_turn(slot, lambda engine, turn: engine.forget(tx, turn))

        def tell(participant: int) -> None:
            self._ask(partial(self._decision, participant, tx, True), partial(answered, participant))

        for participant in participants:
            tell(participant)

    def _abort(self, crossing: _Crossing, why: Refused) -> None:
        self._active.discard(crossing.key)
        engine = self._shard.engines.get(crossing.slot)
        if engine is not None:
            engine.abandon(crossing.tx)
        for slot in crossing.others:
            # Nobody waits for it: who misses it inquires, and hears the same.
            self._ask(partial(self._decision, slot, crossing.tx, False), _ignore)
        crossing.refused(why)

    @staticmethod
    def _decision(slot: int, tx: str, commit: bool, seq: int) -> Command:
        return Decide(slot, SESSION, seq, tx, commit)

    # ── in doubt ───────────────────────────────────────────────────────────────────────────────────

    @staticmethod
    def _inquire(slot: int, tx: str, seq: int) -> Command:
        return Inquire(slot, SESSION, seq, tx)

    def _verdict(self, slot: int, tx: str, refused: Refused | None) -> None:
        self._inquiring.discard((slot, tx))
        if refused is not None and refused.code is not Code.NO_SUCH_TRANSACTION:
            return  # nobody to ask: the next poll tries again
        decision = Decide(slot, 0, 0, tx, refused is None)
        self._shard.in_turn(slot, lambda engine, turn: engine.handle(decision, turn))

    # ── the port ───────────────────────────────────────────────────────────────────────────────────

    def _ask(self, make: Callable[[int], Command], then: Then) -> None:
        self._seq += 1
        self._asked[self._seq] = then
        self._submit([make(self._seq)])

    def on_effects(self, effects: list[Effect]) -> None:
        for effect in effects:
            if isinstance(effect, Done | Refused) and (then := self._asked.pop(effect.seq, None)) is not None:
                then(effect if isinstance(effect, Refused) else None)

    def on_relief(self, sessions: Collection[int] | None = None) -> None:
        """It never waits for one: what it sends is small and few."""

    def on_stopped(self, why: str) -> None:
        log.error("transactions over several owners cannot go on: %s", why)


def _ignore(_: Refused | None) -> None:
    """An abort need not be heard."""


def _fine(_: Engine) -> None:
    """It can always be done."""


def _nothing(_: Engine, __: Turn) -> None:
    """Nobody asked for an answer."""
