"""A message that nothing waits beside has a turn at once: what comes of it is what comes of any other turn."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any

import pytest

from broker.config.addressing import AddressSettings
from broker.config.settings import EngineSettings, JournalSettings, Settings
from broker.core.address import AckMode, Routing
from broker.core.commands import Disconnect, Grant, Publish, Settle, Subscribe
from broker.core.effects import ConsumerClosed, Deliver, Done, Refused
from broker.core.ids import slot_of
from broker.core.message import DURABLE, Blob
from broker.engine.engine import Engine
from broker.journal.log import store
from tests.sim.disk import SimDisk
from tests.sim.shard_machine import HandClock, Machine
from tests.unit.engine.world import run_of

ANYCAST, MULTICAST = Routing.ANYCAST, Routing.MULTICAST


class Owner:
    """A shard that is turned until nobody has anything to do."""

    def __init__(self, **engine: Any) -> None:
        self.effects: list[Any] = []
        self.then: Any = None
        self.stopped = ""
        settings = Settings(engine=EngineSettings(**engine), journal=JournalSettings(segment_bytes=1 << 16))
        self.machine = Machine(SimDisk(1), HandClock(), settings, self)
        self.shard = self.machine.shard

    def on_effects(self, effects: list[Any]) -> None:
        self.effects += effects
        if self.then is not None:
            self.then()

    def on_relief(self) -> None: ...
    def on_stopped(self, why: str) -> None:
        self.stopped = why

    def ask(self, *commands: Any) -> list[Any]:
        self.effects = []
        self.shard.submit(list(commands))
        return self.rest()

    def rest(self) -> list[Any]:
        while self.machine.turn() or self.machine.busy():
            for io in self.machine.busy():
                io.run_one()
        return self.effects

    def at_once(self, command: Publish) -> list[Any] | None:
        """What was told before it returned; None: it wants to be submitted."""
        self.effects = []
        return self.effects if self.shard.at_once(command) else None


def consumer(number: int, to: str = "q", ack: AckMode = AckMode.AUTO, routing: Routing = ANYCAST, **more) -> Subscribe:
    return Subscribe(slot_of(to), number, 0, number, to, routing, ack, room=10_000, **more)


def message(body: bytes = b"\nx\0", to: str = "q", seq: int = 0, durable: bool = False, routing=ANYCAST) -> Publish:
    return Publish(slot_of(to), 9, seq, to, routing, run_of(body, durable=durable))


def told(effects: list[Any]) -> list[tuple[Any, ...]]:
    """Effects as values."""
    found: list[tuple[Any, ...]] = []
    for effect in effects:
        if type(effect) is Deliver:
            run = effect.run
            found.append(("deliver", effect.consumer, effect.cost, list(run.ids), run.lines, run.records, run.attempts))
        else:
            found.append((type(effect).__name__, *[getattr(effect, name) for name in type(effect).__slots__]))
    return found


def test_it_is_handed_out_before_the_call_returns_and_no_turn_is_left():
    owner = Owner()
    owner.ask(consumer(1))
    effects = owner.at_once(message(seq=5))
    assert effects is not None
    assert [type(effect) for effect in effects] == [Done, Deliver] and effects[1].consumer == 1
    assert not owner.machine.ready and not owner.machine.busy(), "nothing is written, and nobody is woken"


def test_without_a_consumer_it_rests_in_its_queue():
    owner = Owner()
    owner.ask(message())
    assert owner.at_once(message(b"\ny\0")) == []
    got = [effect.run.records for effect in owner.ask(consumer(1)) if type(effect) is Deliver]
    assert got == [[b"\nx\0"], [b"\ny\0"]]


class Script:
    """What clients ask for, at random: each as two commands that say the same."""

    def __init__(self, seed: int) -> None:
        self.random = Random(seed)
        self.held: dict[int, list[int]] = {}
        """Consumer → what it has not acknowledged."""

    def next(self, number: int) -> tuple[Any, Any]:
        random = self.random
        kind, to = random.randrange(10), random.choice("qrs")
        routing = random.choice((ANYCAST, MULTICAST))
        if kind < 6:
            bodies = [b"\n%d\0" % number + b"x" * random.choice((0, 60))] * random.choice((1, 1, 1, 3))
            durable, seq = random.random() < 0.2, random.choice((0, number))
            return self._twice(lambda: Publish(slot_of(to), 9, seq, to, routing, run_of(*bodies, durable=durable)))
        if kind < 8:
            ack, credit = random.choice((AckMode.AUTO, AckMode.INDIVIDUAL)), random.choice((1, 5, 1 << 40))
            return self._twice(lambda: consumer(number, to, ack, routing, credit_messages=credit))
        if kind == 8 and self.held:
            who = random.choice(list(self.held))
            ids = sorted(self.held.pop(who))
            return self._twice(lambda: Settle(self.slots[who], who, number, who, ids))
        return self._twice(lambda: Grant(slot_of(to), number - 1, 50))

    def _twice(self, make: Callable[[], Any]) -> tuple[Any, Any]:
        return make(), make()

    def told(self, owner: Owner, effects: list[Any]) -> None:
        """What consumers hold by now."""
        consumers = {n: c for engine in owner.shard.engines.values() for n, c in engine._slot.consumers.items()}
        self.slots = {n: e.number for e in owner.shard.engines.values() for n in e._slot.consumers}
        for effect in effects:
            if type(effect) is Deliver and consumers[effect.consumer].ledger is not None:
                self.held.setdefault(effect.consumer, []).extend(effect.run.ids)


@pytest.mark.parametrize("seed", range(16))
def test_the_same_comes_of_it_as_of_a_turn_that_has_gathered(seed: int):
    """Whatever else is asked for in between: effects and books are those of an owner that only gathers."""
    settings = dict(queue_memory_bytes=400, page_bytes=200) if seed % 2 else {}
    one, other, script, taken = Owner(**settings), Owner(**settings), Script(seed), 0
    for number in range(1, 200):
        command, same = script.next(number)
        lone = type(command) is Publish and not command.run.flags & DURABLE and script.random.random() < 0.7
        if lone and one.at_once(command) is not None:
            taken += 1
            effects = one.rest()
        else:
            effects = one.ask(command)
        assert told(effects) == told(other.ask(same))
        script.told(one, effects)
    assert taken > 30
    for slot, engine in one.shard.engines.items():
        twin = other.shard.engines[slot]
        assert engine.counters() == twin.counters()
        assert [queue.tally() for queue in engine.queues()] == [queue.tally() for queue in twin.queues()]
        assert [queue.weight for queue in engine.queues()] == [queue.weight for queue in twin.queues()]
    assert one.shard.memory.queues == other.shard.memory.queues


def test_who_sent_before_is_served_before():
    owner = Owner()
    owner.ask(consumer(1))
    owner.shard.submit([message(b"\n1\0")])
    assert owner.at_once(message(b"\n2\0")) is None, "it would overtake what waits for its turn"
    owner.shard.submit([message(b"\n2\0")])
    assert [effect.run.records for effect in owner.rest()] == [[b"\n1\0"], [b"\n2\0"]]


def test_nothing_is_carried_out_in_the_middle_of_a_turn():
    """Who hears of one may send at once: his message waits for the next turn."""
    for begin in ("submit", "at_once"):
        owner = Owner()
        owner.ask(consumer(1))
        answers: list[bool] = []
        owner.then = lambda owner=owner, answers=answers: answers.append(owner.shard.at_once(message(b"\n2\0")))
        if begin == "submit":
            owner.ask(message(b"\n1\0"))
        else:
            owner.at_once(message(b"\n1\0"))
        assert answers == [False]


def test_it_does_not_pass_what_waits_for_the_log():
    owner = Owner()
    owner.ask(consumer(1))
    owner.effects = []
    owner.shard.submit([message(b"\n1\0", durable=True)])
    owner.machine.turn()
    assert owner.at_once(message(b"\n2\0")) == [], "it is behind the durable one, which is not on the disk"
    assert [effect.run.records for effect in owner.rest()] == [[b"\n1\0"], [b"\n2\0"]]


def test_what_its_queue_has_no_memory_for_is_written():
    owner = Owner(queue_memory_bytes=100, page_bytes=100)
    owner.ask(message(b"\n" + b"x" * 90 + b"\0"))
    assert owner.at_once(message(b"\n" + b"y" * 90 + b"\0", seq=3)) == [], "told when it is in the log"
    assert owner.machine.busy() and [type(effect) for effect in owner.rest()] == [Done]


def test_nobody_has_a_turn_at_once_for_what_takes_long_or_waits(monkeypatch: pytest.MonkeyPatch):
    owner = Owner()
    owner.ask(*[consumer(n, "t", routing=MULTICAST) for n in range(1, 40)])
    assert owner.at_once(message(to="t", routing=MULTICAST)) is None, "for many queues"
    owner.ask(consumer(50, "sel", routing=MULTICAST, selector="a = 1"))
    assert owner.at_once(message(to="sel", routing=MULTICAST)) is None, "selectors have to be asked"
    assert owner.at_once(message(to="never.seen.slot")) is None or owner.effects == []
    owner.ask(consumer(60))
    large = message()
    large.run.blob = Blob(1, 5)
    assert owner.at_once(large) is None, "its file goes when it is refused"
    for of, what, value in (
        (owner.shard._inbox, "throttles", True), (owner.shard, "stopped", "it has failed"),
        (owner.shard, "_idle", lambda: None),
    ):  # fmt: skip
        monkeypatch.setattr(of, what, value)
        assert owner.at_once(message()) is None, what
        monkeypatch.undo()
    monkeypatch.setattr(owner.shard.journal._store, "full", True)
    assert owner.at_once(message()) is None, "what is refused then is decided by the turn"
    monkeypatch.undo()
    monkeypatch.setattr(owner.shard.pressure, "on", True)
    assert owner.at_once(message()) is None, "memory is short: somebody may have to wait"
    monkeypatch.undo()
    assert owner.at_once(message()) is not None


def test_what_it_leaves_to_do_has_a_turn():
    """A queue that hands out in pieces, and what is due at a time."""
    owner = Owner(address=AddressSettings(max_delivery_attempts=-1))
    owner.ask(*[message(b"\n%d\0" % n) for n in range(3)])
    late = message(b"\nlate\0")
    late.run.expires_at(owner.machine.clock.now + 500)
    assert owner.at_once(late) == []
    owner.machine.advance(10_000)
    owner.rest()
    assert [queue.count for queue in owner.shard.engines[slot_of("q")].queues()] == [3], "the alarm was set"


def test_an_engine_that_throws_stops_the_owner_and_who_sent_it_is_told(monkeypatch: pytest.MonkeyPatch):
    owner = Owner()
    owner.ask(consumer(1))

    def throws(self: Engine, command: Any, turn: Any) -> None:
        raise ZeroDivisionError

    monkeypatch.setattr(Engine, "handle", throws)
    effects = owner.at_once(message(seq=8))
    assert [(type(effect), effect.session, effect.seq) for effect in effects or ()] == [(Refused, 9, 8)]
    assert owner.stopped and owner.shard.slot_at_fault is not None
    assert owner.at_once(message()) is None


def test_a_refusal_is_told_at_once():
    owner = Owner(address=AddressSettings(auto_create_queues=False))
    owner.ask(message(to="q"))
    effects = owner.at_once(message(seq=4))
    assert effects is None or [type(effect) for effect in effects] == [Refused]
    assert not [effect for effect in owner.ask(Disconnect(slot_of("q"), 9)) if type(effect) is ConsumerClosed]


def test_a_commit_that_nothing_has_gathered_behind_is_told_without_a_turn_of_its_own(monkeypatch: pytest.MonkeyPatch):
    """And with one where something has: the next commit has to be sealed, and what came carried out."""
    owner = Owner()
    owner.ask(consumer(1))
    owner.rest()
    turns: list[int] = []
    step = owner.shard._run_turn
    monkeypatch.setattr(owner.shard, "_run_turn", lambda: (turns.append(1), step()))
    assert [type(effect) for effect in owner.ask(message(seq=4, durable=True))] == [Done, Deliver]
    assert len(turns) == 1, "that which has written it"
    turns.clear()
    owner.effects = []
    owner.shard.submit([message(seq=5, durable=True)])
    owner.machine.turn()
    owner.shard.submit([message(seq=6, durable=True)])
    owner.machine.turn()
    assert [effect.seq for effect in owner.rest() if type(effect) is Done] == [5, 6] and len(turns) == 3


def test_the_free_space_is_not_asked_for_with_each_commit(monkeypatch: pytest.MonkeyPatch):
    owner = Owner()
    owner.ask(message(durable=True))
    asked: list[str] = []
    disk = owner.machine.disk
    free = disk.free_bytes
    monkeypatch.setattr(disk, "free_bytes", lambda path: (asked.append(path), free(path))[1])
    for _ in range(50):
        owner.ask(message(durable=True))
    assert not asked
    monkeypatch.setattr(store, "LOOK_BYTES", 3000)
    for _ in range(50):
        owner.ask(message(b"\n" + b"x" * 100 + b"\0", durable=True))
    assert 2 <= len(asked) <= 10, "of what was written"
    owner.shard.journal._store.lacks(low_space=True)
    before = len(asked)
    owner.ask(Grant(slot_of("q"), 1, 1), message(durable=True))
    owner.shard.journal.look_at_space()
    assert len(asked) > before and not owner.shard.journal.full
