"""Heart-beat arithmetic of STOMP 1.1 and 1.2, both directions.

Rule: pure; times are seconds of the caller's monotonic clock.
"""

from __future__ import annotations

from broker.core.strict_numbers import natural

from .errors import ClientError

TOLERANCE = 2.0
"""A server that was silent for this many of its intervals is gone: the specification asks for a margin."""


class Beats:
    """Who owes what. `send_every`, `expect_every`: seconds, 0 = nothing agreed."""

    __slots__ = ("expect_every", "send_every")

    def __init__(self, mine: tuple[int, int], theirs: str | None) -> None:
        """`mine`: (can send, want) in milliseconds; `theirs`: the server's heart-beat header.

        Raises ClientError when the server's header is not two numbers."""
        can, want = (theirs or "0,0").split(",") if (theirs or "0,0").count(",") == 1 else ("", "")
        sends, wants = natural(can), natural(want)
        if sends is None or wants is None:
            raise ClientError(f"the server sent a malformed heart-beat header: {theirs!r:.50}")
        self.send_every = max(mine[0], wants) / 1000 if mine[0] and wants else 0.0
        self.expect_every = max(mine[1], sends) / 1000 if mine[1] and sends else 0.0

    @property
    def tick(self) -> float:
        """Seconds between two looks; 0 = never look. A quarter of the shorter interval: a beat that is sent when
        half an interval was quiet is then at most three quarters late."""
        return min((every for every in (self.send_every, self.expect_every) if every), default=0.0) / 4

    def due(self, now: float, last_sent: float) -> bool:
        """Is it time to send an empty line?"""
        return bool(self.send_every) and now - last_sent >= self.send_every / 2

    def overdue(self, now: float, last_received: float) -> bool:
        """Has the server been silent for too long?"""
        return bool(self.expect_every) and now - last_received > self.expect_every * TOLERANCE
