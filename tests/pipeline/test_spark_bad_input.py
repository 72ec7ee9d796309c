"""What is wrong is said in one line that names it and what to do, and leaves neither duplicates nor holes.

Each kind of it once, through Spark, as a command says it (advice.cause): a missing address, an offset that is gone,
another history of the log, a wrong passcode, a full disk, a broken Parquet file. An older Spark: test_cli.py."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from broker_pipeline.advice import cause
from broker_pipeline.store.manifests import Archive, damaged

from tests.harness import Broker, free_ports, listens, scratch, until
from tests.harness.secrets import add_user

from .fake_reads import FakeReads
from .host import Host, SparkError
from .test_spark_archive import send
from .test_spark_sending import taken

pytestmark = pytest.mark.timeout(900)  # Spark starts dozens of processes, and other tests run beside it


@pytest.fixture(scope="module")
def broker(request: pytest.FixtureRequest) -> Iterator[tuple[Broker, dict[str, str]]]:
    (port,) = free_ports(1)
    with scratch(request, "bad-input") as folder, Broker(folder, {"log_reads.port": port}) as broker:
        until(lambda: listens(port), "the read API")
        yield broker, {"broker": f"127.0.0.1:{port}"}


def refusal(spark: Host, name: str, *arguments: Any) -> str:
    """What a command would say."""
    with pytest.raises(SparkError) as error:
        spark.call(name, *arguments)
    said = cause(str(error.value))
    assert "\n" not in said and "Traceback" not in said
    return said


def held(folder: Path, column: str = "body") -> list[Any]:
    """What readers of the archive see; and nothing else lies there."""
    import pyarrow.parquet as pq

    archive = Archive(str(folder))
    on_disk = {str(path) for path in (folder / "data").rglob("*.parquet")}
    assert on_disk == {*archive.live("messages"), *archive.live("events")}
    return sorted(
        value for path in archive.live("messages")
        for value in pq.read_table(path, columns=[column], partitioning=None)[column].to_pylist()
    )  # fmt: skip


def numbered(count: int, start: int = 0) -> list[bytes]:
    return sorted(b"%d" % n for n in range(start, count))


def test_an_address_that_there_is_none_of(spark: Host, broker, tmp_path: Path) -> None:
    server, source = broker
    send(server, "/queue/orders", [b"1", b"2"])
    lake = str(tmp_path / "lake")
    misspelt = source | {"addresses": "orders,ordres"}
    for said in (
        refusal(spark, "archive", lake, misspelt), refusal(spark, "ids", misspelt),
        refusal(spark, "stream", misspelt, str(tmp_path)),
    ):  # fmt: skip
        assert "no address ordres" in said and "check the spelling" in said and "create it first" in said
        assert "a pattern" in said and "orders," not in said
    assert Archive(lake).load().last is None, "nothing of it is in an archive whose addresses never change"
    assert spark.call("archive", lake, source | {"addresses": "orders,ordres.#,DLQ"}) == 4
    plan = {"id": "r", "into": "/queue/again", "addresses": ("orders", "ordres")}
    url = f"stomp://127.0.0.1:{server.port}"
    send(server, "/queue/others", [b"behind the archive"])
    for dry in (True, False):
        said = refusal(spark, "replay", lake, source, url, plan, dry)
        assert "a message of ordres" in said and "the archive has orders" in said and "spelling" in said
    said = refusal(spark, "replay", lake, source, url, plan | {"id": "o", "addresses": ("others",)})
    assert "is of orders, ordres.#, DLQ, and has nothing of others" in said
    assert server.messages("again") == 0
    assert spark.call("replay", lake, source, url, plan | {"id": "r2", "addresses": ("orders",)}) == 2
    assert taken(server, "again", 2) == [b"1", b"2"]


def test_what_is_gone_or_of_another_history_is_neither_left_out_nor_archived(spark: Host, tmp_path: Path) -> None:
    lake, checked = tmp_path / "lake", tmp_path / "stream"
    with FakeReads({3: 30}) as fake:
        source = {"broker": fake.endpoint}
        spark.call("archive", str(lake), source)
        spark.call("stream", source, str(checked))
        before, rows = held(lake, "message_id"), spark.call("parquet_ids", str(checked))
        assert len(before) == len(rows) == 30
        fake.add(3, 30)
        fake.earliest = fake.end(3) - 2
        for said in (refusal(spark, "archive", str(lake), source), refusal(spark, "stream", source, str(checked))):
            assert "slot 3" in said and f"begins at {fake.earliest}" in said
            assert "raise log_reads.keep_bytes" in said and "a new checkpoint, or a new archive folder" in said
        fake.earliest, fake.epoch = 1, 4
        for said in (refusal(spark, "archive", str(lake), source), refusal(spark, "stream", source, str(checked))):
            assert "1802" in said and "another history" in said and "a new archive folder" in said
        assert (held(lake, "message_id"), spark.call("parquet_ids", str(checked))) == (before, rows)
        fake.epoch = 1  # the right log again: it goes on where it was
        spark.call("archive", str(lake), source)
        spark.call("stream", source, str(checked))
        found = spark.call("parquet_ids", str(checked))
        assert len(found) == len(set(found)) == len(set(held(lake, "message_id"))) == 60


def test_another_broker_is_not_taken_for_the_one_that_was_archived(spark: Host, broker, tmp_path: Path) -> None:
    _, source = broker
    lake = tmp_path / "lake"
    with FakeReads({3: 30}) as fake:
        spark.call("archive", str(lake), {"broker": fake.endpoint})
    before = held(lake, "message_id")
    said = refusal(spark, "archive", str(lake), source)
    assert "is the archive of broker fake" in said and "use another folder" in said
    assert held(lake, "message_id") == before


def test_a_wrong_passcode(spark: Host, tmp_path: Path) -> None:
    (port,) = free_ports(1)
    settings = {"log_reads.port": port, "log_reads.host": "127.0.0.1", "edge.host": "127.0.0.1",
                "edge.permissions.#.read": "*"}  # fmt: skip
    rights = {
        f"edge.permissions.#.{name}": "*" for name in ("send", "consume", "create_address", "create_durable_queue")
    }
    broker = Broker(tmp_path / "broker", settings | rights)
    broker.folder.mkdir()
    add_user(broker, "ada", "open-sesame")
    lake, rows = tmp_path / "lake", [(b"%d" % n,) for n in range(5)]
    with broker:
        until(lambda: listens(port), "the read API")
        for passcode in ("wrong", "open-sesame"):
            into = {"url": f"stomp://ada:{passcode}@127.0.0.1:{broker.port}", "destination": "/queue/q"}
            source = {"broker": f"127.0.0.1:{port}", "user": "ada", "passcode": passcode}
            taking = {"mode": "consume", "ahead": str(tmp_path / "ahead"), "quiet": "1", **into}
            steps: list[tuple[Any, ...]] = [
                ("write", rows, "body binary", into), ("archive", str(lake), source),
                ("stream", taking, str(tmp_path / "taken")),
            ]  # fmt: skip
            for step in steps:
                if passcode == "wrong":
                    said = refusal(spark, *step)
                    assert "check the options user and passcode" in said and "wrong" not in said, said
                else:
                    spark.call(*step)
        assert held(lake) == numbered(5)
        assert sorted(spark.call("parquet_bodies", str(tmp_path / "taken"))) == numbered(5)


@contextmanager
def small_disk(place: Path, size: str) -> Iterator[None]:
    place.mkdir()
    done = subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={size}", "none", place], capture_output=True, text=True)
    if done.returncode:
        pytest.skip(f"no file system of a given size here: {done.stderr.strip() or 'mount is not allowed'}")
    try:
        yield
    finally:
        subprocess.run(["umount", "-l", place], check=True)


def test_a_full_disk(spark: Host, broker, tmp_path: Path) -> None:
    """Of an archive, on a tmpfs: while Spark writes Parquet, and while a worker writes a large body."""
    server, source = broker
    send(server, "/queue/full", [os.urandom(20_000) + b"%d" % n for n in range(40)])
    send(server, "/queue/full-large", [b"L" * 700_000])
    done: dict[str, Path] = {}
    for case, (name, count, left) in enumerate((("full", 40, 300_000), ("full", 41, 0), ("full-large", 1, 300_000))):
        # Each on a disk of its own: Spark holds the files of a failed task open until its JVM collects them, and what
        # they occupy would be given back at any moment, so that a disk that was filled once does not stay full.
        place = tmp_path / f"small-{case}"
        with small_disk(place, "8m"):
            lake, filler, given = place / "lake", place / "filler", source | {"addresses": name}
            if name in done:
                shutil.copytree(done[name], lake)
            before = Archive(str(lake)).load().number
            assert bool(before) == (name in done)
            free = os.statvfs(place)
            filler.write_bytes(bytes(free.f_bavail * free.f_bsize - left))
            said = refusal(spark, "archive", str(lake), given)
            assert "make room" in said and "nothing of this run counts, run it again" in said, said
            assert Archive(str(lake)).load().number == before
            filler.unlink()
            assert spark.call("archive", str(lake), given) > 0
            assert len(held(lake)) == len(set(held(lake, "message_id"))) == count
            assert spark.call("archive", str(lake), given) == 0
            send(server, f"/queue/{name}", [b"one more"])
            done[name] = tmp_path / f"kept-{case}"
            shutil.copytree(lake, done[name])


def test_a_broken_parquet_file(spark: Host, broker, tmp_path: Path) -> None:
    server, source = broker
    source = source | {"addresses": "broken"}
    lake = tmp_path / "lake"
    for start in (0, 10):
        send(server, "/queue/broken", [b"%d" % n for n in range(start, start + 10)])
        spark.call("archive", str(lake), source)
    files = Archive(str(lake)).live("messages")
    second = files[-1]
    whole = Path(second).read_bytes()
    url = f"stomp://127.0.0.1:{server.port}"
    plan = {"id": "b", "into": "/queue/mended", "addresses": ("broken",)}
    steps: list[tuple[Any, ...]] = [
        ("report", str(lake)), ("replay", str(lake), source, url, plan), ("rebuild", str(lake), url, ""),
        ("compact", str(lake), 2), ("delete", str(lake), ["1-1"]),
    ]  # fmt: skip
    footer = int.from_bytes(whole[-8:-4], "little") + 8
    pages = bytes(len(whole) - footer - 4)  # all of them; the footer is as it was
    for damage in (b"PAR1 no longer", whole[:4] + pages + whole[-footer:]):
        Path(second).write_bytes(damage)
        state = Archive(str(lake)).load()
        assert damaged(Archive(str(lake)), state, None, print) == [second]
        for step in steps:  # those that write an archive read as the others do
            if len(damage) == len(whole) and step[0] in ("compact", "delete", "rebuild"):
                continue
            said = refusal(spark, *step)
            assert Path(second).name in said and "stampede-pipeline verify" in said and "backup" in said, (step, said)
    assert Archive(str(lake)).live("messages") == files, "other hours may have been compacted, each as a whole"
    Path(second).write_bytes(whole)
    assert held(lake) == numbered(20)
    spark.call("replay", str(lake), source, url, plan)
    assert sorted(taken(server, "mended", 20)) == numbered(20)
    assert spark.call("compact", str(lake), 2) >= 1 and held(lake) == numbered(20)
