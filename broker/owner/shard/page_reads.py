"""Pages that engines have asked for, on their way from the disk.

Rule: handed in within a turn, and only to the engine that has asked: another one of its slot has asked for nothing.
Must not know what is in them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial

from broker.core.effects import Fetch, Turn
from broker.core.message import Run
from broker.engine.engine import Engine
from broker.journal.journal import Journal

from ..commit.io_thread import Io
from ..commit.release_gate import Touched


class PageReads:
    """waiting   what has come, for the next turn.    wake, failed   the shard's."""

    __slots__ = ("_engines", "_failed", "_io", "_journal", "_look", "_wake", "waiting")

    def __init__(
        self,
        journal: Journal,
        io: Io,
        engines: Mapping[int, Engine],
        wake: Callable[[], None],
        failed: Callable[[str], None],
    ) -> None:
        self._journal = journal
        self._io = io
        self._engines = engines
        self._wake = wake
        self._failed = failed
        self._look: Callable[[list[Run]], None] | None = None
        self.waiting: list[tuple[Engine, Fetch, list[Run]]] = []

    def ask(self, fetch: Fetch, nbytes: int) -> None:
        """Reads so many bytes of it, about."""
        # The engine by identity: a slot that leaves and comes back has another one, which has another page index.
        answer = partial(self._read, self._engines[fetch.slot], fetch)
        read = self._journal.read if self._look is None else partial(self._looked_at, self._look)
        self._io.submit(partial(read, fetch.positions, nbytes), answer)

    def look(self, look: Callable[[list[Run]], None]) -> None:
        """The thread that reads shows it everything first."""
        self._look = look

    def _looked_at(self, look: Callable[[list[Run]], None], positions: Sequence[int], nbytes: int) -> list[Run]:
        runs = self._journal.read(positions, nbytes)
        look(runs)
        return runs

    def hand_in(self, turn: Turn, touched: Touched) -> None:
        """What has come."""
        waiting, self.waiting = self.waiting, []
        for reader, fetch, runs in waiting:
            if self._engines.get(fetch.slot) is reader:
                reader.fetched(fetch.queue, runs, turn)
                touched[reader] = None

    def _read(self, reader: Engine, fetch: Fetch, runs: list[Run] | None, error: BaseException | None) -> None:
        if self._engines.get(fetch.slot) is not reader:
            return  # dropped meanwhile: its log may be void by now, and the slot's next engine has asked for nothing
        if error is not None or runs is None:
            self._failed(f"journal cannot be read back: {error!r}")
            return
        self.waiting.append((reader, fetch, runs))
        self._wake()
