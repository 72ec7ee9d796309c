"""What exists because the settings say so, and what addresses and queues may be had."""

from __future__ import annotations

from dataclasses import replace

import pytest

from broker.config.settings import EngineSettings
from broker.core.errors import Code
from broker.core.ids import SLOTS, slot_of, slots_of
from broker.engine.address.declarations import places

from .world import ANYCAST, INDIVIDUAL, MULTICAST, UNSET, World, closed, got, refused


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


def durable(w: World, consumer: int, selector: str | None = None) -> list:
    return w.subscribe(consumer, A, routing=MULTICAST, queue="me.news", durable=True, ack=INDIVIDUAL, selector=selector)


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


def test_the_last_place_of_a_queue_is_refused_and_given_again():
    w = world(addresses={A: {"max_consumers": 1}})
    w.subscribe(1, A)
    assert refused(w.subscribe(2, A)) == [Code.CONSUMER_LIMIT]
    assert refused(w.attach(3, address=A)) == []
    w.unsubscribe(1, address=A)
    w.unsubscribe(3, address=A)
    assert refused(w.subscribe(2, A)) == [] and closed(w.effects) == []
