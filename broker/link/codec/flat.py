"""Commands and effects between processes of one release on one machine (`serve --edges`): flat, without protobuf.

A message is what link.proto says, and in front of it, as its field 15, MessagePack of what there is most of: Publish,
Settle, Grant, Barrier one way, runs, deliveries and answers the other; whatever is rarer stands among them in its
protobuf. Building and reading protobuf objects took 80 µs of a message that comes alone; this takes ten (ADR 21).

Rule: both ends are of one release, so nothing is ever added here with care; all else is as in command_codec.py and
effect_codec.py: what is read is checked before anything of it is used.
"""

# Example. The Publish of command_codec.py's head, in batch 7:
#     7a 2c            field 15, 44 bytes of MessagePack follow
#     91               an array of one command
#     9c 00 03 07 cd1503 a6"orders" 01 c0 c3 c3 00 00   Publish, slot 3, session 7, seq 5379, address, ANYCAST, no
#                      queue, create, dedup, neither ttl nor delay; then its run:
#     9b c404"k:v␊" 91 c404"␊hi␀" 01 04 00 00 00 00 00 c0 c0   lines, one record, DURABLE, priority 4, no ids yet
#     08 07            protobuf again: Up.batch = 7
# No shorter than protobuf's form: what it saves is the objects. A run of messages 4 and 5 that goes to consumers 8
# and 9 stands in Down once (first 4), with [0, [8, 9], [0, 0], [14, 14]]: deliveries of run 0, at 14 bytes of credit.

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any, Final, TypeVar

import msgspec
from google.protobuf.message import DecodeError
from google.protobuf.message import Message as ProtobufMessage

from broker.core.commands import Barrier, Grant, Publish, Settle
from broker.core.effects import AddressBlocked, BrowseEnd, ConsumerClosed, Deliver, Done, Refused
from broker.core.ids import SLOTS
from broker.core.message import BLOB, NO_IDS, PART, Blob, Run
from broker.rpc.v1 import link_pb2 as pb

from .codec import NUMBER_BITS, NUMBER_MASK, SLOT_BITS, SlotState, Unknown, malformed
from .command_codec import OUTCOMES, ROUTINGS, LinkCommand, put_command, read_commands
from .effect_codec import LinkEffect, effect_message, read_effects

MARK: Final = 0x7A
"""Field 15, bytes; no field that comes first in a message of link.proto."""
PUBLISH, SETTLE, GRANT, BARRIER = range(4)
DELIVERIES, DONES = range(2)
M = TypeVar("M", bound=ProtobufMessage)
Natural = Annotated[int, msgspec.Meta(ge=0)]
Slot = Annotated[int, msgspec.Meta(ge=0, lt=SLOTS)]
Number = Annotated[int, msgspec.Meta(ge=0, le=NUMBER_MASK)]
"""Of a session or consumer."""
_encode = msgspec.msgpack.Encoder().encode


class _Run(msgspec.Struct, array_like=True):
    """first, ids: as in link.proto. blob: its id and length."""

    lines: bytes
    records: list[bytes]
    flags: Natural
    priority: Annotated[int, msgspec.Meta(ge=0, le=9)]
    expires: int
    time: int
    attempts: int
    due: int
    first: int
    ids: list[int] | None
    blob: tuple[int, int] | None


class _Publish(msgspec.Struct, array_like=True, tag=PUBLISH):
    slot: Slot
    session: Number
    seq: Natural
    address: str
    routing: Natural
    queue: str | None
    create: bool | str
    dedup: bool
    ttl: Natural
    delay: int
    run: _Run


class _Settle(msgspec.Struct, array_like=True, tag=SETTLE):
    slot: Slot
    session: Number
    seq: Natural
    consumer: Number
    ids: list[int]
    outcome: int
    delay: int


class _Grant(msgspec.Struct, array_like=True, tag=GRANT):
    slot: Slot
    consumer: Number
    nbytes: Natural


class _Barrier(msgspec.Struct, array_like=True, tag=BARRIER):
    slot: Slot
    session: Number
    seq: Natural


class _Deliveries(msgspec.Struct, array_like=True, tag=DELIVERIES):
    consumers: list[Number]
    runs: list[Natural]
    costs: list[int]


class _Dones(msgspec.Struct, array_like=True, tag=DONES):
    sessions: list[Number]
    seqs: list[int]


_ups = msgspec.msgpack.Decoder(list[_Publish | _Settle | _Grant | _Barrier | bytes]).decode
_downs = msgspec.msgpack.Decoder(tuple[list[_Run], list[_Deliveries | _Dones | bytes]]).decode


# ── the message ────────────────────────────────────────────────────────────────────────────────────


def joined(flat: bytes, rest: bytes) -> bytes:
    """One message of both."""
    size = len(flat)
    head = bytearray((MARK,))
    while size > 0x7F:
        head.append(size & 0x7F | 0x80)
        size >>= 7
    head.append(size)
    return b"".join((head, flat, rest))


def parted(data: bytes, kind: type[M]) -> tuple[memoryview | None, M]:
    """What is flat in it (None: nothing), and the rest. Raises ProtocolViolation."""
    flat: memoryview | None = None
    try:
        if data[:1] == b"z":
            size = shift = 0
            at = 1
            while (byte := data[at]) > 0x7F and shift < 35:
                size |= (byte & 0x7F) << shift
                shift += 7
                at += 1
            at += 1
            end = at + (size | byte << shift)
            if end > len(data):
                raise malformed("a message that is cut")
            flat = memoryview(data)[at:end]
            data = data[end:]
        return flat, kind.FromString(data)
    except (DecodeError, IndexError) as error:
        raise malformed(f"not a message of the link ({error})") from error


# ── commands ───────────────────────────────────────────────────────────────────────────────────────


def put_flat(commands: Sequence[LinkCommand]) -> bytes:
    """Raises ValueError, TypeError or OverflowError where a number fits no field."""
    out: list[Any] = []
    for command in commands:
        kind = type(command)
        if kind is Publish:
            out.append((
                PUBLISH, command.slot, command.session & NUMBER_MASK, command.seq, command.address, command.routing,  # type: ignore[union-attr]
                command.queue, command.create, command.dedup is not None, command.ttl, command.delay,  # type: ignore[union-attr]
                _run(command.run),  # type: ignore[union-attr]
            ))  # fmt: skip
        elif kind is Settle:
            out.append((
                SETTLE, command.slot, command.session & NUMBER_MASK, command.seq, command.consumer & NUMBER_MASK,  # type: ignore[union-attr]
                list(command.ids), command.outcome.value, command.delay,  # type: ignore[union-attr]
            ))  # fmt: skip
        elif kind is Grant:
            out.append((GRANT, command.slot, command.consumer, command.nbytes))  # type: ignore[union-attr]
        elif kind is Barrier:
            out.append((BARRIER, command.slot, command.session, command.seq))  # type: ignore[union-attr]
        else:
            up = pb.Up()
            put_command(command, up)
            out.append(up.SerializeToString())
    return _encode(out)


def _run(run: Run) -> tuple[Any, ...]:
    ids, first = run.ids, 0
    listed: list[int] | None = None
    if ids:
        if type(ids) is range and ids.step == 1:
            first = ids[0]
        else:
            listed = list(ids)
    blob = run.blob
    return (
        run.lines, run.records, run.flags & ~PART, run.priority, run.expires, run.time, run.attempts, run.due, first,
        listed, None if blob is None else (blob.id, blob.length),
    )  # fmt: skip


def read_flat(flat: memoryview, token: int) -> list[LinkCommand | Unknown]:
    """As read_commands(). Raises ProtocolViolation: then none of them may be used."""
    commands: list[LinkCommand | Unknown] = []
    above = token << NUMBER_BITS
    try:
        for each in _ups(flat):
            kind = type(each)
            if kind is _Publish:
                commands.append(_publish(each, token, above))
            elif kind is bytes:
                commands += read_commands(pb.Up.FromString(each), token)
            else:
                commands.append(_other(each, above))
    except (msgspec.DecodeError, DecodeError, IndexError, KeyError, ValueError) as error:
        raise malformed(f"commands that are none ({error})") from error
    return commands


def _publish(told: Any, token: int, above: int) -> Publish:
    session, seq = told.session, told.seq
    publish = Publish(
        told.slot, above | session if session else 0, seq, told.address, ROUTINGS[told.routing], _read_run(told.run),
        told.queue, told.create, (token, seq >> SLOT_BITS) if told.dedup else None,
    )  # fmt: skip
    if told.ttl or told.delay:
        publish.lasts(told.ttl, told.delay)
    return publish


def _other(told: Any, above: int) -> LinkCommand:
    kind = type(told)
    if kind is _Settle:
        return Settle(
            told.slot, above | told.session, told.seq, above | told.consumer, told.ids, OUTCOMES[told.outcome],
            told.delay,
        )  # fmt: skip
    if kind is _Grant:
        return Grant(told.slot, above | told.consumer, told.nbytes)
    return Barrier(told.slot, above | told.session, told.seq)


def _read_run(told: _Run) -> Run:
    """The run. Raises ProtocolViolation for one that contradicts itself."""
    records, lines, flags = told.records, told.lines, told.flags
    count = len(records)
    if not count:
        raise malformed("a run without messages")
    ids: Sequence[int] = NO_IDS
    if told.first:
        ids = range(told.first, told.first + count)
    elif told.ids:
        ids = told.ids
        if len(ids) != count:
            raise malformed(f"a run of {count} messages with {len(ids)} ids")
    nbytes = (len(records[0]) if count == 1 else sum(map(len, records))) + count * len(lines)
    blob = None
    if flags & BLOB:
        if told.blob is None or count != 1:
            raise malformed("a large message without its body")
        blob = Blob(*told.blob)
        nbytes += blob.length + 1
    return Run(
        ids, lines, records, nbytes, flags, told.priority, told.expires, told.time, told.attempts, 0, blob, told.due
    )


# ── effects ────────────────────────────────────────────────────────────────────────────────────────


class FlatBuilder:
    """As effect_codec.DownBuilder."""

    __slots__ = ("_effects", "_index", "_last", "_runs", "_said", "count", "nbytes")

    def __init__(self) -> None:
        self.nbytes = 0
        self.count = 0
        self._index: dict[int, int] = {}
        self._runs: list[Run] = []
        self._said: list[tuple[Any, ...]] = []
        self._effects: list[Any] = []
        self._last: Any = None
        """Of the effects, if neighbours can join it."""

    def deliver(self, consumer: int, run: Run, cost: int) -> None:
        index = self._index.get(id(run))
        if index is None:
            index = self._index[id(run)] = len(self._runs)
            self._runs.append(run)
            self._said.append(_run(run))
            self.nbytes += run.nbytes
        last = self._last
        if last is None or last[0] != DELIVERIES:
            last = self._last = (DELIVERIES, [], [], [])
            self._effects.append(last)
        last[1].append(consumer & NUMBER_MASK)
        last[2].append(index)
        last[3].append(cost)
        self.count += 1

    def done(self, session: int, seq: int) -> None:
        last = self._last
        if last is None or last[0] != DONES:
            last = self._last = (DONES, [], [])
            self._effects.append(last)
        last[1].append(session & NUMBER_MASK)
        last[2].append(seq)
        self.count += 1

    def other(self, effect: Refused | ConsumerClosed | BrowseEnd | AddressBlocked | SlotState) -> None:
        self._last = None
        self._effects.append(pb.Down(effects=[effect_message(effect)]).SerializeToString())
        self.count += 1

    def finish(self) -> pb.Down:
        """What is not flat; nothing can be added any more."""
        return pb.Down()

    def flat(self) -> bytes:
        """What is; b"": nothing."""
        return _encode((self._said, self._effects)) if self.count else b""


def read_flat_effects(flat: memoryview) -> list[LinkEffect]:
    """As read_effects(). Raises ProtocolViolation."""
    effects: list[LinkEffect] = []
    try:
        told, said = _downs(flat)
        runs = [_read_run(run) for run in told]
        for each in said:
            kind = type(each)
            if kind is _Deliveries:
                for consumer, index, cost in zip(each.consumers, each.runs, each.costs, strict=True):  # type: ignore[union-attr]
                    run = runs[index]
                    if not run.ids:
                        raise malformed("a delivery without ids")
                    effects.append(Deliver(consumer, run, cost))
            elif kind is _Dones:
                effects += [Done(*one) for one in zip(each.sessions, each.seqs, strict=True)]  # type: ignore[union-attr]
            else:
                effects += read_effects(pb.Down.FromString(each))
    except (msgspec.DecodeError, DecodeError, IndexError, ValueError) as error:
        raise malformed(f"effects that contradict each other: {error}") from error
    return effects
