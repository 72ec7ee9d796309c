"""A disk with less room than journal.min_free_bytes: nothing more is written for messages, durable or not."""

from __future__ import annotations

from pathlib import Path

from tests.harness import Broker, Client, build


def journal_bytes(broker: Broker) -> int:
    """What the segments in use take on the disk (spare ones are made ahead, in a thread of their own)."""
    return sum(file.stat().st_blocks * 512 for file in (broker.data / "journal").rglob("*.log"))


def test_messages_that_are_not_durable_do_not_use_up_the_reserve(tmp_path: Path):
    """They spilled into the journal until acknowledgements found no room."""
    settings = {
        "journal.min_free_bytes": 1 << 60,
        "journal.segment_bytes": 1 << 20,
        "engine.queue_memory_bytes": 100_000,
        "engine.page_bytes": 50_000,
    }
    with Broker(tmp_path, settings) as broker:
        with Client(broker.port) as client:
            client.connect()
            client.subscribe("/queue/read")
            client.publish("/queue/read", b"memory is enough")
            assert client.expect("MESSAGE").body == b"memory is enough"
            before = journal_bytes(broker)
            client.raw(build("SEND", {"destination": "/queue/unread"}, b"x" * 10_000) * 300)
            assert client.expect("ERROR")["error-code"] == "1601"
            assert journal_bytes(broker) == before
        with Client(broker.port) as client:
            client.connect()
            client.send("SEND", {"destination": "/queue/large", "content-length": 500_000}, b"x" * 500_000)
            assert client.expect("ERROR")["error-code"] == "1601"
        with Client(broker.port) as client:
            client.connect()
            client.subscribe("/queue/unread", ack="client-individual")
            message = client.expect("MESSAGE")
            client.ask("ACK", {"id": message["ack"]})
