"""Who waits in an owner, and for what: commits that count, leave to hand out."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from broker.core.effects import Turn
from broker.owner.commit.release_gate import ReleaseGate, Touched


@dataclass
class Held:
    number: int


@dataclass(eq=False)
class Engine:
    number: int
    pending: list[Held] = field(default_factory=list)
    released: list[int] = field(default_factory=list)
    flushed: int = 0
    more: bool = False

    def release(self, reached: int, turn: Turn) -> None:
        self.released.append(reached)

    def flush(self, turn: Turn) -> bool:
        self.flushed += 1
        return self.more


class Replicas:
    """What everybody who must have it has, by slot; and whether they promise not to lead."""

    alone = False

    def __init__(self) -> None:
        self.have: dict[int, int] = {}
        self.silent: set[int] = set()

    def ready(self, slot: int) -> int:
        return self.have.get(slot, 0)

    def may_dispatch(self, slot: int) -> bool:
        return slot not in self.silent


def world() -> tuple[ReleaseGate, Replicas]:
    replicas = Replicas()
    return ReleaseGate(replicas), replicas  # type: ignore[arg-type]


def touched(*engines: Engine) -> Touched:
    return dict.fromkeys(engines)  # type: ignore[arg-type]


def release(gate: ReleaseGate, committed: int) -> list[Any]:
    """Engines that were touched by it, in order."""
    out: Touched = {}
    gate.release(committed, Turn(0, committed), out)
    return list(out)


def test_an_engine_waits_for_the_commit_of_its_own_turn() -> None:
    gate, _ = world()
    mine, earlier, none = Engine(1, [Held(7)]), Engine(2, [Held(6)]), Engine(3)
    assert gate.await_commit(touched(mine, earlier, none), 7) and gate.busy and gate.shut
    assert not gate.await_commit(touched(earlier, none), 8), "what it held before waits under its own number"


def test_what_is_on_our_disk_only_is_told_to_nobody() -> None:
    gate, replicas = world()
    engine = Engine(1, [Held(5)])
    gate.await_commit(touched(engine), 5)
    assert release(gate, 4) == [] and engine.released == []
    replicas.have[1] = 4
    assert release(gate, 5) == [] and engine.released == [] and gate.busy
    replicas.have[1] = 5
    assert release(gate, 5) == [engine] and engine.released == [5]
    assert not gate.busy and not gate.shut


def test_of_one_commit_each_slot_waits_for_its_own_followers() -> None:
    gate, replicas = world()
    one, two = Engine(1, [Held(5)]), Engine(2, [Held(5)])
    gate.await_commit(touched(one, two), 5)
    replicas.have = {1: 9, 2: 4}
    assert release(gate, 6) == [one] and one.released == [9]
    replicas.have[2] = 5
    assert release(gate, 6) == [two] and one.released == [9], "told once"


def test_nothing_is_handed_out_without_leave_and_all_of_it_when_there_is() -> None:
    gate, replicas = world()
    engine = Engine(1)
    replicas.silent.add(1)
    gate.flush(engine, Turn(0, 1))  # type: ignore[arg-type]
    assert engine.flushed == 0 and gate.busy and gate.shut and not gate.may(1)
    replicas.silent.clear()
    assert gate.may(1) and release(gate, 1) == [engine] and not gate.busy
    gate.flush(engine, Turn(0, 1))  # type: ignore[arg-type]
    assert engine.flushed == 1 and not gate.busy


def test_what_a_turn_could_not_finish_goes_on_in_the_next() -> None:
    gate, _ = world()
    engine = Engine(1, more=True)
    gate.flush(engine, Turn(0, 1))  # type: ignore[arg-type]
    assert gate.busy and not gate.shut, "it has work and waits for nobody"
    assert release(gate, 0) == [engine] and not gate.unfinished and not gate.busy


def test_a_paused_slot_hands_out_nothing_and_is_not_kept_busy() -> None:
    gate, _ = world()
    engine, other = Engine(1), Engine(2)
    gate.pause(1)
    gate.flush(engine, Turn(0, 1))  # type: ignore[arg-type]
    gate.flush(other, Turn(0, 1))  # type: ignore[arg-type]
    assert (engine.flushed, other.flushed) == (0, 1) and not gate.may(1) and gate.may(2) and not gate.busy
    gate.unpause(1)
    gate.flush(engine, Turn(0, 1))  # type: ignore[arg-type]
    assert engine.flushed == 1


def test_a_watcher_is_called_once_when_its_slot_has_come_so_far() -> None:
    gate, replicas = world()
    called: list[str] = []
    gate.watch(1, 5, lambda: called.append("one"))
    gate.watch(2, 5, lambda: called.append("two"))
    assert gate.busy and gate.shut
    replicas.have = {1: 5, 2: 4}
    release(gate, 5)
    assert called == ["one"] and gate.busy
    replicas.have[2] = 6
    release(gate, 5)
    release(gate, 6)
    assert called == ["one", "two"] and not gate.busy


def test_a_watcher_may_watch_again_from_its_call() -> None:
    gate, replicas = world()
    called: list[int] = []
    gate.watch(1, 1, lambda: (called.append(1), gate.watch(1, 2, lambda: called.append(2)))[0])
    replicas.have[1] = 1
    release(gate, 1)
    assert called == [1] and gate.busy
    replicas.have[1] = 2
    release(gate, 2)
    assert called == [1, 2]


def test_a_slot_that_is_dropped_is_nowhere_any_more() -> None:
    gate, replicas = world()
    engine, other = Engine(1, [Held(5)], more=True), Engine(2, [Held(5)])
    called: list[str] = []
    gate.await_commit(touched(engine, other), 5)
    gate.flush(engine, Turn(0, 5))  # type: ignore[arg-type]
    replicas.silent.add(1)
    gate.flush(engine, Turn(0, 5))  # type: ignore[arg-type]
    gate.pause(1)
    gate.watch(1, 0, lambda: called.append("gone"))
    gate.watch(2, 0, lambda: called.append("other"))
    gate.drop(1, engine)  # type: ignore[arg-type]
    replicas.have = {1: 9, 2: 9}
    assert release(gate, 9) == [other] and engine.released == [] and called == ["other"]
    replicas.silent.clear()
    assert gate.may(1), "its pause went with it"
    gate.drop(3, None)


def test_two_commits_that_are_on_the_disk_by_now_are_told_together_and_a_later_one_is_not() -> None:
    gate, replicas = world()
    one, two, later = Engine(1, [Held(5)]), Engine(2, [Held(6)]), Engine(3, [Held(7)])
    for number, engine in ((5, one), (6, two), (7, later)):
        gate.await_commit(touched(engine), number)
    replicas.have = {1: 9, 2: 9, 3: 9}
    assert release(gate, 6) == [one, two] and later.released == [] and gate.shut
    assert release(gate, 7) == [later] and not gate.shut
