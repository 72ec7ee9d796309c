"""What headers of SUBSCRIBE ask of the owner: selectors, no-local, windows."""

from __future__ import annotations

from dataclasses import replace

import pytest

from broker.config.addressing import AddressSettings
from broker.config.settings import EngineSettings
from broker.core.address import Routing
from broker.core.commands import UNLIMITED, Subscribe
from broker.core.effects import Deliver
from broker.core.errors import Code
from broker.core.message import Run
from broker.wire.versions import Version

from .bench import Bench
from .subscriber import deliver, grants, subscribe


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
