"""Thousands of selectors that no index helps with, and a read full of messages: cut into turns; nobody else waits."""

from __future__ import annotations

import pytest

from broker.config.settings import EngineSettings, JournalSettings, Settings
from broker.core.address import AckMode, Routing
from broker.core.commands import Disconnect, Grant, Publish, Resume, Subscribe, Transact, Unsubscribe
from broker.core.effects import AddressBlocked, Deliver, Done, Turn
from broker.core.ids import slot_of
from broker.core.message import NO_IDS, Run
from broker.engine.messages import copies
from broker.owner.inbox.deferred import PIECE_NS, TURN_NS, Deferred
from broker.owner.inbox.inbox import Inbox
from broker.selector.index import ASKED, Index
from tests.sim.disk import SimDisk
from tests.sim.shard_machine import HandClock, Machine
from tests.unit.engine.world import run_of

MANY, READ = 400, 60
TOPIC, OTHER = "topic", "queue"
FLOODER, POLITE, READER = 1, 2, 3


class World:
    def __init__(self) -> None:
        settings = Settings(engine=EngineSettings(), journal=JournalSettings(65_536, min_free_bytes=0))
        self.effects: list = []
        self.machine = Machine(SimDisk(0), HandClock(), settings, self)
        self.shard = self.machine.shard
        for number in range(1, MANY + 1):
            self.subscribe(number, f"name LIKE '%x{number}%'")
        self.machine.quiesce()
        self.effects.clear()

    def on_effects(self, effects: list) -> None:
        self.effects += effects

    def on_relief(self) -> None: ...
    def on_stopped(self, why: str) -> None:
        raise AssertionError(why)

    def subscribe(self, number: int, selector: str | None) -> None:
        auto = AckMode.AUTO
        self.shard.submit(
            [Subscribe(slot_of(TOPIC), READER, 0, number, TOPIC, Routing.MULTICAST, auto, selector=selector)]
        )

    def flood(self, seq: int = 1, session: int = FLOODER, count: int = READ, text: str = "x7x") -> Publish:
        records = [b"name:%b\nn:%d\n\n\0" % (text.encode(), n) for n in range(count)]
        return Publish(slot_of(TOPIC), session, seq, TOPIC, Routing.MULTICAST, run_of(*records))

    def polite(self, seq: int, address: str = OTHER) -> Publish:
        routing = Routing.ANYCAST if address == OTHER else Routing.MULTICAST
        return Publish(slot_of(address), POLITE, seq, address, routing, run_of(b"name:y\n\n\0"))

    def turn(self) -> int:
        """One turn of the shard; nanoseconds of looking."""
        spent, worked = 0, Index.worked

        def counted(index, nanoseconds):
            nonlocal spent
            spent += nanoseconds
            worked(index, nanoseconds)

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(Index, "worked", counted)
            self.machine.turn()
        return spent

    def done(self, session: int) -> list[int]:
        return [effect.seq for effect in self.effects if isinstance(effect, Done) and effect.session == session]

    def got(self) -> dict[int, int]:
        found: dict[int, int] = {}
        for effect in self.effects:
            if isinstance(effect, Deliver):
                found[effect.consumer] = found.get(effect.consumer, 0) + len(effect.run.records)
        return found


@pytest.fixture
def world() -> World:
    return World()


def transact(part: Publish) -> Transact:
    return Transact(part.slot, part.session, part.seq, [part])


@pytest.mark.parametrize("command", [lambda part: part, transact])
def test_what_takes_long_to_look_at_is_cut_into_turns_and_others_go_on(world: World, command) -> None:
    world.shard.submit([command(world.flood()), world.polite(1)])
    turns = [world.turn()]
    assert world.done(POLITE) == [1] and world.done(FLOODER) == []
    world.shard.submit([world.polite(2, TOPIC)])
    turns += [world.turn(), world.turn()]
    assert world.done(POLITE) == [1, 2], "at the same topic, too"
    while not world.done(FLOODER):
        turns.append(world.turn())
    one = MANY * ASKED + 1000
    assert max(turns) <= TURN_NS + one
    assert sum(turns) >= READ * MANY * ASKED
    world.machine.quiesce()
    assert world.got() == {7: READ}


@pytest.mark.parametrize("alike", [True, False])
def test_the_selectors_of_one_message_are_cut_as_well(world: World, alike: bool) -> None:
    """2,000 of three conditions each took 2.4 ms for each message, 20,000 take 24: a piece had one message at least."""
    many = " OR ".join(f"name LIKE '%{n}y%'" for n in range(60))
    for number in range(MANY + 1, 2 * MANY + 1):
        world.subscribe(number, f"{many} OR name = 'x7x' OR name = 'y{number}'")
    world.machine.quiesce()
    part = world.flood(count=2) if not alike else Publish(
        slot_of(TOPIC), FLOODER, 1, TOPIC, Routing.MULTICAST, Run(NO_IDS, b"name:x7x\n", [b"\n\0"] * 2, 20)
    )  # fmt: skip
    world.shard.submit([part, world.polite(1)])
    turns = [world.turn()]
    assert world.done(POLITE) == [1] and world.done(FLOODER) == []
    while not world.done(FLOODER):
        turns.append(world.turn())
    assert max(turns) < PIECE_NS * 1.1 and len(turns) > 3
    world.machine.quiesce()
    assert world.got() == dict.fromkeys([7, *range(MANY + 1, 2 * MANY + 1)], 2)


def test_whoever_waits_is_told_and_his_later_commands_keep_their_order(world: World) -> None:
    world.shard.submit([world.flood(1), world.flood(2), Publish(slot_of(OTHER), FLOODER, 3, OTHER, Routing.ANYCAST,
                        run_of(b"\n\0"))])  # fmt: skip
    world.turn()
    crowds = [effect for effect in world.effects if isinstance(effect, AddressBlocked)]
    assert [(crowd.session, crowd.address, crowd.full) for crowd in crowds] == [(FLOODER, TOPIC, True)]
    world.shard.submit([Disconnect(slot_of(OTHER), FLOODER)])
    world.machine.quiesce()
    assert world.done(FLOODER) == [1, 2, 3]
    crowds = [effect for effect in world.effects if isinstance(effect, AddressBlocked)]
    assert [crowd.full for crowd in crowds] == [True, False]
    assert not world.shard._deferred.waiting
    assert not world.shard.engines[slot_of(TOPIC)]._slot.seen, "nothing is kept of what was looked at"


def test_room_for_a_consumer_does_not_overtake_its_coming_again(world: World) -> None:
    """Behind what its session has sent to that slot the Subscribe of a replay waits; the Grant that an edge says last
    had gone to nobody, and the consumer was never given anything."""
    near = next(name for name in (f"near{n}" for n in range(10_000)) if slot_of(name) == slot_of(TOPIC))
    again = coming_again(slot_of(near), 9000, near)
    world.shard.submit([world.flood(1)])
    world.turn()
    world.shard.submit([again, Grant(slot_of(near), 9000, 1 << 20)])
    world.turn()
    assert not world.done(FLOODER) and world.shard._inbox.attaching(slot_of(near)), "it waits"
    world.machine.quiesce()
    world.shard.submit([Publish(slot_of(near), POLITE, 1, near, Routing.ANYCAST, run_of(b"\n\0"))])
    world.machine.quiesce()
    assert world.got()[9000] == 1


def coming_again(slot: int, consumer: int, address: str) -> Subscribe:
    """As a replay says it: room comes last."""
    again = Subscribe(slot, FLOODER, 2, consumer, address, Routing.ANYCAST, AckMode.CLIENT)
    again.resumes(Resume([], []))
    again.wait()
    return again


def test_who_comes_again_does_not_wait_for_what_its_session_asks_of_another_slot(world: World) -> None:
    """A slot that has just come stands still for it, with all its clients."""
    world.shard.submit([world.flood(1)])
    world.turn()
    world.shard.submit([coming_again(slot_of(OTHER), 9000, OTHER)])
    world.turn()
    assert not world.done(FLOODER) or world.done(FLOODER) == [2]
    assert not world.shard._inbox.attaching(slot_of(OTHER))


def test_a_slot_goes_on_where_a_send_before_a_coming_again_waits_for_its_copies(monkeypatch) -> None:
    """The copies wait for the slot, which stands still; the SEND for the copies; and the Subscribe for the SEND."""
    monkeypatch.setattr(copies, "SPREAD", 40)
    world = World()
    for number in range(1000, 1100):
        world.subscribe(number, None)
    world.machine.quiesce()
    slot = slot_of(TOPIC)
    world.shard.pause(slot)
    world.shard.submit([world.polite(seq, TOPIC) for seq in (1, 2)])
    world.machine.quiesce()
    again = Subscribe(slot, POLITE, 3, 9000, TOPIC, Routing.MULTICAST, AckMode.AUTO)
    again.resumes(Resume([], []))
    world.shard.submit([again])
    world.machine.quiesce()
    assert world.shard._inbox.attaching(slot), "it waits"
    world.shard.unpause(slot)
    world.machine.quiesce()
    assert world.done(POLITE) == [1, 2, 3] and not world.shard._standing


def test_a_slot_that_stands_has_what_waits_looked_at_once_and_not_in_each_turn(world: World, monkeypatch) -> None:
    """A replay of 100,000 commands has hundreds of turns, in each of which all that waited was walked over."""
    looks, waiting = [], Inbox.waiting
    monkeypatch.setattr(Inbox, "waiting", lambda inbox, after: looks.append(after) or waiting(inbox, after))
    slot = slot_of(OTHER)
    world.shard.engine(slot)
    world.shard.pause(slot)
    comings = [coming_again(slot, 9000 + n, OTHER) for n in range(200)]
    for n, each in enumerate(comings):
        each.session = 100 + n
    world.shard.submit([*comings[:198], world.polite(1)])
    world.shard.unpause(slot)
    turns = 0
    while world.shard._standing:
        assert world.machine.turn()
        turns += 1
        if turns == 2:
            world.shard.submit(comings[198:])  # those of a late edge
    assert turns > 3 and len(looks) == 1 and not world.shard._inbox.new, "all of them are attached"
    assert world.shard._inbox.again is None, "nobody counts any more"


def test_who_came_again_to_a_slot_that_has_gone_keeps_it_from_nothing_when_it_comes_back() -> None:
    slot = slot_of(OTHER)
    inbox = Inbox(Deferred(), lambda: None, alone=False)
    waits, later = coming_again(slot, 1, OTHER), coming_again(slot, 2, OTHER)
    inbox.new += [waits, coming_again(7, 3, "x")]
    assert inbox.attaching(slot) and inbox.attaching(7)
    inbox.comes([later, later])
    inbox.gone(later)
    assert inbox.attaching(slot), "two are left"
    inbox.drop(slot)
    assert not inbox.attaching(slot) and inbox.attaching(7)
    inbox.comes([later])
    inbox.gone(later)  # to nobody: its slot is led elsewhere
    assert not inbox.attaching(slot)
    inbox.asks_no_more()
    inbox.gone(later)
    assert inbox.attaching(7) and not inbox.attaching(slot), "looked at anew"


def test_who_waits_no_more_as_its_slot_has_gone_is_told_to_go_on() -> None:
    """Its connection was never read again: nothing waited, so nobody looked anew at who does."""

    def send(slot: int) -> Publish:
        return Publish(slot, FLOODER, 1, f"t{slot}", Routing.MULTICAST, run_of(b"\n\0"))

    deferred, first, second = Deferred(), send(1), send(2)
    turn = Turn(1, 1)
    for each in (first, second):
        assert not deferred.goes([Looking(each.slot, False)], each, [each], turn)  # type: ignore[list-item]
    assert deferred.begin() == [first, second]
    turn = Turn(2, 2)
    assert deferred.goes([Looking(1, True)], first, [first], turn)  # type: ignore[list-item]
    assert not deferred.goes([Looking(2, False)], second, [second], turn)  # type: ignore[list-item]
    deferred.end(turn)
    assert not turn.effects, "it still waits"
    deferred.drop(2)
    turn = Turn(3, 3)
    deferred.end(turn)
    assert (1, False) in [(e.slot, e.full) for e in turn.effects if isinstance(e, AddressBlocked)]


class Looking:
    """A slot with selectors, all asked or not."""

    filtered, spread, drowsy = True, False, False

    def __init__(self, number: int, known: bool) -> None:
        self.number = number
        self._known = known

    def look(self, parts: object, turn: Turn, most: int) -> int:
        return most if self._known else -1

    def looked(self, parts: object) -> None: ...


def test_two_who_flood_share_the_time(world: World) -> None:
    world.shard.submit([world.flood(1, FLOODER), world.flood(1, POLITE, 10)])
    while not world.done(POLITE):
        world.turn()
    assert not world.done(FLOODER), "he has six times as many"
    world.machine.quiesce()
    assert world.done(FLOODER) == [1]


def test_subscriptions_that_come_and_go_meanwhile(world: World) -> None:
    world.shard.submit([world.flood()])
    world.turn()
    world.subscribe(MANY + 1, "name LIKE '%x7%'")
    world.shard.submit([Unsubscribe(slot_of(TOPIC), READER, 0, 7, TOPIC)])
    world.machine.quiesce()
    got = world.got()
    assert 7 not in got
    assert got.get(MANY + 1, 0) <= READ
    world.effects.clear()
    world.shard.submit([world.flood(2, count=3)])
    world.machine.quiesce()
    assert world.got() == {MANY + 1: 3}


def test_what_is_small_is_not_put_off(world: World) -> None:
    assert MANY * ASKED * 3 < PIECE_NS
    world.shard.submit([world.flood(1, count=3)])
    world.turn()
    assert world.got() == {7: 3} and world.done(FLOODER) == [1]


def test_what_has_waited_keeps_its_order_when_it_fills_several_turns_and_makes_queues(world: World) -> None:
    """A turn that ended over queues that were made put back what it had been given, behind what it had not."""
    made = [Publish(slot_of(f"q.{n}"), FLOODER, 2 + n, f"q.{n}", Routing.ANYCAST, run_of(b"\n\0")) for n in range(70)]
    behind = [
        Publish(slot_of(OTHER), FLOODER, 72 + n, OTHER, Routing.ANYCAST, run_of(b"n:%d\n\n\0" % n)) for n in range(400)
    ]
    world.shard.submit([world.flood(1), *made, *behind])
    world.machine.quiesce()
    assert world.done(FLOODER) == list(range(1, 472))


def test_who_stands_behind_another_session_keeps_nobody_from_being_looked_at(world: World) -> None:
    """A round was over when all who wait had had their share: of what an edge has numbered for a slot the later ones
    wait without ever having one, so nobody was looked at again, and the owner turned for ever."""
    first, behind = world.flood(1), world.polite(1, TOPIC)
    first.dedup, behind.dedup = (99, 1), (99, 2)
    world.shard.submit([first, behind])
    assert world.machine.quiesce(most=500)
    assert world.done(FLOODER) == world.done(POLITE) == [1] and world.got() == {7: READ}


def test_what_is_put_back_stays_in_front_of_what_waits_for_another_of_its_session(world: World) -> None:
    """What an edge had numbered was lost, and answered: a turn had enough before message 72 was carried out, and put it
    back; 73 was kept here, as its session waited for something else, and so it came first."""
    edge, slot, other, late = 99, slot_of(TOPIC), "topic.of.another.slot", 4
    assert slot_of(other) != slot
    for number in range(MANY + 1, 2 * MANY + 1):
        text = f"name LIKE '%x{number}%'"
        world.shard.submit([
            Subscribe(slot_of(other), READER, 0, number, other, Routing.MULTICAST, AckMode.AUTO, selector=text)
        ])  # fmt: skip
    world.machine.quiesce()
    names = [name for name in map("q.{}".format, range(100_000)) if slot_of(name) == slot][:70]
    numbers = iter(range(1, 1000))

    def numbered(part: Publish) -> Publish:
        part.dedup = (edge, next(numbers))
        return part

    def send(session: int, seq: int, name: str) -> Publish:
        return numbered(Publish(slot, session, seq, name, Routing.ANYCAST, run_of(b"\n\0")))

    longer = world.flood(1, late, count=3 * READ)
    longer.slot, longer.address = slot_of(other), other
    world.shard.submit([
        numbered(world.flood(1)), longer, *[send(FLOODER, 2 + n, name) for n, name in enumerate(names)],
        send(POLITE, 1, names[0]), send(late, 2, names[0]),
    ])  # fmt: skip
    world.machine.quiesce()
    assert world.done(FLOODER) == list(range(1, 72)) and world.done(POLITE) == [1] and world.done(late) == [1, 2]
    queues = world.shard.engines[slot]._slot.queues.values()
    assert sum(queue.count for queue in queues if queue.address in names) == 72
