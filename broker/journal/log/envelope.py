"""A group of records on its way to bytes: one record around them, with one checksum, so that all of them count or none.

Rule: in pieces, of so many records or bytes; it has no place before its last piece, and what is appended in between is
of other slots. Must not know files nor places.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from broker.core.records import MetaRecord, RunRecord, SettleRecord

from . import format as f

Member = RunRecord | SettleRecord | MetaRecord

RECORDS: Final = 150
"""Encoded in one piece: 1 to 2 ms."""
BYTES: Final = 1 << 20
"""… or so many bytes, of which each is copied once and summed up twice."""


class Envelope:
    """lsns     slot → lsn of its next record, behind those that are encoded.
    places   runs, and where each lies in the whole.    size   bytes of all of it."""

    __slots__ = (
        "_at", "_buffers", "_epochs", "_members", "_slot", "_sum", "_summed", "checksum", "lsns", "places",
        "settle_bytes", "size",
    )  # fmt: skip

    def __init__(
        self, slot: int, members: Sequence[Member], lsns: dict[int, int], epochs: Sequence[int], checksum: f.Checksum
    ) -> None:
        self._slot = slot
        self._members = members
        self._epochs = epochs
        self._at = self._summed = self._sum = 0
        self._buffers: list[bytes] = []
        self.checksum = checksum
        self.lsns = lsns
        self.places: list[tuple[RunRecord, int]] = []
        self.settle_bytes = 0
        self.size = f.RECORD.size

    def go_on(self, most: int = RECORDS, nbytes: int = BYTES) -> bool:
        """A piece. False: that was all."""
        # Two passes, as the checksum of the whole covers its length, which is known when all members are encoded.
        if self._at < len(self._members):
            self._encode(most, self.size + nbytes)
        else:
            self._add_up(nbytes)
        return self._at < len(self._members) or self._summed < len(self._buffers)

    def whole(self) -> tuple[bytes, bytes]:
        """All of it at once: its checksum and the rest."""
        # For small groups: one call instead of two passes.
        while self._at < len(self._members):
            self._encode(len(self._members), self.size + (1 << 62))
        return f.record(f.GROUP, 0, self._slot, 0, 0, self._buffers, self.checksum)

    def pieces(self) -> list[bytes]:
        """The buffers of it, when all of it is encoded."""
        return [f.checked(self._sum), *self._buffers]

    def _encode(self, most: int, end: int) -> None:
        lsns, epochs, buffers = self.lsns, self._epochs, self._buffers
        size = self.size
        for member in self._members[self._at : self._at + most]:
            slot = member.slot
            lsn = lsns[slot]
            # A copy of the slots' counters: they become the real ones when the envelope is placed (Appender._put).
            # Until then nothing of these slots may be appended, or a number would be used twice.
            lsns[slot] = lsn + 1
            if type(member) is RunRecord:
                self.places.append((member, size))
                flags, payload = f.run_payload(member)
                crc, body = f.record(f.RUN, flags, slot, epochs[slot], lsn, payload, self.checksum)
            else:
                crc, body = f.small(member, epochs[slot], lsn, self.checksum)  # type: ignore[arg-type]
                if type(member) is SettleRecord:
                    self.settle_bytes += len(body)
            buffers += (crc, body)
            size += len(crc) + len(body)
            self._at += 1
            if size >= end:
                break
        self.size = size

    def _add_up(self, nbytes: int) -> None:
        extend = f.extender(self.checksum)
        buffers = self._buffers
        if not self._summed:
            buffers.insert(0, f.group_head(self._slot, self.size))
        while nbytes > 0 and self._summed < len(buffers):
            data = buffers[self._summed]
            self._sum = extend(self._sum, data)
            self._summed += 1
            # Small buffers cost a call each: 64 bytes stand for it.
            nbytes -= len(data) + 64
