"""A message of 200 MiB: through a queue, with little memory, and no trace of it afterwards."""

from __future__ import annotations

import hashlib
import os
import threading
import time
from pathlib import Path

from tests.harness import Broker, Client, build, until

MIB = 1 << 20
SETTINGS = {"journal.segment_bytes": MIB}
"""Segments are prepared ahead; small ones keep the folder's size to what messages occupy."""
SIZE = 200 * MIB
GROWTH = 48 * MIB
"""RSS may grow by so much while the message passes; a broker that holds it would grow by 200 MiB or more."""


def on_disk(broker: Broker) -> int:
    """Bytes the data folder occupies."""
    total = 0
    for folder, _, names in os.walk(broker.data):
        for name in names:
            try:
                total += os.stat(os.path.join(folder, name)).st_blocks * 512
            except FileNotFoundError:
                continue  # removed meanwhile
    return total


class Peak:
    """Highest RSS of the broker while it is on."""

    def __init__(self, broker: Broker) -> None:
        self.broker = broker
        self.most = broker.rss()
        self.first = self.most
        self._off = threading.Event()
        self._thread = threading.Thread(target=self._watch)

    def __enter__(self) -> Peak:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._off.set()
        self._thread.join()

    def _watch(self) -> None:
        while not self._off.wait(0.02):
            self.most = max(self.most, self.broker.rss())


def pour(client: Client, pieces: int, length: int = SIZE) -> str:
    """Sends a SEND of `length` bytes, its first `pieces` MiB at least; returns the digest of what was sent."""
    head = {"destination": "/queue/big", "persistent": "true", "content-length": length, "receipt": "big"}
    client.raw(build("SEND", head)[:-1])
    digest = hashlib.blake2b()
    for n in range(pieces):
        piece = n.to_bytes(8, "big") * (MIB // 8)
        digest.update(piece)
        client.raw(piece)
    return digest.hexdigest()


def swallow(client: Client) -> str:
    """Reads a MESSAGE without keeping it; returns the digest of its body."""
    digest = hashlib.blake2b()
    message = client.swallow(digest.update)
    assert (message.command, message["content-length"]) == ("MESSAGE", str(SIZE))
    return digest.hexdigest()


def test_200_mib_pass_with_bounded_memory_over_a_restart(tmp_path: Path):
    broker = Broker(tmp_path, SETTINGS)
    with broker:
        empty = on_disk(broker)
        with Client(broker.port, timeout=30) as producer, Peak(broker) as peak:
            producer.connect()
            sent = pour(producer, SIZE // MIB)
            producer.raw(b"\0")
            producer.expect("RECEIPT")
        assert peak.most - peak.first < GROWTH, (peak.first, peak.most)
        broker.kill()
        broker.start()
        with Client(broker.port, timeout=30) as consumer, Client(broker.port) as other, Peak(broker) as peak:
            consumer.connect()
            other.connect()
            consumer.send("SUBSCRIBE", {"id": "1", "destination": "/queue/big", "ack": "client-individual"})
            time.sleep(0.3)  # nobody reads: the broker must not read ahead without end
            other.publish("/queue/small", b"served meanwhile")
            assert swallow(consumer) == sent
        assert peak.most - peak.first < GROWTH, (peak.first, peak.most)
        with Client(broker.port, timeout=30) as consumer:
            consumer.connect()
            consumer.subscribe("/queue/big", ack="client-individual")
            consumer.ack(consumer.expect("MESSAGE"), receipt="acked")
            consumer.expect("RECEIPT")
        until(lambda: on_disk(broker) < empty + 4 * MIB, "the file of the message was not removed")


def test_upload_that_ends_halfway_leaves_nothing_behind(tmp_path: Path):
    broker = Broker(tmp_path, SETTINGS)
    with broker:
        empty = on_disk(broker)
        with Client(broker.port) as producer:
            producer.connect()
            pour(producer, 40)
        until(lambda: on_disk(broker) < empty + 4 * MIB, "the connection went, its half message stayed")
        with Client(broker.port) as producer:
            producer.connect()
            pour(producer, 40)
            until(lambda: on_disk(broker) > empty + 30 * MIB, "the body does not go to disk")
            broker.kill()
        broker.start()
        until(lambda: on_disk(broker) < empty + 4 * MIB, "the broker was killed, the half message stayed")
        with Client(broker.port) as consumer:
            consumer.connect()
            consumer.subscribe("/queue/big")
            consumer.nothing()
