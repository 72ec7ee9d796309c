"""What some files hold, and hold again once they have changed: certificates, keys.

    watched = WatchedFiles([cert, key], lambda: made_of(cert, key), told)
    watched.value         # made of the files as they were when they were last good
    watched.look()        # they are looked at; told(None): there is a new value; told(error): the old one stays

Rule: a broken new file never replaces what a good old one gave, and each change is told once.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Generic, TypeVar

from .files import fingerprint

T = TypeVar("T")


class WatchedFiles(Generic[T]):
    """See the head of this file. What `load` raises at first (OSError, ValueError) is raised."""

    def __init__(
        self, paths: Sequence[str], load: Callable[[], T], told: Callable[[OSError | ValueError | None], None]
    ) -> None:
        self._paths = paths
        self._load = load
        self._told = told
        self._timer: asyncio.TimerHandle | None = None
        # Remembered before loading: should the files change meanwhile, the next look sees it.
        self._seen = self._prints()
        self.value = load()

    def look(self) -> None:
        """At the files, once."""
        now = self._prints()
        if now == self._seen:
            return
        self._seen = now
        try:
            self.value = self._load()
        except (OSError, ValueError) as error:  # ssl.SSLError is an OSError
            self._told(error)
        else:
            self._told(None)

    def follow(self, loop: asyncio.AbstractEventLoop, every_s: float) -> None:
        """Looks again and again, until close()."""
        self._timer = loop.call_later(every_s, self._again, loop, every_s)

    def close(self) -> None:
        if self._timer is not None:
            self._timer.cancel()

    def _again(self, loop: asyncio.AbstractEventLoop, every_s: float) -> None:
        self.look()
        self.follow(loop, every_s)

    def _prints(self) -> list[tuple[int, int, int] | None]:
        return [fingerprint(path) for path in self._paths]
