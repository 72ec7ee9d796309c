"""The archive of a real broker: each acknowledged message once, whoever is killed; read by DuckDB and pandas."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from broker_pipeline.jobs.page import page
from broker_pipeline.store.manifests import Archive

from tests.harness import Broker, Client, free_ports, listens, scratch, until

from .host import Host, Hosts, SparkError
from .sites import Alone
from .torture import Torture

NOTEBOOK = Path(__file__).resolve().parents[2] / "docs/examples/reading.ipynb"
pytestmark = pytest.mark.timeout(900)  # Spark starts dozens of processes, and other tests run beside it


@pytest.fixture(scope="module")
def broker(request: pytest.FixtureRequest) -> Iterator[tuple[Broker, dict[str, str]]]:
    (port,) = free_ports(1)
    settings = {"log_reads.port": port, "engine.addresses.a/b.record_deliveries": "true"}
    with scratch(request, "archived") as folder, Broker(folder, settings) as broker:
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

    told = spark.call("report", str(folder), str(tmp_path / "report"))
    assert sum(row["messages"] for row in told["hours"] if row["address"] == "a/b") == 40
    assert {(row["address"], row["event"]): row["count"] for row in told["events"]}["a/b", "ACKED"] == 10
    latencies = {row["event"]: row for row in told["latencies"] if row["address"] == "a/b"}
    assert latencies["DELIVERED"]["count"] >= latencies["ACKED"]["count"] == 10
    assert latencies["DELIVERED"]["ms"][0] <= latencies["ACKED"]["ms"][2]
    assert {(row["waiting"], row["minutes_to_empty"]) for row in told["backlog"] if row["address"] == "a/b"} == {
        (30, 180.0)
    }
    assert "a/b" in page(told) and "delivered" in page(told)
    assert "a/b" in page(told) and "a/b" in (tmp_path / "report.html").read_text()
    assert json.loads((tmp_path / "report.json").read_text())["hours"] == told["hours"]
    tables = {path.stem: pandas.read_parquet(path) for path in (tmp_path / "report.parquet").iterdir()}
    assert tables["hours"][tables["hours"].address == "a/b"].messages.sum() == 40
    assert len(tables["dead_letters"]) == 0 and [*tables["dead_letters"]] == ["address", "reason", "count", "samples"]
    assert tables.keys() == told.keys() - {"folder", "made_ms", "manifests"}

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
    gone, absent = spark.call("delete", str(folder), [found[0][1], "9-9"])
    assert gone >= 2 and absent == ["9-9"], "the message and its events, and whom there is nothing of"
    left = with_duckdb(folder, "messages", "select message_id from {files} where address = 'a/b'")
    assert sorted(left) == sorted((row[1],) for row in found[1:])
    on_disk = {str(path) for path in (folder / "data").rglob("*.parquet")}
    held = Archive(str(folder))
    assert on_disk == {*held.live("messages"), *held.live("events")}

    with pytest.raises(SparkError, match="archive of the addresses a/b, large"):
        spark.call("archive", str(folder), source | {"addresses": "large"})
    (folder / "manifests/000000000001.json").rename(tmp_path / "aside")
    with pytest.raises(SparkError, match="manifest 1 is missing"):
        spark.call("archive", str(folder), source)


def test_the_notebook_runs(spark: Host, broker):
    server, source = broker
    send(server, "/queue/notebook", [b"one", b"two"])
    take(server, "/queue/notebook", 1)

    def known() -> dict[str, int]:
        found = spark.call("notebook", str(NOTEBOOK), {"STAMPEDE_READS": source["broker"]})
        return {row["address"]: row["acknowledged"] for row in found}

    until(lambda: known().get("notebook") == 1, "the acknowledgement in the log", 300)


def test_queues_are_made_again_in_another_broker_from_the_archive_alone(spark: Host, broker, tmp_path: Path):
    server, source = broker
    folder = tmp_path / "lake"
    with Client(server.port) as client:
        client.connect()
        for n in range(12):
            client.publish("/queue/left", b"%d" % n, persistent="true", kind=f"k{n}", priority="7")
        client.publish("/queue/left", b"late", persistent="true", expires="1")
        client.publish("/queue/large2", b"L" * 300_000, persistent="true")
        client.sync()
    take(server, "/queue/left", 5)
    source = source | {"addresses": "left,large2,DLQ"}
    spark.call("archive", str(folder), source)
    until(lambda: spark.call("archive", str(folder), source) == 0, "an archive with nothing new", 300)
    counted = {row["destination"]: row["messages"] for row in spark.call("rebuild", str(folder), "", "", True)}
    assert counted["/queue/left"] == 7 and counted["/queue/large2"] == 1
    with Broker(tmp_path / "new") as new:
        url = f"stomp://127.0.0.1:{new.port}"
        total = sum(counted.values())
        assert spark.call("rebuild", str(folder), url) == total
        assert spark.call("rebuild", str(folder), url) == 0
        (folder / "rebuilds/one.done").unlink()
        assert spark.call("rebuild", str(folder), url) == total, "as after a kill: the broker knows them"
        for queue in ("left", "large2"):
            send(new, f"/queue/{queue}", [b"the end"])
        for queue, count in (("left", 7), ("large2", 1)):
            both = []
            for each, more in ((server, 0), (new, 1)):
                with Client(each.port) as client:
                    client.connect()
                    client.subscribe(f"/queue/{queue}", ack="client-individual")
                    both.append([(m.body, m.headers.get("kind"), m.headers.get("priority"))
                                 for m in client.messages(count + more)])  # fmt: skip
            assert both[0] == both[1][:-1] and both[1][-1][0] == b"the end"


def test_who_is_killed_leaves_each_message_once(sparks: Hosts, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """The short one of `make pipeline-torture`."""
    monkeypatch.setattr(Torture, "LONGEST_S", 2.0)
    site = Alone(tmp_path / "broker")
    torture = Torture(tmp_path, site, 1, 120, print, sparks)
    try:
        for victim in ("worker", "broker", "driver"):
            torture.round(victim)
        torture.replay()
    finally:
        torture.close()
        site.close()
