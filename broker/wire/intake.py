"""One read on its way through the parser: the bytes, how far they are read, and the events so far.

Rule: groups like frames (`Sends` of one head, `Acks`) and searches for empty lines in linear time; a frame passes
another one only where the caller has said that nobody can tell (Head.order). Lives for one call of Connection.receive;
must not know commands or versions.
"""

# Example. One read brings SEND, SEND, SEND of one head with receipts 1 to 3, two plain ACKs, and a SUBSCRIBE.
#     add x 3   they gather: one head, three records, three receipts
#     acks      the other kind begins: flush() ends the group, Sends(head, 3 records, [1, 2, 3]); the two ids gather
#     event     flush(): Acks of two; then the SUBSCRIBE, behind both
# Three events for six frames, in the order of the frames: what is done once per event, from the session to the log, is
# done once for a group. 200 SENDs to 100 queues in turn are 100 events, as soon as the caller has said of their heads
# that they go to different places: begin() has them gather beside each other, until a frame comes that may not pass.
# `cost` is what the read costs the loop, so that portions of it can be counted in time.

from __future__ import annotations

import re
from typing import Final

from .events import Acks, Event, Head, Sends
from .heads import HeadFamily

MANY_LINES: Final = b"\n\n\n\n"
"""So many empty lines are worth a search for the end of all."""
NOWHERE: Final = 1 << 62
"""Offset of what does not occur in these bytes."""
_EMPTY_LINES: Final = re.compile(rb"(?:\n++|(?:\r\n)++)++").match
LINES_AT_ONCE: Final = 16 * 1024
"""Bytes of empty lines that are passed at once."""
LINES_AS_ONE: Final = 2048
"""So many of them cost as much as a frame: 0.1 ms, if LF and CR LF take turns."""
SENDS_AS_ONE: Final = 64
"""So many like SENDs cost as much as a frame that is read by itself (owner/inbox/portions.py counts them so, too)."""
ALIKE_AS_ONE: Final = 16
"""… that are taken one after another, of 2 to 3 µs each, and so many plain ACKs."""
GROUPS_AS_ONE: Final = 2
"""So many events that gather beside each other: 10 µs each until they are told, and their reading counts besides."""


class Intake:
    """groups: SENDs that gather, by what they say; flags: theirs, and receipts: asked for, by those of one group alone.
    `pos`: offset of the first octet not yet taken. `cost`: of what was taken, beyond one a frame. `crlf`: lines may
    end with CR LF. `plain_acks`: no ACK so far was one that bulk.py does not take. `resumed`: the end of
    the first header block was looked for before, in less of it."""

    __slots__ = (
        "_ack_ids", "_ack_receipts", "_ack_subscriptions", "_crlf_at", "_lf_at", "_orders", "_search", "cost", "crlf",
        "data", "end", "flags", "groups", "out", "plain_acks", "pos", "receipts", "resumed",
    )  # fmt: skip

    def __init__(self, data: bytes, crlf: bool, searched: int) -> None:
        self.data = data
        self.end = len(data)
        self.pos = 0
        self.cost = 0
        self.crlf = crlf
        self.plain_acks = True
        self.out: list[Event] = []
        self._search = searched
        self.resumed = searched > 0
        self._lf_at = -1
        self._crlf_at = -1
        self.groups: dict[Head | HeadFamily, list[bytes]] = {}
        self.flags: dict[Head | HeadFamily, int] = {}
        self._orders: set[object] = set()
        self.receipts: list[bytes] = []
        self._ack_ids: list[bytes] = []
        self._ack_subscriptions: list[bytes] | None = None
        self._ack_receipts: list[bytes] = []

    def blank(self, pos: int) -> int:
        """Offset behind the first empty line at or after `pos`, or -1.

        Linear over any mixture of line ends: the next hit of each kind is kept until it has been passed, so
        no octet is looked at twice for the same kind."""
        # -1 and offsets already passed both mean: search again. NOWHERE is greater than any offset, so that no LF LF is
        # looked for again and again where there is none.
        if self._lf_at < pos:
            # `_search` is where the last read of this frame stopped searching; it is about the first frame only,
            # since all others begin behind it.
            at = self.data.find(b"\n\n", max(pos, self._search))
            self._lf_at = at if at >= 0 else NOWHERE
        if self.crlf:
            # Up to that alone: else each receive() of a part of a read would search all that is left of it.
            if self._crlf_at < pos:
                self._crlf_at = self.data.find(b"\n\r\n", max(pos, self._search), self._lf_at)
            if 0 <= self._crlf_at < self._lf_at:
                return self._crlf_at + 3
        return self._lf_at + 2 if self._lf_at < NOWHERE else -1

    def lines(self) -> int:
        """Passes the empty lines that are here, with LF or CR LF; how many. A look at each of 4 MiB of them, which
        compressed are 4 KiB, took half a second, and of LF and CR LF by turns 3.5."""
        pos = self.pos
        found = _EMPTY_LINES(self.data, pos, pos + LINES_AT_ONCE)
        if found is None:
            return 0
        self.pos = found.end()
        self.cost += (self.pos - pos) // LINES_AS_ONE
        return self.data.count(b"\n", pos, self.pos)

    def weigh(self, cost: int) -> None:
        """What comes next costs so much beyond what every frame does."""
        self.cost += cost

    def passed(self, pos: int, cost: int) -> None:
        """All up to there is taken, at so much beyond one for each event."""
        self.pos = pos
        self.cost += cost

    def begin(self, kin: Head | HeadFamily, records: list[bytes], asked: bool) -> None:
        """These SENDs are an event of their own, behind those that gather; ends these, unless it may pass them. asked:
        they ask for receipts."""
        order = kin.order
        if self.groups or self._ack_ids:
            orders = self._orders
            # Of a receipt a client may conclude that all in front of it was carried out.
            if asked or order is None or order in orders or None in orders or self.receipts or self._ack_ids:
                self.flush()
            else:
                self.cost += len(self.groups) % GROUPS_AS_ONE == 1  # until flush() it is not among the events
        self._orders.add(order)
        self.groups[kin] = records
        self.flags[kin] = 0

    def add(
        self, kin: Head | HeadFamily, flags: int, record: bytes, receipt: bytes | None, in_full: bool = False
    ) -> bool:
        """One SEND; is it of an event that gathers. flags: its own; a Head has them. in_full: it was read so, which
        costs what any frame does, even if it makes no event of its own."""
        asked = receipt is not None
        records = None if asked and len(self.groups) > 1 else self.groups.get(kin)
        joins = records is not None
        if records is None:
            records = []
            self.begin(kin, records, asked)
        self.flags[kin] |= flags
        records.append(record)
        if not len(records) % ALIKE_AS_ONE:
            self.cost += 1
        if in_full and joins:
            self.cost += 1
        if receipt is not None:
            self.receipts.append(receipt)
        return joins

    def extend(
        self, kin: Head | HeadFamily, flags: int, records: list[bytes], receipts: list[bytes], cost: int
    ) -> None:
        """Several SENDs, of that cost beside one for their event. Takes the lists over."""
        self.cost += cost
        if (receipts and len(self.groups) > 1) or (mine := self.groups.get(kin)) is None:
            self.begin(kin, records, bool(receipts))
        else:
            mine += records
        self.flags[kin] |= flags
        self.receipts += receipts

    def acks(self, ids: list[bytes], subscriptions: list[bytes] | None, receipts: list[bytes]) -> None:
        """Plain ACKs. Takes the lists over."""
        self.cost += len(ids) // ALIKE_AS_ONE
        # A group has subscriptions for all its ids or for none; a change begins another group.
        if self._ack_ids and (subscriptions is None) is (self._ack_subscriptions is None):
            self._ack_ids += ids
            if self._ack_subscriptions is not None and subscriptions is not None:
                self._ack_subscriptions += subscriptions
            self._ack_receipts += receipts
            return
        self.flush()
        self._ack_ids = ids
        self._ack_subscriptions = subscriptions
        self._ack_receipts = receipts

    def event(self, event: Event) -> None:
        """Any other event, behind what has gathered."""
        self.flush()
        self.out.append(event)

    def flush(self) -> None:
        """Ends the groups that have gathered."""
        if groups := self.groups:
            receipts = self.receipts or None  # of the only group, if there are some
            for kin, records in groups.items():
                # Only now: a family has a head for each set of flags, and which the group has its last frame says.
                head = kin if isinstance(kin, Head) else kin.head(self.flags[kin])
                # Not len(lines) × n + one sum for the usual group of one: this runs for each frame of mixed traffic.
                if len(records) == 1:
                    nbytes = len(records[0]) + len(head.lines)
                else:
                    nbytes = sum(map(len, records)) + len(records) * len(head.lines)
                self.out.append(Sends(head, records, receipts, nbytes))
            self.cost -= len(groups) - 1  # which are among the events now
            groups.clear()
            self.flags.clear()
            self._orders.clear()
            self.receipts = []
        elif self._ack_ids:
            self.out.append(Acks(self._ack_ids, self._ack_subscriptions, self._ack_receipts or None))
            self._ack_ids = []
            self._ack_receipts = []
