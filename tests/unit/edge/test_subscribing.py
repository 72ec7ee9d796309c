"""What headers of SUBSCRIBE ask of the owner: selectors, no-local, windows and rates."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest

from broker.config.addressing import AddressSettings
from broker.config.settings import EngineSettings
from broker.core.address import Routing
from broker.core.commands import UNLIMITED, Grant, Publish, Subscribe, Unsubscribe
from broker.core.effects import Deliver
from broker.core.errors import Code
from broker.core.message import REDELIVERED, Run
from broker.edge.requests.inbound import BEGUN
from broker.wire.versions import Version

from .bench import Bench


def subscribe(bench: Bench, headers: str, destination: str = "/queue/a") -> tuple[Subscribe | None, bytes]:
    """The command, or what the client was told instead."""
    session, wire = bench.session()
    bench.port.commands.clear()
    session.receive(f"SUBSCRIBE\nid:1\ndestination:{destination}\nreceipt:r\n{headers}\n\0".encode())
    asked = [getattr(command, "model", command) for command in bench.port.commands]
    commands = [command for command in asked if isinstance(command, Subscribe)]
    return (commands[0] if commands else None), wire.take()


def grants(bench: Bench) -> int:
    found = [command.nbytes for command in bench.port.commands if isinstance(command, Grant)]
    bench.port.commands.clear()
    return sum(found)


def deliver(bench: Bench, command: Subscribe, count: int) -> int:
    run = Run(range(1, count + 1), b"\n", [b"x\0"] * count, 3 * count)
    cost = run.nbytes + count * command.overhead
    bench.edge.on_effects([Deliver(command.consumer, run, cost)])
    return cost


async def test_selector_and_no_local_go_to_the_owner():
    command, _ = subscribe(Bench(), "selector:a = 'x'\nno-local:true\n")
    assert command is not None and (command.selector, command.no_local) == ("a = 'x'", True)
    command, _ = subscribe(Bench(), "activemq.noLocal:TRUE\n")
    assert command is not None and (command.selector, command.no_local) == (None, True)
    command, _ = subscribe(Bench(), "no-local:false\nactivemq.noLocal:true\n")
    assert command is not None and not command.no_local


@pytest.mark.parametrize(
    ("header", "value", "code"),
    [
        ("selector", "a =", "BAD_SELECTOR"), ("selector", "", "BAD_SELECTOR"), ("selector", "(" * 999, "BAD_SELECTOR"),
        ("no-local", "maybe", "BAD_HEADER"), ("activemq.noLocal", "1", "BAD_HEADER"),
        ("consumer-window-size", "lots", "BAD_HEADER"), ("consumer-window-size", "-2", "BAD_HEADER"),
        ("activemq.prefetchSize", "1.5", "BAD_HEADER"), ("prefetch-count", "-1", "BAD_HEADER"),
        ("consumer-max-rate", "-5", "BAD_HEADER"), ("consumer-priority", "high", "BAD_HEADER"),
        ("browser", "yes", "BAD_HEADER"),
    ],
)  # fmt: skip
@pytest.mark.parametrize("destination", ["/queue/a", "/topic/a.#"])
async def test_a_value_that_cannot_be_is_named_at_once(header, value, code, destination):
    command, told = subscribe(Bench(), f"{header}:{value}\n", destination)
    assert command is None and told.startswith(b"ERROR") and b"receipt-id:r" in told
    assert b"error-code:%d" % Code[code].number in told
    assert value[:50].encode() in told


@pytest.mark.parametrize("destination", ["a.#", "a.*", "a.b.#"])
async def test_a_wildcard_needs_no_prefix_where_plain_names_are_topics(destination):
    bench = Bench()
    command, told = subscribe(bench, "", destination)
    assert command is None and b"only topics have wildcards" in told
    bench.edge.configure(replace(EngineSettings(), address=AddressSettings(default_routing="MULTICAST")))
    command, _ = subscribe(bench, "", destination)
    assert command is not None and (command.address, command.routing) == (destination, Routing.MULTICAST)
    command, told = subscribe(bench, "subscription-type:ANYCAST\n", destination)
    assert command is None and b"only topics have wildcards" in told


async def test_xpath_is_refused_with_what_to_do():
    command, told = subscribe(Bench(), "selector:XPATH '//a'\n")
    assert command is None and b"error-code:1310" in told and b"engine.xpath = true" in told


@pytest.mark.parametrize(
    ("headers", "most"),
    [
        ("", None), ("consumer-window-size:-1\n", None), ("consumer-window-size:540\n", 540),
        ("consumer-window-size:0\n", 1), ("activemq.prefetchSize:1\n", 1),
        ("consumer-window-size:700\nactivemq.prefetchSize:1\n", 700), ("prefetch-count:5\n", None),
    ],
)  # fmt: skip
async def test_in_auto_mode_a_window_bounds_what_is_under_way_and_never_stalls(headers, most):
    bench = Bench()
    command, _ = subscribe(bench, headers)
    assert command is not None and (command.credit_messages, command.credit_bytes) == (UNLIMITED, UNLIMITED)
    if most is None:
        assert command.room > 1000
        return
    assert command.room == most
    cost = deliver(bench, command, 5)
    assert grants(bench) == cost  # as soon as it is written


async def test_the_default_window_is_the_address_s_then_the_acceptor_s():
    bench = Bench()
    engine = EngineSettings(addresses={"a": {"consumer_window_bytes": 777}, "b": {"consumer_window_bytes": -1}})
    by_acceptor = subscribe(bench, "ack:client\n")[0]
    bench.edge.configure(engine)
    found = [subscribe(bench, "ack:client\n", f"/queue/{name}")[0] for name in "abc"]
    assert [command.credit_bytes for command in found] == [777, UNLIMITED, by_acceptor.credit_bytes]
    assert [command.credit_messages for command in found] == [1000, UNLIMITED, 1000]
    assert subscribe(bench, "ack:client\nconsumer-window-size:5\n")[0].credit_bytes == 5


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


async def test_a_10_client_may_unsubscribe_by_destination_what_it_subscribed_with_an_id():
    bench = Bench()
    session, wire = bench.session()
    session.wire.version = Version.V10
    for id in (b"1", b"2"):
        session.receive(b"SUBSCRIBE\nid:%b\ndestination:/queue/q%b\n\n\0" % (id, id))
    second = bench.port.last(Subscribe).consumer
    session.receive(b"UNSUBSCRIBE\ndestination:/queue/q2\n\n\0")
    assert bench.port.last(Unsubscribe).consumer == second and list(session.subscriptions) == ["1"]
    session.receive(b"UNSUBSCRIBE\ndestination:/queue/q2\n\n\0")
    assert b"error-code:1307" in wire.sent


@pytest.mark.parametrize("version", list(Version))
@pytest.mark.parametrize("first", [1, 123_456, (89 << 40) + 7])
async def test_a_window_counts_numbers_as_long_as_they_are(version, first):
    """With fourteen digits for all of them a window of small messages was 17 % too small."""
    bench = Bench()
    session, wire = bench.session()
    session.wire.version = version
    for turn in (1, 2):
        session.receive(b"SUBSCRIBE\nid:%d\ndestination:q\nack:client\n\n\0" % turn)
        command = bench.port.last(Subscribe)
        wire.take()
        run = Run(range(first, first + 1), b"\n", [b"x\0"], 3)
        bench.edge.on_effects([Deliver(command.consumer, run, 3 + command.overhead)])
        wrong = len(wire.take()) - (3 + command.overhead)
        assert wrong == 0 if turn == 2 else abs(wrong) <= 18
        first += 1


async def test_lengths_of_time_go_to_the_owner_as_such():
    """Its clock makes points of time of them; ours may be hours off."""
    bench = Bench()
    session, _ = bench.session()
    for headers, lengths in (
        (b"ttl:5000\n", (5000, 0)),
        (b"AMQ_SCHEDULED_DELAY:700\n", (0, 700)),
        (b"expires:99\n", (0, 0)),
        (b"AMQ_SCHEDULED_TIME:99\n", (0, 0)),
    ):
        bench.port.commands.clear()
        session.receive(b"SEND\ndestination:/queue/q\n%b\nx\0" % headers)
        publish = bench.port.last(Publish)
        assert (publish.ttl, publish.delay) == lengths
        assert publish.run.expires or publish.run.due


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
