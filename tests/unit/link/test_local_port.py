"""Edge and owner in one process: things are passed on, and what a consumer holds is asked with what is on its way."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from broker.core.address import Routing
from broker.core.commands import Command, Hold, Publish, Settle
from broker.core.message import NO_IDS, Run
from broker.link.local_port import LocalOwner

SLOT = 3


class Engine:
    def __init__(self) -> None:
        self.asked: list[tuple[int, list[Command]]] = []

    def held(self, consumer: int, coming: Any) -> list[int]:
        self.asked.append((consumer, list(coming)))
        return [4]


class Shard:
    """Commands wait in it until turn(). looks   how many of them were looked at."""

    def __init__(self) -> None:
        self.engines: dict[int, Engine] = {}
        self.stats = SimpleNamespace(turns=0)
        self.inbox: list[Command] = []
        self.listeners: list[object] = []
        self.listen = self.listeners.append

    def submit(self, commands: list[Command]) -> bool:
        self.inbox += commands
        return len(self.inbox) > 2

    def at_once(self, command: Publish) -> bool:
        return not self.inbox

    def waiting(self, after: int = 0) -> list[Command]:
        return self.inbox[after:]

    def turn(self) -> None:
        self.inbox = []
        self.stats.turns += 1


def settle(*ids: int, consumer: int = 7) -> Settle:
    return Settle(SLOT, 1, 0, consumer, ids)


def made() -> tuple[LocalOwner, Shard, Engine]:
    shard, engine = Shard(), Engine()
    shard.engines[SLOT] = engine
    return LocalOwner(shard, None), shard, engine  # type: ignore[arg-type]


def test_commands_and_listeners_are_the_shards_own():
    owner, shard, _ = made()
    assert owner.submit == shard.submit and owner.at_once == shard.at_once, "no layer in between"
    assert owner.submit([settle(1)]) is False and owner.submit([settle(2), settle(3)]) is True
    listener = object()
    owner.attach(listener)  # type: ignore[arg-type]
    assert shard.listeners == [listener]
    assert owner.shares_wildcards


def test_of_a_slot_that_is_not_led_here_nothing_is_held():
    owner, _, engine = made()
    assert owner.held(SLOT + 1, 7) == () and engine.asked == []


def test_what_waits_and_settles_for_that_consumer_is_told_in_order():
    owner, _, engine = made()
    hold, run = Hold(SLOT, 1, 0, 7, [2]), Run(NO_IDS, b"", [b"\nx\0"], 3)
    mine, others = [settle(1), hold, settle(3)], settle(9, consumer=8)
    owner.submit([mine[0], others, Publish(SLOT, 1, 0, "a", Routing.ANYCAST, run), hold, mine[2]])
    assert owner.held(SLOT, 7) == [4] and owner.held(SLOT, 8) == [4] and owner.held(SLOT, 9) == [4]
    assert engine.asked == [(7, mine), (8, [others]), (9, [])]


def test_what_comes_later_in_the_turn_is_found_and_nothing_is_found_twice():
    owner, _, engine = made()
    first, second = settle(1), settle(2)
    owner.submit([first])
    owner.held(SLOT, 7)
    owner.submit([second])
    owner.held(SLOT, 7)
    owner.held(SLOT, 7)
    assert engine.asked == [(7, [first]), (7, [first, second]), (7, [first, second])]


def test_what_a_turn_has_carried_out_waits_no_more():
    owner, shard, engine = made()
    owner.submit([settle(1), settle(2)])
    owner.held(SLOT, 7)
    shard.turn()
    owner.held(SLOT, 7)
    later = settle(3)
    owner.submit([later])
    owner.held(SLOT, 7)
    assert engine.asked[1:] == [(7, []), (7, [later])]


def test_what_was_handed_out_here_has_arrived():
    owner, shard, _ = made()
    owner.arrived(7, 4)
    assert shard.inbox == []
