"""The read API of a standalone broker, from outside: what was sent and settled is read back by offsets."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import grpc
import pytest

from broker.rpc.v1 import log_reads_pb2 as pb
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
            for scan, number in [
                ([pb.ScanPart(slot=256)], 1804),
                ([pb.ScanPart(slot=part.slot, epoch=7, **{"from": 2})], 1802),
                ([pb.ScanPart(slot=part.slot, **{"from": 1000})], 1802),
                ([pb.ScanPart(slot=part.slot)], 1801),
                ([pb.ScanPart(slot=part.slot, **{"from": 1})] * 2, 1806),
            ]:
                with pytest.raises(grpc.RpcError) as caught:
                    reader.scan(scan)
                assert error_of(caught.value).code == number
            (last,) = reader.scan([pb.ScanPart(slot=part.slot, until=99, **{"from": 2})])
            assert (last.done, [getattr(at, "from") for at in last.next]) == (True, [part.end])


def test_events_say_how_and_when_messages_left(tmp_path: Path):
    with reading(tmp_path, engine__address__max_delivery_attempts=2) as (broker, port):
        send(broker, "/queue/orders", b"acked")
        take(broker, "/queue/orders", 1)
        send(broker, "/queue/orders", b"failed")
        with Client(broker.port) as client:
            client.connect()
            client.subscribe("/queue/orders", ack="client-individual")
            for _ in range(2):
                (message,) = client.messages(1)
                client.nack(message)
            client.sync()
        send(broker, "/queue/late", b"late", expires="1")
        with LogReader(port) as reader:
            until(lambda: "EXPIRED" in {row.event for row in reader.everything("late", view="events")}, "expiry")
            events = reader.everything("orders", view="events")
            assert [row.event for row in events] == ["ENQUEUED", "ACKED", "ENQUEUED", "NACKED", "DEAD_LETTERED"]
            assert [row.attempt for row in events if row.event == "NACKED"] == [1]
            now = reader.describe().now_ms
            assert all(now - 600_000 < row.ts_ms <= now for row in events if row.event != "NACKED")
            dead = reader.everything(view="dlq")
            assert {(row.body, row.address) for row in dead} >= {(b"failed", "DLQ")}
            assert all(row.reason for row in dead)


def test_what_was_handed_out_is_told_where_an_address_wants_that_also_after_a_kill(tmp_path: Path):
    with reading(tmp_path, engine__addresses__told__record_deliveries="true") as (broker, port):
        for name in ("told", "quiet"):
            send(broker, f"/queue/{name}", b"1", b"2", b"3")
            take(broker, f"/queue/{name}", 3)
        with LogReader(port) as reader:
            asked = {name: reader.describe(*name.split()).deliveries for name in ("told", "quiet", "*", "q*", "told.#")}
            assert asked == {"told": True, "quiet": False, "*": True, "q*": False, "told.#": True}
            assert reader.describe().deliveries
            assert {row.event for row in reader.everything("quiet", view="events")} == {"ENQUEUED", "ACKED"}
            events = reader.everything("told", view="events")
            for kind in ("DELIVERED", "ACKED"):
                assert [row.message_id[-1] for row in events if row.event == kind] == ["1", "2", "3"]
            places = {(row.event, row.message_id): (row.offset, row.index) for row in events}
            assert all(places["DELIVERED", name] < at for (event, name), at in places.items() if event == "ACKED")
            handed = [row for row in events if row.event == "DELIVERED"]
            assert len({row.consumer for row in handed}) == 1 and handed[0].consumer.isdigit()
            assert {row.attempt for row in handed} == {1} and all(row.ts_ms > 0 for row in handed)
        broker.kill()
        broker.start()
        until(lambda: listens(port), "the read API")
        send(broker, "/queue/told", b"4")
        take(broker, "/queue/told", 1)
        with LogReader(port) as reader:
            again = reader.everything("told", view="events")
            assert [plain(row) for row in again[: len(events)]] == [plain(row) for row in events]
            assert [row.event for row in again[len(events) :]] == ["ENQUEUED", "DELIVERED", "ACKED"]


def test_a_name_that_is_no_address_is_told_so_and_one_that_a_setting_has_is_not(tmp_path: Path):
    settings = {"engine__addresses__planned__partitions": 2, "engine__address__dead_letter_address": "dead"}
    with reading(tmp_path, **settings) as (broker, port):
        send(broker, "/queue/orders", b"one")
        with LogReader(port) as reader:
            asked = reader.describe("orders", "ordres", "planned", "dead", "*", "nothing.#", "Orders")
            assert sorted(asked.unknown) == ["Orders", "ordres"]
            assert not reader.describe().unknown


def earliest(reader: LogReader, address: str) -> int:
    (part,) = reader.describe(address).slots
    return int(part.earliest)


def churn(broker: Broker, count: int) -> None:
    """Messages that come and go, over some segments."""
    with Client(broker.port) as client:
        client.connect()
        client.subscribe("/queue/busy", ack="client-individual")
        for _ in range(count):
            client.publish("/queue/busy", b"x" * 8000, persistent="true")
            (message,) = client.messages(1)
            client.ack(message)
        client.sync()


def test_what_an_archive_has_not_got_is_kept_over_restarts_and_goes_when_it_has(tmp_path: Path):
    with reading(tmp_path) as (broker, port):
        churn(broker, 60)
        with LogReader(port) as reader:
            until(lambda: earliest(reader, "busy") > 1, "segments to be freed")
            (part,) = reader.describe("busy").slots
            with pytest.raises(grpc.RpcError) as caught:
                reader.read(part.slot, 1)
            assert caught.value.code() is grpc.StatusCode.OUT_OF_RANGE
            assert error_of(caught.value).earliest == part.earliest
            reader.watermark("nightly", {part.slot: part.end})
            churn(broker, 60)
            kept = reader.watermark("nightly", {}).kept_bytes
            assert kept > 60 * 8000 and len(reader.read(part.slot, part.end)) == 60
        for end in (broker.stop, broker.kill):
            end()
            broker.start()
            until(lambda: listens(port), "the read API")
            with LogReader(port) as reader:
                churn(broker, 10)
                assert len({row.message_id for row in reader.read(part.slot, part.end)}) >= 70
        with LogReader(port) as reader:
            (now,) = reader.describe("busy").slots
            reader.watermark("nightly", {part.slot: now.end})
            until(lambda: earliest(reader, "busy") > part.end, "segments to be freed")


def test_an_archive_that_stands_still_loses_its_mark_and_not_the_disk(tmp_path: Path):
    with reading(tmp_path, log_reads__keep_bytes=500_000) as (broker, port), LogReader(port) as reader:
        churn(broker, 1)
        (part,) = reader.describe("busy").slots
        reader.watermark("nightly", {part.slot: 1})
        churn(broker, 100)
        until(lambda: earliest(reader, "busy") > 1, "the mark to go")
        assert "archive 'nightly' has lost its mark" in broker.log()
        assert broker.metrics()["stomp_log_marks_lost_total"] == 1


def test_a_time_is_found_as_an_offset(tmp_path: Path):
    with reading(tmp_path) as (broker, port), LogReader(port) as reader:
        for _ in range(4):
            send(broker, "/queue/orders", *[b"x" * 8000] * 10)
        rows = reader.everything("orders")
        (part,) = reader.describe("orders").slots
        assert reader.lookup(0, part.slot) == {part.slot: 1}
        assert reader.lookup(rows[-1].ts_ms + 60_000, part.slot) == {part.slot: part.end}
        for row in rows[::7]:
            start = reader.lookup(row.ts_ms, part.slot)[part.slot]
            assert [r.offset for r in rows if r.offset >= start] == [r.offset for r in rows if r.ts_ms >= row.ts_ms]


def test_who_may_not_read_is_told_so_and_sees_only_what_is_his(tmp_path: Path):
    (port,) = free_ports(1)
    rights = [f"#.{name}" for name in ("send", "consume", "create_address", "create_durable_queue")]
    table = dict.fromkeys([*rights, "orders.send", "orders.create_address", "orders.create_durable_queue"], "*")
    table |= {"#.read": "audit", "orders.read": "*"}
    permissions = {f"edge.permissions.{name}": groups for name, groups in table.items()}
    broker = Broker(
        tmp_path, {"log_reads.port": port, "edge.host": "127.0.0.1", "log_reads.host": "127.0.0.1"} | permissions
    )
    for user in ("ada", "guest"):
        broker.add_user(user, "open-sesame")
    with broker:
        until(lambda: listens(port), "the read API")
        with Client(broker.port) as client:
            client.connect({"login": "ada", "passcode": "open-sesame"})
            client.publish("/queue/orders", b"one", persistent="true")
            client.publish("/queue/secret", b"two", persistent="true")
        for login, passcode in (("", ""), ("guest", "wrong")):
            with LogReader(port, login, passcode) as reader, pytest.raises(grpc.RpcError) as caught:
                reader.describe()
            assert (caught.value.code(), error_of(caught.value).code) == (grpc.StatusCode.UNAUTHENTICATED, 1201)
        with LogReader(port, "guest", "open-sesame") as reader:
            assert [row.body for row in reader.everything()] == [b"one"]
            assert {row.address for row in reader.everything(view="events")} == {"orders"}
            scanned = reader.scan()
            assert b"one" in b"".join(batch.records for batch in scanned)
            assert b"two" not in b"".join(batch.records for batch in scanned)
            assert {queue.address for batch in scanned for queue in batch.queues} == {"orders"}
            with pytest.raises(grpc.RpcError) as caught:
                reader.scan(addresses=["secret"])
            assert error_of(caught.value).code == 1203
            for addresses in (["secret"], ["#"], ["orders", "*"]):
                with pytest.raises(grpc.RpcError) as caught:
                    reader.describe(*addresses)
                assert (caught.value.code(), error_of(caught.value).code) == (grpc.StatusCode.PERMISSION_DENIED, 1203)
            with pytest.raises(grpc.RpcError) as caught:
                reader.watermark("mine", {})
            assert caught.value.code() is grpc.StatusCode.PERMISSION_DENIED


def test_a_large_body_is_fetched_by_its_reference(tmp_path: Path):
    with reading(tmp_path, wire__large_body_bytes=10_000) as (broker, port), LogReader(port) as reader:
        large = bytes(range(256)) * 3000
        send(broker, "/queue/big", b"small", large)
        small, row = reader.everything("big")
        assert (small.body, small.body_ref, row.body, row.size) == (b"small", "", b"", len(large))
        (part,) = reader.describe("big").slots
        assert reader.body(part.slot, row.offset, row.body_ref) == large
        with pytest.raises(grpc.RpcError) as caught:
            reader.body(part.slot, small.offset, row.body_ref)
        assert caught.value.code() is grpc.StatusCode.INVALID_ARGUMENT
