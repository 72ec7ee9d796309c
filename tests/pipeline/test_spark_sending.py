"""What the sink sends to a real broker: each row once whatever is tried again, or a refusal when that is in doubt."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from broker_pipeline.datasource import sending
from broker_pipeline.datasource.sending import Sending, packed, send, unpacked
from broker_pipeline.datasource.sink import write_options
from broker_pipeline.errors import PipelineError

from tests.harness import Broker, Client, scratch

URL = "stomp://127.0.0.1:{port}"


@pytest.fixture(scope="module")
def broker(request: pytest.FixtureRequest) -> Iterator[Broker]:
    settings = {
        "engine.addresses.none.id_cache_size": 0, "engine.addresses.few.id_cache_size": 2,
        "engine.addresses.split.partitions": 4, "edge.max_transaction_frames": 2_000,
    }  # fmt: skip
    with scratch(request, "sending") as folder, Broker(folder, settings) as broker:
        yield broker


def batches(rows: list[dict[str, Any]], size: int = 300, fail_at: int = -1) -> Iterator[pa.RecordBatch]:
    types = {
        "body": pa.binary(), "destination": pa.string(), "headers": pa.map_(pa.string(), pa.string()),
        "id": pa.string(), "priority": pa.int32(), "persistent": pa.bool_(),
    }  # fmt: skip
    schema = pa.schema([(name, types[name]) for name in rows[0]])
    for at in range(0, len(rows), size):
        if 0 <= fail_at <= at:
            raise RuntimeError("the task was killed")
        yield pa.RecordBatch.from_pylist(rows[at : at + size], schema)


def bodies(count: int, start: int = 0) -> list[dict[str, Any]]:
    return [{"body": b"%d" % n} for n in range(start, count)]


def options(broker: Broker, destination: str, columns: tuple[str, ...] = ("body",), **more: str) -> Any:
    return write_options({"url": URL.format(port=broker.port), "destination": destination} | more, list(columns))


def taken(broker: Broker, queue: str, count: int) -> list[bytes]:
    """All of them: a mark behind shows that there are no more."""
    with Client(broker.port) as client:
        client.connect()
        client.publish(f"/queue/{queue}", b"the end", persistent="true")
        client.sync()
        client.subscribe(f"/queue/{queue}")
        found = [message.body for message in client.messages(count + 1)]
    found.remove(b"the end")
    return found


def test_a_task_that_is_tried_again_sends_each_row_once_in_order(broker: Broker) -> None:
    into = options(broker, "/queue/again")
    with pytest.raises(RuntimeError):
        send(into, Sending("q/1/0"), batches(bodies(1203), fail_at=900))
    for _ in range(2):
        assert send(into, Sending("q/1/0"), batches(bodies(1203), size=500)) == 1203
    send(into, Sending("q/1/1"), batches(bodies(1210, 1203)))
    assert taken(broker, "again", 1210) == [b"%d" % n for n in range(1210)]


def test_destinations_groups_and_split_addresses_too(broker: Broker) -> None:
    rows = [
        {
            "destination": f"/queue/{'split' if n % 3 else 'other'}",
            "body": b"%d" % n,
            "headers": [("JMSXGroupID", f"g{n % 7}")] if n % 5 == 0 else [("kind", f"{n % 2}")],
        }
        for n in range(1500)
    ]
    for _ in range(3):
        send(options(broker, "", ("body", "destination", "headers")), Sending("q/2/0"), batches(rows))
    assert sorted(taken(broker, "split", 1000), key=int) == [b"%d" % n for n in range(1500) if n % 3]
    assert taken(broker, "other", 500) == [b"%d" % n for n in range(0, 1500, 3)]


def test_large_bodies_are_sent_alone_in_their_place(broker: Broker, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = bodies(20)
    rows[7] = {"body": b"L" * 300_000}
    for _ in range(2):
        send(options(broker, "/queue/large"), Sending("q/3/0"), batches(rows))
    assert taken(broker, "large", 20) == [row["body"] for row in rows]
    monkeypatch.setattr(sending, "LARGE_BYTES", 1 << 30)
    with pytest.raises(PipelineError, match="did not take everything"):
        send(options(broker, "/queue/large"), Sending("q/4/0"), batches(rows))


@pytest.mark.parametrize("more", [{}, {"idColumn": "id"}])
def test_who_remembers_too_few_ids_is_not_written_to(broker: Broker, more: dict[str, str]) -> None:
    rows = [row | {"id": f"id{n}"} for n, row in enumerate(bodies(1203))]
    for queue in ("none", "few"):
        with pytest.raises(PipelineError, match=rf"{queue}.*id_cache_size.*twice") as no:
            send(options(broker, f"/queue/{queue}", ("body", "id"), **more), Sending("q/5/0"), batches(rows))
        assert no.value.code == 1403
    assert broker.messages("none") == 0
    assert broker.messages("few") == (0 if more else 1000), "two ids are remembered, and there are two"
    if not more:
        taken(broker, "few", 1000)


def test_one_transaction_is_all_or_nothing(broker: Broker) -> None:
    into = options(broker, "/queue/whole", atomic="task")
    with pytest.raises(RuntimeError):
        send(into, Sending("q/6/0", True), batches(bodies(1203), fail_at=900))
    assert broker.messages("whole") == 0
    with pytest.raises(PipelineError, match=r"atomic=task.*nothing was sent.*max_transaction_frames.*partitions"):
        send(into, Sending("q/6/1", True), batches(bodies(2500)))
    with pytest.raises(PipelineError, match="without option atomic"):
        send(into, Sending("q/6/2", True), batches([{"body": b"L" * 300_000}]))
    assert broker.messages("whole") == 0
    for _ in range(2):
        send(into, Sending("q/6/0", True), batches(bodies(1203)))
    assert taken(broker, "whole", 1203) == [b"%d" % n for n in range(1203)]


def test_rows_on_their_way_to_the_driver(broker: Broker, monkeypatch: pytest.MonkeyPatch) -> None:
    held = [packed(batches(bodies(700))), packed(batches(bodies(1000, 700))), packed(iter(()))]
    assert [count for count, _ in held] == [700, 300, 0]
    found = [row for batch in unpacked([each for _, each in held if each]) for row in batch.to_pylist()]
    assert found == bodies(1000)
    monkeypatch.setattr(sending, "MOST_HELD", 10)
    with pytest.raises(PipelineError, match="fewer rows a batch"):
        packed(batches(bodies(700)))
    with pytest.raises(PipelineError, match="nothing was sent"):
        send(options(broker, "/queue/whole2", atomic="task"), Sending("q/7/0", True), batches(bodies(700)))


def test_a_ledger_says_how_far_receipts_have_come(broker: Broker, monkeypatch: pytest.MonkeyPatch) -> None:
    notes: list[tuple[str, bytes, str, int]] = []
    monkeypatch.setattr(sending, "put", lambda *given: notes.append(given))
    rows = [{"body": b"x", "id": f"l{n}"} for n in range(40)]
    found = next(batches(rows))
    for name, kind in (("slot", pa.int32()), ("offset", pa.int64()), ("index", pa.int32())):
        found = found.append_column(name, pa.array(range(40), kind))
    into = replace(options(broker, "/queue/ledger", ("body", "id"), idColumn="id"), ledger="h:1", ledger_key="k")
    assert send(into, Sending(""), iter([found])) == 40
    assert notes == [("h:1", b"[39, 39, 39]", "k", 40)]
    monkeypatch.setattr(sending, "LEDGER_S", 0.0)
    send(into, Sending(""), iter([found]))
    assert len(notes) > 10, "a slow one notes its place by time"


@pytest.mark.parametrize(
    ("given", "columns", "says"),
    [
        ({"destination": "d"}, ["body"], "option url is missing"),
        ({"url": "http://x", "destination": "d"}, ["body"], "option url is none of"),
        ({"url": "stomp://x:1"}, ["body"], "destination"),
        ({"url": "stomp://x:1", "destination": "d"}, ["text"], "no column body"),
        ({"url": "stomp://x:1", "destination": "d", "idColumn": "id"}, ["body"], "no column 'id'"),
        ({"url": "stomp://x:1", "destination": "d", "window": "0"}, ["body"], "window"),
        ({"url": "stomp://x:1", "destination": "d", "rate": "fast"}, ["body"], "numbers"),
        ({"url": "stomp://x:1", "destination": "d", "atomic": "yes"}, ["body"], "none, task, batch"),
        ({"url": "stomp://x:1", "destination": "d", "atomic": "task", "rate": "5"}, ["body"], "rate"),
        ({"url": "stomp://x:1", "destination": "d", "atomic": "batch", "idColumn": "body"}, ["body"], "idColumn"),
        ({"url": "stomp://x:1", "destination": "d", "windw": "5"}, ["body"], "no option 'windw'"),
    ],
)  # fmt: skip
def test_options_that_cannot_be_are_named(given: dict[str, str], columns: list[str], says: str) -> None:
    with pytest.raises(PipelineError, match=says):
        write_options(given, columns)


def test_credentials_come_from_a_file_where_the_url_has_none(tmp_path: Path) -> None:
    (tmp_path / "passcode").write_text("p@ss/word\n")
    given = {"url": "stomp://h:1", "destination": "d", "user": "ada", "passcodeFile": str(tmp_path / "passcode")}
    assert write_options(given, ["body"]).url == "stomp://ada:p%40ss%2Fword@h:1"
    assert write_options(given | {"url": "stomp://bob:x@h:1"}, ["body"]).url == "stomp://bob:x@h:1"
