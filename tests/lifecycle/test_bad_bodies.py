"""Large bodies that are damaged on the disk harm their own messages, and nobody else."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.harness import Broker, Client, until

SIZE = 700_000
SETTINGS = {"journal.segment_bytes": 1 << 20, "engine.address.dead_letter_address": "DLQ"}


def body(n: int) -> bytes:
    return b"%d" % n * SIZE


def fill(broker: Broker) -> list[Path]:
    """Small, large, large, large, small; returns the files of the large ones."""
    files: list[Path] = []
    with Client(broker.port) as client:
        client.connect()
        for n in range(5):
            data = body(n) if 0 < n < 4 else b"small %d" % n
            head = {"destination": "/queue/q", "persistent": "true", "content-length": len(data)}
            client.ask("SEND", head, data)
            new = set((broker.data / "journal" / "blobs").iterdir()) - set(files)
            files += new
    assert len(files) == 3
    return files


@pytest.mark.parametrize("ack", ["auto", "client", "client-individual"])
@pytest.mark.parametrize("harm", ["flipped", "cut", "missing"])
def test_one_bad_body_harms_its_message_only(tmp_path: Path, harm: str, ack: str) -> None:
    with Broker(tmp_path, SETTINGS) as broker:
        bad = fill(broker)[1]
        broker.stop()
        if harm == "missing":
            bad.unlink()
        else:
            data = bytearray(bad.read_bytes())
            data[400_000] ^= 1
            bad.write_bytes(data if harm == "flipped" else data[:300_000])
        broker.start()
        with Client(broker.port) as client:
            client.connect()
            client.subscribe("/queue/q", ack=ack)
            got = [client.expect("MESSAGE") for _ in range(4)]
            assert [m.body for m in got] == [b"small 0", body(1), body(3), b"small 4"]
            until(lambda: " of q cannot be delivered" in broker.log(), broker.log)
            [line] = [line for line in broker.log().splitlines() if " of q cannot be delivered" in line]
            assert str(bad) in line and "ERROR" in line
            if ack != "auto":
                for message in got if ack == "client-individual" else got[-1:]:
                    client.ask("ACK", {"id": message["ack"]})
                until(lambda: broker.messages("DLQ") == 1, "the message does not come to the dead letters")
                client.subscribe("/queue/DLQ", id="2", ack=ack)
                until(lambda: broker.messages("DLQ") == 0, "a dead letter that cannot be read comes back for ever")
            assert broker.messages("q") == 0
            client.sync()
