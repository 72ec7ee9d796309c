"""SIGTERM: what is in flight is finished, clients are told, and the next start finds everything as it was."""

from __future__ import annotations

import itertools
import threading
import time
from pathlib import Path

import pytest

from tests.harness import Broker, Client, Frame, build
from tests.harness.stomp import ClosedByBroker


def send_frame(n: int, queue: str = "/queue/a") -> bytes:
    return build("SEND", {"destination": queue, "persistent": "true", "receipt": n}, b"%d" % n)


def rest(client: Client) -> list[Frame]:
    """Everything until the broker closes."""
    frames = []
    while True:
        try:
            frames.append(client.read())
        except ClosedByBroker:
            return frames


def consume(broker: Broker, client: Client, address: str = "a") -> list[Frame]:
    """All messages of the queue; what is read back from disk takes a moment longer than a round trip."""
    client.connect()
    client.subscribe(f"/queue/{address}")
    frames = client.sync()
    while broker.messages(address):
        frames += client.sync()
    return frames + client.sync()


def test_idle_clients_are_told_and_the_exit_status_is_0(tmp_path: Path):
    with Broker(tmp_path) as broker, Client(broker.port) as client, Client(broker.port, "1.0") as old:
        client.connect()
        client.subscribe("/queue/a")
        old.connect()
        broker.terminate()
        for each in (client, old):
            error = each.expect("ERROR")
            assert error["error-code"] == "1604"
            assert error["message"].startswith("The broker is stopping")
            each.ended()
        assert broker.wait() == 0
        assert "Traceback" not in broker.log()


def test_sends_in_flight_at_sigterm_are_answered_or_unknown_but_never_lost(tmp_path: Path):
    broker = Broker(tmp_path)
    broker.start()
    with Client(broker.port) as client:
        client.connect()
        sent = 0

        def pour() -> None:
            nonlocal sent
            try:
                for sent in itertools.count(0, 10):  # a fast broker takes any number that one could name
                    client.raw(b"".join(send_frame(n) for n in range(sent, sent + 10)))
                    time.sleep(0.0005)  # so that SIGTERM comes in the middle
            except OSError:
                pass  # the broker has closed

        pouring = threading.Thread(target=pour)
        pouring.start()
        first = client.expect("RECEIPT")
        broker.terminate()
        frames = [first, *rest(client)]
        client.close()
        pouring.join()
    assert broker.wait() == 0
    assert frames[-1].command == "ERROR" and frames[-1]["error-code"] == "1604", frames[-1]
    receipts = [int(frame["receipt-id"]) for frame in frames[:-1]]
    assert receipts == list(range(len(receipts)))
    with broker, Client(broker.port) as client:
        came = consume(broker, client)
        numbers = [int(frame.body) for frame in came]
        assert numbers == list(range(len(numbers)))
        assert len(receipts) <= len(numbers) <= sent + 10
        assert not [frame for frame in came if "redelivered" in frame.headers]


def test_after_a_clean_restart_only_what_was_delivered_is_marked_redelivered(tmp_path: Path):
    broker = Broker(tmp_path, {"edge.drain_timeout_s": 1})
    with broker, Client(broker.port) as client:
        client.connect()
        client.raw(b"".join(send_frame(n) for n in range(100)))
        assert [client.expect("RECEIPT")["receipt-id"] for _ in range(100)] == [str(n) for n in range(100)]
        client.subscribe("/queue/a", ack="client-individual", prefetch_count=3)
        held = client.messages(3)
        client.ack(held[1], receipt="acked")
        # The window has room again. Deliveries may overtake receipts.
        assert {client.read().command for _ in range(2)} == {"RECEIPT", "MESSAGE"}
        assert broker.stop() == 0
    with broker, Client(broker.port) as client:
        came = consume(broker, client)
    assert [int(frame.body) for frame in came] == [0, *range(2, 100)]
    assert [int(frame.body) for frame in came if frame.get("redelivered") == "true"] == [0, 2, 3]


def test_open_transaction_is_gone_and_its_messages_are_back(tmp_path: Path):
    broker = Broker(tmp_path, {"edge.drain_timeout_s": 1})
    with broker, Client(broker.port) as client:
        client.connect()
        client.publish("/queue/a", b"input", persistent="true")
        client.subscribe("/queue/a", ack="client-individual")
        message = client.expect("MESSAGE")
        client.send("BEGIN", {"transaction": "t"})
        client.ack(message, transaction="t")
        client.publish("/queue/b", b"output", transaction="t", persistent="true")
        assert broker.stop() == 0
    with broker, Client(broker.port) as a, Client(broker.port) as b:
        (again,) = consume(broker, a)
        assert (again.body, again["redelivered"]) == (b"input", "true")
        assert consume(broker, b, "b") == []


def test_messages_that_are_not_persistent_go_with_the_process(tmp_path: Path):
    broker = Broker(tmp_path)
    with broker, Client(broker.port) as client:
        client.connect()
        client.publish("/queue/a", b"gone")
        client.publish("/queue/a", b"kept", persistent="true")
        client.close()
        assert broker.stop() == 0
    with broker, Client(broker.port) as client:
        assert [frame.body for frame in consume(broker, client)] == [b"kept"]


@pytest.mark.parametrize("how", ["stop", "kill"])
def test_backlog_of_20_000_durable_messages_survives_in_order(tmp_path: Path, how: str):
    broker = Broker(tmp_path)
    body = b"x" * 200
    with broker, Client(broker.port) as client:
        client.connect()
        headers = {"destination": "/queue/a", "persistent": "true", "content-length": 206}
        frames = [build("SEND", headers, b"%06d" % n + body) for n in range(20_000)]
        for start in range(0, 20_000, 1000):
            client.raw(b"".join(frames[start : start + 1000]))
        client.publish("/queue/a", b"%06d" % 20_000 + body, persistent="true")
        metrics = broker.metrics()
        assert metrics["stomp_journal_disk_bytes"] >= metrics["stomp_journal_live_bytes"] >= 20_000 * 206
        client.close()
        getattr(broker, how)()
    with broker, Client(broker.port) as client:
        client.connect()
        client.subscribe("/queue/a", ack="client")
        seen = 0
        while seen <= 20_000:
            frame = client.expect("MESSAGE")
            assert frame.body == b"%06d" % seen + body
            assert how == "kill" or "redelivered" not in frame.headers
            seen += 1
            if seen % 500 == 0:
                client.ack(frame)
        client.ack(frame, receipt="all")
        client.expect("RECEIPT")
        client.close()
        assert broker.stop() == 0
    with broker, Client(broker.port) as client:
        assert consume(broker, client) == []
        assert broker.metrics()["stomp_journal_live_bytes"] < 20_000


def test_receipt_of_disconnect_covers_everything_sent_before_it(tmp_path: Path):
    """How stomp.py, stompjs and the specification's graceful shutdown make sure without asking for each message."""
    broker = Broker(tmp_path)
    headers = {"destination": "/queue/a", "persistent": "true", "content-length": 4}
    with broker, Client(broker.port) as client:
        client.connect()
        client.raw(b"".join(build("SEND", headers, b"%04d" % n) for n in range(5000)))
        client.ask("DISCONNECT")
        broker.kill()
    with broker, Client(broker.port) as client:
        assert [frame.body for frame in consume(broker, client)] == [b"%04d" % n for n in range(5000)]


def test_durable_subscription_outlives_the_broker(tmp_path: Path):
    broker = Broker(tmp_path)
    with broker, Client(broker.port) as client:
        client.connect({"client-id": "reader"})
        client.subscribe("/topic/news", durable_subscription_name="mine")
        client.close()
        assert broker.stop() == 0
    with broker, Client(broker.port) as client:
        client.connect()
        client.publish("/topic/news", b"while away", persistent="true")
        broker.kill()
    with broker, Client(broker.port) as client:
        client.connect({"client-id": "reader"})
        client.subscribe("/topic/news", durable_subscription_name="mine")
        assert client.expect("MESSAGE").body == b"while away"


def test_client_that_does_not_read_cannot_hold_up_the_end(tmp_path: Path):
    broker = Broker(tmp_path, {"edge.drain_timeout_s": 1})
    with broker, Client(broker.port, receive_buffer=4096) as deaf, Client(broker.port) as client:
        client.connect()
        deaf.connect()
        deaf.subscribe("/queue/a")
        for _ in range(50):
            client.publish("/queue/a", b"x" * 90_000, persistent="true")
        broker.terminate()
        assert broker.wait(8) == 0  # the default would be ten seconds
