"""Selectors, groups, no-local and windows as clients meet them, on queues, topics, wildcards and durable subscriptions.
(What Artemis' users expect of selectors is in artemis/test_58_selectors.py.)"""

from __future__ import annotations

import pytest

from broker.core.errors import Code

from .checks import bodies, error


@pytest.mark.parametrize("persistent", ["true", "false"])
@pytest.mark.parametrize("kind", ["queue", "topic"])
def test_each_gets_its_own_and_in_order(join, name, kind, persistent):
    one, two, sender = join(), join(), join()
    one.subscribe(f"/{kind}/{name}", selector="n BETWEEN 0 AND 4", ack="client")
    two.subscribe(f"/{kind}/{name}", selector="color = 'red' AND n > 4", ack="auto")
    for n in range(10):
        sender.publish(f"/{kind}/{name}", b"%d" % n, n=n, color="red" if n % 2 else "blue", persistent=persistent)
    first, second = one.messages(5), two.messages(3)
    assert bodies(first) == [b"0", b"1", b"2", b"3", b"4"] and bodies(second) == [b"5", b"7", b"9"]
    one.settle("ACK", first[-1])
    one.nothing()
    two.nothing()
    if kind == "queue":
        two.ask("UNSUBSCRIBE", {"id": "1"})
        two.subscribe(f"/queue/{name}", id="rest")
        assert bodies(two.messages(2)) == [b"6", b"8"]


def test_a_selector_is_kept_with_a_durable_subscription(join, name):
    client = join(headers={"client-id": name})
    client.subscribe(f"/topic/{name}", selector="a = 1", durable_subscription_name="s")
    client.ask("DISCONNECT")
    sender = join()
    for a in (1, 2, 1):
        sender.publish(f"/topic/{name}", b"%d" % a, a=a, persistent="true")
    client = join(headers={"client-id": name})
    client.subscribe(f"/topic/{name}", selector="a = 1", durable_subscription_name="s")
    assert bodies(client.messages(2)) == [b"1", b"1"]
    client.nothing()
    client.ask("UNSUBSCRIBE", {"id": "1", "durable-subscription-name": "s"})


def test_wildcards_with_a_selector_and_no_local(join, name):
    client, other = join(), join()
    client.subscribe(f"/topic/{name}.*", selector="a IN ('x', 'y')", no_local="true")
    for sender in (client, other):
        for word in ("one", "two"):
            sender.publish(f"/topic/{name}.{word}", word.encode(), a="x")
            sender.publish(f"/topic/{name}.{word}", b"no", a="z")
    assert sorted(bodies(client.messages(2))) == [b"one", b"two"]
    client.nothing()


def test_a_bad_selector_on_a_wildcard_is_one_error(join, name):
    client = join()
    client.send("SUBSCRIBE", {"id": "1", "destination": f"/topic/{name}.#", "selector": "a =", "receipt": "r"})
    error(client, Code.BAD_SELECTOR, receipt="r")


def test_browsing_with_a_selector(join, name):
    client = join()
    for n in range(6):
        client.publish(f"/queue/{name}", b"%d" % n, n=n)
    client.subscribe(f"/queue/{name}", browser="true", selector="n > 3")
    *shown, end = client.messages(3)
    assert bodies(shown) == [b"4", b"5"] and end["browser"] == "end"


def test_a_group_stays_with_one_consumer_until_that_goes(join, name):
    sender, consumers = join(), [join(), join()]
    for client in consumers:
        client.subscribe(f"/queue/{name}", ack="client-individual")
    for n in range(12):
        sender.publish(f"/queue/{name}", b"%d" % n, JMSXGroupID="abc"[n % 3])
    owner, got = {}, {}
    for client in consumers:
        for message in client.sync():
            assert owner.setdefault(message["JMSXGroupID"], client) is client
            got.setdefault(message["JMSXGroupID"], []).append(int(message.body))
    assert got == {"a": [0, 3, 6, 9], "b": [1, 4, 7, 10], "c": [2, 5, 8, 11]}
    assert set(owner.values()) == set(consumers)
    gone, left = owner["a"], next(client for client in consumers if client is not owner["a"])
    gone.close()
    taken = left.messages(4 * sum(client is gone for client in owner.values()))
    assert all(message["redelivered"] == "true" for message in taken)
    assert [int(m.body) for m in taken if m["JMSXGroupID"] == "a"] == [0, 3, 6, 9]


def test_one_frame_at_a_time_in_auto_mode_still_gets_everything(join, name):
    client = join()
    client.ask("SUBSCRIBE", {"id": "1", "destination": f"/queue/{name}", "activemq.prefetchSize": "1"})
    for n in range(20):
        client.publish(f"/queue/{name}", b"%d" % n)
    assert bodies(client.messages(20)) == [b"%d" % n for n in range(20)]


@pytest.mark.parametrize(("window", "most"), [(0, 1), (1, 1), (2000, None), (-1, 9)])
def test_a_window_bounds_what_is_unacknowledged(join, name, window, most):
    client = join()
    client.subscribe(f"/queue/{name}", ack="client-individual", consumer_window_size=window)
    for n in range(9):
        client.publish(f"/queue/{name}", b"%d" % n * 600)
    got = client.sync()
    size = len(got)
    assert size == (most if most is not None else size) and (most is not None or 2 <= size <= 4)
    for message in got:
        client.settle("ACK", message)
    assert (len(client.sync()) > 0) is (size < 9)
