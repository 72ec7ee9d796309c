"""Where the body of a message is that a consumer holds: asked when its transfer goes on with a new leader.

Rule: memory is asked first; what a consumer holds by number only is read back from the journal, in a thread. Must not
know links nor files of bodies.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial

from broker.core.message import Blob, Run
from broker.engine.engine import Engine
from broker.journal.journal import Journal

from ..commit.io_thread import Io

Found = Callable[[Blob | None], None]
PAGE = 64 * 1024


class HeldBodies:
    """`engines`: the shard's, by slot."""

    def __init__(self, engines: Mapping[int, Engine], journal: Journal, io: Io) -> None:
        self._engines = engines
        self._journal = journal
        self._io = io

    def find(self, slot: int, consumer: int, message: int, found: Found) -> None:
        """None: it does not hold the message, or nobody knows where that is. Perhaps within this call."""
        engine = self._engines.get(slot)
        known = engine.shown.consumers.get(consumer) if engine is not None else None
        run = known.has(message) if known is not None else None
        # A consumer that attached again after a fail-over holds numbers only: the run is a stub with a position.
        if run is None or run.blob is not None or not run.position:
            found(None if run is None else run.blob)
            return
        positions: Sequence[int] = (run.position,)
        self._io.submit(partial(self._journal.read, positions, PAGE), partial(_read, message, found))


def _read(message: int, found: Found, runs: list[Run] | None, error: BaseException | None) -> None:
    """A log that cannot be read stops the owner when the engine asks for it, not here."""
    blobs = [run.blob for run in runs or () if message in run.ids and run.blob is not None]
    found(blobs[0] if blobs and error is None else None)
