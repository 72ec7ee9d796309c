"""The read API of owners: the same rows at the same offsets whoever leads, and where to ask."""

from __future__ import annotations

import grpc
import pytest
from broker_pipeline.errors import PipelineError
from broker_pipeline.log.ranges import Range
from broker_pipeline.log.reads import LogReads
from broker_pipeline.options import Access

from broker.journal.log import format as f
from tests.harness import Client, free_ports, until
from tests.harness.cluster import Cluster, Process
from tests.harness.reads import LogReader, error_of, plain

from .slots import leader_of, slot_of

pytestmark = pytest.mark.timeout(180)
SETTINGS = {"log_reads.host": "127.0.0.1"}


def port_of(endpoint: str) -> int:
    return int(endpoint.rpartition(":")[2])


def reader_of(owner: Process) -> LogReader:
    return LogReader(int(str(owner.settings["log_reads.port"])))


def rows_of(owner: Process, address: str, view: str = "messages") -> list[tuple[object, ...]]:
    """From whoever leads it, as this owner says."""
    with reader_of(owner) as asked:
        (part,) = asked.describe(address, view=view).slots
    if part.endpoint:
        with LogReader(port_of(part.endpoint)) as other:
            return [plain(row) for row in other.everything(address, view=view)]
    with reader_of(owner) as again:
        return [plain(row) for row in again.everything(address, view=view)]


def test_rows_and_offsets_outlive_their_leader(own_etcd, tmp_path):
    cluster = made(own_etcd, tmp_path, **{"engine.address.record_deliveries": "true"})
    with cluster:
        with Client(cluster.edges[0].port) as client:
            client.connect()
            for n in range(40):
                client.publish("/queue/orders", b"%d" % n, persistent="true")
            client.subscribe("/queue/orders", ack="client-individual")
            for message in client.messages(15):
                client.ack(message)
            client.sync()
        slot = slot_of("orders")
        first = leader_of(cluster, "orders")
        with reader_of(first) as reader:
            description = reader.describe("orders")
            assert sorted(map(port_of, description.endpoints)) == sorted(
                o.settings["log_reads.port"] for o in cluster.owners
            )
            (part,) = description.slots
            events = [plain(row) for row in reader.everything("orders", view="events")]
        kinds = [row[3] for row in events]
        assert (kinds.count("ENQUEUED"), kinds.count("ACKED")) == (40, 15)
        assert kinds.count("DELIVERED") >= 15 and description.deliveries
        other = next(owner for owner in cluster.owners if owner is not first)
        until(lambda: known(other, slot) == part.end, "the follower to hear how much counts")
        with reader_of(other) as reader:
            same = [plain(row) for row in reader.read(slot, 1, part.end, until_epoch=part.epoch, view="events")]
            assert same == events, "the same from a follower in sync"
            for bounds in ({"start": part.end + 1}, {"until": part.end + 1}, {"until": part.end, "until_epoch": 99}):
                with pytest.raises(grpc.RpcError) as caught:
                    reader.read(slot, **bounds)
                assert (error_of(caught.value).code, caught.value.code()) == (1807, grpc.StatusCode.UNAVAILABLE)
                assert port_of(error_of(caught.value).endpoint) == first.settings["log_reads.port"]
        messages = rows_of(other, "orders")
        assert [row[7] for row in messages] == [b"%d" % n for n in range(40)]
        first.kill()
        cluster.wait(lambda: leader_of(cluster, "orders") is not first, 60, lambda: "not replaced")
        until(lambda: served(other, "orders"), "the new leader to serve readers")
        assert rows_of(other, "orders") == messages
        assert rows_of(other, "orders", "events")[: len(events)] == events
        with Client(cluster.edges[0].port) as client:
            client.connect()
            client.publish("/queue/orders", b"after", persistent="true")
        after = rows_of(other, "orders")
        assert after[:-1] == messages and after[-1][7] == b"after" and after[-1][2] > messages[-1][2]
        assert scanned(other, "orders") == [row[0] for row in after]
        leader = leader_of(cluster, "orders")
        with reader_of(leader) as reader:
            # Who has read up to the end of the first leader's epoch goes on; who has read something else there may not.
            assert [row.body for row in reader.read(slot, part.end, epoch=part.epoch)][-1:] == [b"after"]
            with pytest.raises(grpc.RpcError) as caught:
                reader.read(slot, after[-1][0] + 1, epoch=part.epoch)
            assert error_of(caught.value).code == 1802


def known(owner: Process, slot: int) -> int:
    """The high-water mark of a slot that this owner follows, as far as it knows; 0: it cannot be read there."""
    with reader_of(owner) as reader:
        found = [part for part in reader.describe(followers=True).slots if part.slot == slot and part.follower]
    return int(found[0].end) if found else 0


def served(owner: Process, address: str) -> bool:
    with reader_of(owner) as reader:
        (part,) = reader.describe(address).slots
    return part.endpoint != "?"


def scanned(owner: Process, address: str) -> list[int]:
    """Offsets of its messages, as the pipeline reads them: from whoever leads, whoever was asked."""
    endpoint = f"127.0.0.1:{owner.settings['log_reads.port']}"
    with LogReads(Access((endpoint,), patience_s=60)) as reads:
        infos = reads.plan((address,), "messages").infos
        # It goes on at the leader, even when the plan is of another time.
        ranges = [Range(slot, info.earliest, info.end, 0, endpoint) for slot, info in infos.items()]
        found = []
        for batch in reads.scan(ranges, addresses=(address,), view="messages", since_ms=0, before_ms=0):
            for at, _, kind, flags, slot, _, lsn in f.records_in(batch.records, 0, len(batch.records)):
                found += [lsn] * len(f.read_run(batch.records, at, flags, slot).run.ids) if kind == f.RUN else []
        reads.watermark("lake", {slot: info.end for slot, info in infos.items()})
        return found


def made(own_etcd, folder, **settings: object) -> Cluster:
    cluster = Cluster(folder, own_etcd.port, 3, 1, SETTINGS | settings)
    for owner, port in zip(cluster.owners, free_ports(3), strict=True):
        owner.settings["log_reads.port"] = port
    return cluster


def test_a_follower_that_is_not_in_sync_or_has_heard_nothing_refuses_by_name(own_etcd, tmp_path):
    cluster = made(own_etcd, tmp_path)
    with cluster:
        slot, leader = slot_of("orders"), leader_of(cluster, "orders")
        follower, other = (owner for owner in cluster.owners if owner is not leader)
        with Client(cluster.edges[0].port) as client:
            client.connect()
            client.publish("/queue/orders", b"one", persistent="true")
        with reader_of(leader) as reader:
            (part,) = reader.describe("orders").slots
        until(lambda: known(follower, slot) == part.end, "the follower to hear how much counts")
        # It cannot be reached by the others any more, and so falls out of the isr; it still hears etcd.
        for each in (leader, other):
            follower.inbound.cut(each.pid)
        follower.inbound.cut()
        gone = lambda: follower.id not in cluster.records()[slot]["isr"]  # noqa: E731
        cluster.wait(gone, 60, lambda: f"still in sync: {cluster.records()[slot]}")
        until(lambda: refusal(follower, slot) == 1807, "the follower to refuse")
        assert known(follower, slot) == 0
        cluster.heal()
        until(lambda: known(follower, slot) == part.end, "the follower to be back in sync", 90)
        assert refusal(follower, slot) == 0


def refusal(owner: Process, slot: int) -> int:
    """The number of the error when it is asked for the slot; 0: it gives it."""
    with reader_of(owner) as reader:
        try:
            reader.read(slot, 1)
        except grpc.RpcError as error:
            return int(error_of(error).code)
    return 0


def test_a_leader_dies_in_the_middle_of_a_read_and_it_goes_on_without_gap_or_overlap(own_etcd, tmp_path):
    cluster = made(own_etcd, tmp_path)
    with cluster:
        slot, leader = slot_of("orders"), leader_of(cluster, "orders")
        with Client(cluster.edges[0].port) as client:
            client.connect()
            for n in range(3000):
                client.publish("/queue/orders", b"%d " % n + b"x" * 2000, persistent="true")
            client.sync()
        endpoints = [f"127.0.0.1:{owner.settings['log_reads.port']}" for owner in cluster.owners]
        with LogReads(Access((endpoints[0],), patience_s=120), endpoints) as reads:
            described = reads.plan(("orders",), "messages")
            info = described.infos[slot]
            tasks = described.tasks([Range(slot, info.earliest, info.end, 0, info.endpoint)], 400)
            assert len({part.endpoint for task in tasks for part in task.ranges}) == 3, "all three have it"
            at_leader = Range(slot, info.earliest, info.end, 0, f"127.0.0.1:{leader.settings['log_reads.port']}")
            scan = reads.scan([at_leader], addresses=("orders",), view="messages", since_ms=0, before_ms=0)
            found = bodies(next(scan))
            assert 0 < len(found) < 3000
            leader.kill()
            for batch in scan:
                found += bodies(batch)
        assert found == list(range(3000))


def bodies(batch: object) -> list[int]:
    found = []
    for at, _, kind, flags, slot, _, _ in f.records_in(batch.records, 0, len(batch.records)):
        if kind == f.RUN:
            run = f.read_run(batch.records, at, flags, slot).run
            found += [int((run.lines + data).partition(b"\n\n")[2].partition(b" ")[0]) for data in run.records]
    return found


def test_an_archive_that_stands_still_loses_its_mark_at_every_owner_and_finds_that_out(own_etcd, tmp_path):
    cluster = made(own_etcd, tmp_path, **{"log_reads.keep_bytes": 1_000_000, "journal.segment_bytes": 256 * 1024})
    with cluster:
        first = [f"127.0.0.1:{cluster.owners[0].settings['log_reads.port']}"]
        with Client(cluster.edges[0].port) as client, LogReads(Access(tuple(first), patience_s=60)) as reads:
            client.connect()
            client.subscribe("/queue/busy", ack="client-individual")
            slot = slot_of("busy")

            def churn(count: int) -> None:
                for _ in range(count):
                    client.publish("/queue/busy", b"x" * 8000, persistent="true")
                    (message,) = client.messages(1)
                    client.ack(message)
                client.sync()

            churn(1)
            reads.watermark("lake", {slot: 1})
            churn(60)
            assert reads.plan(("busy",), "log").infos[slot].earliest == 1, "kept for the archive at every owner"

            def let_go(owner: Process) -> bool:
                churn(10)
                return "stomp_log_marks_lost_total 1" in owner.metrics()

            for owner in cluster.owners:
                until(lambda owner=owner: let_go(owner), f"{owner.id} to let the mark go", 90)
                assert "archive 'lake' has lost its mark" in owner.log()
            until(lambda: churn(10) or reads.plan(("busy",), "log").infos[slot].earliest > 1, "segments to go", 90)
            with pytest.raises(PipelineError, match="1801"):
                list(reads.scan([Range(slot, 1, 50, 0, first[0])], addresses=(), view="log", since_ms=0, before_ms=0))
