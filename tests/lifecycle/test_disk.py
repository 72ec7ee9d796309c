"""A disk that is full or has gone bad: said clearly, and nothing that is safe is given up."""

from __future__ import annotations

from pathlib import Path

from tests.harness import Broker, Client

from .test_start import refused
from .test_stop import send_frame


def filled(broker: Broker, count: int) -> None:
    """`count` durable messages in /queue/a, stopped cleanly."""
    with broker, Client(broker.port) as client:
        client.connect()
        client.raw(b"".join(send_frame(n) for n in range(count)))
        for _ in range(count):
            client.expect("RECEIPT")
        client.close()
        assert broker.stop() == 0


def test_on_a_full_disk_sends_are_refused_and_consumers_go_on(tmp_path: Path):
    broker = Broker(tmp_path)
    filled(broker, 50)
    broker.settings["journal.min_free_bytes"] = str(1 << 60)
    with broker, Client(broker.port) as producer, Client(broker.port) as consumer:
        producer.connect()
        producer.send("SEND", {"destination": "/queue/a", "persistent": "true", "receipt": "r"}, b"no room")
        error = producer.expect("ERROR")
        assert (error["error-code"], error["receipt-id"]) == ("1601", "r")
        consumer.connect()
        consumer.subscribe("/queue/a", ack="client-individual")
        for message in consumer.messages(50):
            consumer.ack(message, receipt="acked")
            consumer.expect("RECEIPT")
        consumer.close()
        assert broker.stop() == 0
    with broker:
        assert broker.messages("a") == 0


def test_journal_with_a_flipped_bit_is_not_served(tmp_path: Path):
    broker = Broker(tmp_path)
    filled(broker, 500)
    (place,) = [file for file in broker.data.rglob("*") if file.is_file() and b"\n\n250\0" in file.read_bytes()]
    data = bytearray(place.read_bytes())
    data[data.index(b"\n\n250\0") + 3] ^= 1
    place.write_bytes(data)
    status, text = refused(broker)
    assert status == 1
    assert "stampede journal" in text and place.name in text
    assert "Traceback" not in text
    # and nothing was repaired in silence: it is refused again
    assert refused(broker)[0] == 1
