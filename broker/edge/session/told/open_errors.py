"""Errors that leave the connection open, for clients of RabbitMQ that count on it (`open_after_error` of an acceptor).

Rule: only where a refused frame has changed nothing, each frame that asked gets its ERROR, and nothing that was
promised depends on it: never a frame of a transaction, nor part of a larger request. All others end the connection, as
STOMP 1.2 says of every ERROR. Must not know sessions.
"""

from __future__ import annotations

from typing import Final

from broker.core.errors import Code
from broker.wire.events import Event, Frame, Sends

SURVIVED: Final = frozenset(
    {
        Code.BAD_DESTINATION, Code.UNKNOWN_DESTINATION, Code.BAD_HEADER, Code.NO_SUCH_SUBSCRIPTION,
        Code.NO_SUCH_TRANSACTION, Code.ADDRESS_FULL,
    }
)  # fmt: skip


def to_be_told(event: Event, code: Code) -> list[bytes | None]:
    """The receipts of frames that were refused where they came in, an ERROR for each (None: one without). None of
    them: it ends the connection."""
    if code not in SURVIVED:
        return []
    if isinstance(event, Sends) and "transaction" not in event.head.headers:
        return [*event.receipts] if event.receipts else [None]
    if isinstance(event, Frame) and event.command not in ("ACK", "NACK"):
        return [event.receipt]
    return []
