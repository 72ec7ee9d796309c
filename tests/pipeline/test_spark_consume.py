"""Consume mode: each message in one batch, acknowledged when Spark has committed it, whoever is killed when."""

from __future__ import annotations

import contextlib
import os
import random
import signal
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from broker_pipeline.datasource.consume import StampedeConsumer
from broker_pipeline.datasource.queue_consumer import INLINE_BYTES
from broker_pipeline.errors import PipelineError
from broker_pipeline.options import consume_options
from pyspark.sql.streaming.datasource import ReadMaxRows

from tests.harness import Broker, Client, scratch, until

from .host import Hosts, SparkError
from .torture import workers

pytestmark = pytest.mark.timeout(900)  # Spark starts dozens of processes, and other tests run beside it


@pytest.fixture(scope="module")
def broker(request: pytest.FixtureRequest) -> Iterator[Broker]:
    settings = {"engine.addresses.split.partitions": 3, "engine.addresses.often.max_delivery_attempts": -1}
    with scratch(request, "consumed") as folder, Broker(folder, settings) as broker:
        yield broker


def send(broker: Broker, queue: str, bodies: list[bytes], **headers: str) -> None:
    with Client(broker.port) as client:
        client.connect()
        for body in bodies:
            client.publish(f"/queue/{queue}", body, persistent="true", **headers)
        client.sync()


class Query:
    """What Spark does with a source, step by step. `committed` is its checkpoint."""

    def __init__(self, broker: Broker, queue: str, folder: Path, **more: str) -> None:
        self.given = {
            "mode": "consume", "url": f"stomp://127.0.0.1:{broker.port}", "destination": f"/queue/{queue}",
            "ahead": str(folder), "maxRowsPerTrigger": "10", "quiet": "1", "patience": "60",
        } | more  # fmt: skip
        self.reader = StampedeConsumer(consume_options(self.given))
        self.at: dict[str, Any] = self.reader.initialOffset()

    def plan(self) -> dict[str, Any]:
        return self.reader.latestOffset(self.at, ReadMaxRows(10))

    def rows(self, end: dict[str, Any]) -> list[dict[str, Any]]:
        return [row for piece in self.reader.partitions(self.at, end)
                for batch in self.reader.read(piece) for row in batch.to_pylist()]  # fmt: skip

    def batch(self) -> list[dict[str, Any]]:
        """Planned, read and committed."""
        end = self.plan()
        found = self.rows(end)
        self.at = end
        self.reader.commit(end)
        return found

    def drain(self, count: int) -> list[bytes]:
        """Until there are so many."""
        found: list[bytes] = []
        until(lambda: found.extend(row["body"] for row in self.batch()) or len(found) >= count, "messages", 300)
        return found

    def crash(self) -> None:
        """As if its process was killed: no word to the broker, and the lock is gone."""
        if (taker := self.reader._queue_consumer) is not None:
            taker._do(taker._close())
        if self.reader._ahead is not None:
            self.reader._ahead.close()
        self.reader = StampedeConsumer(consume_options(self.given))


def numbers(count: int, start: int = 0) -> list[bytes]:
    return [b"%d" % n for n in range(start, count)]


@pytest.mark.parametrize("queue", ["plain", "split"])
def test_batches_are_acknowledged_when_they_are_committed(broker: Broker, tmp_path: Path, queue: str) -> None:
    send(broker, queue, numbers(25), kind="k")
    query = Query(broker, queue, tmp_path)
    end = query.plan()
    rows = query.rows(end)
    assert len(rows) == 10 and dict(rows[0]["headers"])["kind"] == "k" and rows[0]["address"] == queue
    assert query.rows(end) == rows
    assert broker.messages(queue) == 25, "nothing is acknowledged before the commit"
    query.at = end
    query.reader.commit(end)
    found = [row["body"] for row in rows] + query.drain(15)
    assert sorted(found, key=int) == numbers(25)
    until(lambda: broker.messages(queue) == 0, "an empty queue")
    query.reader.stop()


@pytest.mark.parametrize("queue", ["often", "split"])
def test_a_query_that_is_killed_at_any_step_has_each_message_in_one_batch(
    broker: Broker, tmp_path: Path, queue: str
) -> None:
    dice = random.Random(4)
    send(broker, queue, numbers(120))
    query = Query(broker, queue, tmp_path)
    found: Counter[bytes] = Counter()
    done = -1
    for _ in range(400):
        planned = query.plan()
        if dice.random() < 0.2:
            query.crash()  # the checkpoint may or may not have the end of the batch by now
            if dice.random() < 0.5:
                continue
        rows = query.rows(planned)
        if dice.random() < 0.2:
            query.crash()
            assert query.rows(planned) == rows, "the batch that is played again is the same"
        if planned != query.at:
            assert planned["batch"] == query.at["batch"] + 1
            found.update(row["body"] for row in rows)
        query.at = planned  # committed by Spark; the source may hear of it late, or never
        if dice.random() < 0.7:
            query.reader.commit(planned)
            if dice.random() < 0.2:
                query.crash()
        if len(found) == 120 and broker.messages(queue) == 0:
            done = 1
            break
    assert done == 1, (len(found), broker.messages(queue))
    assert set(found) == set(numbers(120)) and set(found.values()) == {1}
    query.reader.stop()


def test_a_broker_that_is_killed_gives_the_messages_again_and_they_are_known(tmp_path: Path) -> None:
    with Broker(tmp_path / "broker") as broker:
        send(broker, "q", numbers(30))
        query = Query(broker, "q", tmp_path / "ahead")
        first = query.plan()
        rows = [row["body"] for row in query.rows(first)]
        broker.kill()
        broker.start()
        query.at = first
        query.reader.commit(first)
        found = rows + query.drain(20)
        assert sorted(found, key=int) == numbers(30)
        until(lambda: query.batch() == [] and broker.messages("q") == 0, "an empty queue", 300)
        query.reader.stop()


def test_large_bodies_are_values_or_files(broker: Broker, tmp_path: Path) -> None:
    large = b"L" * 3_000_000
    for more in ({}, {"bodies": str(tmp_path / "bodies")}):
        send(broker, "large", [large])
        query = Query(broker, "large", tmp_path / f"ahead{len(more)}", **more)
        (row,) = query.batch()
        assert row["size"] == len(large)
        assert (row["body"] == large) if not more else (Path(row["body_ref"]).read_bytes() == large)
        query.reader.stop()
    assert INLINE_BYTES < 1 << 31


def test_what_cannot_be_consumed_says_why(broker: Broker, tmp_path: Path) -> None:
    query = Query(broker, "plain", tmp_path, url=f"stomp://127.0.0.1:{broker.port}", selector="a =")
    with pytest.raises(PipelineError, match="selector"):
        query.plan()
    query.reader.stop()
    query = Query(broker, "plain", tmp_path / "other", url="stomp://127.0.0.1:1", patience="1")
    with pytest.raises(PipelineError, match="check the option url"):
        query.plan()
    query.reader.stop()


def test_with_spark_a_driver_and_workers_that_are_killed(broker: Broker, sparks: Hosts, tmp_path: Path) -> None:
    """Spark's own file sink beside it: every message is there, once, and the queue is empty."""
    options = {
        "mode": "consume", "url": f"stomp://127.0.0.1:{broker.port}", "destination": "/queue/often",
        "ahead": str(tmp_path / "ahead"), "maxRowsPerTrigger": "300", "quiet": "2",
    }  # fmt: skip
    send(broker, "often", numbers(1200))
    dice = random.Random(1)
    commits = tmp_path / "check/commits"

    def committed() -> int:
        return len([path for path in commits.glob("*") if path.name.isdigit()]) if commits.exists() else 0

    host = sparks.host()
    host.begin("stream", options, str(tmp_path))
    until(lambda: committed() >= 1, "a first batch", 600)
    time.sleep(dice.uniform(0.0, 0.5))
    host.kill()
    host = sparks.host()
    before = committed()
    host.begin("stream", options, str(tmp_path))
    until(lambda: committed() > before or workers(host.process.pid), "a batch more", 600)
    for pid in workers(host.process.pid):
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    with contextlib.suppress(SparkError):
        host.answer()
    host.renew()
    send(broker, "often", numbers(1500, 1200))
    host.call("stream", options, str(tmp_path))
    bodies = host.call("parquet_bodies", str(tmp_path))
    with pytest.raises(SparkError, match="a batch read commits nothing"):
        host.call("ids", options)
    assert sorted(map(int, bodies)) == list(range(1500))
    until(lambda: broker.messages("often") == 0, "an empty queue", 300)
