"""A large body that is damaged on one owner's disk harms its own message, until another owner leads."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cluster.slots import leader_of, slot_of
from tests.harness import Client, until
from tests.harness.cluster import Cluster

SETTINGS = {"engine.address.dead_letter_address": "DLQ"}
SIZE = 700_000


def body(n: int) -> bytes:
    return b"%d" % n * SIZE


def put(client: Client, address: str, journal: Path) -> list[Path]:
    """Small, large, large, large, small; the leader's files of the large ones."""
    files: list[Path] = []
    before = set(journal.glob("blobs/*"))
    for n in range(5):
        data = body(n) if 0 < n < 4 else b"small %d" % n
        head = {"destination": f"/queue/{address}", "persistent": "true", "content-length": len(data)}
        client.ask("SEND", head, data)
        files += set(journal.glob("blobs/*")) - before - set(files)
    assert len(files) == 3
    return files


@pytest.mark.parametrize("ack", ["client", "client-individual"])
def test_a_bad_body_harms_its_message_only(shared: Cluster, ack: str) -> None:
    address = f"bad.{ack}"
    assert slot_of(address) != slot_of("DLQ"), "then it would have to be carried nowhere"
    leader = leader_of(shared, address)
    with Client(shared.edges[0].port) as client:
        client.connect()
        bad = put(client, address, leader.data / "journal")[1]
        data = bytearray(bad.read_bytes())
        data[400_000] ^= 1
        bad.write_bytes(data)
        client.subscribe(f"/queue/{address}", ack=ack)
        got = [client.expect("MESSAGE") for _ in range(4)]
        assert [m.body for m in got] == [b"small 0", body(1), body(3), b"small 4"]
        until(lambda: f" of {address} cannot be delivered" in shared.edges[0].log(), shared.edges[0].log)
        assert bad.name in shared.edges[0].log()
        for message in got if ack == "client-individual" else got[-1:]:
            client.ask("ACK", {"id": message["ack"]})
        until(lambda: "a large dead letter for DLQ waits" in leader.log(), leader.log)
        # Its copies elsewhere are good: with the next leader it comes, to this very consumer.
        shared.cluster("drain", leader.id)
        message = client.expect("MESSAGE", timeout=60)
        assert message.body == body(2)
        client.ask("ACK", {"id": message["ack"]})
        client.sync()
    shared.cluster("undrain", leader.id)
    shared.wait_balanced()
