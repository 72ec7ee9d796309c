"""Wildcards of a standalone owner cost where they match: engines, queues and consumers are counted, not time."""

from __future__ import annotations

from dataclasses import replace

import pytest

from broker.config.settings import Settings
from broker.core.address import AckMode, Outcome, Routing
from broker.core.commands import (
    UNLIMITED,
    Decide,
    DisconnectAll,
    Prepare,
    Publish,
    Settle,
    Subscribe,
    SubscribeAll,
    Transact,
    UnsubscribeAll,
)
from broker.core.effects import Deliver, Done, Refused
from broker.core.errors import Code
from broker.core.ids import slot_of
from broker.engine.dispatch.attach import WOKEN
from broker.owner.inbox.portions import WORK
from tests.harness.queues import stats
from tests.sim.disk import SimDisk
from tests.sim.shard_machine import HandClock, Machine
from tests.unit.engine.world import run_of

MANY = 500


class Owner:
    """A shard that is turned until nobody has anything to do."""

    def __init__(self, settings: Settings | None = None) -> None:
        self.effects: list = []
        self.machine = Machine(SimDisk(1), HandClock(), settings or Settings(), self)
        self.shard = self.machine.shard

    def on_effects(self, effects) -> None:
        self.effects += effects

    def on_relief(self) -> None: ...
    def on_stopped(self, why: str) -> None:
        raise AssertionError(why)

    def ask(self, *commands) -> list:
        self.effects = []
        self.shard.submit(list(commands))
        while self.machine.turn() or self.machine.busy():
            for io in self.machine.busy():
                io.run_one()
        return self.effects

    def consumers(self) -> int:
        return sum([len(engine._slot.consumers) for engine in self.shard.engines.values()])


def subscribe(number: int, address: str, session: int = 1, seq: int = 0, ack: AckMode = AckMode.AUTO) -> SubscribeAll:
    return SubscribeAll(
        Subscribe(0, session, seq, number * 256, address, Routing.MULTICAST, ack, room=UNLIMITED, credit_messages=10)
    )


def publish(address: str, seq: int = 0, durable: bool = False) -> Publish:
    return Publish(slot_of(address), 9, seq, address, Routing.MULTICAST, run_of(b"x", durable=durable))


def delivered(effects: list) -> list[int]:
    return [effect.consumer for effect in effects if isinstance(effect, Deliver)]


def test_a_wildcard_without_a_message_costs_no_slot_anything() -> None:
    owner = Owner()
    told = owner.ask(*[subscribe(n, f"w{n}.#", seq=n) for n in range(1, MANY + 1)])
    assert [effect.seq for effect in told] == list(range(1, MANY + 1)) and {type(e) for e in told} == {Done}
    assert len(owner.shard.engines) == 1 and not owner.consumers()
    assert delivered(owner.ask(publish("w7.a"))) == [7 * 256 + slot_of("w7.a")]
    assert delivered(owner.ask(publish("none.a"))) == []
    assert owner.consumers() == 1


def test_no_message_behind_the_answer_is_missed_whatever_its_address() -> None:
    owner = Owner()
    addresses = [f"a.{n}" for n in range(300)]
    told = owner.ask(publish("a.0"), subscribe(1, "a.*", seq=4), *[publish(address) for address in addresses])
    assert len(delivered(told)) == len(addresses)
    slots = {slot_of(address) for address in addresses}
    assert set(delivered(told)) == {256 + slot for slot in slots} and owner.consumers() == len(slots)


def test_its_end_reaches_the_slots_where_it_was_awake_and_no_others() -> None:
    for how in (UnsubscribeAll(1, 5, 256, "a.*"), DisconnectAll(1)):
        owner = Owner()
        owner.ask(subscribe(1, "a.*", ack=AckMode.INDIVIDUAL), publish("a.x", durable=True), publish("a.y"))
        before = len(owner.shard.engines)
        told = owner.ask(how)
        assert [effect.seq for effect in told if isinstance(effect, Done)] == ([5] if how.seq else [])
        assert not owner.consumers() and not owner.shard.wildcards.some
        assert delivered(owner.ask(publish("a.x"), publish("a.z"))) == []
        assert len(owner.shard.engines) <= before + 2
        refused = owner.ask(UnsubscribeAll(1, 6, 256, "a.*"))
        assert [(effect.seq, effect.code) for effect in refused if isinstance(effect, Refused)] == [
            (6, Code.NO_SUCH_SUBSCRIPTION)
        ]


def test_what_it_was_given_is_settled_by_its_part() -> None:
    owner = Owner()
    [delivery] = [
        effect
        for effect in owner.ask(subscribe(1, "a.#", ack=AckMode.INDIVIDUAL), publish("a.x"))
        if isinstance(effect, Deliver)
    ]
    told = owner.ask(Settle(slot_of("a.x"), 1, 8, delivery.consumer, list(delivery.run.ids), Outcome.ACK))
    assert [effect.seq for effect in told if isinstance(effect, Done)] == [8]
    told = owner.ask(Settle(slot_of("a.x"), 1, 9, delivery.consumer, list(delivery.run.ids), Outcome.ACK))
    assert [effect.code for effect in told if isinstance(effect, Refused)] == [Code.NO_SUCH_DELIVERY]


def test_one_that_cannot_be_had_is_refused_once_and_is_not_there() -> None:
    owner = Owner()
    command = subscribe(1, "a.*", seq=3)
    command.model.selector = "not a selector ("
    refused = owner.ask(command)
    assert [(type(effect), effect.seq) for effect in refused] == [(Refused, 3)]
    assert not owner.shard.wildcards.some and delivered(owner.ask(publish("a.x"))) == []


def test_the_first_message_for_many_that_sleep_wakes_some_of_them_a_turn() -> None:
    """2,000 wildcards of one topic: its first message made 2,000 queues in one step, 100 ms."""
    owner = Owner()
    owner.ask(*[subscribe(n, "w.#") for n in range(1, MANY + 1)])
    owner.effects = []
    other = Publish(slot_of("w.x"), 8, 3, "q", Routing.ANYCAST, run_of(b"q"))
    owner.shard.submit([publish("w.x", 1), publish("w.x", 2), other])
    woken, before, turns = [], 0, 0
    while owner.machine.turn():
        turns += 1
        woken.append(owner.consumers() - before)
        before = owner.consumers()
        if turns == 1:
            assert [effect.seq for effect in owner.effects if isinstance(effect, Done)] == [3], "others do not wait"
    assert max(woken) <= WOKEN and sum(woken) == MANY
    assert sorted(delivered(owner.effects)) == sorted(2 * [n * 256 + slot_of("w.x") for n in range(1, MANY + 1)])
    assert [effect.seq for effect in owner.effects if isinstance(effect, Done)] == [3, 1, 2]
    assert len(delivered(owner.ask(publish("w.x")))) == MANY


@pytest.mark.parametrize("others", [0, WOKEN])
def test_a_transaction_to_many_addresses_wakes_some_a_turn(others: int) -> None:
    """Each of its parts woke fewer than have to wait, in a slot of its own: up to 5,000 queues in one step."""
    owner = Owner()
    owner.ask(*[subscribe(n, "w.#") for n in range(1, WOKEN)], *[subscribe(WOKEN + n, "z.#") for n in range(others)])
    parts: list = [publish(f"w.{n}") for n in range(200)]
    owner.effects = []
    owner.shard.submit([Transact(parts[0].slot, 9, 5, parts)])
    made, before = [], 0
    while owner.machine.turn() or owner.machine.busy():
        made.append(owner.consumers() - before)
        before = owner.consumers()
        for io in owner.machine.busy():
            io.run_one()
    assert max(made) <= WORK + WOKEN
    assert len(delivered(owner.effects)) == 200 * (WOKEN - 1)
    assert [effect.seq for effect in owner.effects if isinstance(effect, Done)] == [5]


def test_the_first_message_out_of_a_decision_wakes_some_a_piece() -> None:
    """A transaction over several slots: whoever committed one had thousands of queues made in one step."""
    owner, slot = Owner(), slot_of("w.x")
    owner.ask(*[subscribe(n, "w.#") for n in range(1, MANY + 1)], Prepare(slot, 9, 4, "tx", 1, [publish("w.x")]))
    owner.effects = []
    owner.shard.submit([Decide(slot, 9, 5, "tx", True)])
    made, before = [], 0
    while owner.machine.turn() or owner.machine.busy():
        made.append(owner.consumers() - before)
        before = owner.consumers()
        for io in owner.machine.busy():
            io.run_one()
    assert max(made) <= WOKEN and sum(made) == MANY
    assert sorted(delivered(owner.effects)) == [n * 256 + slot for n in range(1, MANY + 1)]
    assert [effect.seq for effect in owner.effects if isinstance(effect, Done)] == [5]


def test_a_dead_letter_that_is_the_first_message_for_many_wakes_some_a_turn() -> None:
    """… and so had whoever gave one message back for good."""
    address = replace(Settings().engine.address, dead_letter_address="w.x", default_routing="MULTICAST")
    owner = Owner(replace(Settings(), engine=replace(Settings().engine, address=address)))
    there, slot = slot_of("q"), slot_of("w.x")
    owner.ask(
        *[subscribe(n, "w.#") for n in range(1, MANY + 1)],
        Subscribe(there, 9, 0, 7, "q", Routing.ANYCAST, AckMode.INDIVIDUAL, room=UNLIMITED, credit_messages=10),
    )
    sent = owner.ask(Publish(there, 9, 0, "q", Routing.ANYCAST, run_of(b"x", b"y", durable=True)))
    ids = [i for effect in sent if isinstance(effect, Deliver) for i in effect.run.ids]
    owner.effects = []
    owner.shard.submit([Settle(there, 9, 5, 7, ids, Outcome.REJECT)])
    made, before = [], owner.consumers()
    while owner.machine.turn() or owner.machine.busy():
        made.append(owner.consumers() - before)
        before = owner.consumers()
        for io in owner.machine.busy():
            io.run_one()
    assert max(made) <= WOKEN and sum(made) == MANY
    got = [e.consumer for e in owner.effects if isinstance(e, Deliver) for _ in e.run.ids]
    assert sorted(got) == sorted(2 * [n * 256 + slot for n in range(1, MANY + 1)])
    assert stats(owner.shard.engines[there])[0]["ready"] == 0


def test_of_many_that_sleep_one_who_goes_meanwhile_is_not_woken() -> None:
    owner = Owner()
    owner.ask(*[subscribe(n, "w.#", session=1 + n % 2) for n in range(1, MANY + 1)])
    owner.shard.submit([publish("w.x", 1)])
    owner.machine.turn()
    told = owner.ask(DisconnectAll(1))
    kept = {n * 256 + slot_of("w.x") for n in range(1, MANY + 1) if n % 2}
    assert set(delivered(told)) <= {n * 256 + slot_of("w.x") for n in range(1, MANY + 1)}
    assert sorted(delivered(owner.ask(publish("w.x")))) == sorted(kept)
