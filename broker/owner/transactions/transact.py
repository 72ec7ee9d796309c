"""What touches several messages at once: COMMIT, dead letters, expiry.

Rule: everything is checked before anything is changed, and everything is one log group. What lies in slots of other
owners as well is handed to `Crossing`. Must not know the journal's or the network's ways.
"""

# Example. COMMIT of: SEND to /queue/a (slot 3), ACK of 5 in /queue/b (slot 8), all slots here.
#     check    both could be done now; what the SEND would take of a's limits is added up in `asked`, so ten SENDs
#              that fit one by one and not together are refused together
#     apply    into a group of its own (turn.part): slot 3 gets the message, slot 8 settles
#     merge    the group's records become one GROUP record with one checksum: a crash leaves both or none (C54)
#     receipt  engine.after: behind the commit that has the group
# A check that passes makes the applying safe: nothing else happens in these slots in between.

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from functools import partial
from typing import TYPE_CHECKING, Protocol

from broker.core.address import Routing
from broker.core.commands import Publish, Transact
from broker.core.effects import Done, Move, Turn
from broker.core.errors import Code, RefusedError
from broker.core.ids import slot_of
from broker.engine.publishing.prepared import CHECKED, PIECE, units
from broker.engine.state.limits import Asked
from broker.engine.state.log_group import grouped

if TYPE_CHECKING:
    from broker.engine.engine import Engine

    from ..commit.release_gate import Touched

log = logging.getLogger("stampede.owner")


class Crossing(Protocol):
    """Carries out what touches slots of several owners (coordinator.py)."""

    def transact(self, command: Transact, turn: Turn) -> Iterator[None]: ...
    def move(self, move: Move, slot: int) -> None: ...


class Room(Protocol):
    """Where messages are kept: has it room?"""

    @property
    def full(self) -> bool: ...


class Engines(Protocol):
    """The slots of this owner, as far as several of them are touched at once (shard.py)."""

    @property
    def crossing(self) -> Crossing | None: ...
    @property
    def journal(self) -> Room: ...
    def engine(self, slot: int) -> Engine: ...
    def flush(self, engine: Engine, turn: Turn) -> None: ...
    def in_turn(self, slot: int, step: Callable[[Engine, Turn], Iterator[None] | None]) -> None: ...


def large(command: Transact) -> bool:
    """Is it more than may be carried out in one step."""
    parts = command.parts
    return len(parts) > 1 and (len(parts) > PIECE or sum(map(units, parts)) > PIECE)


def published(command: Transact) -> list[Publish]:
    """The messages of it."""
    return [part for part in command.parts if type(part) is Publish]


def wary(shard: Engines, command: Transact, alone: bool) -> list[Engine]:
    """Where its messages have to be looked at first, as far as this process has their slots: all (`alone`), or one."""
    here = dict.fromkeys([part.slot for part in published(command)]) if alone else {command.slot: None}
    return [engine for slot in here if (engine := shard.engine(slot)).wary]


def transacting(shard: Engines, command: Transact, turn: Turn, touched: Touched) -> Iterator[None]:
    """All parts or none: checks every part first, then applies them into one log group. In pieces, where it is much:
    between them nothing may happen in a slot of this owner, half of it is seen by nobody."""
    # Slots of other owners: two phases instead of one record.
    if shard.crossing is not None and any(part.slot != command.slot for part in command.parts):
        touched[shard.engine(command.slot)] = None
        yield from shard.crossing.transact(command, turn)
        return
    first = shard.engine(command.slot)
    touched[first] = None
    # An edge that got no answer repeats the COMMIT with its number.
    if command.dedup is not None and first.duplicate(command.dedup):
        first.again(command, turn)
        return
    # One message with a known _AMQ_DUPL_ID: then this is a COMMIT that was sent before, and none of its messages is
    # published again; its ACKs still count.
    repeated = any(type(part) is Publish and shard.engine(part.slot).repeated(part) for part in command.parts)
    asked: Asked = {}
    left = CHECKED
    try:
        for part in command.parts:
            if left <= 0:
                left = CHECKED
                yield
            left -= units(part)
            if type(part) is Publish:
                if repeated:
                    continue  # what is not published again needs no room
                # Refused as a whole. A COMMIT of ACKs only makes room, and goes on.
                if shard.journal.full:
                    raise RefusedError(Code.DISK_FULL, "retry when consumers have freed space")
            shard.engine(part.slot).check(part, asked)
    except RefusedError as refused:
        first.refuse(command, refused, turn)
        return
    group = turn.part()
    # Small ones are one step, but for what they make others do: a part may wake dozens of wildcards.
    left, most = 0 if large(command) else PIECE, group.most
    for part in command.parts:
        if left <= 0 or group.work > most:
            left, most = PIECE, group.work + group.most
            yield
        left -= units(part)
        if type(part) is Publish:
            if repeated:
                continue
            # It was checked against the limits, together with its neighbours: they are not asked a second time.
            part.within()
        engine = shard.engine(part.slot)
        engine.handle(part, group)
        touched[engine] = None
        if engine.more:
            yield from engine.rest()
    if command.dedup is not None:
        # In the group: the number is durable exactly if what it stands for is. Numbers count in the slot that was
        # asked: in another one they are those of other transactions.
        first.remember(command.dedup, group)
    merge(group, turn)
    if command.seq:
        first.after(Done(command.session, command.seq), turn)


def much_moves(moves: list[Move]) -> bool:
    """Are these more than may be moved in one step."""
    return len(moves) > 1 and (len(moves) > PIECE or sum(map(_weight, moves)) > PIECE)


def _weight(item: Move) -> int:
    """What it costs: 8 µs, and 0.1 µs for each message; large ones are copied."""
    return 1 + (len(item.run.records) >> 6) + (item.run.nbytes >> 14)


def moving(shard: Engines, turn: Turn, touched: Touched) -> Iterator[None]:
    """The same as carry_moves(), in pieces: each of them is a group of its own, but they count together, and with what
    has made dead letters of them. What is handed out of it is at the turn's end."""
    left = PIECE
    while turn.moves:
        for item in turn.take_moves():
            if left <= 0:
                left = PIECE
                yield
            left -= _weight(item)
            _move(shard, item, turn, touched)


def carry_moves(shard: Engines, turn: Turn, touched: Touched) -> None:
    """All that the turn moves, and what comes of that. Handed out is together: once for each message would have those
    thousands who wait for copies in the same slot looked at as often."""
    while turn.moves:
        reached: Touched = {}
        for item in turn.take_moves():
            _move(shard, item, turn, reached)
        for engine in reached:
            shard.flush(engine, turn)
        touched.update(reached)


def _move(shard: Engines, item: Move, turn: Turn, reached: Touched) -> None:
    """A dead letter or an expired message: published and settled in one atomic group."""
    slot = slot_of(item.address)
    if shard.crossing is not None and slot != item.slot:
        shard.crossing.move(item, slot)
        return
    source, target = shard.engine(item.slot), shard.engine(slot)
    group = turn.part()
    publish = Publish(slot, 0, 0, item.address, item.routing, item.run, item.to, item.create)
    # The first message for thousands of wildcards: they get their queues some at a time, and it waits where it is.
    if target.drowsy and target.wake_some(publish, turn):
        shard.in_turn(item.slot, partial(_when_awake, target, publish, item))
        return
    # A target that does not take it at all: it is settled all the same, and said in the log, or it would expire or
    # fail again in every turn.
    if _fits(target, publish, item):
        target.handle(publish, group)
    source.moved(item, group)
    merge(group, turn)
    reached[source] = reached[target] = None


def _when_awake(target: Engine, publish: Publish, item: Move, led: Engine, turn: Turn) -> Iterator[None]:
    while target.wake_some(publish, turn):
        yield
    turn.moves.append(item)


def _fits(target: Engine, publish: Publish, item: Move) -> bool:
    """Does its new address take it; fits the command to what it finds there."""
    try:
        target.check(publish, {})
    except RefusedError as refused:
        if refused.code is Code.ADDRESS_FULL:
            publish.within()  # limits are for producers: here nobody waits, and nobody could be told
        elif refused.code is Code.ROUTING_MISMATCH and item.to is not None:
            publish.route(Routing.UNSET)  # somebody has made that queue, of another type
        else:
            log.warning("message dropped: %s does not take it (%s)", item.address, refused)
            return False
    return True


def merge(group: Turn, turn: Turn) -> None:
    """What the group appended becomes one log record of the turn."""
    turn.merge(group, grouped(group.appends[0].slot, group.appends) if group.appends else ())
