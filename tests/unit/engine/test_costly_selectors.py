"""Selectors that would cost too much: given up on, and their subscriptions end by name."""

from __future__ import annotations

import pytest

from broker.core.commands import Publish
from broker.core.effects import ConsumerClosed, Refused, Turn
from broker.core.errors import Code
from broker.core.message import NO_IDS, Run
from broker.core.reasons import Reason
from broker.core.records import MetaRecord
from broker.engine.engine import Engine

from .world import ANYCAST, MULTICAST, World, ids

HEAVY = " OR ".join([f"a{n} = 'x'" for n in range(400)])
"""Too much for the headers of LONG, not for others."""
LIGHT = "a1 = 'x'"
LONG = b"a1:x\n" + b"".join(b"long%d:%b\n" % (n, b"y" * 9000) for n in range(3))
XPATH = "XPATH '//*[. = \"x\"]'"
WIDE = b"<r>" + b"<a/>" * 3000 + b"</r>"


def send(w: World, routing, head: bytes = b"a1:x\n", body: bytes = b"body") -> list:
    record = head + b"\n" + body + b"\0"
    return w.do(Publish(7, 99, 0, "q", routing, Run(NO_IDS, b"", [record], len(record), 0, 4)))


def closed(effects: list) -> list[int]:
    ends = [e for e in effects if isinstance(e, ConsumerClosed)]
    assert all(e.reason is Reason.SELECTOR_COST and "'q' would cost too much over a" in e.detail for e in ends)
    return [e.consumer for e in ends]


@pytest.mark.parametrize("routing", [ANYCAST, MULTICAST])
@pytest.mark.parametrize(
    ("selector", "small", "large"),
    [
        (HEAVY, {}, {"head": LONG}),
        (XPATH, {"body": b"<a>x</a>"}, {"body": WIDE}),
        (f"NOT ({HEAVY})", {}, {"head": LONG}),
    ],
)
def test_a_subscription_whose_selector_costs_too_much_ends_and_the_others_do_not(routing, selector, small, large):
    w = World(xpath=True)
    w.subscribe(1, routing=routing, selector=selector)
    w.subscribe(2, routing=routing, selector=selector, session=1)
    w.subscribe(3, routing=routing, selector=LIGHT)
    assert closed(send(w, routing, **small)) == []
    effects = send(w, routing, **large)
    assert closed(effects) == [1, 2]
    assert len(ids(effects, 3)) == 1 and not ids(effects, 1)
    assert w.engine.counters()["selector_overruns"] == 1
    effects = send(w, routing, **large)
    assert closed(effects) == [] and len(ids(effects, 3)) == 1
    assert closed(w.subscribe(4, routing=routing, selector=selector)) == []
    assert closed(send(w, routing, **large)) == [4]


def test_a_message_given_up_on_stays_for_others():
    w = World()
    w.subscribe(1, selector=HEAVY)
    assert closed(send(w, ANYCAST, LONG)) == [1]
    assert len(ids(w.subscribe(2), 2)) == 1


def test_a_durable_subscription_stays_and_only_its_consumer_ends():
    w = World()

    def come(consumer: int) -> list:
        return w.subscribe(consumer, routing=MULTICAST, queue="me.s", durable=True, selector=HEAVY)

    come(1)
    assert closed(send(w, MULTICAST, LONG)) == [1]
    assert closed(send(w, MULTICAST, LONG)) == []
    send(w, MULTICAST)
    assert len(ids(come(2), 2)) == 1


def test_a_browser_ends():
    w = World()
    send(w, ANYCAST, LONG)
    assert closed(w.subscribe(1, selector=HEAVY, browse=True)) == [1]
    assert not w.engine._slot.consumers


def test_a_divert_goes_on_and_a_subscription_with_the_same_text_is_not_blamed():
    w = World(diverts={"d": {"address": "q", "forward": "other", "selector": HEAVY}})
    w.subscribe(1, "other", selector=HEAVY)
    assert closed(send(w, ANYCAST, LONG)) == []
    assert closed(send(w, ANYCAST)) == []
    assert w.engine.counters()["selector_overruns"] == 1


@pytest.mark.parametrize("routing", [ANYCAST, MULTICAST])
def test_xpath_is_off_by_default(routing):
    w = World()
    (refused,) = [e for e in w.subscribe(1, routing=routing, selector=XPATH, seq=5) if isinstance(e, Refused)]
    assert refused.code is Code.BAD_SELECTOR and "engine.xpath = true" in refused.detail
    assert not w.engine._slot.queues


@pytest.mark.parametrize("selector", ["XPATH '//a//b'", "XPATH 'a[b[c]]'", "a = "])
def test_a_stored_selector_that_is_not_possible_any_more_takes_nothing_and_is_told(selector):
    """It was written by an earlier release, or lxml is gone: no reason not to start."""
    w = World()
    w.subscribe(1, routing=MULTICAST, queue="me.s", durable=True, selector=LIGHT)
    engine = Engine(7, w.settings)
    for _, record in w.log:
        change = {"selector": selector} if record.kind == "queue" else {}
        engine.restore_meta(MetaRecord(7, record.kind, record.data | change))
    turn = Turn(w.now, 1)
    list(engine.restore_ending(True, turn))
    assert [notice for notice in turn.notices if "me.s takes no messages" in notice and selector in notice]
    (queue,) = engine.queues()
    assert queue.selector == selector
    assert [r.data["selector"] for r in engine.snapshot() if r.kind == "queue"] == [selector]
