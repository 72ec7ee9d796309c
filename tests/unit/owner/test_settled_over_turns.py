"""What takes several turns to settle: its session waits for it, nobody else does."""

from __future__ import annotations

import pytest

from broker.config.settings import EngineSettings, JournalSettings, Settings
from broker.core.address import AckMode, Outcome, Routing
from broker.core.commands import (
    Command,
    Disconnect,
    Grant,
    Hold,
    Publish,
    Resume,
    Settle,
    Subscribe,
    Transact,
    Unsubscribe,
)
from broker.core.effects import AddressBlocked, Deliver, Done
from broker.core.ids import slot_of
from broker.core.records import GroupRecord
from broker.engine.consumers import pieces
from broker.engine.consumers.pieces import BACK
from broker.engine.dispatch import settle
from broker.owner.inbox.portions import MOST
from tests.sim.disk import SimDisk
from tests.sim.shard_machine import HandClock, Machine
from tests.unit.engine.world import run_of

QUEUE, OTHER = "many", "other"
SLOT = slot_of(QUEUE)
HOLDER, POLITE = 1, 2
MANY = 6 * BACK


class World:
    """HOLDER holds MANY messages of QUEUE, by consumer 1."""

    def __init__(self) -> None:
        settings = Settings(engine=EngineSettings(), journal=JournalSettings(1 << 20, min_free_bytes=0))
        self.effects: list = []
        self.machine = Machine(SimDisk(0), HandClock(), settings, self)
        self.shard = self.machine.shard
        self.subscribe(HOLDER, 1)
        for _ in range(MANY):
            self.shard.submit([self.message(QUEUE, HOLDER, 0)])
            self.machine.quiesce()
        self.ids = [i for effect in self.effects if isinstance(effect, Deliver) for i in effect.run.ids]
        assert len(self.ids) == MANY
        self.effects.clear()

    def on_effects(self, effects: list) -> None:
        self.effects += effects

    def on_relief(self) -> None: ...
    def on_stopped(self, why: str) -> None:
        raise AssertionError(why)

    def subscribe(self, session: int, consumer: int, seq: int = 0) -> None:
        command = Subscribe(SLOT, session, seq, consumer, QUEUE, Routing.ANYCAST, AckMode.CLIENT)
        command.room = 1 << 40
        self.shard.submit([command])

    def message(self, address: str, session: int, seq: int) -> Publish:
        return Publish(slot_of(address), session, seq, address, Routing.ANYCAST, run_of(b"\n\0", durable=True))

    def nacks(self, *behind: Command) -> None:
        """NACK of all, and what its session says behind it, in one go. Nothing comes to it again."""
        self.shard.engines[SLOT].shown.consumers[1].withhold(1 << 60)
        self.shard.submit([Settle(SLOT, HOLDER, 1, 1, [self.ids[-1]], Outcome.NACK), *behind])

    def turn(self) -> None:
        """One, and what the disk does behind it."""
        self.machine.turn()
        for io in self.machine.busy():
            io.run_one()

    def done(self, session: int) -> list[int]:
        return [effect.seq for effect in self.effects if isinstance(effect, Done) and effect.session == session]

    def got(self, consumer: int) -> list[int]:
        runs = [e.run for e in self.effects if isinstance(e, Deliver) and e.consumer == consumer]
        return [i for run in runs for i in run.ids]


def test_its_session_waits_for_it_and_is_told_once_and_others_go_on() -> None:
    world = World()
    world.nacks(world.message(OTHER, HOLDER, 2))
    for seq in range(1, 5):
        world.shard.submit([world.message(OTHER, POLITE, seq)])
        world.machine.turn()
    world.machine.quiesce()
    answers = [(e.session, e.seq) for e in world.effects if isinstance(e, Done)]
    assert answers.index((POLITE, 4)) < min(answers.index((HOLDER, 1)), answers.index((HOLDER, 2)))
    told = [(e.session, e.address, e.full, e.passing) for e in world.effects if isinstance(e, AddressBlocked)]
    assert told == [(HOLDER, QUEUE, True, True), (HOLDER, QUEUE, False, True)]


def test_the_ends_of_its_consumer_and_session_come_behind_it() -> None:
    for end in (Unsubscribe(SLOT, HOLDER, 2, 1, QUEUE), Disconnect(SLOT, HOLDER)):
        world = World()
        world.nacks(end)
        world.machine.turn()
        assert 1 in world.shard.engines[SLOT].shown.consumers, "an end gives back, but counts no failure"
        world.subscribe(POLITE, 2)
        world.machine.quiesce()
        assert world.done(HOLDER) in ([1, 2], [1]) and not world.shard.engines[SLOT].unsettled
        assert world.got(2) == world.ids
        assert {e.run.attempts for e in world.effects if isinstance(e, Deliver)} == {1}


def test_a_slot_that_goes_takes_it_along() -> None:
    world = World()
    world.nacks(world.message(OTHER, HOLDER, 2))
    world.machine.turn()
    world.shard.drop(SLOT)
    world.machine.quiesce()
    assert world.done(HOLDER) == [2] and not list(world.shard.waiting())  # its edge asks the next leader


def test_a_commit_that_settles_as_much_is_one_for_everybody_who_looks_and_many_steps_of_the_loop(monkeypatch) -> None:
    """100,000 are more than `max_held_messages` allows, but 20,000 of them were 40 ms."""
    world = World()
    world.shard.engines[SLOT].shown.consumers[1].withhold(1 << 60)
    nack = Settle(SLOT, HOLDER, 0, 1, [world.ids[-1]], Outcome.NACK)
    world.shard.submit([Hold(SLOT, HOLDER, 1, 1, nack.ids)])
    world.machine.quiesce()
    world.shard.submit([Transact(SLOT, HOLDER, 2, [nack]), world.message(QUEUE, POLITE, 1)])
    steps, written = 0, []
    append = world.machine.journal.append_in_pieces
    monkeypatch.setattr(world.machine.journal, "append_in_pieces", lambda one: written.append(one) or append(one))
    while world.done(HOLDER) != [1, 2]:
        assert not world.done(POLITE), "nothing else happens in between"
        world.machine.turn()
        steps += 1
        if world.shard._large is None:
            world.machine.quiesce()
    assert steps > MANY // BACK
    (group,) = written
    assert isinstance(group, GroupRecord) and len(group.records) > MANY // BACK, "a crash leaves all of it or nothing"
    world.subscribe(POLITE, 2)
    world.machine.quiesce()
    assert world.got(2)[:-1] == world.ids


@pytest.mark.parametrize("outcome", [Outcome.ACK, Outcome.NACK])
def test_a_replay_in_the_middle_leaves_its_consumer_with_room(outcome, monkeypatch) -> None:
    """The stream broke before the last piece. Its edge attaches again without room, repeats the word, and grants."""
    for module in (pieces, settle):
        monkeypatch.setattr(module, "STRETCH", BACK)
    world = World()
    word = [world.ids[-1]]
    world.shard.submit([Settle(SLOT, HOLDER, 1, 1, word, outcome)])
    world.machine.turn()
    assert world.shard.engines[SLOT].unsettled
    again = Subscribe(SLOT, HOLDER, 2, 1, QUEUE, Routing.ANYCAST, AckMode.CLIENT)
    again.resumes(Resume([(world.ids[0], world.ids[-1])], []))
    again.wait()
    world.shard.submit([again, Grant(SLOT, 1, 1 << 20)])
    world.machine.quiesce()
    world.effects.clear()
    world.shard.submit([world.message(QUEUE, POLITE, 1)])
    world.machine.quiesce()
    assert world.got(1)


def test_what_it_has_sent_behind_it_pauses_nobody_else() -> None:
    """1,600 small frames behind such a word had counted as waiting, and everybody had to pause until its end."""
    world = World()
    world.nacks(*(world.message("x", HOLDER, 0) for _ in range(MOST + 100)))
    paused, turns = 0, 0
    while not world.done(HOLDER):
        paused += world.shard.submit([world.message(OTHER, POLITE, turns)])
        turns += 1
        world.turn()
    assert paused <= 4, "until a turn had looked at all that came in that read"
    assert turns > 2 * paused


@pytest.mark.parametrize("others", [0, 1, 4])
def test_those_who_settle_much_have_their_pieces_in_turn(others) -> None:
    """A NACK of 70 was answered behind the last piece of four that were there before it, in turn 48, and nobody had
    anything of its queue until then."""
    world, held = World(), {}
    for session in [*range(100, 100 + others), 50]:
        queue, many = (f"q{session}", 10 * BACK) if session > 50 else ("small", BACK + 6)
        one = Subscribe(slot_of(queue), session, 0, session, queue, Routing.ANYCAST, AckMode.CLIENT)
        one.room = 1 << 40
        world.shard.submit([one])
        for _ in range(many):
            world.shard.submit([world.message(queue, session, 0)])
            world.machine.quiesce()
        held[session] = slot_of(queue), world.got(session)[-1]
        world.shard.engines[slot_of(queue)].shown.consumers[session].withhold(1 << 60)
    innocent = Subscribe(slot_of("small"), 51, 0, 51, "small", Routing.ANYCAST, AckMode.CLIENT)
    innocent.room = 1 << 40
    world.shard.submit([innocent])
    world.machine.quiesce()
    for session, (slot, last) in held.items():
        world.shard.submit([Settle(slot, session, 1, session, [last], Outcome.NACK)])
    turns = 0
    while not world.done(50):
        world.turn()
        turns += 1
    assert turns <= 4 + 3 * others
    assert world.got(51), "its queue has not stood still until then"


def test_who_is_gone_is_given_nothing_while_its_word_is_carried_out() -> None:
    """Its Disconnect waits for it. What its other subscriptions were dealt meanwhile came again as failed attempts."""
    world = World()
    slot = slot_of("shared")
    for session, consumer in ((HOLDER, 70), (POLITE, 71)):
        one = Subscribe(slot, session, 0, consumer, "shared", Routing.ANYCAST, AckMode.CLIENT)
        one.room = 1 << 40
        world.shard.submit([one])
    world.machine.quiesce()
    world.effects.clear()
    world.nacks(Disconnect(SLOT, HOLDER), Disconnect(slot, HOLDER))
    world.machine.turn()
    for n in range(6):
        world.shard.submit([world.message("shared", 9, n + 1)])
        world.turn()
    world.machine.quiesce()
    assert not world.got(70)
    assert [e.run.attempts for e in world.effects if isinstance(e, Deliver) and e.consumer == 71] == [0] * 6
