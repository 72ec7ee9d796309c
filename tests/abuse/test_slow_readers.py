"""Clients that do not read, and producers faster than the disk: memory stays where it is."""

from __future__ import annotations

import threading

from tests.harness import Client, build, until
from tests.harness.stomp import ClosedByBroker

MIB = 1 << 20
SETTINGS = {
    "edge.max_outbox_bytes": 512 * 1024,
    "edge.consumer_room_bytes": 128 * 1024,
    "journal.max_inflight_bytes": 256 * 1024,
    "engine.queue_memory_bytes": MIB,
    "journal.segment_bytes": 4 * MIB,
}


def test_who_never_reads_its_receipts_is_cut_off(broker, join, counted):
    """Receipts cannot wait in a queue: beyond max_outbox_bytes the connection ends, by name."""
    before = broker.rss()
    client = join(receive_buffer=4096, timeout=3)
    frame = build("SEND", {"destination": "/topic/nobody", "receipt": "r" * 1000})
    try:
        for _ in range(200):
            client.raw(frame * 100)
    except TimeoutError:
        pass
    until(lambda: "slow_consumer" in broker.log(), broker.log)
    counted("slow_consumer")
    assert broker.rss() - before < 24 * MIB


def test_a_consumer_that_never_reads_holds_no_more_than_its_room(broker, join, queue):
    """The rest stays in the queue (and on disk), and is there for the next consumer."""
    deaf, writer = join(receive_buffer=4096), join(timeout=30)
    deaf.send("SUBSCRIBE", {"id": "1", "destination": queue, "ack": "client", "consumer-window-size": -1})
    frame = build("SEND", {"destination": queue, "persistent": "true", "content-length": 10_000}, b"x" * 10_000)
    writer.raw(frame * 100)
    writer.nothing()
    before = broker.rss()
    for _ in range(20):
        writer.raw(frame * 100)
        writer.nothing()
    assert broker.rss() - before < 12 * MIB
    deaf.close()
    writer.ask("SUBSCRIBE", {"id": "1", "destination": queue})
    assert sum(len(writer.read(timeout=20).body) for _ in range(2100)) == 2100 * 10_000


def test_a_topic_subscriber_that_never_reads_does_not_hold_up_the_others(broker, join, name):
    deaf, reader, writer = join(receive_buffer=4096), join(), join(timeout=30)
    deaf.subscribe(f"/topic/{name}")
    reader.subscribe(f"/topic/{name}")
    frame = build("SEND", {"destination": f"/topic/{name}", "content-length": 10_000}, b"x" * 10_000)
    before = broker.rss()
    sending = threading.Thread(target=lambda: writer.raw(frame * 1000))
    sending.start()
    assert len(reader.messages(1000, timeout=20)) == 1000
    sending.join()
    assert broker.rss() - before < 24 * MIB


def test_a_producer_faster_than_the_disk_is_slowed_not_stored(broker, join, queue):
    """Back-pressure on its socket: 30 MB of durable messages pass through with a fraction of that in memory."""
    before, peak = broker.rss(), 0
    writer = join(timeout=60)
    done = threading.Event()

    def write():
        frame = build("SEND", {"destination": queue, "persistent": "true", "content-length": 1000}, b"x" * 1000)
        for _ in range(300):
            writer.raw(frame * 100)
        writer.sync()
        done.set()

    thread = threading.Thread(target=write)
    thread.start()
    while not done.wait(0.05):
        peak = max(peak, broker.rss())
    thread.join()
    assert peak - before < 24 * MIB
    reader = join(timeout=30)
    reader.subscribe(queue)
    assert sum(len(m.body) for m in reader.messages(30_000)) == 30_000_000


def test_a_paused_producer_is_not_closed_for_missing_its_heart_beats(broker, join, queue):
    """While we do not read, silence is ours."""
    writer = join(headers={"heart-beat": "500,0"}, timeout=60)
    frame = build("SEND", {"destination": queue, "persistent": "true", "content-length": 1000}, b"x" * 1000)
    for _ in range(50):
        writer.raw(frame * 100)
    assert writer.sync() == []


def test_a_client_that_goes_while_the_broker_writes_to_it(broker, join, queue):
    writer = join()
    for _ in range(5):  # fewer than max_delivery_attempts
        with Client(broker.port, receive_buffer=4096) as client:
            client.connect()
            client.subscribe(queue, ack="client")
            writer.raw(build("SEND", {"destination": queue, "content-length": 50_000}, b"x" * 50_000) * 5)
            client.read()
    writer.ask("SUBSCRIBE", {"id": "1", "destination": queue})
    try:
        assert len([writer.read() for _ in range(25)]) == 25
    except ClosedByBroker as error:
        raise AssertionError("a message was dead-lettered or lost") from error
