"""Who wants what of a queue: selectors that make no sense are refused, and who wants none of its own gets none."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from broker.core.address import AckMode, Routing
from broker.core.commands import Subscribe
from broker.core.errors import Code
from broker.engine.queue.selective_consumers import wish_of

from .test_eligibility import send, values
from .world import ANYCAST, CLIENT, INDIVIDUAL, MULTICAST, World, ids, refused


def test_a_bad_selector_is_refused_and_makes_no_queue():
    w = World()
    for consumer, routing in ((1, ANYCAST), (2, MULTICAST)):
        assert refused(w.subscribe(consumer, "q", routing=routing, selector="a =")) == [Code.BAD_SELECTOR]
    assert w.queue() is None and not w.engine._slot.consumers


def test_a_topic_subscription_never_keeps_what_it_does_not_want():
    w = World()
    w.subscribe(1, "t", routing=MULTICAST, selector="a = 'x'", room=1)
    effects = send(w, {"a": "y"}, {"a": "x"}, {"a": "y"}, {"a": "x"}, address="t", routing=MULTICAST)
    assert values(effects, "a") == ["x"]
    assert [q["ready"] for q in w.stats()] == [1]


def test_no_local_on_a_queue_leaves_its_own_messages_to_others():
    w = World()
    w.subscribe(1, no_local=True)
    send(w, {"n": 1}, session=1)
    assert values(send(w, {"n": 2}), "n") == ["2"] and w.queue()["ready"] == 1
    assert values(w.subscribe(2), "n", 2) == ["1"]


def test_what_is_ones_own_is_remembered_as_long_as_any_consumer_of_the_session_asks():
    w = World()
    w.subscribe(1, session=5, ack=CLIENT, credit_messages=0, no_local=True)
    w.subscribe(2, session=5, ack=CLIENT, credit_messages=1, no_local=True, selector="a = 'x'")
    send(w, {"a": "x"}, session=5)
    w.unsubscribe(2, session=5)
    send(w, {"a": "y"}, session=6)
    w.effects.clear()
    w.subscribe(3, session=5, ack=CLIENT, no_local=True, selector="a LIKE '_'")
    assert values(w.effects, "a") == ["y"]


def test_whose_messages_they_were_is_forgotten_when_all_of_them_have_gone():
    w = World()
    w.subscribe(1, session=5, ack=INDIVIDUAL, no_local=True)
    w.subscribe(2, session=6, ack=INDIVIDUAL)
    for _ in range(50):
        for session in (5, 7):
            effects = send(w, {}, session=session)
            for consumer in (1, 2):
                for i in ids(effects, consumer):
                    assert not refused(w.settle(consumer, i, session=consumer + 4))
    assert ids(send(w, {}, session=5), 1) == []
    assert sum(map(len, w.engine._slot.queues[1].choice._origins.values())) == 1
    w.unsubscribe(2, session=6)
    assert w.queue()["ready"] == 1  # it is still its own


@pytest.mark.parametrize("pattern", ["t", "t.*"])
def test_no_local_on_a_topic_drops_its_own_messages_and_only_its(pattern):
    w = World()
    address = pattern.replace("*", "a")
    w.subscribe(1, pattern, routing=MULTICAST, no_local=True, selector="n > 0")
    w.subscribe(2, pattern, routing=MULTICAST, session=1)
    effects = send(w, {"n": 1}, session=1, address=address, routing=MULTICAST)
    effects += send(w, {"n": 2}, session=3, address=address, routing=MULTICAST)
    assert values(effects, "n", 1) == ["2"] and values(effects, "n", 2) == ["1", "2"]
    assert all(q["ready"] == 0 for q in w.stats())
    w.disconnect(1)
    assert not w.engine._slot.strangers


@pytest.mark.parametrize(
    ("tied", "subscription", "durable", "filter"),
    [
        (False, False, False, ("a = 1", 9)),
        (True, True, False, None),  # filled for this one consumer: nothing else is there
        (False, True, True, (None, 9)),  # the subscription's own queue lets nothing else in
        (False, True, False, ("a = 1", 9)),  # somebody who reads along there
    ],
)
def test_what_a_consumer_may_get_of_which_queue(tied, subscription, durable, filter):
    command = Subscribe(
        3, 9, 1, 4, "a", Routing.ANYCAST, AckMode.AUTO, durable=durable, selector="a = 1", no_local=True,
    )  # fmt: skip
    found = wish_of(command, SimpleNamespace(tied=tied, subscription=subscription))
    assert (found and (found[0] and found[0].text, found[1])) == filter
