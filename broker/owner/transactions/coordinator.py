"""Transactions over slots of several owners, and dead letters that go to another slot: two phases (ADR 4).

The coordinator slot's log holds the decision, in the same group as its own part. Before it is durable there nobody acts
on it; after that it is told to the other slots until each has answered. Only then is the COMMIT answered: what its
session sends next to one of them is behind what the transaction sent there.

A COMMIT that is replayed to another leader of its slot goes on under the same name, with what is prepared already. So a
"no" must bind that leader too: it is in the log of the coordinator slot, and counts there, before anybody hears of it.

Rule: what is unknown is asked for, never guessed: a participant that hears nothing inquires, and no decision means no.
What one engine began no other engine of the slot (led again in a later epoch) goes on with.
Must not know the network: commands go to a port that reaches every slot and repeats itself over fail-over.
"""

# Example. A session commits: SEND to /queue/a (slot 3, led here), ACK in slot 7 (led elsewhere). Slot 3 coordinates.
#     1 check       slot 3's own part could be done now. Nothing is changed
#     2 Prepare     goes to 7: its leader checks the ACK, writes `prepared` into the log of 7, and answers. From now on
#                   the message in 7 is held: no NACK, no end of the session gives it to somebody else
#     3 decide      all have prepared; the own part is checked once more. Own part and decision become one record of 3
#     4 when_ready  that record counts on all in-sync replicas of 3: now it is told, Decide(commit) to 7, again and
#                   again until 7 has answered
#     5 done        the client's receipt, and the log of 3 forgets the decision
#
# Whoever dies, and when (I9):
#     leader of 3 before 3   its successor knows nothing of it. 7 inquires, hears "no such transaction", gives the ACK
#                            back. The edge replays the COMMIT to the successor: same name, the same two steps
#     leader of 3 after 3    the decision is in the log: resume() tells 7 again. A replayed COMMIT waits for that
#                            (_late)
#     leader of 7            prepared or decided, it is in the log of 7; its successor answers the same
# Nobody acts on a decision before it is durable, and nobody decides alone after having said yes: two phases and two
# logs.

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterator
from functools import partial
from typing import Any, Protocol

from broker.core.address import Routing
from broker.core.commands import Command, Decide, Inquire, Prepare, Publish, Transact
from broker.core.effects import Done, Effect, Move, Refused, Turn
from broker.core.errors import Code, RefusedError
from broker.core.message import Blob, Run
from broker.core.reasons import CALM
from broker.engine.engine import Engine
from broker.engine.publishing.prepared import CHECKED, PIECE, units
from broker.engine.state.limits import Asked

from ..bodies.body_transfer import BodyPieces, BodySink, Carry
from .cross_slot_tx import CrossSlotTx, Parts
from .transact import merge

log = logging.getLogger("stampede.owner")

RETRY_S = 1.0
"""How soon what could not be asked is asked again, and how often prepared transactions are looked at."""
LAST_RETRY_S = 30.0
"""The same for a message on its way to another address, after some tries: a large body is read again each time."""
ANSWERED_S = 8 * RETRY_S
"""After half of that, or up to all of it, who rejected a message is answered, though it is still on its way."""
SESSION = 1
"""This process asks under this number at its own port."""
PASSING = (Code.OWNER_UNAVAILABLE, Code.OWNER_STOPPED, Code.OWNER_MOVED, Code.DISK_FULL)
"""Refusals that time may heal. OWNER_MOVED: a large body that was carried is with an owner that leads no more."""

AGAIN_S = 0.05
"""So soon a participant is asked again whose consumers' edge has not found its new leader yet."""

Then = Callable[[Refused | None], None]


class DiskState(Protocol):
    """What it needs of the journal."""

    @property
    def full(self) -> bool: ...
    def epoch(self, slot: int) -> int: ...


class ShardTurns(Protocol):
    """What it needs of the shard."""

    engines: dict[int, Engine]

    @property
    def journal(self) -> DiskState: ...
    def in_turn(self, slot: int, step: Callable[[Engine, Turn], Iterator[None] | None]) -> None: ...
    def when_ready(self, slot: int, callback: Callable[[], None]) -> None: ...
    def engine(self, slot: int) -> Engine: ...


class Coordinator:
    """`Crossing` for the shard of an owner, and the listener of its port.

    submit   the port's; `now_ms` the wall clock (only to see what has been in doubt for long)."""

    def __init__(
        self,
        shard: ShardTurns,
        submit: Callable[[list[Command]], bool],
        boot: str,
        now_ms: Callable[[], int],
        later: Callable[[float, Callable[[], None]], Any],
        open_body: Callable[[int, Blob], BodyPieces],
        new_body: Callable[[int, Callable[[], None]], BodySink],
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
        self._begun: list[tuple[Engine, Move]] = []
        self._waiting: list[tuple[Engine, Move]] = []
        """Moves that somebody waits for: of the last half of ANSWERED_S, and of the one before."""
        self._asked: dict[int, Then] = {}
        self._active: dict[object, CrossSlotTx] = {}
        """(slot, producer's number there) → its COMMIT."""
        self._inquiring: set[tuple[int, str]] = set()
        self._late: dict[str, Transact] = {}
        """COMMITs that were replayed when they were decided, but not carried out by everybody yet."""

    # ── what the shard hands over ──────────────────────────────────────────────────────────────────

    def transact(self, command: Transact, turn: Turn) -> Iterator[None]:
        """A COMMIT with parts in several slots. One that is replayed while it is under way is answered once. In pieces:
        between them nothing may happen in this owner's slots."""
        key = command.dedup
        engine = self._shard.engine(command.slot)
        if key is not None:
            active = self._active.get((command.slot, key))
            # An edge repeats what was not answered. With another engine here, an earlier life of the slot is meant,
            # which answers nobody.
            if active is not None and active.engine is engine:
                return
            # Carried out before: the same answer, not a second time (I6).
            if engine.duplicate(key):
                self._again(engine, command, key, turn)
                return
        own: Parts = [part for part in command.parts if part.slot == command.slot]
        others: dict[int, Parts] = {}
        for part in command.parts:
            if part.slot != command.slot:
                others.setdefault(part.slot, []).append(part)

        def again(led: Engine) -> bool:
            return any(isinstance(part, Publish) and led.repeated(part) for part in own)

        def check(led: Engine) -> Iterator[None]:
            # _AMQ_DUPL_ID may name a message that is known already; asked at both times, since that may change
            # between them.
            repeated = again(led)  # then nothing is published, and needs no room
            if self._shard.journal.full and not repeated and any(isinstance(part, Publish) for part in own):
                raise RefusedError(Code.DISK_FULL, "retry when consumers have freed space")
            asked: Asked = {}
            left = CHECKED
            for part in own:
                if left <= 0:
                    left = CHECKED
                    yield
                left -= units(part)
                if not (repeated and isinstance(part, Publish)):
                    led.check(part, asked)

        def apply(led: Engine, group: Turn) -> Iterator[None]:
            repeated = again(led)
            left, most = PIECE, group.most
            for part in own:
                if left <= 0 or group.work > most:
                    left, most = PIECE, group.work + group.most
                    yield
                left -= units(part)
                if isinstance(part, Publish):
                    if repeated:
                        continue
                    part.within()
                led.handle(part, group)
                if led.more:
                    yield from led.rest()
            if key is not None:
                led.remember(key, group)

        def done(led: Engine, turn: Turn) -> None:
            led.after(Done(command.session, command.seq), turn)
            self._active.pop((command.slot, key), None)

        def refused(why: Refused) -> None:
            error = RefusedError(why.code, why.detail)
            self._in_turn(engine, lambda turn: engine.refuse(command, error, turn))

        try:
            yield from check(engine)
        except RefusedError as error:
            # Nobody has been asked yet, so nobody holds anything.
            engine.refuse(command, error, turn)
            return
        tx, epoch = self._name(command.slot, key), self._epoch(engine)
        self._begin(CrossSlotTx(tx, engine, others, check, apply, done, refused, epoch, key))

    def move(self, move: Move, slot: int) -> None:
        """A dead letter for an address in `slot`."""
        engine = self._shard.engine(move.slot)
        if move.heard is not None:
            if not self._begun and not self._waiting:
                self._later(ANSWERED_S / 2, self._answer)
            self._begun.append((engine, move))
        self._carry(engine, move, slot)

    def _answer(self) -> None:
        """Who rejected what is still on its way is answered: its owner is there, perhaps, and does not answer."""
        late, self._waiting, self._begun = self._waiting, self._begun, []
        if self._waiting:
            self._later(ANSWERED_S / 2, self._answer)
        for engine, move in late:
            if self._leads(engine):
                self._waits(engine, move)

    def _carry(self, engine: Engine, move: Move, slot: int, patience: float = RETRY_S) -> None:
        """Its large body first. One that cannot be read here waits, tried ever more rarely: the next leader may have
        a good copy of it."""
        # The large body takes seconds; the slot may be led elsewhere by now. The message stays where it is: moved and
        # settled are one record, which has not been written.
        if not self._leads(engine):
            return  # the next leader finds the message where it was
        blob = move.run.blob
        if blob is None:
            self._move(engine, move, slot, move.run, patience)
            return

        def carried(there: Blob | None, why: str) -> None:
            if there is None:
                level = logging.WARNING if carry.unread and patience == RETRY_S else logging.INFO
                log.log(level, "a large dead letter for %s waits: %s", move.address, why)
                following = min(2 * patience, LAST_RETRY_S) if carry.unread else RETRY_S
                self._waits(engine, move)
                self._later(patience, partial(self._carry, engine, move, slot, following))
            elif not self._leads(engine):
                carry.drop()  # nobody will publish it
            else:
                # A copy of the run under the body's number at the other owner; the original still names the file
                # here.
                run = move.run.cut(slice(None))
                run.stored_in(there)
                self._move(engine, move, slot, run, patience)

        carry = Carry(self._open_body(move.slot, blob), partial(self._new_body, slot), carried)

    def _waits(self, engine: Engine, move: Move) -> None:
        """Who rejected it is answered now."""
        if move.heard is not None:
            self._in_turn(engine, lambda turn: engine.waits(move, turn))

    def _move(self, engine: Engine, move: Move, slot: int, run: Run, patience: float) -> None:
        """What nobody takes now waits where it is, and is tried ever more rarely."""
        if not self._leads(engine):
            return
        publish = Publish(slot, 0, 0, move.address, move.routing, run, move.to, move.create)

        def refused(why: Refused) -> None:
            # A dead letter must not be lost because its address is full: it waits, with its delivery count, where it
            # is.
            if why.code in PASSING or why.code is Code.ADDRESS_FULL:
                level = logging.WARNING if patience == 4 * RETRY_S else logging.DEBUG
                log.log(
                    level, "messages for %s wait, and are tried again: %s", move.address, why.detail or why.code.text
                )
                # An owner that is away has a successor in a few seconds (_answer); room may take days.
                if why.code in (Code.ADDRESS_FULL, Code.DISK_FULL):
                    self._waits(engine, move)
                self._later(patience, partial(self._carry, engine, move, slot, min(2 * patience, LAST_RETRY_S)))
                return
            if why.code is Code.ROUTING_MISMATCH and move.to is not None and move.routing is not Routing.UNSET:
                move.by_type()  # somebody has made that queue, of another type
                self._move(engine, move, slot, run, patience)
                return
            # For good reasons only (no such address and none may be made): else it would be tried for ever.
            log.warning("message dropped: %s does not take it (%s)", move.address, why.detail or why.code.text)
            self._in_turn(engine, lambda turn: engine.moved(move, turn))

        def own(led: Engine, group: Turn) -> Iterator[None]:
            led.moved(move, group)
            yield from ()

        tx, epoch = self._name(move.slot), self._epoch(engine)
        self._begin(CrossSlotTx(tx, engine, {slot: [publish]}, _fine, own, _nothing, refused, epoch))

    def resume(self, engine: Engine) -> None:
        """The slot is led here from now on: what its log has decided is told to the participants again."""
        # Told again to all of them, also those that have heard it: a participant that knows nothing of it answers
        # like one that has done it.
        for tx, participants in engine.undecided():
            self._tell(engine.number, tx, participants, _nothing)

    def poll(self) -> None:
        """Looks for prepared transactions whose coordinator has been silent. Call every RETRY_S."""
        now = self._now_ms()
        # What an engine that is gone had under way answers nobody: the edge asks the next leader.
        self._active = {key: crossing for key, crossing in self._active.items() if self._leads(crossing.engine)}
        self._late = {tx: late for tx, late in self._late.items() if late.slot in self._shard.engines}
        for engine in list(self._shard.engines.values()):
            for tx, coordinator in engine.in_doubt(now):
                what = (engine.number, tx)
                # One question at a time for each transaction, however long its coordinator is silent.
                if what not in self._inquiring:
                    self._inquiring.add(what)
                    self._ask(partial(self._inquire, coordinator, tx), partial(self._verdict, engine.number, tx))

    def _leads(self, engine: Engine) -> bool:
        return self._shard.engines.get(engine.number) is engine

    def _in_turn(self, engine: Engine, step: Callable[[Turn], Iterator[None] | None]) -> None:
        """In a turn of this very engine, or not at all."""
        self._shard.in_turn(engine.number, lambda led, turn: step(turn) if led is engine else None)

    # ── first phase ────────────────────────────────────────────────────────────────────────────────

    def _name(self, slot: int, key: tuple[int, int] | None = None) -> str:
        """A COMMIT that is replayed to another leader finds its own prepared parts under the same name."""
        # Without a key (a dead letter) the name has our boot id and a number: nobody else will ever use it, nor need
        # to.
        if key is not None:
            return f"{slot}.{key[0]:x}.{key[1]}"
        self._count += 1
        return f"{slot}.{self._boot}.{self._count}"

    def _begin(self, crossing: CrossSlotTx) -> None:
        if crossing.key is not None:
            self._active[crossing.slot, crossing.key] = crossing
        # Before anybody is asked: an inquiry that comes now must not hear "no such transaction", which would be a
        # "no".
        crossing.engine.deciding(crossing.tx)
        for slot in crossing.others:
            self._ask_prepare(crossing, slot)

    def _epoch(self, engine: Engine) -> int:
        return self._shard.journal.epoch(engine.number)

    def _ask_prepare(self, crossing: CrossSlotTx, slot: int) -> None:
        if self._leads(crossing.engine):
            self._ask(partial(self._prepare, crossing, slot), partial(self._prepared, crossing, slot))

    @staticmethod
    def _prepare(crossing: CrossSlotTx, slot: int, seq: int) -> Command:
        return Prepare(slot, SESSION, seq, crossing.tx, crossing.slot, crossing.others[slot], crossing.epoch)

    def _prepared(self, crossing: CrossSlotTx, slot: int, refused: Refused | None) -> None:
        # After a fail-over the edge attaches its consumers again some moments later than it commits: until then an
        # ACK finds no delivery to settle. Asked again some times, instead of refusing a COMMIT that is right.
        if refused is not None and refused.code is Code.OWNER_UNAVAILABLE and crossing.may_wait(slot):
            self._later(AGAIN_S, partial(self._ask_prepare, crossing, slot))
            return
        # Whoever did not answer may have heard it.
        if not crossing.answered(slot, refused, refused is not None and refused.code in PASSING):
            return
        if crossing.failed is not None:
            self._in_turn(crossing.engine, partial(self._abort, crossing, crossing.failed))
        else:
            self._in_turn(crossing.engine, partial(self._decide, crossing))

    # ── second phase ───────────────────────────────────────────────────────────────────────────────

    def _decide(self, crossing: CrossSlotTx, turn: Turn) -> Iterator[None]:
        """Everybody can: this slot's part and the decision become one log record. In pieces: a part may be 1,000."""
        engine = crossing.engine
        # A group of its own: own part and decision are one record with one checksum, so a crash leaves both or
        # neither.
        group = turn.part()
        participants = list(crossing.others)
        try:
            # Once more: while the others prepared, somebody else may have filled the address, or settled the message.
            yield from crossing.check(engine)
            engine.decide(crossing.tx, participants, group)
        except RefusedError as error:
            self._abort(crossing, Refused(0, 0, error.code, error.detail), turn)
            return
        crossing.is_decided()
        yield from crossing.own(engine, group)
        # From here on it happens. Nothing below can fail.
        merge(group, turn)
        # Persist, then tell. A decision that is told and then lost with its leader would be committed at 7 and
        # unknown at 3.
        self._shard.when_ready(
            crossing.slot, partial(self._tell, crossing.slot, crossing.tx, participants, crossing.is_done)
        )

    def _again(self, engine: Engine, command: Transact, key: tuple[int, int], turn: Turn) -> None:
        """A COMMIT that was taken before is answered like the first time, and no earlier."""
        tx = self._name(command.slot, key)
        # Its answer means "it has happened everywhere": what the session sends next must be behind it (C61).
        if any(tx == under_way for under_way, _ in engine.undecided()):
            self._late[tx] = command
        else:
            engine.again(command, turn)

    def _tell(self, slot: int, tx: str, participants: list[int], done: Callable[[Engine, Turn], None]) -> None:
        left = set(participants)

        def over(engine: Engine, turn: Turn) -> None:
            done(engine, turn)
            # The edge asked anew; the first asking has gone with the leader that heard it.
            if (late := self._late.pop(tx, None)) is not None:
                engine.again(late, turn)
            engine.forget(tx, turn)

        def answered(participant: int, refused: Refused | None) -> None:
            # Refused for good is impossible once it has prepared; so this is an owner that is away, or new. Again,
            # without end.
            if refused is not None:
                self._later(RETRY_S, partial(tell, participant))
                return
            left.discard(participant)
            if not left:
                self._shard.in_turn(slot, over)

        def tell(participant: int) -> None:
            self._ask(partial(self._decision, participant, tx, True, False), partial(answered, participant))

        for participant in participants:
            tell(participant)

    def _abort(self, crossing: CrossSlotTx, why: Refused, turn: Turn) -> None:
        crossing.is_aborted(why)
        self._active.pop((crossing.slot, crossing.key), None)
        # A "no" must be as durable as a "yes" here: the COMMIT may be replayed to another leader of this slot under
        # the same name, and with the participants still prepared that one could decide "yes" after somebody has heard
        # "no".
        if crossing.key is not None and crossing.holding:
            crossing.engine.abort(crossing.tx, turn)
            self._shard.when_ready(crossing.slot, partial(self._tell_aborted, crossing))
        else:  # nobody holds anything of it, or nobody else will ever use its name
            crossing.engine.abandon(crossing.tx)
            self._tell_aborted(crossing)
        crossing.refused(why)

    def _tell_aborted(self, crossing: CrossSlotTx) -> None:
        """Nothing waits for it: a participant that misses it inquires, and hears the same."""
        # What it has acknowledged comes again: because a disk is full, nobody has tried it in vain.
        calm = crossing.failed is not None and crossing.failed.code.reason in CALM
        for slot in crossing.holding:
            self._ask(partial(self._decision, slot, crossing.tx, False, calm), _ignore)

    @staticmethod
    def _decision(slot: int, tx: str, commit: bool, calm: bool, seq: int) -> Command:
        return Decide(slot, SESSION, seq, tx, commit, calm)

    # ── in doubt ───────────────────────────────────────────────────────────────────────────────────

    @staticmethod
    def _inquire(slot: int, tx: str, seq: int) -> Command:
        return Inquire(slot, SESSION, seq, tx)

    def _verdict(self, slot: int, tx: str, refused: Refused | None) -> None:
        self._inquiring.discard((slot, tx))
        if refused is not None and refused.code is not Code.NO_SUCH_TRANSACTION:
            return  # nobody to ask: the next poll tries again
        # Done: it was decided. NO_SUCH_TRANSACTION: it was not, and never will be, for its leader wrote nothing
        # (presumed abort). Why not is told by nobody: most of the time its leader has died, so nobody has failed.
        decision = Decide(slot, 0, 0, tx, refused is None, calm=True)
        self._shard.in_turn(slot, lambda engine, turn: engine.in_pieces(decision, turn))

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


def _fine(_: Engine) -> Iterator[None]:
    """It can always be done."""
    yield from ()


def _nothing(_: Engine, __: Turn) -> None:
    """Nobody asked for an answer."""
