"""Queues of users: who made them is kept, and nobody sends there where that user may keep no more."""

from __future__ import annotations

from typing import Any

import pytest

from broker.core.address import Routing
from broker.core.commands import Decide, Prepare, Publish
from broker.core.effects import Turn
from broker.core.errors import Code
from broker.core.records import MetaRecord
from broker.engine.address.address_rules import OWNED
from broker.engine.publishing.recurrence import Recurrence, split
from broker.engine.queue.queue import Queue
from broker.engine.routing.addresses import delete
from broker.engine.state.queue_views import queue_detail

from .test_declarations import configure
from .world import ANYCAST, MULTICAST, UNSET, World, got, refused, run_of

FULL = "'{}' takes nothing: the queues of who has made it keep as much as edge.quotas lets him; consume what is in them"


def makers(world: World) -> dict[str, str]:
    return {queue.name: queue.maker for queue in world.engine._slot.queues.values() if not queue.hidden}


def full(world: World, *users: str) -> None:
    world.engine._slot.budget.fill_makers(users)


def codes(effects: list[Any]) -> list[tuple[Code, str]]:
    return [(effect.code, effect.detail) for effect in effects if hasattr(effect, "detail")]


def restarted(world: World, how: str) -> None:
    while world.log and world.log[-1][0] > world.committed:
        world.commit()
    if how == "snapshot":
        others = [each for each in world.log if not isinstance(each[1], MetaRecord)]
        world.log = [(0, record) for record in world.engine.snapshot()] + others
    world.restart()


@pytest.mark.parametrize("how", ["here", "restart", "snapshot"])
def test_what_a_command_makes_is_his_and_stays_so(how: str):
    world = World()
    world.publish("q", b"1", durable=True, create="ada")
    world.publish("q", b"2", durable=True, create="bob")
    world.publish("f", b"1", durable=True, queue="own", create="ada")
    world.subscribe(1, "r", maker="ada")
    world.subscribe(2, "news", routing=MULTICAST, queue="ada.news", durable=True, maker="ada")
    world.publish("plain", b"1", durable=True)
    world.settle_down()
    if how != "here":
        restarted(world, how)
    assert makers(world) == {"q": "ada", "own": "ada", "r": "ada", "ada.news": "ada", "plain": ""}


def test_a_queue_that_goes_with_its_consumer_is_his_and_has_no_record():
    world = World()
    world.subscribe(1, "news", routing=MULTICAST, maker="ada", create=True)
    world.subscribe(2, "news", routing=MULTICAST, maker="bob", create=False)
    assert sorted(makers(world).values()) == ["ada", "bob"], "one of its own is made in any case"
    assert not world.engine._slot.addresses["news"].rules, "nobody can name them, so nobody is asked"


def test_whose_a_queue_is_is_told_on_its_own_page():
    world = World()
    world.publish("q", b"1", create="ada")
    slot = world.engine._slot
    assert [queue_detail(slot, queue)["maker"] for queue in slot.queues.values()] == ["ada"]


def test_records_of_nobodys_queues_are_as_they_were():
    """Owners of before read them, and so do those of later."""
    world = World()
    world.publish("q", b"1", durable=True)
    (record,) = [r for _, r in world.log if isinstance(r, MetaRecord) and r.kind == "queue"]
    assert "maker" not in record.data


@pytest.mark.parametrize(
    ("to", "taken"),
    [
        ({"address": "q"}, False), ({"address": "q", "routing": UNSET}, False), ({"address": "q", "queue": "q"}, False),
        ({"address": "news", "queue": "ada.news", "routing": UNSET}, False), ({"address": "bobs"}, True),
        ({"address": "news", "routing": MULTICAST}, True), ({"address": "plain"}, True), ({"address": "new"}, True),
    ],
)  # fmt: skip
def test_nobody_sends_to_queues_of_who_is_full_by_their_names(to: dict[str, Any], taken: bool):
    world = World()
    world.publish("q", b"1", create="ada")
    world.publish("bobs", b"1", create="bob")
    world.publish("plain", b"1")
    world.subscribe(2, "news", routing=MULTICAST, queue="ada.news", durable=True, maker="ada")
    world.settle_down()
    full(world, "ada")
    told = world.publish(to["address"], b"x", queue=to.get("queue"), routing=to.get("routing", ANYCAST), seq=5)
    named = to.get("queue") or to["address"]
    assert codes(told) == ([] if taken else [(Code.QUOTA, FULL.format(named))]), "whose it is, is told to nobody"
    assert world.engine._slot.counters.refused_quota == (not taken)
    full(world)
    assert not refused(world.publish(to["address"], b"x", queue=to.get("queue"), routing=to.get("routing", ANYCAST)))


def test_a_filter_is_heeded_beside_a_queue_of_his_whichever_came_first():
    for first in (1, 2):
        world = World()
        for consumer in (first, 3 - first):
            more = {"selector": "x = 1"} if consumer == 1 else {"maker": "ada"}
            world.subscribe(consumer, "news", routing=MULTICAST, queue=f"c.{consumer}", durable=True, **more)
        world.settle_down()
        world.publish("news", b"x", routing=MULTICAST)
        world.settle_down()
        assert got(world.effects, 1) == [] and got(world.effects, 2) == [b"x"]
        full(world, "ada")
        assert codes(world.publish("news", b"x", queue="c.2", routing=UNSET)) == [(Code.QUOTA, FULL.format("c.2"))]


def test_a_queue_of_his_costs_its_address_a_question_and_no_more(monkeypatch: pytest.MonkeyPatch):
    world = World()
    world.publish("q", b"1", create="ada")
    assert world.engine._slot.addresses["q"].rules is OWNED
    monkeypatch.setattr("broker.engine.publishing.publish._publish_careful", None)
    assert not refused(world.publish("q", b"2"))


def test_what_the_broker_itself_brings_is_never_refused():
    world = World()
    world.publish("q", b"1", create="ada")
    full(world, "ada")
    command = Publish(7, 0, 0, "q", ANYCAST, run_of(b"dead letter"))
    assert not refused(world.do(command))
    world.subscribe(1, "q")
    world.settle_down()
    assert got(world.effects, 1) == [b"1", b"dead letter"]


def test_a_full_queue_is_asked_before_a_restart_and_after_it():
    world = World()
    world.publish("q", b"1", durable=True, create="ada")
    world.settle_down()
    restarted(world, "restart")
    full(world, "ada")
    assert codes(world.publish("q", b"2", durable=True)) == [(Code.QUOTA, FULL.format("q"))]


def test_an_address_is_plain_again_when_his_queue_has_gone():
    world = World()
    world.publish("q", b"1", queue="ada's", create="ada")
    world.publish("q", b"1", queue="nobody's")
    assert world.engine._slot.addresses["q"].rules is OWNED
    removed(world, "ada's")
    assert list(makers(world)) == ["nobody's"]
    assert world.engine._slot.addresses["q"].rules is None


def removed(world: World, name: str, address: str = "q") -> None:
    slot = world.engine._slot
    delete(slot, slot.addresses[address].queues[name], Turn(0, 1))


def test_to_end_one_of_his_queues_is_no_look_at_all_others(monkeypatch: pytest.MonkeyPatch):
    """One of 20,000 durable subscriptions cost 8 ms, and all of them minutes."""
    world = World()
    for consumer in range(1, 40):
        world.subscribe(consumer, "news", routing=MULTICAST, queue=f"c.{consumer}", durable=True, maker="ada")
    world.settle_down()
    asked: list[Queue] = []
    for name in ("counted", "selective"):
        its = getattr(Queue, name)
        monkeypatch.setattr(Queue, name, lambda queue, its=its: asked.append(queue) or its(queue))
    removed(world, "c.1", "news")
    assert {queue.name for queue in asked} == {"c.1"}
    assert world.engine._slot.addresses["news"].rules is OWNED


def test_what_settings_change_at_a_queue_is_known_of_its_address():
    world = World()
    world.publish("q", b"1", create="ada")
    address, slot = world.engine._slot.addresses["q"], world.engine._slot
    for purges in (True, False):
        configure(world, addresses={"q": {"purge_on_no_consumers": purges}})
        assert slot.addresses["q"].selective is purges and (slot.addresses["q"].rules is OWNED) is not purges
    removed(world, "q", "q")
    assert not address.counted and not address.selective


@pytest.mark.parametrize("order", [("his", "filter"), ("filter", "his")])
def test_rules_are_those_of_the_queues_that_are_left(order: tuple[str, str]):
    world = World()
    world.subscribe(1, "news", routing=MULTICAST, queue="his", durable=True, maker="ada")
    world.subscribe(2, "news", routing=MULTICAST, queue="filter", durable=True, selector="x = 1")
    world.subscribe(3, "news", routing=MULTICAST, queue="plain", durable=True)
    world.settle_down()
    address = world.engine._slot.addresses["news"]
    assert address.rules not in (None, OWNED)
    removed(world, order[0], "news")
    assert (address.rules is OWNED) is (order[0] == "filter") and address.rules is not None
    removed(world, order[1], "news")
    assert address.rules is None


@pytest.mark.parametrize("how", ["here", "restart", "snapshot"])
def test_a_prepared_part_keeps_for_whom_it_makes(how: str):
    world = World()
    part = Publish(7, 1, 0, "q", ANYCAST, run_of(b"1", durable=True), None, "ada")
    world.do(Prepare(7, 50, 1, "t1", 99, [part]))
    if how != "here":
        restarted(world, how)
    full(world, "ada")
    world.do(Decide(7, 50, 2, "t1", True))
    assert makers(world) == {"q": "ada"}, "what has been decided is carried out"


def test_a_transaction_is_refused_as_a_whole():
    world = World()
    world.publish("q", b"1", create="ada")
    full(world, "ada")
    parts = [Publish(7, 1, 0, name, ANYCAST, run_of(b"x", durable=True)) for name in ("plain", "q")]
    assert codes(world.do(Prepare(7, 50, 1, "t1", 99, parts))) == [(Code.QUOTA, FULL.format("q"))]
    assert list(makers(world)) == ["q"]


def test_what_is_sent_again_and_again_keeps_for_whom_it_makes():
    for create in (True, False, "ada & eve"):
        found, _ = split(Recurrence("q", Routing.ANYCAST, create=create, period=5).lines() + b"\n\nx")
        assert found is not None and found.create == create
