"""Archives beyond a folder of this machine, by Spark's file systems: here viewfs://, which no other library opens."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from broker_pipeline.errors import PipelineError
from broker_pipeline.store.manifests import Archive
from broker_pipeline.store.notes import KEY
from broker_pipeline.store.stores import LocalStore, remote, store

from tests.harness import Broker, free_ports, listens, until

from .host import Host, Hosts, SparkError
from .test_spark_archive import send, take
from .test_spark_sending import taken

pytestmark = pytest.mark.timeout(900)  # Spark starts dozens of processes, and other tests run beside it
NAME = "viewfs://lake/mount"


@pytest.fixture
def place(sparks: Hosts) -> Path:
    return sparks.place


def here(paths: list[str], place: Path) -> list[str]:
    """As a library that knows nothing of viewfs opens them."""
    assert all(path.startswith(f"{NAME}/") for path in paths)
    return [path.replace(NAME, str(place)) for path in paths]


def test_an_archive_that_only_spark_reaches(spark: Host, place: Path, tmp_path: Path) -> None:
    import duckdb
    import pandas

    (port,) = free_ports(1)
    lake, source = f"{NAME}/lake", {"broker": f"127.0.0.1:{port}", "addresses": "a,large"}
    with Broker(tmp_path / "broker", {"log_reads.port": port}) as broker:
        until(lambda: listens(port), "the read API")
        send(broker, "/queue/a", [b"%d" % n for n in range(30)])
        send(broker, "/queue/large", [b"L" * 400_000])
        take(broker, "/queue/a", 10)
        assert spark.call("archive", lake, source) > 31
        rubbish = place / "lake/data/000000000099-dead/x.parquet"
        rubbish.parent.mkdir()
        rubbish.write_bytes(b"of a run that was killed")
        until(lambda: spark.call("archive", lake, source) == 0, "an archive with nothing new", 300)
        assert not rubbish.exists()
        send(broker, "/queue/a", [b"%d" % n for n in range(30, 40)])
        assert spark.call("archive", lake, source) == 20

        files = here(spark.call("live", lake, "messages"), place)
        with duckdb.connect() as db:
            found = db.execute(f"select body, message_id from read_parquet({files}) where address = 'a'").fetchall()
            events = here(spark.call("live", lake, "events"), place)
            counted = db.execute(f"select event, count(*) from read_parquet({events}) where address = 'a' group by 1")
            known = dict(counted.fetchall())
        assert (known["ENQUEUED"], known["ACKED"]) == (40, 10)
        assert sorted(int(row[0]) for row in found) == list(range(40)) and len({row[1] for row in found}) == 40
        frame = pandas.concat([pandas.read_parquet(path, partitioning=None) for path in files])
        (ref,) = frame[frame.address == "large"].body_ref
        assert len(frame) == 41 and (place / "lake" / ref).read_bytes() == b"L" * 400_000

        told = spark.call("report", lake)
        assert sum(row["messages"] for row in told["hours"] if row["address"] == "a") == 40
        assert spark.call("compact", lake, 2) >= 1
        assert spark.call("delete", lake, [found[0][1]])[0] >= 2
        left = here(spark.call("live", lake, "messages"), place)
        with duckdb.connect() as db:
            rows = db.execute(f"select message_id from read_parquet({left}) where address = 'a'").fetchall()
        assert sorted(rows) == sorted((row[1],) for row in found[1:])
        on_disk = {str(path) for path in (place / "lake/data").rglob("*.parquet")}
        assert on_disk == {*left, *here(spark.call("live", lake, "events"), place)}
        sent_again(spark, broker, lake, source, place, sorted(int(row[0]) for row in found[1:]))
        assert spark.call("retain", lake, "9999-01-01") > 0 and not spark.call("live", lake, "messages")
        assert not list((place / "lake/bodies").iterdir()), "a large body goes with its day"


def sent_again(spark: Host, broker: Broker, lake: str, source: dict[str, str], place: Path, kept: list[int]) -> None:
    """A replay and a rebuild, whose notes and large bodies only the driver's file systems reach."""
    url = f"stomp://127.0.0.1:{broker.port}"
    named = f"stomp://ada:open-sesame@127.0.0.1:{broker.port}"  # a broker without users takes everybody
    plan = {"id": "once", "into": "/queue/again", "addresses": ("a", "large")}
    assert spark.call("replay", lake, source, named, plan) == len(kept) + 1
    nothing_secret_is_logged(spark.folder)
    (slot, offset, index) = json.loads((place / "lake/replays/once.done").read_text())
    assert min(slot, offset) >= 0 and index >= 0
    assert spark.call("replay", lake, source, url, plan) == 0, "the note says that all of it has been sent"
    bodies = taken(broker, "again", len(kept) + 1)
    assert sorted(int(body) for body in bodies if len(body) < 100) == kept and b"L" * 400_000 in bodies
    with pytest.raises(SparkError, match="something else before"):
        spark.call("replay", lake, source, url, plan | {"into": "/queue/elsewhere"})
    held = {row["destination"]: row["messages"] for row in spark.call("rebuild", lake, url, "", True)}
    with Broker(place / "other") as other:
        assert spark.call("rebuild", lake, f"stomp://127.0.0.1:{other.port}") == sum(held.values())
        assert {name: other.messages(name.removeprefix("/queue/")) for name in held} == held
        assert taken(other, "large", 1) == [b"L" * 400_000]


def nothing_secret_is_logged(folder: Path) -> None:
    """The key that signs notes, and a passcode in an option: in no event log, and in no other."""
    logs = list((folder / "events").iterdir())  # one of each session that the process has had
    log = "".join(each.read_text() for each in logs)
    keys = re.findall(rf'"{re.escape(KEY)}":"([^"]*)"', log)
    assert len(keys) > 1 and not {key for key in keys if "redacted" not in key}, set(keys)
    assert "AppendData stampede" in log, "the plan of what was sent"
    assert "open-sesame" not in log + (folder / "spark.log").read_text()


@pytest.mark.parametrize("objects", [False, True])
def test_a_name_is_given_once_and_one_run_writes_at_a_time(spark: Host, objects: bool) -> None:
    """By a rename that looks, and by the condition of object stores."""
    found = spark.call("stored", f"{NAME}/store{objects}", objects)
    assert found["none"] == [] and found["create"][0] == "done" and found["create"][1].startswith("FileExistsError")
    assert found["read"] == b"one" and found["body"] == 70_001 and found["gone"].startswith("FileNotFoundError")
    assert "another run is writing this archive" in found["second"] and "900 s" in found["second"]
    assert "has taken over" in found["lost"] and found["kept"]
    assert [name for name in found["left"] if name != "_staging"] == []
    assert found["scheme"].startswith("PipelineError") and "no jar" in found["scheme"]


def test_a_folder_is_a_folder_whatever_it_is_called(tmp_path: Path) -> None:
    assert [remote(name) for name in ("lake", "/a:b/c", "s3a://b/l", "hdfs:/l", "file:///l")] == [
        False, False, True, True, False,
    ]  # fmt: skip
    local = store(f"file://{tmp_path}/x")
    assert isinstance(local, LocalStore) and local.path("a") == f"{tmp_path}/x/a"
    local.create("manifests/1.json", b"one")
    with pytest.raises(FileExistsError):
        local.create("manifests/1.json", b"two")
    assert local.read("manifests/1.json") == b"one" and local.names("manifests") == ["1.json"]
    with pytest.raises(PipelineError, match="no session"):
        Archive("s3a://bucket/lake")
