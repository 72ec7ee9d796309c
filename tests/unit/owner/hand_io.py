"""A thread that works when a test says so."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


class HandIo:
    """owner.commit.io_thread.Io."""

    def __init__(self) -> None:
        self.jobs: list[tuple[Callable[[], Any], Callable[[Any, BaseException | None], None]]] = []

    def submit(self, job: Callable[[], Any], done: Callable[[Any, BaseException | None], None]) -> None:
        self.jobs.append((job, done))

    def one(self) -> None:
        """The oldest job is done, and told."""
        job, done = self.jobs.pop(0)
        try:
            result = job()
        except Exception as error:
            done(None, error)
        else:
            done(result, None)

    def all(self) -> None:
        while self.jobs:
            self.one()
