"""The watchdog names what a slow step was about, once a second, and counts all of them; on a clock moved by hand."""

from __future__ import annotations

import logging

import pytest

from broker.core.address import Routing
from broker.core.commands import Publish
from broker.engine.engine import Engine
from broker.owner.shard.slow_turns import Blame
from broker.seams.loop_watchdog import SLOW_S, Steps
from tests.harness import steps as harness
from tests.unit.engine.world import run_of
from tests.unit.owner.lifecycle_world import SLOT, World


class HandClock:
    def __init__(self) -> None:
        self.at = 100.0

    def monotonic(self) -> float:
        return self.at

    def wall_ms(self) -> int:
        return int(self.at * 1000)


def step(clock: HandClock, kind, seconds: float, whose: str = "somebody") -> None:
    began = kind.begin()
    clock.at += seconds
    if kind.took(began):
        kind.tell(whose)


def publish(seq, address):
    return Publish(SLOT, 5, seq, address, Routing.ANYCAST, run_of(b"x", durable=True))


def slow(monkeypatch, world, method, seconds, address=""):
    """That method of engines takes so long on the clock of the world."""
    whole = getattr(Engine, method)

    def slowly(self, *args):
        if not address or getattr(args[0], "address", "") == address:
            world.now += seconds
        return whole(self, *args)

    monkeypatch.setattr(Engine, method, slowly)


def test_steps_are_counted_by_length_and_slow_ones_named_once_a_second(caplog):
    clock = HandClock()
    steps = Steps(clock, lambda: 0.0)
    turns, reads = steps.kind("turn"), steps.kind("read")
    for _ in range(1000):
        step(clock, turns, 0.0005)
    step(clock, turns, 0.004)
    assert caplog.records == []
    step(clock, turns, 0.2, "the first")
    step(clock, turns, 0.3, "left out")
    step(clock, reads, SLOW_S * 1.5, "another kind")
    clock.at += 1
    step(clock, turns, 0.06, "the next")
    assert [record.getMessage() for record in caplog.records] == [
        "a turn took 200 ms, everybody else has waited: the first",
        "a read took 75 ms, everybody else has waited: another kind",
        "a turn took 60 ms, everybody else has waited: the next (1 more slow ones since the last line)",
    ]
    families = {metric.name: metric for metric in steps.metrics()}
    (_, of_turns), _ = families["stomp_step_seconds"].samples
    bounds, counts, total = of_turns.bounds, of_turns.counts, of_turns.total
    assert sum(counts) == 1004 and counts[0] == 1000 and counts[1] == 1
    assert len(counts) == len(bounds) + 1
    assert total == pytest.approx(1000 * 0.0005 + 0.004 + 0.56)
    assert families["stomp_steps_slow_total"].samples == [({"step": "turn"}, 3.0), ({"step": "read"}, 1.0)]
    assert families["stomp_step_longest_seconds"].samples[0][1] == pytest.approx(0.3)
    assert all(metric.help for metric in families.values())


def test_what_a_slow_step_has_computed_is_told_apart_from_what_it_waited_for(caplog):
    """At the least: what was computed before it, since the last look, is not taken for its own."""
    clock, used = HandClock(), 5.0
    steps = Steps(clock, lambda: used)
    turns, reads = steps.kind("turn"), steps.kind("read")
    began = turns.begin()
    clock.at, used = clock.at + 0.4, used + 0.3
    assert turns.took(began)
    turns.tell("busy")
    clock.at += 60
    step(clock, reads, 0.0004)
    clock.at, used = clock.at + 0.0012, used + 0.001
    began = turns.begin()  # the last look was 1.6 ms ago: of 251 ms since then at least 249.4 are its own
    clock.at, used = clock.at + 0.9, used + 0.25
    assert turns.took(began) and turns.ours == pytest.approx(0.2494, abs=0.0001)
    turns.tell("both")
    clock.at += 60
    step(clock, turns, 0.7, "waiting")
    assert [record.getMessage().partition(",")[0] for record in caplog.records] == [
        "a turn took 400 ms (300 ms of them computing)", "a turn took 900 ms (249 ms of them computing)",
        "a turn took 700 ms",
    ]  # fmt: skip


def test_tests_fail_by_what_a_step_has_computed(caplog, tmp_path):
    clock, used = HandClock(), 0.0
    turns = Steps(clock, lambda: used).kind("turn")
    for span, computed in ((5.0, 0.14), (1.5, 0.16), (0.06, 0.06)):
        began = turns.begin()
        clock.at, used = clock.at + span, used + computed
        if turns.took(began):
            turns.tell(f"{computed} of {span}")
        clock.at += 2
    log = tmp_path / "log"
    log.write_text("".join(record.getMessage() + "\n" for record in caplog.records))
    harness.found()
    for _ in range(2):
        harness.look(log)  # once each
    assert [line.endswith("0.16 of 1.5") for line in harness.found()] == [True]


def test_a_slow_turn_names_the_command_its_address_and_its_client(monkeypatch, caplog):
    world = World().leading()
    world.shard.blame.names_by("client {}".format)
    slow(monkeypatch, world, "handle", 0.08, "orders")
    with caplog.at_level(logging.WARNING, "stampede.watchdog"):
        world.shard.submit([publish(1, "q"), publish(2, "orders"), publish(3, "q")])
        world.run()
    (line,) = [record.getMessage() for record in caplog.records if record.name == "stampede.watchdog"]
    assert f"Publish (80 ms) of 3 commands: 'orders' of slot {SLOT} by client 5" in line


def test_a_slow_dispatch_names_what_the_turn_did_in_that_slot(monkeypatch, caplog):
    world = World().leading()
    world.run()
    slow(monkeypatch, world, "flush", 0.06)
    with caplog.at_level(logging.WARNING, "stampede.watchdog"):
        world.shard.submit([publish(1, "orders")])
        world.run()
    line = next(record.getMessage() for record in caplog.records if record.name == "stampede.watchdog")
    assert f"dispatch of slot {SLOT} (60 ms), 1 commands: 'orders' of slot {SLOT} by session 5" in line


def test_a_turn_of_many_names_a_few():
    blame = Blame()
    said = blame.name([publish(n, f"q{n}") for n in range(1000)])
    assert said.count("of slot") == 3 and said.endswith("and others")
    assert blame.name([]) == "0 commands, none of them long: nothing asked"
