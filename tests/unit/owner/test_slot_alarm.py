"""One alarm for all slots: never too late, and not set anew for what is later anyhow."""

from __future__ import annotations

from broker.owner.shard.slot_alarm import SlotAlarm


class Engine:
    def __init__(self, due: int) -> None:
        self.due = due


def alarm() -> tuple[SlotAlarm, list[int]]:
    """(alarm, when it was set to)"""
    told: list[int] = []
    return SlotAlarm(lambda at, ring: told.append(at), lambda: None), told


def test_the_earliest_counts():
    it, told = alarm()
    it.look([Engine(50), Engine(30), Engine(40)])
    it.look([Engine(35), Engine(20)])
    assert told == [50, 30, 20]


def test_who_wants_nothing_sets_nothing():
    it, told = alarm()
    it.look([Engine(0)])
    it.look([])
    assert told == []


def test_once_it_has_rung_all_are_looked_at_anew():
    it, told = alarm()
    it.look([Engine(20)])
    it.rang()
    it.look([Engine(0), Engine(90)])
    assert told == [20, 90]


def test_it_rings_who_was_named():
    rung: list[str] = []
    it = SlotAlarm(lambda at, ring: ring(), lambda: rung.append("now"))  # type: ignore[arg-type]
    it.look([Engine(1)])  # type: ignore[list-item]
    assert rung == ["now"]
