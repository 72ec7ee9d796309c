"""What an abuser is told, and the list of all abusers.

Rule: an abuser is registered with the name of what bounds it; the table of docs/reliability.md shows that name.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

from tests.harness.stomp import Client, build


@dataclass(frozen=True)
class Target:
    """Ports of who is abused, and the monotonic time of the end. admin: of the process that has the other two."""

    port: int
    ws_port: int
    admin: int
    end: float

    def time_left(self) -> float:
        """Seconds."""
        return self.end - time.monotonic()

    def joined(self) -> Client:
        """A connection that is logged in."""
        client = Client(self.port, timeout=30)
        client.connect()
        return client

    def with_queues(self, count: int) -> Client:
        """A connection that is logged in and has made so many queues, each with a message."""
        client = self.joined()
        for start in range(0, count, 500):
            names = range(start, min(start + 500, count))
            client.raw(b"".join(build("SEND", {"destination": f"/queue/q{n}"}) for n in names))
        client.sync()
        return client


Abuser = Callable[[Target], None]
ALL: dict[str, Abuser] = {}
BOUNDS: dict[str, str] = {}
"""Abuser → what bounds it, in the words of settings and decisions."""


def abuser(bound: str) -> Callable[[Abuser], Abuser]:
    """Registers one under its own name."""

    def register(made: Abuser) -> Abuser:
        name = made.__name__.replace("_", "-")
        ALL[name], BOUNDS[name] = made, bound
        return made

    return register
