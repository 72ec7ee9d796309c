"""A turn carries out so much of what has gathered; the rest waits, in its order, and whoever sends more rests."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker.config.settings import JournalSettings, Settings
from broker.core.address import AckMode, Outcome, Routing
from broker.core.commands import Command, Confirm, Disconnect, Grant, Publish, Settle, Subscribe, Transact
from broker.core.effects import Deliver, Done
from broker.core.ids import slot_of
from broker.engine.engine import Engine
from broker.owner.inbox.portions import MOST, TURN, WORK, beside, beside_by_slot, portion, units
from tests.sim.disk import SimDisk
from tests.sim.shard_machine import HandClock, Machine
from tests.unit.engine.world import run_of

SLOT = slot_of("q")


def ack(*ids: int, seq: int = 0) -> Settle:
    return Settle(SLOT, 2, seq, 5, list(ids))


class World:
    def __init__(self, monkeypatch: pytest.MonkeyPatch, held: int) -> None:
        self.effects: list = []
        self.reliefs = self.handled = 0
        self.machine = Machine(SimDisk(0), HandClock(), Settings(journal=JournalSettings(min_free_bytes=0)), self)
        self.shard = self.machine.shard
        self.shard.submit([Subscribe(SLOT, 2, 0, 5, "q", Routing.ANYCAST, AckMode.INDIVIDUAL)])
        self.shard.submit([Publish(SLOT, 1, 0, "q", Routing.ANYCAST, run_of(*[b"\n\0"] * held, durable=True))])
        self.machine.quiesce()
        self.ids = [i for effect in self.effects if isinstance(effect, Deliver) for i in effect.run.ids]
        handle = Engine.handle

        def counted(engine: Engine, command: Command, turn) -> None:
            self.handled += 1
            handle(engine, command, turn)

        monkeypatch.setattr(Engine, "handle", counted)

    def on_effects(self, effects: list) -> None:
        self.effects += effects

    def on_relief(self) -> None:
        self.reliefs += 1

    def on_stopped(self, why: str) -> None:
        raise AssertionError(why)

    def turns(self) -> list[int]:
        """Commands carried out, turn by turn."""
        found = []
        for _ in range(1000):
            self.handled = 0
            if self.machine.turn():
                found.append(self.handled)
            elif not self.machine.busy():
                return [count for count in found if count]
            for io in self.machine.busy():
                io.run_one()
        raise AssertionError("no end")


def test_many_small_ones_are_carried_out_in_turns_in_their_order_and_their_sender_rests(monkeypatch) -> None:
    """10,000 ACKs of a read, each with its receipt, were a step of 100 ms."""
    world = World(monkeypatch, 4000)
    acks = [ack(i, seq=seq) for seq, i in enumerate(world.ids, 1)]
    assert not world.shard.submit(acks[:MOST]) and world.shard.submit(acks[MOST:]) and world.shard.congested
    turns = world.turns()
    assert max(turns) <= TURN and sum(turns) == 4000
    assert [effect.seq for effect in world.effects if isinstance(effect, Done)] == list(range(1, 4001))
    assert world.reliefs == 1 and not world.shard.congested


def test_who_rests_is_told_to_go_on_when_what_waited_is_gone_with_its_slot(monkeypatch) -> None:
    world = World(monkeypatch, 4000)
    assert world.shard.submit([ack(i) for i in world.ids])
    world.shard.drop(SLOT)
    world.turns()
    assert world.reliefs == 1 and not world.shard.congested


def test_what_one_command_costs_counts() -> None:
    apart, together = ack(*range(1, 2001, 2)), ack(*range(1, 2001))
    assert portion([apart] * 20) == 1 and portion([together] * 1000) == TURN
    assert portion([Publish(SLOT, 1, 0, "q", Routing.ANYCAST, run_of(*[b"\n\0"] * 640))] * 99) == 28
    assert portion([Transact(SLOT, 1, 0, [apart] * 75)] * 3) == 2
    assert portion([apart] * 2) == 1 and portion([]) == 0


def test_what_comes_back_counts_one_by_one_and_what_was_consumed_as_a_stretch() -> None:
    """A stretch of a thousand NACKs was one unit, and 300 of those are a turn; so was a single one, which costs as much
    as ten ACKs: a turn of 300 took up to 13 ms (bench/steps.py, nacks)."""
    stretch = list(range(1, 1001))
    assert units(Settle(SLOT, 2, 1, 5, stretch)) == 1
    assert units(Settle(SLOT, 2, 1, 5, stretch, Outcome.NACK)) == 254
    assert units(Settle(SLOT, 2, 1, 5, stretch, Outcome.RETURN)) == 254
    assert units(Settle(SLOT, 2, 1, 5, [7], Outcome.NACK)) == 4
    assert units(Settle(SLOT, 2, 1, 5, [7, 9], Outcome.REJECT)) == 6


def test_a_few_are_never_cut(monkeypatch) -> None:
    world = World(monkeypatch, 4000)
    world.shard.submit([ack(*world.ids[at : at + 2000 : 2]) for at in (0, 1, 2000, 2001)])
    assert world.turns() == [4]


def test_what_waits_for_a_slot_that_is_given_up_is_dropped(monkeypatch) -> None:
    world = World(monkeypatch, 1000)
    world.shard.submit([ack(i) for i in world.ids])
    world.machine.turn()
    assert world.shard._inbox.new
    world.shard.drop(SLOT)
    assert not world.shard._inbox.new


def flood(world: World, seq: int) -> Publish:
    """Of what nobody asks about before the copies that wait are out."""
    return Publish(SLOT, 1, seq, "t", Routing.MULTICAST, run_of(*[b"\n\0"] * 50))


def test_what_waits_for_an_earlier_command_is_carried_out_in_portions_too(monkeypatch) -> None:
    """3,000 commands of a session whose SEND had to wait were one turn when it was done."""
    world = World(monkeypatch, 1)
    spread = True
    monkeypatch.setattr(Engine, "wary", property(lambda engine: spread))
    monkeypatch.setattr(Engine, "spread", property(lambda engine: spread))
    monkeypatch.setattr(Engine, "wide", lambda engine, part: part.address == "t")
    many = [Publish(SLOT, 1, seq, "q", Routing.ANYCAST, run_of(b"\n\0")) for seq in range(2, 3000)]
    for at in range(0, 3000, TURN // 2):
        crowded = world.shard.submit([flood(world, 1)] if not at else many[at - 150 : at])
        world.machine.turn()
    assert crowded and world.shard.congested, "what waits counts in what may"
    world.handled, spread = 0, False
    world.shard.submit([Publish(SLOT, 3, 7, "q", Routing.ANYCAST, run_of(b"\n\0"))])
    turns = world.turns()
    assert max(turns) <= TURN + 1 and len(turns) >= 10
    done = [(effect.session, effect.seq) for effect in world.effects if isinstance(effect, Done)]
    assert [seq for session, seq in done if session == 1] == list(range(1, 2852))
    assert done.index((3, 7)) < TURN + 5, "others go on"
    assert world.reliefs == 1 and not world.shard.congested


def test_selectors_as_long_as_may_be_are_compiled_one_a_turn(monkeypatch) -> None:
    """Four commands are not cut by their number: 20 ms, of four that take 5 each."""
    world = World(monkeypatch, 1)
    texts = [" OR ".join([f"a{n} = {m}" for m in range(240)]) for n in range(4)]
    for number, text in enumerate(texts):
        subscribe = Subscribe(SLOT, 3, 0, 10 + number, "q", Routing.ANYCAST, AckMode.AUTO, selector=text)
        world.shard.submit([subscribe])
    assert world.turns() == [1, 1, 1, 1]
    assert len(world.shard.engine(SLOT).shown.consumers) == 5


def test_beside_the_messages_that_make_queues_those_of_others_go_on(monkeypatch) -> None:
    """20,000 new queues: every other client waited for 500 of them at a time, 0.14 s."""
    world = World(monkeypatch, 1)
    made = [Publish(slot_of(f"n{n}"), 1, n, f"n{n}", Routing.ANYCAST, run_of(b"\n\0")) for n in range(1, 500)]
    others = [Publish(SLOT, session, 1, "q", Routing.ANYCAST, run_of(b"\n\0")) for session in (3, 4)]
    world.shard.submit([*made, *others, ack(*world.ids)])
    world.machine.turn()
    answered = [(effect.session, effect.seq) for effect in world.effects if isinstance(effect, Done)]
    assert {(3, 1), (4, 1)} <= set(answered)
    assert 1 < len(answered) < 2 * WORK, "what they begin counts as well"
    world.turns()
    done = [effect.seq for effect in world.effects if isinstance(effect, Done) and effect.session == 1]
    assert done == list(range(1, 500)), "in their order"


def test_nor_do_many_who_make_queues_together_make_more_of_them_in_a_turn(monkeypatch) -> None:
    world = World(monkeypatch, 1)
    made = [
        Publish(slot_of(f"n{n}"), 10 + n % 20, n, f"n{n}", Routing.ANYCAST, run_of(b"\n\0")) for n in range(1, 1000)
    ]
    world.shard.submit(list(made))
    turns = world.turns()
    assert max(turns) <= 2 * (WORK + 1) and sum(turns) == len(made)


def test_beside_consumers_that_come_and_go_only_what_needs_no_order_goes_on() -> None:
    def send(session: int, number: int | None = None) -> Publish:
        dedup = None if number is None else (77, number)
        return Publish(SLOT, session, 0, "q", Routing.ANYCAST, run_of(b"x"), dedup=dedup)

    end, come = Disconnect(SLOT, 1), Subscribe(SLOT, 2, 0, 9, "q", Routing.ANYCAST, AckMode.AUTO)
    first, behind, other, late = send(2), send(2), send(3), ack(1)  # ack: of session 2
    assert beside([end, first, come, behind, other, late]) == ([first, other], [end, come, behind, late])
    # An edge has numbered what it sends to a slot: a later number may not come before an earlier one.
    commit = Transact(SLOT, 4, 0, [send(4)], dedup=(77, 5))
    numbered, elsewhere = send(5, 6), Publish(SLOT + 1, 5, 0, "r", Routing.ANYCAST, run_of(b"x"), dedup=(77, 6))
    assert beside([commit, numbered]) == ([], [commit, numbered])
    assert beside([commit, elsewhere]) == ([elsewhere], [commit]), "numbers are of a slot"


def test_beside_looks_at_a_bounded_part_and_keeps_the_order_of_a_consumer() -> None:
    """An edge that ends with 25,000 sessions: each of 800 turns looked at all that were left."""
    ends: list[Command] = [Disconnect(SLOT, n) for n in range(MOST)]
    late = Publish(SLOT, MOST + 1, 0, "q", Routing.ANYCAST, run_of(b"x"))
    assert beside([*ends, late]) == ([], [*ends, late])
    confirm = Confirm(SLOT, 5, 1)
    assert beside([confirm, ack(1)])[0] == []
    sends: list[Command] = [Publish(SLOT, n, 0, "q", Routing.ANYCAST, run_of(b"x")) for n in range(1, 500)]
    goes, waits = beside([ends[0], *sends])
    assert goes == sends[:TURN] and waits == [ends[0], *sends[TURN:]], "a portion"


def send_to(slot: int, session: int, seq: int = 1) -> Publish:
    return Publish(slot, session, seq, "q", Routing.ANYCAST, run_of(b"\n\0"), dedup=(77, seq))


def test_in_a_cluster_who_makes_queues_everywhere_keeps_nobody_waiting_in_any_slot() -> None:
    """Others waited for 500 new queues at a time, 64 a turn."""
    made = [send_to(n % 256, 1, n) for n in range(500)]
    other, late = send_to(9, 2, 501), Settle(10, 3, 1, 5, [1])
    goes, waits = beside_by_slot([*made, other, late], 1)
    assert goes == [made[9], made[265], other, made[10], made[266], late], (
        "what stands before it in its slot comes along"
    )
    assert len(goes) + len(waits) == 502


def test_in_a_cluster_there_is_a_bound_on_what_comes_along() -> None:
    made = [send_to(9, 1, n) for n in range(WORK)]
    other, elsewhere = send_to(9, 2, 501), send_to(8, 2, 502)
    assert beside_by_slot([*made, other, elsewhere], 1)[0] == [elsewhere]
    commit, behind = Transact(3, 4, 1, [other], (77, 600)), send_to(3, 5, 601)
    assert beside_by_slot([commit, elsewhere, behind], 1) == ([elsewhere], [commit, behind]), "it is of its slot"
    much: list[Command] = [send_to(8, 2, n) for n in range(2 * TURN)]
    assert beside_by_slot(much, 1) == (much[:TURN], much[TURN:])
    assert beside_by_slot([*made * (MOST // WORK + 1), elsewhere], 1)[0] == [], "so many are looked at"


KINDS = st.sampled_from(["publish", "settle", "grant", "begin", "end"])


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(1, 3), KINDS)))
def test_in_a_cluster_each_slot_keeps_its_order(drawn: list[tuple[int, int, str]]) -> None:
    commands: list[Command] = []
    for slot, session, kind in drawn:
        if kind == "publish":
            commands.append(send_to(slot, session))
        elif kind == "settle":
            commands.append(Settle(slot, session, 1, 5, [1]))
        elif kind == "grant":
            commands.append(Grant(slot, 5, 1))
        elif kind == "begin":
            commands.append(Subscribe(slot, session, 1, 5, "q", Routing.ANYCAST, AckMode.AUTO))
        else:
            commands.append(Disconnect(slot, session))
    goes, waits = beside_by_slot(commands, 1)
    assert all(type(it) in (Publish, Settle, Grant) for it in goes), "a turn that has had enough ends nothing whole"
    for slot in range(4):
        assert [it for it in [*goes, *waits] if it.slot == slot] == [it for it in commands if it.slot == slot]
