"""Errors that leave the connection open, for clients of RabbitMQ that count on it (`open_after_error` of an acceptor).

Rule: only where a refused frame has changed nothing, each frame that asked gets its ERROR, and nothing that was
promised depends on it: never a frame of a transaction, nor part of a larger request. All others end the connection, as
STOMP 1.2 says of every ERROR.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Final

from broker.core.errors import Code, RefusedError
from broker.wire.events import Event, Frame, Sends

if TYPE_CHECKING:
    from .session import Session

SURVIVED: Final = frozenset(
    {
        Code.BAD_DESTINATION, Code.UNKNOWN_DESTINATION, Code.BAD_HEADER, Code.NO_SUCH_SUBSCRIPTION,
        Code.NO_SUCH_TRANSACTION, Code.ADDRESS_FULL,
    }
)  # fmt: skip


def survives(session: Session, event: Event, refused: RefusedError) -> bool:
    """Answers a frame that was refused where it came in. False: it ends the connection."""
    if not _may(session, refused.code):
        return False
    if isinstance(event, Sends):
        if "transaction" in event.head.headers:
            return False
        receipts: list[bytes | None] = [*event.receipts] if event.receipts else [None]
    elif isinstance(event, Frame) and event.command not in ("ACK", "NACK"):
        receipts = [event.receipt]
    else:
        return False
    session.intake.submit()
    session.answers.when_quiet(partial(session.tell_errors, refused.code, refused.detail, receipts, refused.about))
    return True


def survives_refusal(session: Session, seq: int, code: Code, detail: str) -> bool:
    """The same for a request that its owner refused: one of which nothing is a part."""
    if code is not Code.ADDRESS_FULL or not _may(session, code):
        return False
    receipts = session.answers.whole(seq)
    if not receipts:
        return False
    session.answers.told_otherwise(seq, partial(session.tell_errors, code, detail, [*receipts], ""))
    session.done(seq)
    return True


def _may(session: Session, code: Code) -> bool:
    return session.acceptor.open_after_error and session.connected and code in SURVIVED
