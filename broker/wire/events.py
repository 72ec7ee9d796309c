"""What the parser tells its caller. One event per *group* of like frames, not per frame.

Rule: values only; bytes stay bytes. Must not know queues, routes or sockets (`Head.route` is a parking
place for the caller, which makes the memo of header blocks a memo of routes as well).
"""

from __future__ import annotations

from typing import Any, Final

from broker.core.errors import Code

IMPLIED: Final = "IMPLIED CONNECT"
"""Command of the Frame that stands for the CONNECT that a client has left out (rules.Leniency)."""


class Head:
    """A parsed, checked header block of SEND. Shared by all frames with that block while the memo holds it.

    lines        what a MESSAGE frame relays: header lines each ended by LF, escaped as STOMP 1.2 writes
                 them, reserved names removed, first of repeated names only. Ends with the empty line when
                 `whole`, else without it (each record then begins with the rest: its content-length line
                 and the empty line).
    headers      decoded, first of repeated names wins: those named in broker.wire.layouts.SIGNIFICANT, the ones a
                 broker acts on. A Head with empty `lines` is shared by frames whose other headers differ: all lines
                 are in the records then. There content-length stands in front of the other lines when the sender has
                 given it, else behind them (broker.core.message.is_text).
    flags        broker.core.message.ESCAPED | TEXT | GROUPED | UNIQUE | TRACED as far as they apply; without
                 `lines`: to some.
    route        belongs to the caller; None in a new Head.
    order        is the caller's to say, too: frames of which this differs may pass each other; None: none may pass.
    """

    __slots__ = ("flags", "headers", "lines", "order", "route", "whole")

    def __init__(self, lines: bytes, headers: dict[str, str], flags: int, whole: bool) -> None:
        self.lines = lines
        self.headers = headers
        self.flags = flags
        self.whole = whole
        self.route: Any = None
        self.order: object = None

    def goes(self, route: object, order: object) -> None:
        """The caller knows where its frames go, and which others may pass them."""
        self.route, self.order = route, order


class Sends:
    """Consecutive SEND frames of one read with the same Head.

    message i = head.lines + records[i] (see broker.core.message); record ends with NUL.
    nbytes      sum(len(records)) + len(records) * len(head.lines)
    receipts    raw receipt ids (still escaped) of those frames that asked, in order; None when none did.
    """

    __slots__ = ("head", "nbytes", "receipts", "records")

    def __init__(self, head: Head, records: list[bytes], receipts: list[bytes] | None, nbytes: int) -> None:
        self.head = head
        self.records = records
        self.receipts = receipts
        self.nbytes = nbytes

    def cut(self, count: int) -> tuple[Sends, Sends]:
        """The first `count` of them, and the rest. When not all have asked for a receipt nobody knows which ones have:
        then all are told with the rest, later than need be and never too early."""
        # RECEIPT says that the frame was processed (C61): one that is told later is slow, one told too early is a
        # lie.
        records, receipts = self.records, self.receipts
        paired = receipts is not None and len(receipts) == len(records)
        early, late = (receipts[:count], receipts[count:]) if paired and receipts else (None, receipts)
        nbytes = sum(map(len, records[:count])) + count * len(self.head.lines)
        first = Sends(self.head, records[:count], early, nbytes)
        return first, Sends(self.head, records[count:], late, self.nbytes - nbytes)


class Acks:
    """Consecutive plain ACK frames (only id / message-id, subscription, receipt) of one read.

    ids             raw id (1.2) or message-id (1.0, 1.1) values.
    subscriptions   raw subscription values alongside ids, or None (1.2; 1.0 without the header).
    receipts        raw receipt ids of those frames that asked, in order; None when none did.
    """

    __slots__ = ("ids", "receipts", "subscriptions")

    def __init__(self, ids: list[bytes], subscriptions: list[bytes] | None, receipts: list[bytes] | None) -> None:
        self.ids = ids
        self.subscriptions = subscriptions
        self.receipts = receipts


class Frame:
    """Any other frame, whole. `headers`: decoded by the rules of the version, first of repeated names wins.

    receipt: raw (still escaped) value of its receipt header, or None."""

    __slots__ = ("body", "command", "headers", "receipt")

    def __init__(self, command: str, headers: dict[str, str], body: bytes, receipt: bytes | None) -> None:
        self.command = command
        self.headers = headers
        self.body = body
        self.receipt = receipt


class BodyStart:
    """A frame whose body is streamed begins: SEND (server role) or MESSAGE (client role).

    length: bytes of the body by content-length, or None (ends at the first NUL).
    For SEND `head` is not whole: the caller writes content-length once it knows it.
    For MESSAGE `head.headers` holds all headers."""

    __slots__ = ("command", "head", "length", "receipt")

    def __init__(self, command: str, head: Head, length: int | None, receipt: bytes | None) -> None:
        self.command = command
        self.head = head
        self.length = length
        self.receipt = receipt


class BodyData:
    """The next piece of a streamed body."""

    __slots__ = ("data",)

    def __init__(self, data: bytes) -> None:
        self.data = data


class BodyEnd:
    """The streamed body is complete (its NUL has been read)."""

    __slots__ = ()


class Violation:
    """The peer broke a rule. Always the last event: the parser takes nothing more. about: ProtocolViolation.about."""

    __slots__ = ("about", "code", "detail", "receipt")

    def __init__(self, code: Code, detail: str, receipt: bytes | None, about: str = "") -> None:
        self.about = about
        self.code = code
        self.detail = detail
        self.receipt = receipt


Event = Sends | Acks | Frame | BodyStart | BodyData | BodyEnd | Violation
