"""`.venv/bin/python bench/steps.py`: what one step of the loop computes for where ADR 9 says what bounds it.

Each line is the longest step of the best of several runs, in milliseconds of the processor that this thread has used:
waits for the disk and for a busy machine do not count, but on a busy machine caches are colder. No network, no disk:
engines, shards and parsers alone.
"""

from __future__ import annotations

import argparse
import gc
import sys
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent.parent))

from broker.config.settings import EngineSettings, JournalSettings, Settings
from broker.core.address import AckMode, Outcome, Routing
from broker.core.commands import (
    UNLIMITED,
    Decide,
    Prepare,
    Publish,
    Resume,
    Settle,
    Subscribe,
    SubscribeAll,
    Unsubscribe,
)
from broker.core.effects import Deliver
from broker.core.ids import slot_of
from broker.engine.publishing import recurrence
from broker.link.edge_side.consumer_replay import ReplayedConsumer
from broker.selector.predicate import Predicate
from tests.sim.disk import SimDisk
from tests.sim.shard_machine import HandClock, Machine
from tests.unit.engine.world import run_of

Timed = Iterator[Callable[[], Any]]
"""Steps, one after the other; what happens between two of them is not measured."""
ALL: dict[str, Callable[[], Timed]] = {}


def scenario(made: Callable[[], Timed]) -> Callable[[], Timed]:
    """Its line is the first of its docstring."""
    ALL[made.__name__.replace("_", "-")] = made
    return made


class Owner:
    """A shard whose disk is memory."""

    def __init__(self, engine: EngineSettings | None = None) -> None:
        settings = Settings(engine=engine or EngineSettings(), journal=JournalSettings(min_free_bytes=0))
        self.held: list[int] = []
        self.machine = Machine(SimDisk(0), HandClock(), settings, self)
        self.shard = self.machine.shard

    def on_effects(self, effects: list[Any]) -> None:
        self.held += [id for effect in effects if isinstance(effect, Deliver) for id in effect.run.ids]

    def on_relief(self) -> None: ...
    def on_stopped(self, why: str) -> None:
        raise AssertionError(why)

    def turns(self, *commands: Any) -> Timed:
        """Each turn that these make."""
        self.shard.submit(list(commands))
        while self.machine.ready:
            yield self.machine.turn

    def do(self, *commands: Any) -> None:
        """Not measured."""
        self.shard.submit(list(commands))
        self.machine.quiesce()


# ── selectors ─────────────────────────────────────────────────────────────────────────────────────


def _texts() -> Iterator[str]:
    yield " OR ".join(["a = 1"] * 250)
    yield "a = " + "+".join("a" * 497)
    yield " OR ".join(["(((a)))"] * 125)
    yield " OR ".join(["a BETWEEN 1 AND 2"] * 166)
    yield "a LIKE '%" + "b_" * 4900 + "'"
    yield "a IN ('" + "','".join(map(str, range(3000))) + "')"


@scenario
def selector() -> Timed:
    """the text of one selector, as long as may be"""
    for text in _texts():
        yield lambda text=text: Predicate(text)


@scenario
def subscribes() -> Timed:
    """a turn with 200 browsers that have a selector each"""
    owner = Owner()
    owner.do(Publish(slot_of("q"), 1, 0, "q", Routing.ANYCAST, run_of(*[b"\n\0x"] * 1000)))
    browse = [
        Subscribe(slot_of("q"), 1, 0, n, "q", Routing.ANYCAST, AckMode.AUTO, selector=f"no = 'x{n}'", browse=True)
        for n in range(1, 201)
    ]
    yield from owner.turns(*browse)


@scenario
def begins() -> Timed:
    """consumers of queues that are not there yet: a turn"""
    names = [f"c{n}" for n in range(500)]
    consumers = [
        Subscribe(slot_of(name), 1, 0, n, name, Routing.ANYCAST, AckMode.CLIENT) for n, name in enumerate(names, 1)
    ]
    yield from Owner().turns(*consumers)


@scenario
def browser() -> Timed:
    """a browser that comes to 20,000 messages in 40 buckets, and looks on"""
    owner, slot = Owner(), slot_of("q")
    none = Subscribe(slot, 1, 0, 1, "q", Routing.ANYCAST, AckMode.CLIENT, selector="c = 'none'", room=UNLIMITED)
    some = [
        Subscribe(slot, 1, 0, n, "q", Routing.ANYCAST, AckMode.CLIENT, selector=f"c = '{n - 10}'", room=0)
        for n in range(10, 50)
    ]
    owner.do(none, *some)
    for n in range(20_000):
        run = run_of(b"\n%d\0" % n, lines=b"c:%d\n" % (7 * n % 40))
        owner.do(Publish(slot, 1, 0, "q", Routing.ANYCAST, run))
    yield from owner.turns(Subscribe(slot, 2, 0, 2, "q", Routing.ANYCAST, AckMode.AUTO, browse=True, room=UNLIMITED))


# ── transactions over several slots ───────────────────────────────────────────────────────────────


def _share() -> list[Any]:
    return [Publish(3, 1, 0, f"s{n}", Routing.ANYCAST, run_of(b"\n\0x", durable=True)) for n in range(1000)]


@scenario
def prepare() -> Timed:
    """1,000 parts of a transaction are prepared"""
    yield from Owner().turns(Prepare(3, 1, 5, "tx", 9, _share(), 1))


@scenario
def decide() -> Timed:
    """… and decided"""
    owner = Owner()
    owner.do(Prepare(3, 1, 5, "tx", 9, _share(), 1))
    yield from owner.turns(Decide(3, 1, 6, "tx", True))


# ── many queues ───────────────────────────────────────────────────────────────────────────────────


@scenario
def sleepers() -> Timed:
    """the first message for 2,000 wildcard subscriptions"""
    owner = Owner()
    for n in range(1, 2001):
        model = Subscribe(0, 1, 0, n * 256, "w.#", Routing.MULTICAST, AckMode.AUTO, room=UNLIMITED)
        owner.do(SubscribeAll(model))
    yield from owner.turns(Publish(slot_of("w.x"), 9, 1, "w.x", Routing.MULTICAST, run_of(b"\n\0x")))


@scenario
def subscribers() -> Timed:
    """50 messages for a topic with 2,000 subscribers"""
    owner, slot = Owner(), slot_of("t")
    auto = AckMode.AUTO
    owner.do(*[Subscribe(slot, 1, 0, n, "t", Routing.MULTICAST, auto, room=UNLIMITED) for n in range(1, 2001)])
    messages = [Publish(slot, 9, 0, "t", Routing.MULTICAST, run_of(b"\n\0x")) for _ in range(50)]
    yield from owner.turns(*messages)


def _nacks(durable: bool, settings: EngineSettings) -> Timed:
    owner, slot = Owner(settings), slot_of("q")
    owner.do(Subscribe(slot, 2, 0, 5, "q", Routing.ANYCAST, AckMode.INDIVIDUAL, credit_messages=UNLIMITED))
    for _ in range(4):
        owner.do(Publish(slot, 1, 0, "q", Routing.ANYCAST, run_of(*[b"\n\0"] * 640, durable=durable)))
    yield from owner.turns(*[Settle(slot, 2, 0, 5, [id], Outcome.NACK) for id in owner.held])


@scenario
def nacks() -> Timed:
    """single NACKs of durable messages, which come again: a turn"""
    return _nacks(True, EngineSettings())


@scenario
def dead_nacks() -> Timed:
    """single NACKs of durable messages, which become dead letters: a turn"""
    return _nacks(True, EngineSettings(addresses={"q": {"dead_letter_address": "d", "max_delivery_attempts": 1}}))


def _holding(many: int, settings: EngineSettings | None = None) -> Owner:
    """Consumer 5 of durable subscription `s` of topic t holds so many messages; it gave none back."""
    owner, slot = Owner(settings), slot_of("t")
    owner.do(_subscribe(5))
    run = [Publish(slot, 1, 0, "t", Routing.MULTICAST, run_of(b"\n\0", durable=True)) for _ in range(many)]
    for at in range(0, many, 1000):
        owner.do(*run[at : at + 1000])
    assert len(owner.held) == many
    return owner


def _subscribe(consumer: int) -> Subscribe:
    return Subscribe(
        slot_of("t"), 2, 0, consumer, "t", Routing.MULTICAST, AckMode.CLIENT, queue="s", durable=True,
        credit_messages=UNLIMITED, room=UNLIMITED,
    )  # fmt: skip


def _word(outcome: Outcome, many: int = 100_000, delay: int = 0, dies: bool = False, *behind: Any) -> Timed:
    letters = {"t": {"dead_letter_address": "d", "max_delivery_attempts": 1}} if dies else {}
    owner = _holding(many, EngineSettings(addresses=letters))
    yield from owner.turns(Settle(slot_of("t"), 2, 1, 5, [owner.held[-1]], outcome, delay), *behind)


@scenario
def whole_ack() -> Timed:
    """one ACK of 100,000 messages: a turn"""
    return _word(Outcome.ACK)


@scenario
def whole_nack() -> Timed:
    """one NACK of 100,000, which come again in an hour"""
    return _word(Outcome.NACK, delay=3_600_000)


@scenario
def whole_reject() -> Timed:
    """… of 20,000, which become dead letters"""
    return _word(Outcome.REJECT, 20_000, dies=True)


@scenario
def deleted() -> Timed:
    """… whose durable subscription is deleted behind it"""
    return _word(Outcome.REJECT, 20_000, 0, True, Unsubscribe(slot_of("t"), 2, 2, 5, "t", "s"))


@scenario
def deleted_failed() -> Timed:
    """… behind a NACK of 100,000, all of which have failed too often"""
    return _word(Outcome.NACK, 100_000, 0, True, Unsubscribe(slot_of("t"), 2, 2, 5, "t", "s"))


@scenario
def late_ack() -> Timed:
    """one ACK of 100,000 messages that others have settled meanwhile, which its client held at an earlier leader"""
    owner = _holding(100_000)
    first, last = owner.held[0], owner.held[-1]
    owner.do(Settle(slot_of("t"), 2, 1, 5, [last]))
    again = _subscribe(6)
    again.resumes(Resume([(first, last)], [], {}, []))
    owner.do(again)
    yield from owner.turns(Settle(slot_of("t"), 2, 2, 6, [last]))


def _again(named: int) -> Timed:
    """Consumer 6 comes and holds so many of 50,000 that are on their way back."""
    owner = _holding(50_000)
    shard = owner.shard
    shard.submit([Settle(slot_of("t"), 2, 1, 5, [owner.held[-1]], Outcome.NACK, 3_600_000)])
    owner.machine.turn()
    last, again = owner.held[-1], _subscribe(6)
    again.resumes(Resume([(last - named + 1, last)], [], {}, []))
    shard.submit([again])
    yield owner.machine.turn


@scenario
def comes_again() -> Timed:
    """a consumer that comes again and holds one of 50,000 messages that are on their way back: its turn"""
    return _again(1)


@scenario
def comes_again_with_all() -> Timed:
    """… and holds all of them"""
    return _again(50_000)


@scenario
def replayed() -> Timed:
    """an edge says what a consumer holds, 100,000 messages, to another owner"""
    consumer = ReplayedConsumer(_subscribe(5))
    for n in range(1, 100_001):
        run = run_of(b"\n\0", durable=True)
        run.ids = range(n, n + 1)
        consumer.delivered(run, 0)
    yield partial(consumer.again, 7)


@scenario
def expired() -> Timed:
    """250,000 messages in 250 runs whose time is over, for an expiry address: a turn"""
    owner, slot = Owner(EngineSettings(addresses={"q": {"expiry_address": "late"}})), slot_of("q")
    now = owner.machine.clock.now
    for _ in range(250):
        run = run_of(*[b"\n\0"] * 1000, expires=now + 1000)
        owner.do(Publish(slot, 1, 0, "q", Routing.ANYCAST, run))
    owner.machine.advance(5000)
    while owner.machine.ready:
        yield owner.machine.turn


def _ring(addresses: dict[str, Any], routing: Routing) -> Timed:
    owner, slot = Owner(EngineSettings(addresses=addresses)), slot_of("r")
    for n in range(2000):
        owner.do(Publish(slot, 9, 0, "r", routing, run_of(b"\n\n%010d\0" % n)))
    yield from owner.turns(Publish(slot, 9, 1, "r", routing, run_of(b"\n\n%b\0" % (b"x" * 25_900))))


@scenario
def ring() -> Timed:
    """one message that pushes 2,000 out of a ring of bytes"""
    return _ring({"r": {"ring_bytes": 26_000}}, Routing.ANYCAST)


@scenario
def ring_letters() -> Timed:
    """… that become dead letters"""
    return _ring({"r": {"ring_bytes": 26_000, "ring_dead_letters": True}}, Routing.ANYCAST)


@scenario
def kept_messages() -> Timed:
    """… out of what is kept for those who come later"""
    return _ring({"r": {"retroactive_messages": 5000, "retroactive_bytes": 26_000}}, Routing.MULTICAST)


@scenario
def cron() -> Timed:
    """one cron expression that never comes"""
    recurrence._tick.cache_clear()
    for minute in range(20):
        yield lambda minute=minute: _in_vain(f"{minute} 7 */31 2 MON#5")


def _in_vain(cron: str) -> None:
    try:
        recurrence.tick(cron, "Europe/Berlin", 1_700_000_000_000)
    except Exception:
        return
    raise AssertionError(cron)


def longest(name: str) -> tuple[float, int]:
    """Milliseconds of its longest step, and how many there were."""
    worst, count = 0.0, 0
    for step in ALL[name]():
        began = time.thread_time()
        step()
        worst = max(worst, time.thread_time() - began)
        count += 1
    return 1000 * worst, count


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", default="", help=f"comma list of {', '.join(ALL)}")
    parser.add_argument("--runs", type=int, default=3, help="of each, of which the best counts (default 3)")
    given = parser.parse_args()
    gc.disable()  # how long a broker's collections take is bounded elsewhere (app/process/garbage.py)
    print("| step | longest ms | steps |\n| --- | ---: | ---: |")
    for name in [name for name in given.only.split(",") if name] or ALL:
        worst, count = min(longest(name) for _ in range(given.runs))
        print(f"| {ALL[name].__doc__} | {worst:.1f} | {count} |", flush=True)


if __name__ == "__main__":
    main()
