"""The last message of a stream: asked for before a SUBSCRIBE that begins there (`x-stream-offset:last`) goes on.

Rule: what is subscribed to is a number, as if the client had said it; so it is the same after a fail-over. Must not
know owners.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from broker.core.errors import Code, RefusedError
from broker.wire.events import Frame

from ..destinations.asking import ask
from ..destinations.directory import Done
from ..session.session import Session

FindEnd = Callable[[str, Callable[[int], None], Done], None]
"""An address → its number (0: it has none) in front of done(None), or a refusal."""
_NOT_SERVED: Final = "where a stream ends is not asked here; say first, next, offset=NUMBER or timestamp=SECONDS"


class StreamEnds:
    """Of one edge."""

    __slots__ = ("_find",)

    def __init__(self) -> None:
        self._find: FindEnd | None = None

    def found_by(self, find: FindEnd) -> None:
        """Who knows it."""
        self._find = find

    def ask(self, session: Session, frame: Frame, address: str, then: Callable[[], None]) -> None:
        """Goes on with a frame that says a number. Raises RefusedError."""
        find = self._find
        if find is None:
            raise RefusedError(Code.BAD_HEADER, _NOT_SERVED)
        ends: list[int] = []

        def go_on() -> None:
            session.entrance.dialect.begins_at(frame.headers, ends[0])
            then()

        ask(session, frame.receipt, lambda done: find(address, ends.append, done), go_on)
