"""The source on a real Spark against a read API that breaks its streams, and the sink on a real broker."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from broker_pipeline.datasource.source import StampedeReader
from broker_pipeline.errors import PipelineError
from broker_pipeline.options import read_options
from pyspark.sql.datasource import EqualTo, In

from tests.harness import Broker, Client, scratch

from .fake_reads import MINUTE, START_MS, FakeReads
from .host import Host, SparkError

pytestmark = pytest.mark.timeout(900)  # Spark starts dozens of processes, and other tests run beside it


@pytest.fixture(scope="module")
def broker(request: pytest.FixtureRequest) -> Iterator[Broker]:
    with scratch(request, "sink") as folder, Broker(folder, {"engine.addresses.forgetful.id_cache_size": 0}) as broker:
        yield broker


def expected(slot: int, count: int, start: int = 0) -> list[str]:
    return [f"{slot}-{n}" for n in range(start, count)]


def test_batch(spark: Host):
    with FakeReads({3: 40, 9: 20, 11: 0}, break_every=17) as fake:
        options = {"broker": f"127.0.0.1:{fake.port}", "rowsPerSplit": "9"}
        assert spark.call("ids", options) == expected(3, 40) + expected(9, 20)
        fake.requests.clear()
        where = f"address = 'a9' and ts >= timestamp_millis({START_MS + 10 * MINUTE})"
        assert spark.call("ids", options, where) == expected(9, 20, 11)
        pushed = {(tuple(request.addresses), request.since_ms) for request in fake.requests}
        assert pushed == {(("a9",), START_MS + 10 * MINUTE)}
        bounds = {
            "startingOffsets": json.dumps({"3": {"o": 2, "e": 1}, "9": {"o": 8, "e": 1}}),
            "endingOffsets": json.dumps({"3": {"o": 4, "e": 1}, "9": {"o": 9, "e": 1}}),
        }
        assert spark.call("ids", options | bounds) == expected(3, 7, 3) + expected(9, 20, 17)
        nothing = {"startingOffsets": "latest"}
        assert spark.call("ids", options | nothing) == []
        more = options | {"startingOffsets": f"@{START_MS + 6 * MINUTE}", "text": "true", "bodies": "inline"}
        plain, large = spark.call("rows", more, "address = 'a3' and message_id in ('3-6', '3-7')")
        assert plain["headers"] == {"color": "red"} and plain["body"] == b"body 6" and plain["text"] == "body 6"
        assert large["body"] == b"z" * 300_000


def test_stream_with_a_cap_drains_everything_once_over_restarts(spark: Host, tmp_path: Path):
    with FakeReads({3: 39, 9: 20}, break_every=9) as fake:
        options = {"broker": f"127.0.0.1:{fake.port}", "maxRowsPerTrigger": "8", "archive": "lake"}
        assert len(spark.call("stream", options, str(tmp_path))) >= 2
        assert sorted(spark.call("parquet_ids", str(tmp_path))) == sorted(expected(3, 39) + expected(9, 20))
        assert fake.marks["lake"]
        fake.add(3, 10)
        fake.add(12, 5)  # a slot that comes into use later
        spark.call("stream", options, str(tmp_path))
        found = spark.call("parquet_ids", str(tmp_path))
        assert sorted(found) == sorted(expected(3, 49) + expected(9, 20) + expected(12, 5))
        fake.add(9, 10)
        told = spark.call("stream_until", options, str(tmp_path), 10)
        assert told and all(json.loads(each or "{}")["9"]["o"] == fake.end(9) for each in told), "its own metrics"
        assert sorted(spark.call("parquet_ids", str(tmp_path))) == sorted([*found, *expected(9, 30, 20)])


def bodies(broker: Broker, queue: str, count: int) -> list[bytes]:
    with Client(broker.port) as client:
        client.connect()
        client.subscribe(f"/queue/{queue}")
        found = [message.body for message in client.messages(count)]
        client.sync()
    return sorted(found)


def test_sink_writes_each_row_once_however_often(spark: Host, broker: Broker, tmp_path: Path):
    url = f"stomp://127.0.0.1:{broker.port}"
    with FakeReads({3: 30}) as fake:
        read = {"broker": f"127.0.0.1:{fake.port}", "bodies": "inline"}
        spark.call("write_stream", read, {"url": url, "destination": "/queue/one"}, str(tmp_path))
        assert len(bodies(broker, "one", 30)) == 30
    rows = [(b"%d" % n, f"id{n}") for n in range(20)]
    options = {"url": url, "destination": "/queue/two", "idColumn": "id"}
    for _ in range(2):
        spark.call("write", rows, "body binary, id string", options)
    spark.call("write", [(b"last", "last")], "body binary, id string", options)
    assert bodies(broker, "two", 21) == sorted([b"%d" % n for n in range(20)] + [b"last"])


def test_an_atomic_write_is_one_transaction_of_all_tasks(spark: Host, broker: Broker):
    options = {"url": f"stomp://127.0.0.1:{broker.port}", "destination": "/queue/atomic", "writeId": "w1"}
    rows = [(n, b"%d" % n, None) for n in range(30)]
    schema = "n int, body binary, destination string"
    broken = [*rows, (30, b"L" * 200_000, None)]
    with pytest.raises(SparkError, match="cannot be part of a transaction"):
        spark.call("write", broken, schema, options | {"atomic": "batch"}, 3)
    assert broker.messages("atomic") == 0
    for _ in range(2):
        spark.call("write", rows, schema, options | {"atomic": "batch"}, 3)
    assert bodies(broker, "atomic", 30) == sorted(b"%d" % n for n in range(30))
    with pytest.raises(SparkError, match="remembers the last"):
        spark.call("write", rows, schema, options | {"destination": "/queue/forgetful", "atomic": "task"}, 3)
    assert broker.messages("forgetful") == 0


def test_an_event_that_there_is_none_of_is_an_error_not_an_empty_answer():
    reader = StampedeReader(read_options({"broker": "127.0.0.1:1", "view": "events"}))
    with pytest.raises(PipelineError, match="no event 'acked'; there are ENQUEUED, DELIVERED, ACKED"):
        list(reader.pushFilters([EqualTo(("event",), "acked")]))
    known = [EqualTo(("event",), "ACKED"), In(("event",), ("NACKED", "PURGED"))]
    assert list(reader.pushFilters(known)) == known
    with FakeReads({3: 30}) as fake:
        for each in (EqualTo(("event",), "DELIVERED"), In(("event",), ("ACKED", "DELIVERED"))):
            reader = StampedeReader(read_options({"broker": fake.endpoint, "view": "events"}))
            assert list(reader.pushFilters([each])) == [each]
            with pytest.raises(PipelineError, match=r"no event DELIVERED: set `record_deliveries: true`.*NACKED with"):
                reader.partitions()
            fake.deliveries = True
            assert reader.partitions()
            fake.deliveries = False


def test_errors_reach_the_user(spark: Host):
    with pytest.raises(SparkError, match="no option 'adresses'"):
        spark.call("ids", {"broker": "127.0.0.1:1", "adresses": "a"})
    with pytest.raises(SparkError, match=r"log_reads\.port"):
        spark.call("ids", {"broker": "127.0.0.1:1", "patience": "1"})
    with pytest.raises(SparkError, match="the broker did not take everything"):
        spark.call("write", [("x",)], "body string", {"url": "stomp://127.0.0.1:1", "destination": "/queue/x"})
