"""The read API of owners: the same rows at the same offsets whoever leads, and where to ask."""

from __future__ import annotations

import grpc
import pytest
from broker_pipeline.options import Access
from broker_pipeline.ranges import Range
from broker_pipeline.reads import LogReads

from broker.journal import format as f
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
    cluster = Cluster(tmp_path, own_etcd.port, 3, 1, SETTINGS)
    for owner, port in zip(cluster.owners, free_ports(3), strict=True):
        owner.settings["log_reads.port"] = port
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
        other = next(owner for owner in cluster.owners if owner is not first)
        with reader_of(other) as reader:
            with pytest.raises(grpc.RpcError) as caught:
                reader.read(slot, 1)
            assert (error_of(caught.value).code, caught.value.code()) == (1803, grpc.StatusCode.UNAVAILABLE)
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
