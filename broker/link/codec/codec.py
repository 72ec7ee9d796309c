"""Runs and envelopes as they travel between edges and owners, and what both directions share.

Rule: nothing per message but one entry in a list of bytes; whatever does not decode is refused as a whole before
anything of it is used. Must not know streams.
"""

# Numbers on the link. An owner serves many edges, each of which numbers its sessions and consumers from 1:
#     on the wire    session 5, in 40 bits
#     in the owner   token << 40 | 5: two edges' sessions cannot be confused, and an effect says by itself which edge
#                    it is for
#     a request      number 21 of slot 9 is 21 << 8 | 9: the answer finds channel and entry without a search
#     dedup          (token, 21): the engine keeps the last number of each token; a lower or equal one has happened

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from google.protobuf.message import DecodeError

from broker.core.errors import Code, ProtocolViolation
from broker.core.ids import SLOTS
from broker.core.message import BLOB, NO_IDS, PART, Blob, Run
from broker.rpc.v1 import link_pb2 as pb

PROTOCOL: Final = 1
"""Version in Hello: both sides must have the same."""
NUMBER_BITS: Final = 40
"""Sessions and consumers of one edge; above them an owner puts the edge's token."""
NUMBER_MASK: Final = (1 << NUMBER_BITS) - 1
# Multiples of an odd constant: tokens of different sequences of one edge, and of different edges, practically never
# meet.
_GOLDEN: Final = 0x1E3779B97F4A7C15
SLOT_BITS: Final = 8
"""A request's number on the link is `number << SLOT_BITS | slot`: its answer tells where it comes from."""
SLOT_MASK: Final = (1 << SLOT_BITS) - 1


def number_at_edge(number: int) -> int:
    """What the edge calls a session or consumer that has this number at an owner."""
    return number & NUMBER_MASK


def sequence(token: int, turn: int) -> int:
    """Producer token of an edge's sequence `turn` of numbers; 0: the one of its commands in order."""
    return (token + turn * _GOLDEN) % (1 << 63)


class Open:
    """Before any other command for a slot on a stream: the edge takes the slot to be led here in this epoch.

    told      said once more, behind all that an earlier owner knew of the edge.
    opening   the edge's number of it, said back with OPENED; 0: an edge of before."""

    __slots__ = ("epoch", "opening", "slot", "told")

    def __init__(self, slot: int, epoch: int, told: bool = False, opening: int = 0) -> None:
        self.slot = slot
        self.epoch = epoch
        self.told = told
        self.opening = opening


class Unknown:
    """A request that names something which this release does not know: it is refused, and nothing else with it.

    what   that, in words.    bodies   ids of the large bodies that it names."""

    __slots__ = ("bodies", "seq", "session", "slot", "what")

    def __init__(self, slot: int, session: int, seq: int, what: str, bodies: list[int]) -> None:
        self.bodies = bodies
        self.slot = slot
        self.session = session
        self.seq = seq
        self.what = what


class SlotState:
    """What an owner says of a slot (OPENED, MOVED, SERVING: see link.proto).

    opening   of OPENED, as the Open said; 0: an owner of before."""

    __slots__ = ("epoch", "opening", "slot", "state")

    def __init__(self, slot: int, epoch: int, state: int, opening: int = 0) -> None:
        self.slot = slot
        self.epoch = epoch
        self.state = state
        self.opening = opening


OPENED: Final = 1
MOVED: Final = 2
SERVING: Final = 3
CONGESTED: Final = 1
RELIEVED: Final = 2


# Made once, and compared as bytes: nothing else is sent on most streams of an idle cluster.
UP_PING: Final[bytes] = pb.Up(ping=True).SerializeToString()
DOWN_PING: Final[bytes] = pb.Down(ping=True).SerializeToString()
"""A heart-beat, as an idle stream brings it every ping_ms: it is known by its bytes, and nothing has to be decoded."""


def malformed(what: str) -> ProtocolViolation:
    """The error for bytes that are not what link.proto says."""
    return ProtocolViolation(Code.BAD_COMPONENT_MESSAGE, f"{what}; is it a Stampede component of this release?")


def decode_up(data: bytes) -> pb.Up:
    """Raises ProtocolViolation(BAD_COMPONENT_MESSAGE)."""
    try:
        up: pb.Up = pb.Up.FromString(data)
    except DecodeError as error:
        raise malformed(f"not an Up message ({error})") from error
    return up


def decode_down(data: bytes) -> pb.Down:
    """Raises ProtocolViolation(BAD_COMPONENT_MESSAGE)."""
    try:
        down: pb.Down = pb.Down.FromString(data)
    except DecodeError as error:
        raise malformed(f"not a Down message ({error})") from error
    return down


def check_slot(slot: int) -> int:
    """Raises ProtocolViolation for a number that is no slot."""
    if slot >= SLOTS:
        raise malformed(f"slot {slot} does not exist")
    return slot


def put_run(run: Run, out: pb.Run) -> None:
    """Fills `out`, which is empty. `position` stays at home; `nbytes` is counted again by who reads it."""
    ids = run.ids
    # Nearly always: a first id and a count in place of a list.
    in_a_row = type(ids) is range and ids.step == 1  # consumers that take turns get every second, third … id
    out.MergeFrom(
        pb.Run(
            lines=run.lines,
            flags=run.flags & ~PART,
            priority=run.priority,
            expires=run.expires,
            time=run.time,
            attempts=run.attempts,
            due=run.due,
            first=ids[0] if in_a_row and ids else 0,
            blob=None if run.blob is None else pb.Blob(id=run.blob.id, length=run.blob.length),
        )
    )
    out.records.extend(run.records)
    if not in_a_row:
        out.ids.extend(ids)


def read_run(message: pb.Run) -> Run:
    """The run in `message`. Raises ProtocolViolation for one that contradicts itself."""
    records = message.records[:]
    count = len(records)
    ids: Sequence[int] = NO_IDS
    if message.first:
        ids = range(message.first, message.first + count)
    elif message.ids:
        ids = message.ids[:]
        if len(ids) != count:
            raise malformed(f"a run of {count} messages with {len(ids)} ids")
    lines = message.lines
    nbytes = sum(map(len, records)) + count * len(lines)
    blob = None
    flags = message.flags
    if flags & BLOB:
        if not message.HasField("blob") or count != 1:
            raise malformed("a large message without its body")
        blob = Blob(message.blob.id, message.blob.length)
        nbytes += blob.length + 1
    # Checked here, at the border: behind it everybody may rely on it.
    if not count or message.priority > 9:
        raise malformed("a run without messages, or with an unknown priority")
    return Run(
        ids,
        lines,
        records,
        nbytes,
        flags,
        message.priority,
        message.expires,
        message.time,
        message.attempts,
        0,
        blob,
        message.due,
    )
