"""SEND frames of one connection that are like earlier ones, the cheapest way that fits.

In this order: a read that is one frame of known names (alone), many frames with the last block (bulk), many with one
value changed (bulk), one after another of blocks whose names are known (layouts). What is left is read in full.

Rule: every way gives what the full reader gives, or is not taken; what is remembered comes from complete
frames only. Must not know buffers, streaming or what follows a SEND.
"""

# Example. A sender whose SENDs have destination, id, type and content-length, each time with other values.
#     the first three    _read_known: there is no layout yet. find reads them in full; learn counts their names, and
#                        with the third one makes a Layout of them
#     the fourth, and all behind it in this and later reads    _read_known: the pattern finds the block's end and hands
#                        out what is relayed, destination and content-length; all have one HeadFamily, and are one event
#     ids alone differ   after some dozens _one_differs sees that: bulk.OneValue takes them together from then on
#     nothing differs    the lines go into a Head, not into each record (`_head`); if the body has the same size
#                        each time, too, bulk.SameBlock takes them
#     another destination    another HeadFamily, another event; a name that was not there before: read in full

from __future__ import annotations

import re
from operator import ne
from typing import Any, Final

from broker.config.settings import WireSettings

from ..block import CHEAP
from ..events import Head, Sends
from ..heads import SAID, HeadFamily
from ..intake import ALIKE_AS_ONE, GROUPS_AS_ONE, MANY_LINES, Intake
from ..versions import Version
from .bulk import OneValue, SameBlock
from .known_layouts import KnownLayouts
from .layouts import NAMES, NAMES_BYTES, Layout

TRIED: Final = 4
"""Layouts of one connection that a block is held against."""
PATIENCE: Final = 16
"""Blocks that none of them fitted until they are forgotten; the next frame with known names begins anew."""
MAKING: Final = 6
"""What making a layout costs, in frames, beside …"""
NAMED_AS_ONE: Final = 32
"""… so many bytes of its names each."""
LONGEST: Final = 16 * 1024
"""Bytes of a block that is held against layouts: each look at so many takes 0.25 ms."""
LOOKED_AT: Final = 128
"""So many bytes, held against a layout, cost as much as a frame that is taken one after another: 2 µs."""
PROBES: Final = 256
"""Blocks of one layout in a row between two looks whether it is one value that changes."""
AGAIN: Final = 4
"""Times in a row that all relayed lines were the same until they are taken out of the records."""
LF: Final = 10
FAILURES: Final = 8
"""Times that the value behind which frames were taken together was not the only one that has changed."""


class KnownSends:
    """Made with the first SEND of a connection."""

    __slots__ = (
        "_failed", "_family", "_head", "_known", "_layouts", "_length", "_lines", "_longest", "_misses", "_one",
        "_probe", "_same", "_settings", "_small", "_times", "_version",
    )  # fmt: skip

    def __init__(self, version: Version, settings: WireSettings, layouts: KnownLayouts) -> None:
        self._version = version
        self._settings = settings
        self._known = layouts
        self._same: SameBlock | None = None
        self._one: OneValue | None = None
        self._layouts: list[Layout] = []
        self._misses = self._failed = self._probe = 0
        # Of the block before: what it said, what was relayed, how often in a row, the head for that, and the
        # content-length. All of this connection: layouts are shared, and what their last block said is anybody's.
        self._family: HeadFamily | None = None
        self._lines = b""
        self._times = 0
        self._head: Head | None = None
        self._length = -1
        # Blocks up to here pass every size limit of a single line.
        # A block that is shorter than both limits cannot have a line over either; the number of lines is the same as
        # in the remembered block.
        self._small = min(settings.max_header_bytes, settings.max_header_block_bytes)
        self._longest = min(self._small, LONGEST)

    def alone(self, data: bytes) -> Sends | None:
        """The event of a read that is one frame of a known layout, perhaps with a line end behind its NUL. None: it is
        something else, or there is more to be said about it."""
        # What _read_known does for one of many, without what it does for a sequence: no group gathers, and nothing is
        # learned of how a frame is like the one before.
        settings, size = self._settings, len(data)
        for layout in self._layouts:
            m = layout.match(data, 0, self._longest)
            if m is not None:
                break
        else:
            return None
        # From the end, as nothing may stand behind it: half a frame, two of them or a wrong length are for the others.
        stop, close = m.end(), size - (2 if data[-1] == LF else 1)
        if data[close] or close < stop or size > settings.max_frame_bytes or close - stop >= settings.large_body_bytes:
            return None
        lines = m[layout.lines_in] if layout.lines_in else b"".join(m.group(*layout.lines_at))
        body = data[stop : close + 1]
        if layout.length_at:
            if (length := int(m[layout.length_at])) != close - stop:
                return None
            record = b"content-length:%d\n%b\n%b" % (length, lines, body)
        elif body.find(b"\0") != close - stop:
            return None  # the first NUL ends it (C14): here are several frames
        else:
            record = b"%bcontent-length:%d\n\n%b" % (lines, close - stop, body)
        # As for many: mostly it says what the block before has said, and then the head is that one's.
        values: Any = m[layout.said_in] if layout.said_in else m.group(*layout.said_at)
        if values != layout.values:
            layout.means(values)
        receipts = [m[layout.receipt_at]] if layout.receipt_at else None
        return Sends(layout.head, [record], receipts, len(record))

    def bulk(self, intake: Intake, burst: int) -> int:
        """Takes frames from intake.pos on. Returns the empty lines passed, or -1 if nothing was taken. burst: what
        they may cost, those of this read that were taken before among it."""
        if self._same is not None:
            eols = self._same.read(intake)
            if eols >= 0:
                return eols
        if self._one is not None:
            if self._one.read(intake):
                return 0
            self._failed += 1
            if self._failed > FAILURES:
                self._one = None
        # A block whose beginning has come before is not held against patterns again with each octet that comes.
        if not self._layouts or (intake.resumed and not intake.pos):
            return -1
        return self._read_known(intake, burst)

    def _read_known(self, intake: Intake, burst: int) -> int:
        """Frames of known layouts, one after another."""
        data, end, at = intake.data, intake.end, intake.pos
        longest, large, most = self._longest, self._settings.large_body_bytes, self._settings.max_frame_bytes
        room = before = (burst - (spent := len(intake.out) + intake.cost)) * ALIKE_AS_ONE
        layout, groups, flags = self._layouts[0], intake.groups, intake.flags
        records: list[bytes] = []
        group: HeadFamily | Head | None = None
        eols = 0
        # What layouts share is anybody's; a pair of values and family stays one.
        told, family = layout.values, layout.family
        before_lines, before_family, before_length, probe = self._lines, self._family, self._length, self._probe
        while room > 0 and at < end:
            m = layout.match(data, at, at + longest)
            if m is None:
                if (other := self._other(intake, at)) is None:
                    break
                layout, m, tried = other
                told, family, group = layout.values, layout.family, None  # it has flags of its own
                before_lines = b""  # a head for repeated lines is of one layout: another one may be that of texts
                room -= tried * (m.end() - at) // LOOKED_AT
            stop, given = m.end(), layout.length_at
            length = int(m[given]) if given else data.find(b"\0", stop, stop + large) - stop
            close = stop + length
            # What is not complete, streamed, over a limit or without its NUL is for the full reader: it says what is
            # wrong, or what to wait for.
            if length < 0 or length >= large or close >= end or data[close] or close - at > most:
                break
            lines = m[layout.lines_in] if layout.lines_in else b"".join(m.group(*layout.lines_at))
            # Mostly they say what the block before has said: one comparison then, and no look into a table.
            values: Any = m[layout.said_in] if layout.said_in else m.group(*layout.said_at)
            if values != told:
                told = values
                family = layout.families.get(values) or layout.means(values)
            # Body and NUL, the only copy of it here; the lines come in front of it below, in one step.
            record = data[stop : close + 1]
            kin: HeadFamily | Head = family
            if lines != before_lines or family is not before_family:
                if probe <= 0 and given and length == before_length:
                    probe = PROBES
                    self._one_differs(layout, family, lines, before_lines, length, m)
                probe -= 1
                before_lines, before_family, self._times = lines, family, 0
            elif (again := self._repeated(layout, family, lines, m, before_length, length)) is None:
                break
            else:
                kin = again
            before_length = length
            # Where the content-length stands says whose it is (core.message.is_text).
            if kin is not family:
                record = b"content-length:%d\n\n%b" % (length, record)
            elif given:
                record = b"content-length:%d\n%b\n%b" % (length, lines, record)
            else:
                record = b"%bcontent-length:%d\n\n%b" % (lines, length, record)
            asked = layout.receipt_at
            if kin is not group or (asked and len(groups) > 1):
                if (mine := None if asked and len(groups) > 1 else groups.get(kin)) is None:
                    intake.begin(kin, mine := [], asked > 0)
                    # An event of its own costs a frame, as everywhere; intake says what it does beside others.
                    room -= ALIKE_AS_ONE // (1 if len(groups) == 1 else GROUPS_AS_ONE) - 1
                group, records = kin, mine
                flags[kin] |= layout.flags
            records.append(record)
            if asked:
                intake.receipts.append(m[asked])
            # Not rounded to frames: of blocks of 2 KB, 35 µs each, a turn would take 2,048.
            room -= 1 + (stop - at) // LOOKED_AT
            at = close + 1
            # Most clients write a line end behind each NUL, some none; many are passed together, elsewhere.
            while at < end and data[at] == LF and not data.startswith(MANY_LINES, at):
                at += 1
                eols += 1
        self._lines, self._family, self._length, self._probe = before_lines, before_family, before_length, probe
        if at == intake.pos:
            return -1
        # Some events are among that already.
        intake.passed(at, spent - (room - before) // ALIKE_AS_ONE - len(intake.out) - intake.cost)
        return eols

    def _other(self, intake: Intake, at: int) -> tuple[Layout, re.Match[bytes], int] | None:
        """Another layout that was met here before, if it fits, and how many did not: it is tried first from now on."""
        data, layouts = intake.data, self._layouts
        for number in range(1, len(layouts)):
            layout = layouts[number]
            if (m := layout.match(data, at, at + self._longest)) is not None:
                layouts[0], layouts[number] = layout, layouts[0]
                return layout, m, number
        if data.startswith(b"SEND\n", at):
            stop = data.find(b"\n\n", at, at + self._longest)
            # In short blocks four looks cost no more than the reading in full that follows; a long one would let a
            # client have 64 KB gone through four times for each frame, and uncounted.
            if (size := (stop if stop >= 0 else min(at + self._longest, intake.end)) - at) > CHEAP:
                intake.weigh(len(layouts) * size // (LOOKED_AT * ALIKE_AS_ONE))
            self._misses += 1
            if self._misses > PATIENCE:
                self._misses = 0
                self._layouts = []
        return None

    def _repeated(
        self, layout: Layout, family: HeadFamily, lines: bytes, m: re.Match[bytes], before: int, length: int
    ) -> HeadFamily | Head | None:
        """What was relayed of the block before is relayed of this one: whose event it is. None: bulk has to take it."""
        self._times += 1
        if self._times < AGAIN:
            self._head = None
            return family
        if layout.length_at and length == before and self._all_alike(layout, family, lines, m, length):
            return None
        if self._head is None:
            self._head = Head(lines, family.headers, layout.flags, False)
        return self._head

    def _all_alike(self, layout: Layout, family: HeadFamily, lines: bytes, m: re.Match[bytes], length: int) -> bool:
        """This block is the one before, but for its receipt. True: from now on such frames are taken together."""
        raw, receipt_at = m[0], layout.receipt_at
        if not receipt_at and self._same is not None and self._same.block == raw:
            return False
        head = Head(b"%bcontent-length:%d\n\n" % (lines, length), family.headers, layout.flags, True)
        if not receipt_at:
            self._same = SameBlock(raw, head, length + 1)
            return True
        start, stop = m.start(receipt_at) - m.start(), m.end(receipt_at) - m.start()
        # Where bulk has just let this very block pass, it would let it pass again: it is taken here, one by one.
        one = self._one
        if one is not None and one.before == raw[:start] and one.behind == raw[stop:]:
            return False
        return self._learn_one(raw[:start], raw[stop:], None, head, layout, length)

    def _one_differs(
        self, layout: Layout, family: HeadFamily, lines: bytes, before: bytes, length: int, m: re.Match[bytes]
    ) -> None:
        """If one line is another one than in the block before, such frames are taken together from now on."""
        rows, old = lines.split(b"\n"), before.split(b"\n")
        if layout.receipt_at or len(rows) != len(old):
            return
        differs = list(map(ne, rows, old))
        if differs.count(True) != 1:
            return
        row = rows[differs.index(True)]
        name = row[: row.index(b":") + 1]
        # Each value of such a header means something else: those frames are no one event.
        if name[:-1] in SAID:
            return
        # Before and behind the value, once as they come and once as they are relayed.
        cuts = []
        for text in (m[0], b"\n" + lines):
            start = text.index(b"\n" + name) + 1 + len(name)
            cuts.append((text[:start], text[text.index(b"\n", start) :]))
        (cut_before, cut_behind), (kept_before, kept_behind) = cuts
        self._learn_one(cut_before, cut_behind, (kept_before[1:], kept_behind), family, layout, length)

    def _learn_one(
        self,
        before: bytes,
        behind: bytes,
        kept: tuple[bytes, bytes] | None,
        head: Head | HeadFamily,
        layout: Layout,
        length: int,
    ) -> bool:
        # Whatever the value is, the block stays within `_small` and the frame within the limit of frames: OneValue need
        # not look.
        room = self._small - len(before) - len(behind)
        if self._small + length >= self._settings.max_frame_bytes or self._version is Version.V10:
            return False  # 1.0 trims blanks: each value needs a closer look
        self._one = OneValue(before, behind, kept, head, layout.flags, length, room)
        self._failed = 0
        return True

    def learn(self, raw: bytes, names: list[bytes], intake: Intake) -> bool:
        """The frame with this block, the last one read, was complete and in order, and these are its names. Is there a
        layout that the next one may have."""
        # Only of complete frames: a block whose frame turns out to be broken must leave nothing behind that a later
        # frame is judged by.
        size = sum(map(len, names))
        if len(raw) > self._longest or len(names) > NAMES or size > NAMES_BYTES:
            return bool(self._layouts)
        layout, made = self._known.layout(tuple(names))
        if made:
            intake.weigh(MAKING + size // NAMED_AS_ONE)
        if layout is not None and layout not in self._layouts:
            # The last one comes first: who sends one kind of message finds it with the first look.
            self._layouts = [layout, *self._layouts[: TRIED - 1]]
            self._lines = b""
        return bool(self._layouts)
