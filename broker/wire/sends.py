"""SEND frames of one connection, read in full: what a block says, and the event of a frame that is complete.

Rule: every SEND can be read so; a short cut (shortcuts/known_sends.py) only saves it. Must not know buffers, streaming
or what follows a SEND.
"""

# Example. A read of SENDs with names that nobody has seen before, and escapes.
#     the usual one   read takes it with its neighbours: its end, one search for names, one look at escapes; the record
#                     begins with the length, has the lines as they came, and the body behind them: what a MESSAGE will
#                     be made of without another look. All that say the same to a broker are one event
#     any other       CR at its line's ends, a name twice, a body that has not come: read stops in front of it. find
#                     reads the block or says what is wrong; the connection waits until the body is whole; then add
#     a plain one     that is, names and values without escapes: learn is told, so that the next ones may be read by
#                     their names, without this reader

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from broker.config.settings import WireSettings
from broker.core.message import TEXT

from .block import ESCAPES, SendBlock, read_send, usual_send
from .events import Head
from .heads import Families, Said
from .intake import Intake
from .versions import Version

LF: Final = 10
NEAR: Final = 2048
"""Bytes in which the block of a frame has to end that is taken with others."""
EMPTY_LINES: Final = 3
"""Passed behind a frame; more are passed together, elsewhere."""


class SendReader:
    """Made with the first SEND of a connection."""

    __slots__ = ("_escapes", "_families", "_near", "_settings", "_version")

    def __init__(self, version: Version, settings: WireSettings, families: Families) -> None:
        self._version = version
        self._settings = settings
        self._families = families
        self._escapes = ESCAPES.get(version)
        # A block that is shorter than both limits cannot have a line over either.
        self._near = min(settings.max_header_bytes, settings.max_header_block_bytes, NEAR)

    def read(self, intake: Intake, burst: int, learn: Callable[[bytes, list[bytes], Intake], bool]) -> int:
        """Takes usual frames that are whole from intake.pos on. Returns the empty lines passed, or -1 if nothing was
        taken. learn: is told of plain blocks; True: it may know what comes next."""
        data, size, at = intake.data, intake.end, intake.pos
        near, escapes, families = self._near, self._escapes, self._families
        large, most, headers = (
            self._settings.large_body_bytes,
            self._settings.max_frame_bytes,
            self._settings.max_headers,
        )
        told: Said | None = None
        records: list[bytes] = []
        group_flags = eols = weight = 0
        room = burst - len(intake.out) - intake.cost
        while room > 0 and data.startswith(b"SEND\n", at):
            # Whatever its content-length is, a frame that is whole has a NUL behind its block, and none in it.
            stop = data.find(b"\n\n", at, at + near) + 2
            if stop < 2 or (close := data.find(b"\0", at, stop + large)) < stop:
                break
            raw = data[at:stop]
            if (send := usual_send(raw, escapes, headers)) is None:
                break
            lines, flags, length, receipt, said, names, cost = send
            # What is not complete, streamed, over a limit or without its NUL is for others: they say what is wrong, or
            # what to wait for.
            if length >= 0:
                close = stop + length
                if length >= large or close >= size or data[close]:
                    break
                record = b"content-length:%d\n%b\n%b" % (length, lines, data[stop : close + 1])
            else:
                record = b"%bcontent-length:%d\n\n%b" % (lines, close - stop, data[stop : close + 1])
                flags |= TEXT
            if close - at > most:
                break
            if receipt is None and said == told and flags | group_flags == group_flags:
                records.append(record)
                weight += 1
            else:
                family = families.family(said)
                intake.add(family, flags, record, receipt, True)
                told, records, group_flags = said, intake.groups[family], intake.flags[family]
            weight += cost
            room -= 1 + cost
            at = close + 1
            while at < size and data[at] == LF and at - close <= EMPTY_LINES:
                at += 1
                eols += 1
            if names is not None and learn(raw, names, intake):
                break
        if told is None:
            return -1
        intake.passed(at, weight)
        return eols

    def find(self, raw: bytes) -> SendBlock:
        """What a complete block says. Raises ProtocolViolation."""
        return read_send(raw, self._version, self._settings)

    def open_head(self, block: SendBlock) -> Head:
        """A head of its own for a body that is streamed: without content-length and empty line."""
        headers = self._families.family(block.said).headers
        return Head(block.lines, headers, block.flags | (TEXT if block.length < 0 else 0), False)

    def add(self, intake: Intake, block: SendBlock, body: bytes) -> None:
        """The frame is complete. body: with its NUL."""
        # As short cuts have it; by where content-length stands it is known later who gave it (core.message.is_text).
        if block.length >= 0:
            record, flags = b"content-length:%d\n%b\n%b" % (block.length, block.lines, body), block.flags
        else:
            record = b"%bcontent-length:%d\n\n%b" % (block.lines, len(body) - 1, body)
            flags = block.flags | TEXT
        family = self._families.known.get(block.said) or self._families.family(block.said)
        intake.add(family, flags, record, block.receipt, True)
