"""Notes of how far a task is, as the driver keeps them for workers that cannot write where the archive is."""

from __future__ import annotations

import socket
from collections.abc import Iterable
from multiprocessing import AuthenticationError
from types import SimpleNamespace
from typing import Any

import pytest
from broker_pipeline.errors import PipelineError
from broker_pipeline.notes import Notes, put


class Far:
    """A store that workers do not reach."""

    remote = True

    def __init__(self) -> None:
        self.files: dict[str, bytes] = {}
        self.full = False

    def write(self, relative: str, pieces: Iterable[bytes]) -> None:
        if self.full:
            raise PipelineError("no room there")
        self.files[relative] = b"".join(pieces)


def notes(store: Far) -> Notes:
    spark: Any = SimpleNamespace(conf=SimpleNamespace(get=lambda _: "127.0.0.1"))
    archive: Any = SimpleNamespace(store=store, path=lambda name: f"far://{name}")
    return Notes(spark, archive, "replays/x.done")


def test_a_note_counts_when_the_driver_has_written_it() -> None:
    store = Far()
    with notes(store) as kept:
        for number in range(3):
            put(kept.where, b"%d" % number)
            assert store.files == {"replays/x.done": b"%d" % number}
        store.full = True
        with pytest.raises(PipelineError, match="could not note how far this is: no room there; run it again"):
            put(kept.where, b"3")
        assert store.files["replays/x.done"] == b"2"
    with pytest.raises(OSError):
        put(kept.where, b"4")


def test_who_has_no_key_notes_nothing() -> None:
    store = Far()
    with notes(store) as kept:
        with pytest.raises(AuthenticationError):
            put(kept.where[:-1] + "?", b"forged")
        host, port, _ = kept.where.removeprefix("driver:").rsplit("/", 2)
        with socket.create_connection((host, int(port))):  # and says nothing
            put(kept.where, b"true")
    assert store.files == {"replays/x.done": b"true"}
