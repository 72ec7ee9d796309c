"""The read API of a standalone broker, from outside: what was sent and settled is read back by offsets."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import grpc
import pytest

from tests.harness import Broker, Client, free_ports, listens, until
from tests.harness.reads import LogReader, error_of, plain


@contextmanager
def reading(tmp_path: Path, **more: object) -> Iterator[tuple[Broker, int]]:
    (port,) = free_ports(1)
    settings: dict[str, object] = {"log_reads.port": port, "journal.segment_bytes": 64 * 1024}
    with Broker(tmp_path, settings | {k.replace("__", "."): v for k, v in more.items()}) as broker:
        until(lambda: listens(port), "the read API")
        yield broker, port


def send(broker: Broker, address: str, *bodies: bytes, **headers: object) -> None:
    with Client(broker.port) as client:
        client.connect()
        for body in bodies:
            client.publish(address, body, persistent="true", **headers)
        client.sync()


def take(broker: Broker, address: str, count: int) -> None:
    """Acknowledges the first messages."""
    with Client(broker.port) as client:
        client.connect()
        client.subscribe(address, ack="client-individual")
        for message in client.messages(count):
            client.ack(message)
        client.sync()


def test_what_was_sent_is_read_by_offsets_and_the_same_after_a_restart_and_a_kill(tmp_path: Path):
    bodies = [b"%d" % i for i in range(50)]
    with reading(tmp_path) as (broker, port):
        send(broker, "/queue/orders", *bodies, color="r\\cd")
        take(broker, "/queue/orders", 20)
        with LogReader(port) as reader:
            (part,) = reader.describe("orders").slots
            assert part.earliest == 1 and [(line.epoch, line.start) for line in part.lineage] == [(1, 1)]
            first = reader.everything("orders")
            assert [row.body for row in first] == bodies
            assert {row.event for row in first} == {"ENQUEUED"} and {row.queue for row in first} == {"orders"}
            assert [(h.name, h.value) for h in first[0].headers if h.name == b"color"] == [(b"color", b"r:d")]
            events = reader.everything("orders", view="events")
            assert [row.message_id for row in events if row.event == "ENQUEUED"] == [row.message_id for row in first]
            assert [row.message_id for row in events if row.event == "ACKED"] == [row.message_id for row in first][:20]
            assert len({(row.offset, row.index) for row in events}) == len(events)
        seen = [plain(row) for row in first], [plain(row) for row in events]
        for end in (broker.stop, broker.kill):
            end()
            broker.start()
            until(lambda: listens(port), "the read API")
            with LogReader(port) as reader:
                again = reader.everything("orders"), reader.everything("orders", view="events")
                assert ([plain(row) for row in again[0]], [plain(row) for row in again[1]][: len(events)]) == seen
                (part,) = reader.describe("orders").slots
                assert [row.body for row in reader.read(part.slot, first[30].offset, first[40].offset)] == bodies[30:40]


def test_small_answers_give_the_same_rows_and_an_offset_to_go_on_from(tmp_path: Path):
    with reading(tmp_path) as (broker, port):
        send(broker, "/queue/orders", *[b"x" * 1000] * 200)
        with LogReader(port) as reader:
            (part,) = reader.describe("orders").slots
            batches = list(reader.batches(part.slot, max_bytes=5000))
            assert len(batches) > 20 and batches[-1].done and not any(batch.done for batch in batches[:-1])
            assert sum(len(batch.rows) for batch in batches) == 200
            half = batches[len(batches) // 2]
            rest = reader.read(part.slot, half.next, epoch=half.epoch)
            assert [row.offset for row in rest] == list(range(half.next, part.end))


def test_what_is_not_to_be_had_is_said_by_name(tmp_path: Path):
    with reading(tmp_path) as (broker, port):
        send(broker, "/queue/orders", b"one")
        with LogReader(port) as reader:
            (part,) = reader.describe("orders").slots
            for request, status, number in [
                ({"slot": 256}, grpc.StatusCode.NOT_FOUND, 1804),
                ({"slot": part.slot, "view": "all"}, grpc.StatusCode.INVALID_ARGUMENT, 1806),
                ({"slot": part.slot, "start": 2, "epoch": 7}, grpc.StatusCode.FAILED_PRECONDITION, 1802),
                ({"slot": part.slot, "start": 1000}, grpc.StatusCode.FAILED_PRECONDITION, 1802),
                ({"slot": part.slot, "start": 0}, grpc.StatusCode.OUT_OF_RANGE, 1801),
            ]:
                with pytest.raises(grpc.RpcError) as caught:
                    reader.read(**request)
                assert (caught.value.code(), error_of(caught.value).code) == (status, number)
            assert error_of(caught.value).earliest == 1
