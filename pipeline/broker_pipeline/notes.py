"""How far receipts have come, noted where the archive lies, also where only the driver can write there.

A task that sends notes its place every few thousand rows (sending.py). In a folder of this machine a note is a file. A
worker cannot reach Spark's file systems, so there it tells the driver, which writes the note and says that it has.

Rule: a note counts when `put` has returned; until then the task sends nothing more.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from multiprocessing import AuthenticationError
from multiprocessing.connection import Client, Listener, answer_challenge, deliver_challenge
from types import TracebackType
from typing import Any, Final

from broker.seams.entropy import token

from .errors import PipelineError
from .files import write_pieces
from .manifests import Archive

_DRIVER: Final = "driver:"
_MOST: Final = 4096
"""Bytes of a note."""
_MOST_TALKS: Final = 16
_KEPT: Final = b"kept"


def put(where: str, note: bytes) -> None:
    """In a worker. Raises PipelineError, OSError."""
    if not where.startswith(_DRIVER):
        write_pieces(where, [note])
        return
    host, port, key = where.removeprefix(_DRIVER).rsplit("/", 2)
    try:
        with Client((host, int(port)), authkey=key.encode()) as line:
            line.send_bytes(note)
            said = line.recv_bytes(_MOST)
    except EOFError:
        raise PipelineError("the driver went away before it noted how far this is; run it again") from None
    if said != _KEPT:
        raise PipelineError(f"the driver could not note how far this is: {said.decode(errors='replace')}; run it again")


class Notes:
    """In the driver, while a task sends: `where` is the option `ledger`."""

    def __init__(self, spark: Any, archive: Archive, name: str) -> None:
        self.where = archive.path(name)
        self._listener: Listener | None = None
        self._keep: Callable[[bytes], None] = lambda note: archive.store.write(name, [note])
        if archive.store.remote:
            host, self._key = spark.conf.get("spark.driver.host"), token(16).encode()
            self._listener = Listener((host, 0))
            self.where = f"{_DRIVER}{host}/{self._listener.address[1]}/{self._key.decode()}"
            self._thread = threading.Thread(target=self._serve, args=(self._listener,), daemon=True)
            self._ending = False

    def __enter__(self) -> Notes:
        if self._listener is not None:
            self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._listener is None:
            return
        self._ending = True
        Client(self._listener.address).close()  # accept() returns
        self._thread.join()
        self._listener.close()

    def _serve(self, listener: Listener) -> None:
        """Whoever has no key, or says nothing, is in nobody's way."""
        talks: list[threading.Thread] = []
        while True:
            try:
                line = listener.accept()
            except OSError:
                continue
            if self._ending:
                line.close()
                return
            talks = [talk for talk in talks if talk.is_alive()]
            if len(talks) >= _MOST_TALKS:
                line.close()
                continue
            talks.append(threading.Thread(target=self._talk, args=(line,), daemon=True))
            talks[-1].start()

    def _talk(self, line: Any) -> None:
        with line:
            try:
                deliver_challenge(line, self._key)
                answer_challenge(line, self._key)
                note = line.recv_bytes(_MOST)
                try:
                    self._keep(note)
                except Exception as problem:  # whatever it is, the task must not believe that it is noted
                    line.send_bytes(str(problem).encode()[:_MOST])
                else:
                    line.send_bytes(_KEPT)
            except (OSError, EOFError, AuthenticationError):
                return
