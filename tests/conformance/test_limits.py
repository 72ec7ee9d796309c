"""Full addresses: who waits, who is refused, what is dropped; and that waiting holds up nothing else."""

from __future__ import annotations

import itertools
import socket
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from broker.core.errors import Code
from tests.harness import Broker, Client, build, scratch

from .checks import error
from .targets import LIMITS, Target, meet


@pytest.fixture(scope="module", params=["standalone", "cluster"])
def limited(request: pytest.FixtureRequest) -> Iterator[Target]:
    if request.param == "cluster":
        yield request.getfixturevalue("cluster")
        return
    with scratch(request, "limited") as folder, Broker(folder, LIMITS) as broker:
        yield broker
        assert "Traceback" not in broker.log()


@pytest.fixture
def join(limited: Target) -> Iterator[object]:
    opened: list[Client] = []

    def join(version: str = "1.2", **headers: object) -> Client:
        client = meet(Client(limited.port, version), limited)
        opened.append(client)
        client.connect({name.replace("_", "-"): value for name, value in headers.items()})
        return client

    yield join
    for client in opened:
        client.leave()
    assert limited.alive


names = itertools.count()


@pytest.fixture
def name(request: pytest.FixtureRequest) -> str:
    return f"{next(names)}.{request.node.name.partition('[')[0]}"


def fill(client: Client, queue: str, **headers: object) -> None:
    for number in range(4):
        client.publish(queue, b"%d" % number, **headers)


def sends(client: Client, queue: str, *bodies: bytes, receipts: bool = True) -> None:
    for body in bodies:
        headers = {"destination": queue}
        if receipts:
            headers["receipt"] = f"late-{body.decode()}"
        client.send("SEND", headers, body)


@pytest.mark.parametrize("persistent", ["true", "false"])
def test_a_blocked_producer_waits_for_its_receipts_and_nothing_else_does(join, name, persistent):
    queue = f"/queue/block.{name}"
    client, consumer = join(), join()
    fill(client, queue, persistent=persistent)
    sends(client, queue, b"4", b"5")
    client.publish(f"/queue/other.{name}", b"free")
    client.nothing()
    consumer.subscribe(queue, ack="client-individual")
    came = consumer.messages(4)
    client.nothing()
    for message in came:
        consumer.ack(message)
    assert [client.read()["receipt-id"] for _ in "45"] == ["late-4", "late-5"]
    assert [m.body for m in [*came, *consumer.messages(2)]] == [b"0", b"1", b"2", b"3", b"4", b"5"]


def test_order_is_kept_behind_what_waits(join, name):
    queue = f"/queue/block.{name}"
    client, consumer = join(), join()
    fill(client, queue)
    for number in range(4, 60):
        sends(client, queue, b"%d" % number, receipts=number % 3 == 0)
    consumer.subscribe(queue)
    assert [int(m.body) for m in consumer.messages(60)] == list(range(60))
    assert [client.read()["receipt-id"] for _ in range(18)] == [f"late-{n}" for n in range(6, 60, 3)]


def test_commit_and_disconnect_wait_behind_what_waits(join, name):
    queue = f"/queue/block.{name}"
    client, consumer = join(), join()
    fill(client, queue)
    sends(client, queue, b"4", receipts=False)
    client.send("BEGIN", {"transaction": "t"})
    client.send("SEND", {"destination": queue, "transaction": "t"}, b"5")
    client.send("COMMIT", {"transaction": "t", "receipt": "committed"})
    sends(client, queue, b"6", receipts=False)
    client.send("DISCONNECT", {"receipt": "bye"})
    with pytest.raises(TimeoutError):
        client.read(timeout=0.3)
    consumer.subscribe(queue)
    assert [m.body for m in consumer.messages(7)] == [b"0", b"1", b"2", b"3", b"4", b"5", b"6"]
    assert client.read()["receipt-id"] == "committed"
    assert client.read()["receipt-id"] == "bye"
    client.ended()


def test_what_a_client_sent_before_it_closed_its_side_still_comes(join, name):
    queue = f"/queue/block.{name}"
    client, consumer = join(), join()
    fill(client, queue)
    sends(client, queue, b"4", receipts=False)
    client.socket.shutdown(socket.SHUT_WR)
    consumer.subscribe(queue)
    assert [m.body for m in consumer.messages(5)] == [b"0", b"1", b"2", b"3", b"4"]
    client.ended()


def test_producer_and_consumer_on_one_connection_do_not_wait_for_each_other(join, name):
    queue = f"/queue/block.{name}"
    client = join()
    client.subscribe(queue, ack="client-individual", prefetch_count=4)
    for number in range(40):
        client.send("SEND", {"destination": queue, "receipt": f"r-{number}"}, b"%d" % number)
    bodies, receipts = [], 0
    while len(bodies) < 40 or receipts < 40:
        frame = client.read()
        if frame.command == "MESSAGE":
            bodies.append(int(frame.body))
            client.ack(frame)
        else:
            receipts += 1
    assert bodies == list(range(40))


def test_a_consumer_that_sends_more_than_may_wait_is_told_so(join, name):
    queue = f"/queue/block.{name}"
    client = join()
    client.subscribe(queue, ack="client-individual", prefetch_count=1)
    fill(client, queue)
    client.messages(1)
    for _ in range(30):
        client.send("SEND", {"destination": queue}, b"x" * 10_000)
    found = error(client, Code.ADDRESS_FULL)
    assert b"park_bytes" in found.body


def test_a_producer_that_sends_more_than_may_wait_is_not_read_and_its_heart_beats_are_not_missed(join, name):
    queue = f"/queue/block.{name}"
    client, consumer = join(heart_beat="500,0"), join()
    fill(client, queue)
    frames = [build("SEND", {"destination": queue, "content-length": 50_000}, b"%050000d" % n) for n in range(4, 300)]
    client.timeout = 60
    client.socket.setblocking(False)
    left = memoryview(b"".join(frames))
    end = time.monotonic() + 2.5  # longer than two promised intervals
    while time.monotonic() < end:
        try:
            left = left[client.socket.send(left) :]
        except BlockingIOError:
            time.sleep(0.05)
    assert left, "15 MB have been read, although 100 KB may wait"
    consumer.subscribe(queue)
    client.socket.setblocking(True)
    with ThreadPoolExecutor() as other:
        rest = other.submit(client.socket.sendall, left)
        assert [int(m.body[-9:]) for m in consumer.messages(300)] == list(range(300))
        rest.result()
    client.publish(f"/queue/other.{name}", b"still here")


def test_a_large_body_waits_before_it_is_taken_in(join, name):
    queue = f"/queue/block.{name}"
    client, consumer = join(), join()
    fill(client, queue)
    body = bytes(300_000)
    client.send("SEND", {"destination": queue, "content-length": len(body), "receipt": "big"}, body)
    client.send("SEND", {"destination": queue, "receipt": "behind"}, b"behind")
    with pytest.raises(TimeoutError):
        client.read(timeout=0.3)
    consumer.subscribe(queue)
    assert [len(m.body) for m in consumer.messages(6)] == [1, 1, 1, 1, len(body), 6]
    assert [client.read()["receipt-id"] for _ in range(2)] == ["big", "behind"]


@pytest.mark.parametrize("version", ["1.0", "1.1", "1.2"])
def test_fail_ends_in_an_error_for_the_first_message_without_room(join, name, version):
    queue = f"/queue/fail.{name}"
    client, consumer = join(version), join()
    client.raw(b"".join(build("SEND", {"destination": queue, "receipt": f"r-{n}"}, b"%d" % n) for n in range(6)))
    assert [client.read()["receipt-id"] for _ in range(4)] == ["r-0", "r-1", "r-2", "r-3"]
    found = error(client, Code.ADDRESS_FULL, receipt="r-4")
    assert f'Address "fail.{name}" is full'.encode() in found.body
    consumer.subscribe(queue)
    assert [m.body for m in consumer.messages(4)] == [b"0", b"1", b"2", b"3"]
    consumer.nothing()


def test_fail_refuses_a_transaction_as_a_whole(join, name):
    queue, other = f"/queue/fail.{name}", f"/queue/other.{name}"
    client, consumer = join(), join()
    fill(client, queue)
    client.send("BEGIN", {"transaction": "t"})
    client.send("SEND", {"destination": other, "transaction": "t"}, b"a")
    client.send("SEND", {"destination": queue, "transaction": "t"}, b"b")
    client.send("COMMIT", {"transaction": "t", "receipt": "committed"})
    error(client, Code.ADDRESS_FULL, receipt="committed")
    consumer.subscribe(other)
    consumer.nothing()


def test_drop_answers_and_keeps_the_first(join, name):
    queue = f"/queue/drop.{name}"
    client, consumer = join(), join()
    client.raw(b"".join(build("SEND", {"destination": queue, "receipt": f"r-{n}"}, b"%d" % n) for n in range(20)))
    assert [client.read()["receipt-id"] for _ in range(20)] == [f"r-{n}" for n in range(20)]
    consumer.subscribe(queue)
    assert [m.body for m in consumer.messages(4)] == [b"0", b"1", b"2", b"3"]
    consumer.nothing()


def test_a_slow_consumer_is_told_and_its_messages_go_to_another(join, name):
    queue = f"/queue/slow.{name}"
    client, slow, fast = join(), join(), join()
    slow.subscribe(queue, ack="client-individual")
    client.publish(queue, b"a", persistent="true")
    slow.messages(1)
    found = error(slow, Code.SLOW_CONSUMER)
    assert b"disconnected by server" in found.body
    fast.subscribe(queue, ack="client-individual")
    (message,) = fast.messages(1)
    assert (message.body, message["redelivered"]) == (b"a", "true")
    fast.ack(message)


def test_a_limit_holds_for_messages_that_somebody_has_and_for_delayed_ones(join, name):
    queue = f"/queue/fail.{name}"
    client, consumer = join(), join()
    consumer.subscribe(queue, ack="client-individual")
    fill(client, queue, persistent="true")
    for message in consumer.messages(4)[:2]:
        consumer.nack(message, delay=60_000)
    consumer.sync()
    client.send("SEND", {"destination": queue, "receipt": "no"}, b"x")
    error(client, Code.ADDRESS_FULL, receipt="no")
