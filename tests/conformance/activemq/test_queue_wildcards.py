"""`/queue/a.>` and `/queue/a.*`: every queue that is called so, also those that come later."""

from __future__ import annotations

import time

import pytest

from broker.core.errors import Code

from ..checks import error

SOON_S = 10.0
"""A new queue is found within a second; more is the machine's."""


def bodies(client, many):
    return sorted([message.body for message in client.messages(many, timeout=SOON_S)])


def test_queues_that_are_there_and_those_that_come(join, name):
    client, other = join(), join()
    for queue in ("a", "b", "b.deep"):
        other.publish(f"/queue/{name}.{queue}", queue.encode())
    other.publish(f"/queue/{name}x.a", b"not this one")
    other.publish(f"/topic/{name}.a", b"nor a topic")
    other.sync()
    client.subscribe(f"/queue/{name}.>", "all", "client-individual")
    found = client.messages(3, timeout=SOON_S)
    assert sorted(m.body for m in found) == [b"a", b"b", b"b.deep"]
    assert {m["destination"] for m in found} == {f"/queue/{name}.{queue}" for queue in ("a", "b", "b.deep")}
    assert {m["subscription"] for m in found} == {"all"}
    for message in found:
        client.ack(message)
    other.publish(f"/queue/{name}.new", b"new")
    other.publish(f"/queue/{name}.a", b"again")
    assert bodies(client, 2) == [b"again", b"new"]
    client.ask("UNSUBSCRIBE", {"id": "all"})
    other.publish(f"/queue/{name}.a", b"left")
    other.sync()
    client.nothing()
    client.subscribe(f"/queue/{name}.*", "one", selector="colour = 'blue'")
    other.publish(f"/queue/{name}.b", b"blue", colour="blue")
    other.publish(f"/queue/{name}.b.deep", b"deeper", colour="blue")
    assert bodies(client, 1) == [b"blue"]
    client.nothing()


def test_one_window_and_cumulative_acks_over_all_of_them(join, name):
    client, other = join(), join()
    for number in range(6):
        other.publish(f"/queue/{name}.{number % 3}", b"%d" % number)
    other.sync()
    client.subscribe(f"/queue/{name}.>", "all", "client", **{"activemq.prefetchSize": 4})
    first = client.messages(4, timeout=SOON_S)
    client.nothing()
    client.ack(first[-1])
    rest = client.messages(2, timeout=SOON_S)
    client.ack(rest[-1])
    client.sync()
    assert sorted(m.body for m in [*first, *rest]) == [b"%d" % number for number in range(6)]
    client.leave()
    again = join()
    again.subscribe(f"/queue/{name}.>", "all")
    again.nothing()


def test_a_small_window_keeps_nothing_of_other_queues_from_others(join, name):
    slow, other, sender = join(), join(), join()
    for queue in "ab":
        sender.publish(f"/queue/{name}.{queue}", queue.encode())
    sender.sync()
    slow.subscribe(f"/queue/{name}.>", "all", "client-individual", **{"activemq.prefetchSize": 1})
    held = slow.messages(1, timeout=SOON_S)[0]
    left = next(queue for queue in "ab" if queue != held.body.decode())
    other.subscribe(f"/queue/{name}.{left}", "1", "client-individual")
    assert other.messages(1, timeout=SOON_S)[0].body == left.encode()
    sender.publish(f"/queue/{name}.{left}", b"later")
    other.leave()
    slow.ack(held)
    got = {message.body for message in slow.messages(1, timeout=SOON_S)}
    assert got <= {left.encode(), b"later"}


@pytest.mark.parametrize("ack", ["client", "client-individual"])
@pytest.mark.parametrize("kind", ["queue", "topic"])
def test_a_window_of_one_takes_all_of_them_one_by_one(join, name, kind, ack):
    """More destinations than one piece of a look has, and some whose client is slow."""
    client, sender = join(), join()

    def send():
        for round in range(3):
            for number in range(60):
                sender.publish(f"/{kind}/{name}.{number}", b"%d.%d" % (number, round))
        sender.sync()

    if kind == "queue":
        send()
    client.subscribe(f"/{kind}/{name}.>", "all", ack, **{"activemq.prefetchSize": 1})
    if kind == "topic":
        client.sync()
        send()
    got: dict[bytes, list[bytes]] = {}
    for number in range(180):
        message = client.messages(1, timeout=30)[0]
        queue, _, body = message.body.partition(b".")
        got.setdefault(queue, []).append(body)
        if number in (5, 90):
            time.sleep(1.5)  # what waits rests meanwhile
            client.nothing()
        client.ack(message)
    client.nothing()
    assert set(map(tuple, got.values())) == {(b"0", b"1", b"2")} and len(got) == 60


def test_two_of_them_share_what_comes(join, name):
    one, two, sender = join(), join(), join()
    sender.publish(f"/queue/{name}.a", b"first")
    sender.sync()
    one.subscribe(f"/queue/{name}.>", "1", "client-individual")
    held = one.messages(1, timeout=SOON_S)
    assert held[0].body == b"first"
    two.subscribe(f"/queue/{name}.>", "2", "client-individual")  # at another edge, which may look first
    one.leave()
    assert two.messages(1, timeout=SOON_S)[0]["redelivered"] == "true"


@pytest.mark.parametrize("more", [{"browser": "true"}, {"activemq.subscriptionName": "n"}])
def test_what_is_for_single_queues(join, name, more):
    client = join()
    client.send("SUBSCRIBE", {"destination": f"/queue/{name}.>", "id": "1", "receipt": "r", **more})
    error(client, Code.BAD_DESTINATION, "r")


def test_not_in_a_composite_destination(join, name):
    client = join()
    client.send("SUBSCRIBE", {"destination": f"/queue/{name}.>,/queue/b", "id": "1", "receipt": "r"})
    error(client, Code.BAD_DESTINATION, "r")
