"""SUBSCRIBE carried out: its parts, their rate, what is told of each message, and how many begin in a turn."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest

from broker.config.settings import EngineSettings
from broker.core.commands import Subscribe
from broker.core.effects import Deliver
from broker.core.message import REDELIVERED, Run
from broker.edge.requests.inbound import BEGUN

from .bench import Bench
from .subscriber import deliver, grants, subscribe


async def test_a_rate_over_several_parts_counts_them_together_and_ends_with_the_subscription():
    bench = Bench()
    bench.edge.configure(replace(EngineSettings(), addresses={"q": {"partitions": 2}}))
    session, _ = bench.session()
    bench.port.commands.clear()
    session.receive(b"SUBSCRIBE\nid:1\ndestination:q\nconsumer-max-rate:40\n\n\0")
    parts = [command for command in bench.port.commands if isinstance(command, Subscribe)]
    bench.port.commands.clear()
    for part in parts:
        deliver(bench, part, 15)
    assert grants(bench) and len(bench.edge.beats) >= 1
    session.receive(b"UNSUBSCRIBE\nid:1\n\n\0")
    bench.port.commands.clear()
    await asyncio.sleep(0.5)
    assert grants(bench) == 0


@pytest.mark.parametrize("stop", ["large", "not reading"])
async def test_a_rated_subscription_goes_on_when_what_it_has_leaves_later_than_its_rate_says(stop):
    bench = Bench()
    session, _ = bench.session()
    session.receive(b"SUBSCRIBE\nid:1\ndestination:q\nconsumer-max-rate:20\n\n\0")
    command = bench.port.last(Subscribe)
    deliver(bench, command, 10)
    assert grants(bench)
    if stop == "large":
        reader = bench.deliver_large(command.consumer, 2000)
    else:
        session.pause_writing()
        deliver(bench, command, 1)
    await asyncio.sleep(0.2)
    assert grants(bench) == 0
    if stop == "large":
        reader.turn()
    else:
        session.resume_writing()
    assert grants(bench) > 0
    deliver(bench, command, 20)
    assert grants(bench) == 0, "it waits again"


@pytest.mark.parametrize("more", ["", "ack:client-individual\n"])
async def test_who_asks_is_told_the_slot_of_each_message_and_pays_for_it(more):
    bench = Bench()
    bench.edge.configure(replace(EngineSettings(), addresses={"q": {"partitions": 3}}))
    session, wire = bench.session()
    for id, header in (("1", ""), ("2", "message-slot:true\n"), ("3", "message-slot:false\n")):
        bench.port.commands.clear()
        session.receive(f"SUBSCRIBE\nid:{id}\ndestination:q\n{header}{more}\n\0".encode())
        parts = [command for command in bench.port.commands if isinstance(command, Subscribe)]
        assert len(parts) == 3
        wire.take()
        for part in parts:
            for flags in (0, REDELIVERED):
                deliver_flagged(bench, part, flags)
                told = wire.take()
                assert (b"\nmessage-slot:%d\n" % part.slot in told) == (id == "2")
        if id == "2":
            told_of = parts
        elif id == "3":
            longer = [old.overhead - new.overhead for new, old in zip(parts, told_of, strict=True)]
            assert longer == [len(f"message-slot:{part.slot}\n") for part in parts]
    command, told = subscribe(Bench(), "message-slot:perhaps\n")
    assert command is None and b"error-code:1302" in told


def deliver_flagged(bench: Bench, command: Subscribe, flags: int) -> None:
    run = Run(range(1, 2), b"\n", [b"x\0"], 3, flags)
    bench.edge.on_effects([Deliver(command.consumer, run, 3 + command.overhead)])


async def test_everybody_else_has_a_turn_after_a_selector_as_long_as_may_be():
    """One is compiled in up to 5 ms (docs/adr/0009), and a read of 64 KiB has six of them."""
    bench = Bench()
    session, _ = bench.session()
    bench.port.commands.clear()
    texts = [" OR ".join([f"a{n} = {m}" for m in range(200)]) for n in range(6)]
    frames = [f"SUBSCRIBE\nid:{n}\ndestination:/queue/a\nselector:{text}\n\n\0" for n, text in enumerate(texts)]
    session.receive("".join(frames).encode())
    seen = [len(bench.port.commands)]
    while len(bench.port.commands) < 6:
        await asyncio.sleep(0)
        seen.append(len(bench.port.commands))
        assert len(seen) < 100
    assert max(after - before for before, after in zip([0, *seen], seen, strict=False)) == 1
    assert [command.selector for command in bench.port.commands] == texts


@pytest.mark.parametrize(("selector", "most"), [("", BEGUN), ("selector:a = 1\n", BEGUN // 2)])
async def test_a_read_full_of_subscriptions_is_taken_in_turns(selector: str, most: int):
    """128 frames were 6 to 13 ms: a SUBSCRIBE takes ten times as long as a SEND."""
    bench = Bench()
    session, _ = bench.session()
    bench.port.commands.clear()
    frames = [f"SUBSCRIBE\nid:{n}\ndestination:/queue/a\n{selector}\n\0" for n in range(120)]
    session.receive("".join(frames).encode())
    seen = [len(bench.port.commands)]
    while seen[-1] < 120:
        await asyncio.sleep(0)
        seen.append(len(bench.port.commands))
        assert len(seen) < 100
    assert max(after - before for before, after in zip([0, *seen], seen, strict=False)) == most
