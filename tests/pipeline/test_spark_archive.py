"""The archive of a real broker: each acknowledged message once, whoever is killed; read by DuckDB and pandas."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from broker_pipeline.manifests import Archive
from broker_pipeline.page import page

from tests.harness import Broker, Client, free_ports, listens, scratch, until

from .host import Host, SparkError

pytestmark = pytest.mark.timeout(900)  # Spark starts dozens of processes, and other tests run beside it


@pytest.fixture(scope="module")
def broker(request: pytest.FixtureRequest) -> Iterator[tuple[Broker, dict[str, str]]]:
    (port,) = free_ports(1)
    with scratch(request, "archived") as folder, Broker(folder, {"log_reads.port": port}) as broker:
        until(lambda: listens(port), "the read API")
        yield broker, {"broker": f"127.0.0.1:{port}"}


def send(broker: Broker, address: str, bodies: list[bytes]) -> None:
    """Returns when the broker has acknowledged them."""
    with Client(broker.port) as client:
        client.connect()
        for body in bodies:
            client.publish(address, body, persistent="true", kind="test")
        client.sync()


def take(broker: Broker, address: str, count: int) -> None:
    with Client(broker.port) as client:
        client.connect()
        client.subscribe(address, ack="client-individual")
        for message in client.messages(count):
            client.ack(message)
        client.sync()


def with_duckdb(folder: Path, view: str, sql: str) -> list[tuple]:
    import duckdb

    with duckdb.connect() as db:
        return db.execute(sql.format(files=f"read_parquet({Archive(str(folder)).live(view)})")).fetchall()


def test_archive_of_a_broker(spark: Host, broker, tmp_path: Path):
    server, source = broker
    source = source | {"addresses": "a/b,large"}
    folder = tmp_path / "lake"
    large = b"L" * 400_000
    send(server, "/queue/a/b", [b"%d" % n for n in range(30)])
    send(server, "/queue/large", [large])
    take(server, "/queue/a/b", 10)
    assert spark.call("archive", str(folder), source) > 31
    # An ACK without a receipt is in the log a little later.
    until(lambda: spark.call("archive", str(folder), source) == 0, "an archive with nothing new", 300)
    send(server, "/queue/a/b", [b"%d" % n for n in range(30, 40)])
    spark.call("archive", str(folder), source)

    found = with_duckdb(folder, "messages", "select body, message_id, headers from {files} where address = 'a/b'")
    assert sorted(int(row[0]) for row in found) == list(range(40))
    assert len({row[1] for row in found}) == 40 and found[0][2]["kind"] == "test"
    events = with_duckdb(folder, "events", "select event, count(*) from {files} where address = 'a/b' group by 1")
    assert dict(events)["ENQUEUED"] == 40 and dict(events)["ACKED"] == 10
    import pandas

    frame = pandas.concat([pandas.read_parquet(path) for path in Archive(str(folder)).live("messages")])
    assert len(frame) == 41 and set(frame.address) == {"a/b", "large"}
    (ref,) = frame[frame.address == "large"].body_ref
    assert (folder / ref).read_bytes() == large

    told = spark.call("report", str(folder))
    assert sum(row["messages"] for row in told["hours"] if row["address"] == "a/b") == 40
    assert {(row["address"], row["event"]): row["count"] for row in told["events"]}["a/b", "ACKED"] == 10
    assert "a/b" in page(told)

    send(server, "/queue/a/b", [b"%d" % n for n in range(40, 45)])  # these are in the live log only
    plan = {"id": "r1", "into": "/queue/again", "addresses": ("a/b", "large"), "where": "message_id <> 'none'"}
    url = f"stomp://127.0.0.1:{server.port}"
    counted = spark.call("replay", str(folder), source, url, plan, True)
    assert [(row["address"], row["messages"]) for row in counted] == [("a/b", 45), ("large", 1)]
    assert spark.call("replay", str(folder), source, url, plan) == 46
    send(server, "/queue/a/b", [b"45"])  # later than the plan
    assert spark.call("replay", str(folder), source, url, plan) == 0
    (folder / "replays/r1.done").unlink()
    assert spark.call("replay", str(folder), source, url, plan) == 46, "as after a kill: the broker knows them"
    send(server, "/queue/again", [b"the end"])
    with Client(server.port) as client:
        client.connect()
        client.subscribe("/queue/again")
        again = client.messages(47)
    assert [m.body for m in again if m.body != large] == [*(b"%d" % n for n in range(45)), b"the end"]
    assert again[0].headers["x-original-address"] == "a/b"
    with pytest.raises(SparkError, match="was something else before"):
        spark.call("replay", str(folder), source, url, plan | {"into": "/queue/else"})

    assert spark.call("compact", str(folder), 2) >= 1
    assert spark.call("delete", str(folder), [found[0][1]]) >= 2, "the message and its events"
    left = with_duckdb(folder, "messages", "select message_id from {files} where address = 'a/b'")
    assert sorted(left) == sorted((row[1],) for row in found[1:])
    on_disk = {str(path) for path in (folder / "data").rglob("*.parquet")}
    held = Archive(str(folder))
    assert on_disk == {*held.live("messages"), *held.live("events")}

    with pytest.raises(SparkError, match="archive of the addresses a/b, large"):
        spark.call("archive", str(folder), source | {"addresses": "large"})
    held.folder.joinpath("manifests/000000000001.json").rename(tmp_path / "aside")
    with pytest.raises(SparkError, match="manifest 1 is missing"):
        spark.call("archive", str(folder), source)


def test_killed_runs_leave_each_message_once(broker, tmp_path: Path):
    server, source = broker
    folder = tmp_path / "lake"
    source = source | {"addresses": "killed"}
    manifests = folder / "manifests"
    sent: list[bytes] = []
    for seen in (1, 3):
        (tmp_path / str(seen)).mkdir()
        more = [b"%d-%d" % (seen, n) for n in range(60)]
        send(server, "/queue/killed", more)
        sent += more
        with Host(tmp_path / str(seen)) as host:
            host.begin("archive", str(folder), source, 12)
            until(lambda seen=seen: len(list(manifests.glob("*.json"))) >= seen, "manifests", 400)
            host.kill()
    with Host(tmp_path / "1") as host:
        host.call("archive", str(folder), source)
    found = with_duckdb(folder, "messages", "select body from {files} where address = 'killed'")
    assert sorted(row[0] for row in found) == sorted(sent)
    events = with_duckdb(folder, "events", "select count(distinct message_id), count(*) from {files}")
    assert events[0][0] == len(sent) == events[0][1]
