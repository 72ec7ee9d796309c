"""Headers that an acceptor adds to what its clients send: amqMessageId, JMSXUserID.

Rule: asked once per SEND block and read, only where the acceptor has one of them (`marks_of` gives None else). What is
added stands in front, where the first of two headers of one name counts; nobody can forge JMSXUserID, because a
client's own is taken out. Must not know routes or owners.
"""

from __future__ import annotations

from zlib import crc32

from broker.config.acceptor import AcceptorSettings
from broker.core.message import ESCAPED
from broker.wire.events import BodyStart, Head, Sends
from broker.wire.versions import Version
from broker.wire.writer import escape

USER = b"JMSXUserID:"


class Numbers:
    """Message ids of one start of an edge: positive 63-bit numbers, as Artemis' are. The upper half tells starts and
    edges apart."""

    __slots__ = ("_last",)

    def __init__(self, boot: str) -> None:
        self._last = (crc32(boot.encode()) & 0x7FFF_FFFF) << 32

    def next(self) -> int:
        self._last += 1
        return self._last


class AddedHeaders:
    """What is added to the messages of one session."""

    __slots__ = ("_flags", "_numbers", "_user")

    def __init__(self, numbers: Numbers | None, user: str | None) -> None:
        """`user`: whose login it is; None: not told."""
        self._numbers = numbers
        value = None if user is None else escape(user, Version.V12).encode()
        self._user = b"" if value is None else b"%b%b\n" % (USER, value)
        # Older clients get it rewritten (see Subscription.render).
        self._flags = ESCAPED if b"\\" in self._user else 0

    def sends(self, event: Sends) -> Sends:
        """The same frames with the headers in front."""
        lines = self._lines(event.head)
        records = event.records
        if self._user and not event.head.whole:
            records = [self._cut(record) for record in records]
        if self._numbers is not None:
            number = self._numbers.next
            records = [b"amqMessageId:STOMP%d\n%b%b" % (number(), lines, record) for record in records]
            lines = b""
        elif not event.head.lines:
            # All lines stay in the records: that is where groups and duplicates are looked for then.
            lines = b""
            records = [self._user + record for record in records]
        head = self._head(event.head, lines)
        nbytes = sum(map(len, records)) + len(records) * len(head.lines)
        return Sends(head, records, event.receipts, nbytes)

    def body(self, event: BodyStart) -> BodyStart:
        """The same for a large one."""
        lines = self._lines(event.head)
        if self._numbers is not None:
            lines = b"amqMessageId:STOMP%d\n%b" % (self._numbers.next(), lines)
        return BodyStart(event.command, self._head(event.head, lines), event.length, event.receipt)

    def _lines(self, head: Head) -> bytes:
        return self._user + self._cut(head.lines)

    def _head(self, head: Head, lines: bytes) -> Head:
        """A copy, since heads are shared by all who send the same block."""
        return Head(lines, head.headers, head.flags | self._flags, head.whole)

    def _cut(self, text: bytes) -> bytes:
        """Header lines, alone or with the body behind them, without the client's own JMSXUserID."""
        if not self._user or USER not in text:
            return text
        end = text.find(b"\n\n")
        lines, rest = (text, b"") if end < 0 else (text[: end + 1], text[end + 1 :])
        kept = [line for line in lines.split(b"\n")[:-1] if not line.startswith(USER)]
        return b"".join([line + b"\n" for line in kept]) + rest


def marks_of(acceptor: AcceptorSettings, user: str, numbers: Numbers) -> AddedHeaders | None:
    """None: nothing is added to what this user sends here."""
    if not acceptor.enable_message_id and not acceptor.validated_user:
        return None
    return AddedHeaders(
        numbers if acceptor.enable_message_id else None,
        user if acceptor.validated_user else None,
    )
