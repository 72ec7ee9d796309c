"""A question whose answer may come at once or later.

Rule: frames behind the one that asked wait until it is answered (Inbound.park); an answer at once costs nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from broker.core.errors import Code, RefusedError

from .directory import Done


class ParkedFrames(Protocol):
    """Where the frames behind it wait."""

    def park(self) -> None: ...
    def unpark(self) -> None: ...


class Asker(Protocol):
    """The connection that asks."""

    closed: bool

    @property
    def inbound(self) -> ParkedFrames: ...
    def fail(self, code: Code, detail: str, receipt: bytes | None = None) -> None: ...
    def fault(self) -> None: ...


class Question:
    """`then` is called when the answer is yes; it may raise RefusedError like any control function."""

    __slots__ = ("_answer", "_answered", "_parked", "_receipt", "_session", "_then")

    def __init__(self, session: Asker, receipt: bytes | None, then: Callable[[], None]) -> None:
        self._session = session
        self._receipt = receipt
        self._then = then
        self._answered = self._parked = False
        self._answer: RefusedError | None = None
        """Of one that came at once."""

    def ask(self, question: Callable[[Done], None]) -> None:
        """Asks, and goes on if the answer comes at once. Raises RefusedError."""
        question(self._done)
        if not self._answered:
            self._parked = True
            self._session.inbound.park()
            return
        if self._answer is not None:
            raise self._answer
        self._then()

    def _done(self, answer: RefusedError | None) -> None:
        if not self._parked:
            self._answered, self._answer = True, answer
            return
        session = self._session
        if session.closed:
            return
        try:
            if answer is not None:
                raise answer
            self._then()
        except RefusedError as refused:
            session.fail(refused.code, refused.detail, self._receipt)
            return
        except Exception:
            session.fault()
            return
        session.inbound.unpark()


def ask(session: Asker, receipt: bytes | None, question: Callable[[Done], None], then: Callable[[], None]) -> None:
    """Asks, and goes on with `then` on a yes; a no becomes an ERROR that names `receipt`. Raises RefusedError."""
    Question(session, receipt, then).ask(question)
