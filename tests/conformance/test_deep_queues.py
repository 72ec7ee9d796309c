"""Queues much larger than their memory: what is read back from the log is the same, in the same order.

The broker has 64 KiB per queue, so that a few hundred messages are deep.
"""

from __future__ import annotations

import itertools
import random
import time
from collections.abc import Iterator

import pytest

from tests.harness import Broker, Client, build, scratch

from .targets import Target, meet

COUNT, SIZE = 600, 1000
KINDS = pytest.mark.parametrize("kind", ["durable", "transient", "mixed"])


@pytest.fixture(scope="module", params=["standalone", "cluster"])
def small(request: pytest.FixtureRequest) -> Iterator[Target]:
    if request.param == "cluster":
        yield request.getfixturevalue("cluster")
        return
    settings = {"engine.queue_memory_bytes": 65_536, "engine.page_bytes": 16_384, "journal.segment_bytes": 1 << 20}
    with scratch(request, "deep") as folder, Broker(folder, settings) as broker:
        yield broker
        assert "Traceback" not in broker.log()


@pytest.fixture
def join(small) -> Iterator[object]:
    opened = []

    def join(version="1.2", **headers):
        client = meet(Client(small.port, version), small)
        opened.append(client)
        client.connect(headers)
        return client

    yield join
    for client in opened:
        client.leave()
    assert small.alive


def body(number: int) -> bytes:
    return b"%06d" % number + b"." * (SIZE - 6)


def load(client, destination, kind, count=COUNT, start=0, **headers):
    """`count` messages in writes of uneven size; returns when they are safe."""
    frames = []
    for number in range(start, start + count):
        durable = kind == "durable" or (kind == "mixed" and number % 3 == 0)
        pairs = {"destination": destination, "persistent": str(durable).lower(), "content-length": SIZE}
        frames.append(build("SEND", pairs | headers, body(number)))
    rng = random.Random(count)
    while frames:
        cut = rng.randrange(1, 40)
        client.raw(b"".join(frames[:cut]))
        del frames[:cut]
    client.nothing()


def numbers(frames):
    return [int(frame.body[:6]) for frame in frames]


@KINDS
def test_fifo(join, queue, kind):
    writer, reader = join(), join()
    load(writer, queue, kind)
    reader.subscribe(queue)
    assert numbers(reader.messages(COUNT)) == list(range(COUNT))
    reader.nothing()


@KINDS
def test_fifo_while_it_fills_and_drains(join, queue, kind):
    writer, reader = join(), join()
    load(writer, queue, kind, 300)
    reader.subscribe(queue, ack="client-individual", prefetch_count=7)
    got = []
    for start in (300, 400, 500):
        load(writer, queue, kind, 100, start)
        for _ in range(200):
            got.append(reader.read())
            reader.ack(got[-1])
    assert numbers(got) == list(range(COUNT))
    reader.nothing()


@KINDS
def test_browsing_goes_to_the_bottom(join, queue, kind):
    writer, looker, reader = join(), join(), join()
    load(writer, queue, kind)
    looker.subscribe(queue, browser="true")
    assert numbers(looker.messages(COUNT)) == list(range(COUNT))
    assert looker.expect("MESSAGE")["browser"] == "end"
    reader.subscribe(queue)
    got = reader.messages(COUNT)
    assert numbers(got) == list(range(COUNT))
    assert not any("redelivered" in m.headers for m in got)


@KINDS
def test_unacknowledged_ones_go_back_in_front_of_the_deep_part(join, queue, kind):
    writer, first, second = join(), join(), join()
    load(writer, queue, kind)
    first.subscribe(queue, ack="client-individual", prefetch_count=50)
    held = first.messages(50)
    for message in held[::2]:
        first.ack(message)
    first.ask("DISCONNECT")
    second.subscribe(queue)
    rest = sorted(set(range(COUNT)) - set(range(0, 50, 2)))
    # Acknowledging widened the window: what was sent then is redelivered too, but nothing else is.
    got = second.messages(len(rest))
    assert numbers(got) == rest
    marked = [int(m.body[:6]) for m in got if "redelivered" in m.headers]
    assert marked == rest[: len(marked)] and set(range(1, 50, 2)) <= set(marked) <= set(range(75))


@KINDS
def test_two_consumers_get_everything_once(join, queue, kind):
    writer, first, second = join(), join(), join()
    load(writer, queue, kind)
    readers = {reader: [] for reader in (first, second)}
    for reader in readers:
        reader.subscribe(queue, ack="client", prefetch_count=20)
    total = 0
    while total < COUNT:
        for reader, got in readers.items():
            batch = [frame for frame in reader.sync() if frame.command == "MESSAGE"]
            if batch:
                got += numbers(batch)
                total += len(batch)
                reader.ack(batch[-1])
    assert sorted(itertools.chain(*readers.values())) == list(range(COUNT))
    assert all(got == sorted(got) and got for got in readers.values())


@KINDS
def test_a_deep_durable_subscription(join, topic, name, kind):
    owner, writer = join(**{"client-id": name}), join()
    owner.subscribe(topic, durable_subscription_name="deep")
    owner.ask("DISCONNECT")
    load(writer, topic, kind)
    again = join(**{"client-id": name})
    again.subscribe(topic, durable_subscription_name="deep", ack="client")
    got = again.messages(COUNT)
    assert numbers(got) == list(range(COUNT))
    again.ack(got[-1])
    again.ask("DISCONNECT")


@KINDS
def test_expired_ones_are_skipped_in_the_deep_part(join, queue, kind):
    writer, reader = join(), join()
    soon = int(time.time() * 1000) + 400
    load(writer, queue, kind, 200)
    load(writer, queue, kind, 200, 200, expires=soon)
    load(writer, queue, kind, 200, 400)
    while time.time() * 1000 <= soon:
        time.sleep(0.02)
    reader.subscribe(queue)
    assert numbers(reader.messages(400)) == [*range(200), *range(400, 600)]
    reader.nothing()


def test_a_restart_keeps_order_and_what_was_settled(small, join, queue):
    writer, reader = join(), join()
    load(writer, queue, "durable")
    reader.subscribe(queue, ack="client-individual", prefetch_count=1000)
    for message in reader.messages(COUNT)[: COUNT // 2 : 2]:
        reader.ack(message)
    reader.ask("DISCONNECT")
    assert small.stop() == 0
    small.start()
    again = join()
    again.subscribe(queue)
    assert numbers(again.messages(COUNT * 3 // 4)) == [n for n in range(COUNT) if n >= COUNT // 2 or n % 2]
    again.nothing()
