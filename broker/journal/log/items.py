"""Items as they travel: checked and taken apart.

Rule: an item that passes is a record this journal could have written as the next one itself; everything else
is BadItem, with a text that says what is wrong. Must not know files, the live index or where an item is kept.
"""

from __future__ import annotations

from struct import error as StructError
from typing import Final, NamedTuple

import msgspec

from broker.core.errors import BadItem, NewerRelease
from broker.core.message import TRANSIENT
from broker.core.records import META_KINDS, MetaRecord, RunRecord, SettleRecord

from . import format as f

Member = RunRecord | SettleRecord | MetaRecord
Head = tuple[int, int, int, int, int, int, int]
"""format.RECORD: checksum, length, kind, flags, slot, epoch, lsn."""
_PARTS: Final = (f.RUN, f.SETTLE, f.META)


class ParsedItem(NamedTuple):
    """One item. first…last: its lsns (0: of a copy). members: (record, offset in the item, bytes)."""

    epoch: int
    first: int
    last: int
    members: list[tuple[Member, int, int]]


def parse_item(slot: int, data: bytes, algorithm: int) -> ParsedItem:
    """An item of the slot's log. Raises BadItem."""
    head = _checked(slot, data, algorithm)
    kind = head[2]
    try:
        # A leader's bytes are checked as a stranger's would be: a bad one in the log would be sent on to the next
        # follower.
        if kind == f.RUN:  # nearly all
            _, size, _, flags, of, epoch, lsn = head
            if of != slot or flags & f.COPY or not lsn:
                raise BadItem(f"slot {slot}: a record of kind {kind}, slot {of}, lsn {lsn} is no item")
            return ParsedItem(epoch, lsn, lsn, [(_run(data, f.RECORD.size, size, flags, slot), 0, size)])
        members: list[tuple[Member, int, int]] = []
        lsns: list[int] = []
        epochs: set[int] = set()
        end = f.RECORD.size if kind == f.GROUP else 0
        for at, size, part, flags, of, epoch, lsn in f.records_in(data, end, len(data)):
            # A copy that compaction made belongs to the disk it is on; as an item it would bring settled messages
            # back.
            local = part == f.RUN and flags & f.COPY
            if part not in _PARTS or of != slot or local or not lsn:
                raise BadItem(f"slot {slot}: a record of kind {part}, slot {of}, lsn {lsn} is no item")
            members.append((_member(data, at, size, part, flags, slot), at - f.RECORD.size, size))
            lsns.append(lsn)
            epochs.add(epoch)
            end = at + size
    except (StructError, ValueError, TypeError, msgspec.DecodeError) as error:
        raise BadItem(f"slot {slot}: an item cannot be read: {error}") from error
    # One epoch, consecutive numbers, nothing behind: so `last` alone says what the follower has after it.
    if end != len(data) or len(epochs) != 1 or lsns != list(range(lsns[0], lsns[0] + len(lsns))):
        raise BadItem(f"slot {slot}: the members of an item do not belong together")
    return ParsedItem(epochs.pop(), lsns[0], lsns[-1], members)


def parse_seed(slot: int, data: bytes, algorithm: int) -> ParsedItem:
    """A part of a copy of the slot: a RUN or META without lsn. Raises BadItem."""
    _, size, kind, flags, of, epoch, lsn = _checked(slot, data, algorithm)
    if kind not in (f.RUN, f.META) or of != slot or lsn:
        raise BadItem(f"slot {slot}: a record of kind {kind}, slot {of}, lsn {lsn} is no part of a copy")
    try:
        member = _member(data, f.RECORD.size, size, kind, flags, slot)
    except (StructError, ValueError, TypeError, msgspec.DecodeError) as error:
        raise BadItem(f"slot {slot}: a part of a copy cannot be read: {error}") from error
    return ParsedItem(epoch, 0, 0, [(member, 0, size)])


def lsns_of(data: bytes, at: int, size: int, kind: int, slot: int, lsn: int) -> tuple[int, int, int] | None:
    """(slot, first lsn, last lsn) of a good record of the log, if it is an item (else None)."""
    if kind != f.GROUP:
        return (slot, lsn, lsn) if lsn else None
    heads = [(of, number) for _, _, _, _, of, _, number in f.records_in(data, at, at + size)]
    # A group over several slots was written where nobody follows.
    if len({of for of, _ in heads}) != 1:
        return None
    return heads[0][0], heads[0][1], heads[-1][1]


def _checked(slot: int, data: bytes, algorithm: int) -> Head:
    """The head of a record that fills `data` and checks."""
    if algorithm not in f.CHECKSUMS:
        raise BadItem(f"slot {slot}: an item needs checksum algorithm {algorithm}: install google-crc32c")
    if f.bad_record(data, 0, len(data), 1, f.CHECKSUMS[algorithm]) >= 0:
        raise BadItem(f"slot {slot}: an item of {len(data)} bytes does not check")
    return f.RECORD.unpack_from(data)


def _run(data: bytes, at: int, size: int, flags: int, slot: int) -> RunRecord:
    record = f.read_run(data, at, flags, slot, False, size)
    if not record.run.ids or record.run.flags & TRANSIENT:
        raise ValueError("it is of no message that lasts")
    return record


def _member(data: bytes, at: int, size: int, kind: int, flags: int, slot: int) -> Member:
    if kind == f.RUN:
        return _run(data, at, size, flags, slot)
    if kind == f.SETTLE:
        return f.read_settle(data, at, size, slot, flags)
    if flags:
        raise ValueError("it is a mark of a snapshot")
    meta = f.read_meta(data, at, size, slot)
    # Not ignored: a follower that skips state it does not know would lack it as a leader.
    if meta.kind not in META_KINDS:
        raise NewerRelease(slot, meta.kind)
    return meta
