"""What exists because the settings say so, and what addresses and queues may be had."""

from __future__ import annotations

from dataclasses import replace

import pytest

from broker.config.settings import EngineSettings
from broker.core.address import Outcome
from broker.core.commands import Publish
from broker.core.errors import Code
from broker.core.ids import SLOTS, slot_of, slots_of
from broker.engine.address.declarations import places

from .world import ANYCAST, CLIENT, INDIVIDUAL, MULTICAST, UNSET, World, closed, done, got, ids, refused, run_of


def named(slot: int = 7) -> list[str]:
    """Names that live in the slot of the test world."""
    return [name for n in range(20_000) if slot_of(name := f"n{n}") == slot]


A, B, C, *_ = named()


def world(queues: dict | None = None, addresses: dict | None = None, **more: object) -> World:
    found = World(addresses=addresses, queues=queues or {}, **more)
    found.restart()
    return found


def configure(found: World, **changes: object) -> None:
    found.settings = replace(found.settings, **changes)
    found.engine.configure(found.settings)
    turn = found.turn()
    found.engine.declare(turn)
    found.finish(turn)
    found.tick(10)


def test_a_declared_queue_exists_from_the_start_and_outlives_its_consumers():
    w = world({A: {}})
    assert w.queue(A) is not None
    w.subscribe(1, A)
    w.publish(A, b"x")
    w.unsubscribe(1, address=A)
    w.tick(60_000)
    assert w.queue(A) is not None


def test_a_declared_queue_of_another_address_gets_its_share():
    w = world({B: {"address": A}, C: {"address": A}})
    w.publish(A, b"1", b"2", b"3", b"4")
    assert [w.queue(name)["ready"] for name in (B, C)] == [2, 2]


def test_slots_of_declared_things():
    settings = EngineSettings(
        queues={"q": {}, "s": {"address": "wide"}, "c.n": {"address": "news.#", "routing": "MULTICAST"}},
        addresses={"wide": {"partitions": 3}, "here": {"declared": True}, "p.#": {"declared": True}},
    )
    assert places(settings) == set(range(SLOTS))
    without = replace(settings, queues={k: v for k, v in settings.queues.items() if k != "c.n"})
    assert places(without) == {slot_of("q"), *slots_of("wide", 3), slot_of("here")}


def test_a_new_declaration_takes_effect_at_once_and_a_removed_one_waits_for_the_messages():
    w = world()
    assert w.queue(A) is None
    configure(w, queues={A: {}})
    w.publish(A, b"x", durable=True)
    configure(w, queues={})
    assert w.queue(A)["ready"] == 1
    w.restart()
    assert got(w.subscribe(1, A)) == [b"x"] or got(w.effects) == [b"x"]
    w.unsubscribe(1, address=A)
    w.tick(60_000)
    assert w.queue(A) is None


def test_a_queue_made_on_demand_is_protected_by_a_later_declaration():
    w = world()
    w.publish(A, b"x", durable=True)
    configure(w, queues={A: {}})
    w.subscribe(1, A)
    w.unsubscribe(1, address=A)
    w.tick(60_000)
    assert w.queue(A) is not None
    configure(w, queues={})
    w.tick(60_000)
    assert w.queue(A) is None


def test_it_survives_a_crash_and_a_new_leader():
    w = world({A: {}}, {B: {"declared": True}})
    w.publish(A, b"x", durable=True)
    w.restart(first_id=1 << 40)
    assert w.queue(A)["paged"] + w.queue(A)["ready"] == 1
    assert refused(w.publish(B, b"y", routing=MULTICAST, create=False)) == []


def test_only_messages_that_match_the_selector_of_a_declared_queue_enter():
    w = world({B: {"address": A, "selector": "colour = 'red'"}, C: {"address": A, "routing": "MULTICAST"}})
    w.publish(A, b"colour:red\n\n1\0", b"colour:blue\n\n2\0", routing=UNSET, durable=True)
    assert w.queue(B)["ready"] == 1
    assert w.queue(C)["ready"] == 2
    w.restart()
    w.publish(A, b"colour:blue\n\n3\0", routing=UNSET, durable=True)
    assert w.queue(B)["ready"] + w.queue(B)["paged"] == 1
    configure(w, queues={B: {"address": A, "selector": "colour = 'blue'"}})
    w.publish(A, b"colour:blue\n\n4\0", routing=UNSET, durable=True)
    assert w.queue(B)["ready"] + w.queue(B)["paged"] == 2


def test_a_declared_subscription_is_a_durable_one_and_comes_back_empty_when_it_is_given_up():
    w = world({"me.news": {"address": A, "routing": "MULTICAST"}})
    w.publish(A, b"x", routing=MULTICAST, durable=True)
    effects = w.subscribe(1, A, routing=MULTICAST, queue="me.news", durable=True, ack=CLIENT)
    assert got(effects) == [b"x"]
    w.unsubscribe(1, address=A, delete="me.news")
    assert w.queue("me.news")["ready"] == 0
    w.publish(A, b"y", routing=MULTICAST)
    assert w.queue("me.news")["ready"] == 1


def test_many_consumers_share_a_durable_subscription():
    w = World()
    for n in range(1, 26):
        w.subscribe(n, A, routing=MULTICAST, queue="me.news", durable=True, ack=INDIVIDUAL, seq=n)
    assert refused(w.effects) == [] and sorted(done(w.effects)) == list(range(1, 26))
    assert len(got(w.publish(A, *[b"%d" % n for n in range(50)], routing=MULTICAST))) == 50
    assert w.queue("me.news")["consumers"] == 25


def durable(w: World, consumer: int, selector: str | None = None) -> list:
    return w.subscribe(consumer, A, routing=MULTICAST, queue="me.news", durable=True, ack=INDIVIDUAL, selector=selector)


def test_a_durable_subscription_with_another_selector_is_refused():
    w = World()
    durable(w, 1, "colour = 'red'")
    w.unsubscribe(1, address=A)
    assert refused(durable(w, 2)) == [Code.SUBSCRIPTION_CONFLICT]
    w.commit()
    w.restart()
    assert refused(durable(w, 2, "colour = 'blue'")) == [Code.SUBSCRIPTION_CONFLICT]
    assert refused(durable(w, 2, "colour = 'red'")) == []


def test_or_takes_the_new_one_when_nobody_else_has_it():
    w = World(durable_conflict="replace")
    durable(w, 1, "colour = 'red'")
    assert refused(durable(w, 2, "colour = 'blue'")) == [Code.SUBSCRIPTION_CONFLICT]
    w.unsubscribe(1, address=A)
    w.publish(A, b"colour:red\n\n1\0", routing=MULTICAST, durable=True)
    assert len(got(durable(w, 3, "colour = 'blue'"))) == 1
    w.unsubscribe(3, address=A)
    w.commit()
    w.restart()
    w.publish(A, b"colour:red\n\n2\0", b"colour:blue\n\n3\0", routing=MULTICAST, durable=True)
    w.settle_down()
    waits = w.queue("me.news")
    assert waits["ready"] + waits["paged"] == 2


def test_the_selector_of_a_declared_subscription_is_that_of_the_settings():
    w = world({"me.news": {"address": A, "routing": "MULTICAST", "selector": "colour = 'red'"}})
    assert refused(durable(w, 1)) == []
    assert refused(durable(w, 2, "colour = 'blue'")) == [Code.SUBSCRIPTION_CONFLICT]
    assert len(got(w.publish(A, b"colour:red\n\n1\0", b"colour:blue\n\n2\0", routing=MULTICAST))) == 1


# ── types of addresses ─────────────────────────────────────────────────────────────────────────────


def test_a_declared_address_without_queues_takes_messages_that_nobody_wants():
    w = world(addresses={A: {"declared": True}, "#": {"auto_create": False}})
    assert refused(w.publish(A, b"x", routing=MULTICAST)) == []
    assert refused(w.publish(B, b"x", routing=MULTICAST)) == [Code.NO_SUCH_DESTINATION]
    w.subscribe(1, A, routing=MULTICAST)
    w.unsubscribe(1, address=A)
    w.tick(60_000)
    assert refused(w.publish(A, b"x", routing=MULTICAST)) == []


@pytest.mark.parametrize("create", [True, False])
def test_types_of_the_settings_bind_everybody(create):
    w = world(addresses={A: {"routing_types": "ANYCAST"}, B: {"routing_types": "MULTICAST"}})
    assert refused(w.publish(A, b"x", routing=MULTICAST, create=create))[0] in (
        Code.ROUTING_MISMATCH,
        Code.NO_SUCH_DESTINATION,
    )
    assert refused(w.subscribe(1, A, routing=MULTICAST, create=create)) == [Code.ROUTING_MISMATCH]
    assert refused(w.subscribe(2, B, routing=ANYCAST, create=create)) == [Code.ROUTING_MISMATCH]


def test_without_type_an_address_of_one_type_is_meant():
    w = world(addresses={A: {"routing_types": "MULTICAST"}})
    w.subscribe(1, A, routing=UNSET)
    w.subscribe(2, A, routing=UNSET)
    effects = w.publish(A, b"x", routing=UNSET)
    assert got(effects, 1) == got(effects, 2) == [b"x"]


def test_no_queues_on_demand_but_subscriptions():
    w = world(addresses={"#": {"auto_create_queues": False}, B: {"declared": True}})
    assert refused(w.publish(A, b"x")) == [Code.NO_SUCH_DESTINATION]
    assert refused(w.subscribe(1, A)) == [Code.NO_SUCH_DESTINATION]
    assert refused(w.publish(A, b"x", queue="q1")) == [Code.NO_SUCH_DESTINATION]
    assert refused(w.publish(B, b"x")) == []
    assert refused(w.subscribe(2, A, routing=MULTICAST)) == []
    assert got(w.publish(A, b"x", routing=MULTICAST)) == [b"x"]


def test_queues_go_with_some_messages_left_where_the_settings_say_so():
    w = world(addresses={A: {"auto_delete_message_count": 2, "auto_delete_delay_ms": 100}})
    w.publish(A, b"1", b"2", b"3", durable=True)
    w.subscribe(1, A, ack=INDIVIDUAL)
    w.unsubscribe(1, address=A)
    w.tick(1000)
    assert w.queue(A)["ready"] == 3
    held = w.subscribe(2, A, ack=INDIVIDUAL)
    w.settle(2, held[-1].run.ids[0])
    w.unsubscribe(2, address=A)
    w.tick(50)
    assert w.queue(A) is not None
    w.tick(100)
    assert w.queue(A) is None


@pytest.mark.parametrize("delayed", [True, False])
def test_every_message_counts_for_what_may_be_left(delayed):
    """Three messages in one piece are three: delayed after a NACK, or scheduled."""
    w = world(addresses={A: {"auto_delete_message_count": 2, "auto_delete_delay_ms": 100, "max_delivery_attempts": -1}})
    w.subscribe(1, A, ack=CLIENT)
    if delayed:
        held = ids(w.publish(A, b"1", b"2", b"3"), 1)
        w.settle(1, held[-1], outcome=Outcome.NACK, delay=3_600_000)
        assert w.queue(A)["delayed"] == 3
    else:
        run = run_of(b"1", b"2", b"3", durable=True)
        run.due = w.now + 3_600_000
        w.do(Publish(7, 9, 0, A, ANYCAST, run))
        assert w.queue(A)["scheduled"] == 3
    w.unsubscribe(1, address=A)
    w.tick(100)
    w.tick(100)
    assert w.queue(A) is not None


def test_the_last_place_of_a_queue_is_refused_and_given_again():
    w = world(addresses={A: {"max_consumers": 1}})
    w.subscribe(1, A)
    assert refused(w.subscribe(2, A)) == [Code.CONSUMER_LIMIT]
    assert refused(w.attach(3, address=A)) == []
    w.unsubscribe(1, address=A)
    w.unsubscribe(3, address=A)
    assert refused(w.subscribe(2, A)) == [] and closed(w.effects) == []
