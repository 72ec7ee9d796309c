"""A shard: no step is long because of what one client asks for, and what it asks for is done in its order."""

from __future__ import annotations

from broker.core.address import AckMode, Routing
from broker.core.commands import (
    Barrier,
    Disconnect,
    DisconnectAll,
    Publish,
    Settle,
    Subscribe,
    UnsubscribeAll,
)
from broker.core.effects import Deliver, Done, Refused
from broker.core.ids import slot_of
from broker.engine.engine import Engine
from broker.owner.inbox.portions import WORK
from tests.unit.engine.world import run_of

from .test_all_slots import Owner, publish, subscribe


def test_thousands_of_one_session_go_in_pieces(monkeypatch) -> None:
    """Counted in engine calls and turns: its end asks two slots, not 256 slots 1,000 times."""
    owner = Owner()
    owner.ask(*[subscribe(n, f"w{n}.#") for n in range(1, 1001)], publish("w1.a"), publish("w2.a"))
    calls: list = []
    handle = Engine.handle

    def counted(self, command, turn) -> None:
        calls.append(command)
        handle(self, command, turn)

    monkeypatch.setattr(Engine, "handle", counted)
    turns = owner.shard.stats.turns
    owner.ask(DisconnectAll(1))
    assert 1 <= len(calls) <= 2 and not owner.shard.wildcards.some and owner.shard.stats.turns <= turns + 2


def test_what_ends_in_many_slots_does_so_in_pieces_and_in_its_order(monkeypatch) -> None:
    """A session with 50 wildcards that were awake everywhere was a step of 100 ms, one UNSUBSCRIBE of them 15."""
    owner = Owner()
    names = [f"w.a{n}" for n in range(600)]
    owner.ask(*[subscribe(n, "w.#") for n in range(1, 11)], *[publish(name) for name in names])
    awake = owner.consumers()
    assert awake > 2000
    ended, left = [], owner.consumers()
    owner.shard.submit([UnsubscribeAll(1, 5, 256, "w.#"), DisconnectAll(1), subscribe(99, "w.#", session=2, seq=6)])
    owner.effects = []
    while owner.machine.turn() or owner.machine.busy():
        ended.append(left - owner.consumers())
        left = owner.consumers()
        assert not [done for done in owner.effects if isinstance(done, Done) and done.seq == 6] or not left
        for io in owner.machine.busy():
            io.run_one()
    assert sum(ended) == awake and max(ended) <= WORK
    assert [done.seq for done in owner.effects if isinstance(done, Done)] == [5, 6]


def test_a_session_of_one_slot_with_many_consumers_ends_in_pieces_too() -> None:
    owner = Owner()
    slot = slot_of("q")
    owner.ask(*[Subscribe(slot, 1, 0, 5 + n, "q", Routing.ANYCAST, AckMode.INDIVIDUAL) for n in range(500)])
    assert owner.consumers() == 500
    owner.shard.submit([Disconnect(slot, 1), Barrier(slot, 1, 7)])
    left = 500
    while owner.machine.turn() or owner.machine.busy():
        assert left - owner.consumers() <= WORK + 1
        left = owner.consumers()
        assert not left or not [effect for effect in owner.effects if isinstance(effect, Done)]
        for io in owner.machine.busy():
            io.run_one()
    assert left == 0 and [effect.seq for effect in owner.effects if isinstance(effect, Done)] == [7]


def test_what_others_send_does_not_wait_for_consumers_that_end() -> None:
    """1,000 consumers that went with their connection, again and again: a neighbour waited 50 ms for each receipt."""
    owner = Owner()
    slot = slot_of("q")
    owner.ask(*[Subscribe(slot, 1, 0, 5 + n, "q", Routing.ANYCAST, AckMode.INDIVIDUAL) for n in range(500)])
    owner.shard.submit([Disconnect(slot, 1), publish("w.x", seq=8), subscribe(2, "z", session=2, seq=9)])
    owner.effects = []
    told: dict[int, int] = {}
    while owner.machine.turn() or owner.machine.busy():
        for effect in owner.effects:
            if isinstance(effect, Done):
                told.setdefault(effect.seq, owner.consumers())
        for io in owner.machine.busy():
            io.run_one()
    assert list(told) == [8, 9] and told[8] > 400, "the message was first, the subscription behind the end"
    assert owner.consumers() == 0


def test_nor_does_it_wait_for_consumers_that_come() -> None:
    """A thousand SUBSCRIBEs before it were more than a portion: it was not looked at for as many turns."""
    owner = Owner()
    comes = [Subscribe(slot_of(f"c{n}"), 1, 0, 5 + n, f"c{n}", Routing.ANYCAST, AckMode.AUTO) for n in range(1000)]
    owner.shard.submit([*comes, publish("w.x", seq=8), Barrier(0, 1, 9)])
    owner.effects = []
    told: dict[int, int] = {}
    while owner.machine.turn() or owner.machine.busy():
        for effect in owner.effects:
            if isinstance(effect, Done):
                told.setdefault(effect.seq, owner.consumers())
        for io in owner.machine.busy():
            io.run_one()
    assert told[8] <= 2 * WORK and told[9] == 1000


def test_who_went_before_is_not_told_of_what_throws_beside(monkeypatch) -> None:
    """His 33rd SUBSCRIBE had been carried out when somebody else's message threw; he was told not to repeat it."""
    owner = Owner()
    comes = [Subscribe(slot_of(f"c{n}"), 1, n, 5 + n, f"c{n}", Routing.ANYCAST, AckMode.AUTO) for n in range(1, 41)]
    handle = Engine.handle

    def throws(self, command, turn) -> None:
        if isinstance(command, Publish):
            raise ZeroDivisionError
        handle(self, command, turn)

    monkeypatch.setattr(Engine, "handle", throws)
    owner.shard.submit([*comes, publish("w.x", seq=8)])
    owner.effects = []
    monkeypatch.setattr(Owner, "on_stopped", lambda self, why: None)
    owner.machine.turn()
    blamed, *others = [(effect.session, effect.seq) for effect in owner.effects if isinstance(effect, Refused)]
    done = len(comes) - len(others)
    assert blamed == (9, 8) and done > 0 and others == [(1, n) for n in range(done + 1, 41)], (
        "they were not carried out"
    )


def test_a_read_full_of_new_queues_is_carried_out_in_pieces() -> None:
    """Each is 30 µs more than a message for one that is there."""
    owner = Owner()
    owner.shard.submit([publish(f"new.{n}") for n in range(300)])
    owner.shard.submit(
        [Publish(slot_of(f"n{n}"), 1, n + 1, f"n{n}", Routing.ANYCAST, run_of(b"x")) for n in range(300)]
    )
    made = 0
    while owner.machine.turn() or owner.machine.busy():
        here = sum([len(engine._slot.queues) for engine in owner.shard.engines.values()])
        assert here - made <= WORK + 1
        made = here
        for io in owner.machine.busy():
            io.run_one()
    assert made == 300
    assert [effect.seq for effect in owner.effects if isinstance(effect, Done)] == list(range(1, 301))


def test_what_waits_is_looked_at_once_for_all_who_ask_what_consumers_hold() -> None:
    """A subscription that grew to 30 partitions looked at 1,500 commands for each of its parts."""

    class Counted(Settle):
        __slots__ = ()
        looked = 0

        @property
        def consumer(self) -> int:
            Counted.looked += 1
            return 6

        @consumer.setter
        def consumer(self, number: int) -> None: ...

    owner = Owner()
    ready = Subscribe(slot_of("q"), 2, 0, 5, "q", Routing.ANYCAST, AckMode.INDIVIDUAL)
    many = Publish(slot_of("q"), 1, 0, "q", Routing.ANYCAST, run_of(*[b"\n\0"] * 100))
    ids = [i for effect in owner.ask(ready, many) if isinstance(effect, Deliver) for i in effect.run.ids]
    port = owner.machine.port
    assert port.held(slot_of("q"), 5) == ids
    others: list = [Counted(slot_of("q"), 3, 0, 6, [n]) for n in range(90)]
    owner.shard.submit(others)
    assert [port.held(slot_of("q"), 5) for _ in range(30)] == 30 * [ids]
    assert Counted.looked == 90
    owner.shard.submit([Settle(slot_of("q"), 2, 0, 5, [ids[0]])])
    assert port.held(slot_of("q"), 5) == ids[1:] and Counted.looked == 90
    for each in others:
        each.__class__ = Settle
        each.consumer = 6
    owner.ask()
    assert port.held(slot_of("q"), 5) == ids[1:]
