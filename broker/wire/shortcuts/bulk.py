"""Many like frames at once, by C-level splits instead of a loop over frames.

Three kinds: SENDs with one and the same block (SameBlock), SENDs whose blocks differ in one value only
(OneValue), and plain ACKs (read_acks).

Rule: a bulk step takes complete frames only, and only what the frame-by-frame path would take with the same
result; at the first doubt it stops, and the slower path goes on from there. Pieces grow while they
succeed and shrink when they do not, so that wasted work stays in proportion to what was taken.
"""

# Example. A client sends 1,000 times SEND with destination:/queue/a, content-length:5 and five octets; one read holds
# 900 frames and a half. The first frame goes through the reader; KnownSends.learn keeps its block in SameBlock (size
# 6).
#     take    the block stands at pos, and NUL where 5 octets later it should: worth a bulk step, of 16 frames at
#             first
#     _split  chunk.split(block) gives 16 records in one C call; none is longer than 6 and together they have 16 × 6
#             octets, so each has 6; the stride finds NUL behind each: 16 frames for a few C calls
#     then    32, 64 … 4,096 frames a step while it goes well; the half frame is less than one, so take says -1 and
#             the connection keeps it until the rest has come
# A body that holds the block's own bytes gives pieces of other lengths: _good counts how many records are whole,
# these are taken, and the next piece is as small as what went well.

from __future__ import annotations

from typing import Final

from ..events import Head
from ..heads import HeadFamily
from ..intake import SENDS_AS_ONE, Intake
from ..versions import Version

FIRST_PIECE: Final = 16
"""Frames looked at in the first step; doubles on success."""
LARGEST_PIECE: Final = 1 << 12
ACKS: Final = 1024
"""Plain ACKs taken at once: each is looked at."""
ACK: Final = b"ACK\nid:"
ROW: Final = 256
"""Bytes of ACKs that are worth a split, …"""
PIECE_OF_ACKS: Final = 16 * ACKS
"""… and of those that are split at once."""


class SameBlock:
    """The block of the last SEND: `block` raw, `head` whole, `size` of body and NUL."""

    __slots__ = ("_piece", "block", "head", "size")

    def __init__(self, block: bytes, head: Head, size: int) -> None:
        self.block = block
        self.head = head
        self.size = size
        self._piece = FIRST_PIECE

    def set(self, block: bytes, head: Head, size: int) -> None:
        """Another block was the last one."""
        self.block = block
        self.head = head
        self.size = size

    def read(self, intake: Intake) -> int:
        """Takes frames from intake.pos on. Returns the number of empty lines passed, or -1 if nothing was taken."""
        data, pos = intake.data, intake.pos
        if not data.startswith(self.block, pos):
            return -1
        frame = len(self.block) + self.size
        # The last octet of the frame must be the NUL. Whether a content-length tells the truth is judged elsewhere.
        if pos + frame > intake.end or data[pos + frame - 1]:
            return -1
        # Clients write one LF behind NUL, or none; which one, the first frame shows. The others must do the same to
        # be taken here.
        gap = 1 if data.startswith(b"\n", pos + frame) else 0
        frame += gap
        count = min((intake.end - pos) // frame, self._piece)
        if count < 2:
            intake.add(self.head, 0, data[pos + len(self.block) : pos + frame - gap], None)
            intake.pos = pos + frame
            return gap
        return self._split(intake, frame, gap, count)

    def _split(self, intake: Intake, frame: int, gap: int, count: int) -> int:
        """Cuts `count` frames of `frame` octets, each with `gap` line feeds behind its NUL."""
        pos = intake.pos
        chunk = intake.data[pos : pos + count * frame]
        records = chunk.split(self.block)
        del records[0]
        size = self.size + gap
        # The pieces have count * size octets together, so when the longest has `size`, all have. NUL and line
        # feed then stand at a constant stride.
        if (
            len(records) == count
            and max(map(len, records)) == size
            and chunk[frame - 1 - gap :: frame] == bytes(count)
            and (not gap or chunk[frame - 1 :: frame] == b"\n" * count)
        ):
            self._piece = min(self._piece * 2, LARGEST_PIECE)
        else:
            # The bound on wasted work: what was split in vain is at most one piece, and the next one is no larger
            # than what was good. A client that alternates costs a factor, not a square.
            del records[self._good(records, size, gap) :]
            count = max(len(records), 1)
            self._piece = max(2, count)
            if not records:
                # The first frame is complete (read() has looked); its body holds the block, so it was split.
                records.append(chunk[len(self.block) : frame])
        if gap:
            records = [record[:-1] for record in records]
        intake.extend(self.head, 0, records, [], len(records) // SENDS_AS_ONE)
        intake.pos = pos + count * frame
        return count * gap

    @staticmethod
    def _good(records: list[bytes], size: int, gap: int) -> int:
        """How many of the first pieces are a body, NUL and gap. What follows each of those is the block again,
        or the end of the chunk; so it is a frame of its own."""
        ending = b"\0\n" if gap else b"\0"
        for number, record in enumerate(records):
            if len(record) != size or not record.endswith(ending):
                return number
        return len(records)


class OneValue:
    """Blocks that are `before` + value + `behind`, with a constant content-length.

    kept    relayed lines before and behind the value, or None when the value is a receipt id.
    head    whole when the value is a receipt id, else what these blocks mean.    flags   of their messages.
    """

    __slots__ = ("_flags", "_limit", "_piece", "before", "behind", "head", "kept", "size")

    def __init__(
        self,
        before: bytes,
        behind: bytes,
        kept: tuple[bytes, bytes] | None,
        head: Head | HeadFamily,
        flags: int,
        length: int,
        limit: int,
    ) -> None:
        self._flags = flags
        self.before = before
        self.behind = behind
        self.kept = kept
        self.head = head
        self.size = length + 1
        self._limit = limit
        self._piece = FIRST_PIECE

    def read(self, intake: Intake) -> bool:
        """Takes frames from intake.pos on. False: took none."""
        data, pos = intake.data, intake.pos
        if not data.startswith(self.before, pos):
            return False
        value_at = len(self.before)
        # Bounded: a value is no longer than `_limit`, and without `behind` in so many octets there is no second look
        # at this frame here.
        first_end = data.find(self.behind, pos + value_at, pos + value_at + self._limit)
        if first_end < 0:
            return False
        # About as many frames as the piece says, by the length of the first one.
        frame = first_end - pos + len(self.behind) + self.size
        chunk = data[pos : pos + frame * self._piece]
        pieces = chunk.split(self.behind)
        size = self.size
        first, last = pieces[0], pieces[-1]
        middle = pieces[1:-1]
        start = size + value_at
        joint = b"\0" + self.before
        # Why a piece with the joint is a frame: it begins behind `behind`, so with a body; `size` octets later stands
        # NUL and the next block's beginning; and what is left of the piece up to the next `behind` is the value,
        # which _plain looks at.
        if any([not piece.startswith(joint, size - 1) for piece in middle]):
            self._piece = 1
            middle = []
            last = chunk[len(first) + len(self.behind) :]
        values = [first[value_at:], *[piece[start:] for piece in middle]]
        bodies = [piece[:size] for piece in middle]
        if len(last) >= size and not last[size - 1]:
            bodies.append(last[:size])
        else:
            # The last body has not come as a whole, so its value must wait as well.
            values.pop()
        if not bodies or not self._plain(values):
            self._piece = 1
            return False
        self._piece = min(self._piece * 2, LARGEST_PIECE)
        intake.pos = pos + len(bodies) * (value_at + len(self.behind) + size) + sum(map(len, values))
        if self.kept is None:
            intake.extend(self.head, 0, bodies, values, len(bodies) // SENDS_AS_ONE)
            return True
        kept_before, kept_behind = self.kept
        front, tail = b"content-length:%d\n%b" % (size - 1, kept_before), kept_behind + b"\n"
        records = [b"%b%b%b%b" % (front, v, tail, b) for v, b in zip(values, bodies, strict=True)]
        intake.extend(self.head, self._flags, records, [], len(records) // SENDS_AS_ONE)
        return True

    def _plain(self, values: list[bytes]) -> bool:
        """No value needs a closer look: no line end, escape, NUL or further colon, ASCII, not too long."""
        text = b"".join(values)
        return (
            text.isascii()
            and b"\n" not in text
            and b"\\" not in text
            and b"\r" not in text
            and b"\0" not in text
            and b":" not in text
            and max(map(len, values)) <= self._limit
        )


def read_acks(intake: Intake, version: Version, limit: int) -> int:
    """Takes plain ACK frames from intake.pos on: the ids of the version, perhaps followed by a receipt.
    `limit`: longest value that needs no closer look.

    Returns the number of empty lines passed, or -1 if nothing was taken."""
    data, pos = intake.data, intake.pos
    single = version is Version.V12
    ids: list[bytes] = []
    subscriptions: list[bytes] = []
    receipts: list[bytes] = []
    eols = 0
    if single and intake.end - pos >= ROW and (row := _row(data, pos)) is not None:
        ids, gap = row
        eols = len(ids) * gap
        pos += len(ids) * (len(ACK) + 3 + gap) + sum(map(len, ids))
    # Acks are few bytes each: without an end to the loop one read of 256 KiB would be about 10,000 of them in one go.
    while data.startswith(b"ACK\n", pos) and len(ids) < ACKS:
        if single:
            if not data.startswith(b"id:", pos + 4):
                break
            end = data.find(b"\n", pos + 7)
            if end < 0:
                break
            id = data[pos + 7 : end]
        else:
            # 1.0 and 1.1 name the message and the subscription, in either order (C48, C49); only 1.0 may leave the
            # latter out. A group either has it everywhere or nowhere, as events.Acks says.
            pair = _pair(data, pos + 4)
            if pair is None or (not pair[1] and (version is Version.V11 or subscriptions)):
                break
            id, subscription, end = pair
            if subscription:
                if len(subscriptions) < len(ids):
                    break
                subscriptions += subscription
        receipt = b""
        asked = data.startswith(b"\nreceipt:", end)
        if asked:
            start = end + 9
            end = data.find(b"\n", start)
            receipt = data[start:end] if end >= 0 else b""
        if end < 0 or not data.startswith(b"\n\n\0", end):
            # Half an ACK adds its subscription before its end is seen: it goes again, so that both lists stay of one
            # length.
            del subscriptions[len(ids) :]
            break
        if asked:
            receipts.append(receipt)
        ids.append(id)
        pos = end + 3
        if data.startswith(b"\n", pos):
            pos += 1
            eols += 1
    if not ids:
        return -1
    if not _all_plain(ids + subscriptions + receipts, version, limit):
        # One of them needs a closer look: then all of this read get it, or each would be looked at again and again.
        intake.plain_acks = False
        return -1
    intake.acks(ids, subscriptions or None, receipts)
    intake.pos = pos
    return eols


def _row(data: bytes, pos: int) -> tuple[list[bytes], int] | None:
    """Ids of ACKs in a row that have nothing but that, by one split; and how many line feeds are behind each NUL. None:
    they are not all so."""
    end = data.find(b"\n\n\0", pos)
    if not data.startswith(ACK, pos) or end < 0:
        return None
    gap = int(data.startswith(b"\n", end + 3))
    joint = b"\n\n\0\n" if gap else b"\n\n\0"
    # An id alone has no line end: a frame of any other kind, or one with a receipt, has. What is cut off at the end
    # waits.
    ids = data[pos + len(ACK) : pos + PIECE_OF_ACKS].split(joint + ACK, ACKS - 1)
    last, whole, _ = ids.pop().partition(joint)
    if whole:
        ids.append(last)
    return (ids, gap) if b"\n" not in b"".join(ids) else None


def _pair(data: bytes, at: int) -> tuple[bytes, list[bytes], int] | None:
    """Message id, subscription (a list of one or none), and the end of the line behind which they stand."""
    if data.startswith(b"subscription:", at):
        # Where a line does not end it is no slice either: start and end would cross (ADR 22).
        end = data.find(b"\n", at + 13)
        if end < 0 or not data.startswith(b"\nmessage-id:", end):
            return None
        last = data.find(b"\n", end + 12)
        if last < 0:
            return None
        return data[end + 12 : last], [data[at + 13 : end]], last
    if not data.startswith(b"message-id:", at):
        return None
    end = data.find(b"\n", at + 11)
    if end < 0:
        return None
    id = data[at + 11 : end]
    if not data.startswith(b"\nsubscription:", end):
        return id, [], end
    last = data.find(b"\n", end + 14)
    if last < 0:
        return None
    return id, [data[end + 14 : last]], last


def _all_plain(values: list[bytes], version: Version, limit: int) -> bool:
    """See OneValue._plain; line ends cannot be in these values. 1.0 trims blanks, so they need a closer look."""
    text = b"".join(values)
    return (
        text.isascii()
        and b"\\" not in text
        and b"\r" not in text
        and b"\0" not in text
        and max(map(len, values)) <= limit
        and (version is not Version.V10 or (b" " not in text and b"\t" not in text))
    )
