"""Large bodies that rest compressed (compress_large_bodies of an acceptor), through a real broker and its disk."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path

from tests.harness import Broker, Client, build, free_ports

MIB = 1024 * 1024
BODY = b"The quick brown fox jumps over the lazy dog. " * 200_000


def files(broker: Broker) -> list[Path]:
    return [file for file in broker.data.rglob("*") if file.is_file() and "blob" in str(file.relative_to(broker.data))]


def test_a_compressed_body_takes_little_room_and_survives_a_kill(tmp_path: Path) -> None:
    (port,) = free_ports(1)
    broker = Broker(tmp_path, {"acceptors.small.port": port, "acceptors.small.compress_large_bodies": "true"})
    with broker:
        with Client(port) as client:
            client.connect()
            client.publish("/queue/a", BODY, persistent="true")
            assert sum(file.stat().st_size for file in files(broker)) < len(BODY) // 20
            # one that never ends leaves nothing behind
            client.raw(build("SEND", {"destination": "/queue/a", "content-length": len(BODY)}, BODY)[: len(BODY) // 2])
        broker.kill()
        broker.start()
        with Client(broker.port) as plain:
            plain.connect()
            plain.subscribe("/queue/a", ack="client")
            (message,) = plain.messages(1)
            assert message["content-length"] == str(len(BODY))
            assert message.body == BODY
            plain.ack(message, receipt="gone")
            plain.expect("RECEIPT")
            plain.nothing()
        assert broker.stop() == 0
    with broker:
        assert files(broker) == []


def test_a_body_that_inflates_to_much_is_streamed_and_many_at_once_stay_small(tmp_path: Path) -> None:
    (port,) = free_ports(1)
    settings = {"acceptors.small.port": port, "acceptors.small.compress_large_bodies": "true"}
    with Broker(tmp_path, settings) as broker, Client(port, timeout=60) as client:
        client.connect()
        before = broker.rss()
        size, piece = 64 * MIB, bytes(MIB)
        for _ in range(4):
            client.raw(build("SEND", {"destination": "/topic/none", "content-length": 1}, b"x"))
            client.raw(b"SEND\ndestination:/queue/b\ncontent-length:%d\n\n" % size)
            for _ in range(size // MIB):
                client.raw(piece)
            client.raw(b"\0")
        client.sync()
        with ExitStack() as opened:
            readers = [opened.enter_context(Client(broker.port, timeout=60)) for _ in range(4)]
            for reader in readers:
                reader.connect()
                reader.subscribe("/queue/b", ack="client-individual", prefetch_count=1)
            peak = broker.rss()
            for reader in readers:
                message = reader.swallow(lambda piece: None)
                assert (message.command, message["content-length"]) == ("MESSAGE", str(size))
                peak = max(peak, broker.rss())
        assert peak - before < 32 * MIB, f"{(peak - before) / MIB:.1f} MiB"
