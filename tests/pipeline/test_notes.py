"""Notes of how far a task is, as the driver keeps them for workers that cannot write where the archive is; and the
lease under which it does."""

from __future__ import annotations

import socket
import time
from collections.abc import Iterable
from types import SimpleNamespace
from typing import Any

import pytest
from broker_pipeline import progress
from broker_pipeline.errors import PipelineError
from broker_pipeline.progress import Progress
from broker_pipeline.store import hadoop, notes
from broker_pipeline.store.hadoop import Lease
from broker_pipeline.store.notes import KEY, NO_KEY, Notes, put

from tests.harness import until


class Far:
    """A store that workers do not reach."""

    remote = True
    folder = "far://lake"

    def __init__(self) -> None:
        self.files: dict[str, bytes] = {}
        self.full = False

    def path(self, relative: str) -> str:
        return f"far://{relative}"

    def now_ms(self) -> int:
        return round(time.time() * 1000)

    def read(self, relative: str) -> bytes:
        return self.files[relative]

    def create(self, relative: str, data: bytes) -> None:
        if relative in self.files:
            raise FileExistsError(relative)
        self.files[relative] = data

    def remove(self, relative: str) -> None:
        del self.files[relative]

    def write(self, relative: str, pieces: Iterable[bytes]) -> None:
        if self.full:
            raise PipelineError("no room there")
        self.files[relative] = b"".join(pieces)


class Taken:
    """A lock that may have been taken over."""

    over = False

    def renew(self) -> None:
        if self.over:
            raise PipelineError("another run has taken over")

    def close(self) -> None: ...


class Session:
    """What is asked of Spark."""

    def __init__(self) -> None:
        self.properties: dict[str, str] = {}
        self.conf = SimpleNamespace(get=lambda name, other=None: "127.0.0.1", set=self.properties.__setitem__)


def kept(store: Far, spark: Session, lock: Taken | None = None, said: list[str] | None = None) -> Notes:
    archive: Any = SimpleNamespace(store=store, path=store.path)
    progress = Progress((said if said is not None else []).append, 9, "messages sent")
    return Notes(spark, archive, "replays/x.done", lock or Taken(), progress)


def test_a_note_counts_when_the_driver_has_written_it(monkeypatch: pytest.MonkeyPatch) -> None:
    store, spark, lock = Far(), Session(), Taken()
    said: list[str] = []
    with kept(store, spark, lock, said) as told:
        key = spark.properties[KEY] or ""
        assert key and key not in told.where, "what is an option is seen in plans"
        for number in range(3):
            put(told.where, b"%d" % number, key)
            assert store.files == {"replays/x.done": b"%d" % number}
        assert not said, "what does not take long is not spoken of"
        monkeypatch.setattr(progress, "EVERY_S", 0.0)
        put(told.where, b"2", key, 7)
        assert said == ["7 of 9 messages sent"]
        store.full = True
        with pytest.raises(PipelineError, match="could not note how far this is: no room there; run it again"):
            put(told.where, b"3", key)
        store.full, lock.over = False, True
        with pytest.raises(PipelineError, match="another run has taken over; run it again"):
            put(told.where, b"4", key)
        assert store.files["replays/x.done"] == b"2"
    assert spark.properties == {KEY: NO_KEY}
    monkeypatch.setattr(notes, "CALL_S", 0.3)
    with pytest.raises(PipelineError, match="did not say that it has noted"):
        put(told.where, b"5", key)


def test_who_has_no_key_notes_nothing_and_is_in_nobodys_way() -> None:
    store, spark = Far(), Session()
    with kept(store, spark) as told:
        key = spark.properties[KEY] or ""
        for forged in ("", f"{key}?"):
            with pytest.raises(PipelineError, match="not signed by a task of this driver"):
                put(told.where, b"forged", forged)
        with pytest.raises(PipelineError, match="larger than max"):
            put(told.where, b"x" * 10_000, key)
        host, port = told.where.rsplit(":", 1)
        with socket.create_connection((host, int(port))):  # and says nothing
            put(told.where, b"true", key)
    assert store.files == {"replays/x.done": b"true"}


@pytest.mark.parametrize("answers", [False, True])
def test_a_driver_that_hangs_ends_the_task(monkeypatch: pytest.MonkeyPatch, answers: bool) -> None:
    """It accepts the connection, and no more; or the store takes for ever."""
    monkeypatch.setattr(notes, "CALL_S", 0.5)
    store, spark = Far(), Session()
    begun = time.monotonic()
    if answers:
        monkeypatch.setattr(store, "write", lambda *_: time.sleep(2))
        with kept(store, spark) as told, pytest.raises(PipelineError, match="did not say that it has noted"):
            put(told.where, b"1", spark.properties[KEY] or "")
    else:
        with (
            socket.create_server(("127.0.0.1", 0)) as mute,
            pytest.raises(PipelineError, match="did not say that it has noted"),
        ):
            put(f"127.0.0.1:{mute.getsockname()[1]}", b"1", "key")
    assert time.monotonic() - begun < 60


def test_a_lease_is_renewed_while_it_is_held_and_lost_to_who_takes_over(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hadoop, "LEASE_MS", 2_000)
    store: Any = Far()
    lease = Lease(store)
    first = store.files["_lease.json"]
    until(lambda: store.files["_lease.json"] != first, "a renewal that nobody has asked for")
    monkeypatch.setattr(hadoop, "LEASE_MS", 900_000)
    with pytest.raises(PipelineError, match="another run is writing"):
        Lease(store)
    whole, looks = store.files["_lease.json"], iter((b"", b'{"token'))
    store.read = lambda name: next(looks, whole)  # while it is written
    with pytest.raises(PipelineError, match="another run is writing"):
        Lease(store)
    assert next(looks, None) is None
    del store.read
    store.full = True
    time.sleep(0.5)  # what fails now may go well the next time
    store.full = False
    lease.renew()
    store.files["_lease.json"] = b'{"token": "another", "ms": 1}'
    with pytest.raises(PipelineError, match="has taken over"):
        lease.renew()
    lease.close()
    assert store.files["_lease.json"] == b'{"token": "another", "ms": 1}'
    other = Lease(store)
    other.close()
    assert not store.files
