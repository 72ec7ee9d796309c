"""Subscriptions with several parts and messages for several slots, against owners turned by hand."""

from __future__ import annotations

import asyncio

import pytest

from broker.config.settings import EngineSettings
from broker.core.commands import Grant, Publish, Settle, Subscribe, SubscribeAll, Unsubscribe, UnsubscribeAll
from broker.core.effects import BrowseEnd, Deliver, Done, Refused
from broker.core.errors import Code
from broker.core.ids import SLOTS, slot_of, slots_of
from broker.core.message import Blob, Run
from broker.core.reasons import Reason
from broker.edge.destinations.partitioner import group_of

from .bench import Bench

THREE = EngineSettings(addresses={"q": {"partitions": 3}})


def bench() -> Bench:
    bench = Bench()
    bench.edge.configure(THREE)
    return bench


def commands(bench: Bench, kind: type) -> list:
    found = [command for command in bench.port.commands if type(command) is kind]
    bench.port.commands.clear()
    return found


def subscribe(bench: Bench, session, **headers: str) -> list[Subscribe]:
    lines = "".join(f"{name.replace('_', '-')}:{value}\n" for name, value in headers.items())
    session.receive(b"SUBSCRIBE\nid:1\ndestination:q\n%b\n\0" % lines.encode())
    return commands(bench, Subscribe)


def deliver(bench: Bench, part: Subscribe, *ids: int) -> None:
    run = Run(range(ids[0], ids[-1] + 1), b"\n", [b"x\0"] * len(ids), 3 * len(ids))
    bench.edge.on_effects([Deliver(part.consumer, run, run.nbytes + len(run) * part.overhead)])


def ack(session, bench: Bench, part: Subscribe, number: int) -> list[tuple[int, list[int]]]:
    session.receive(b"ACK\nid:boot-%d-%d\n\n\0" % (part.consumer, number))
    return [(settle.consumer, list(settle.ids)) for settle in commands(bench, Settle)]


def test_partitions_have_slots_of_their_own_and_keep_them_when_there_are_more():
    for address in ("a", "orders", "x.y.z"):
        slots = slots_of(address, 64)
        assert slots[0] == slot_of(address) and len(set(slots)) == 64
        assert slots_of(address, 5) == slots[:5] and slots_of(address, 1) == slots[:1]
    assert sorted(slots_of("a", 1000)) == list(range(SLOTS))


@pytest.mark.parametrize("order", [1, -1])
async def test_the_receipt_comes_when_all_parts_have_answered_in_whatever_order(order):
    world = bench()
    session, wire = world.session()
    parts = subscribe(world, session, receipt="r")
    assert len({part.slot for part in parts}) == 3
    for part in parts[::order]:
        assert not wire.take()
        world.edge.on_effects([Done(session.id, part.seq)])
    assert b"receipt-id:r" in wire.take()
    session.receive(b"UNSUBSCRIBE\nid:1\nreceipt:u\n\n\0")
    ends = commands(world, Unsubscribe)
    assert [end.consumer for end in ends] == [part.consumer for part in parts]
    world.edge.on_effects([Done(session.id, end.seq) for end in ends])
    assert b"receipt-id:u" in wire.take() and not world.edge.consumers


async def test_window_and_room_are_divided():
    world = bench()
    session, _ = world.session()
    parts = subscribe(world, session, ack="client-individual", prefetch_count="300", consumer_window_size="3000")
    assert {(part.credit_messages, part.credit_bytes, part.room) for part in parts} == {(100, 1000, (1 << 20) // 3)}


async def test_a_small_window_is_not_divided():
    world = bench()
    session, _ = world.session()
    parts = subscribe(world, session, ack="client-individual", prefetch_count="10")
    assert {part.credit_messages for part in parts} == {10} and len(parts) == 3


async def test_an_ack_covers_what_was_delivered_before_it_by_all_parts():
    world = bench()
    session, _ = world.session()
    a, b, c = subscribe(world, session, ack="client")
    deliver(world, a, 1, 2)
    deliver(world, b, 7)
    deliver(world, a, 3, 4, 5)
    deliver(world, c, 9)
    assert ack(session, world, a, 4) == [(a.consumer, [4]), (b.consumer, [7])]
    assert ack(session, world, c, 9) == [(a.consumer, [5]), (c.consumer, [9])]


async def test_what_exceeds_the_window_waits_and_its_room_is_given_back_when_it_is_shown():
    world = bench()
    session, wire = world.session()
    a, b, c = subscribe(world, session, ack="client-individual", prefetch_count="1", consumer_window_size="1")
    for number, part in enumerate((a, b, c), 1):
        deliver(world, part, number)
    assert wire.take().count(b"MESSAGE") == 1
    ack(session, world, a, 1)
    assert wire.take().count(b"MESSAGE") == 1
    session.receive(b"ACK\nid:boot-%d-2\n\n\0ACK\nid:boot-%d-9\n\n\0" % (b.consumer, c.consumer))
    assert wire.take().count(b"MESSAGE") == 1
    assert not [command for command in world.port.commands if isinstance(command, Grant)]


async def test_a_run_that_exceeds_the_window_of_a_wildcard_is_cut():
    world = Bench()
    session, wire = world.session()
    session.receive(b"SUBSCRIBE\nid:1\ndestination:/topic/a.#\nack:client\nprefetch-count:4\n\n\0")
    [command] = commands(world, SubscribeAll)
    parts = list(command.parts())
    assert len(parts) == SLOTS and {part.credit_messages for part in parts} == {4}
    deliver(world, parts[0], 1, 2, 3)
    deliver(world, parts[1], 1, 2, 3)
    assert wire.take().count(b"MESSAGE") == 4
    assert ack(session, world, parts[0], 2) == [(parts[0].consumer, [2])]
    assert wire.take().count(b"MESSAGE") == 2
    assert ack(session, world, parts[1], 3) == [(parts[0].consumer, [3]), (parts[1].consumer, [3])]


async def test_a_browser_ends_once():
    world = bench()
    session, wire = world.session()
    parts = subscribe(world, session, browser="true")
    for part in parts:
        assert b"browser:end" not in wire.take()
        world.edge.on_effects([BrowseEnd(part.consumer)])
    assert wire.take().count(b"browser:end") == 1


async def test_the_end_of_the_session_reaches_every_slot():
    world = bench()
    session, _ = world.session()
    parts = subscribe(world, session)
    session.abort(Reason.CLIENT_GONE)
    assert sorted(command.slot for command in world.port.commands) == sorted(part.slot for part in parts)
    assert not world.edge.consumers


@pytest.mark.parametrize(
    ("lines", "group"),
    [
        (b"JMSXGroupID:a\nx:y\n", b"a"),
        (b"x:y\nJMSXGroupID:\n\nbody\0", b""),
        (b"x:y\n\nJMSXGroupID:in the body\n\0", None),
        (b"xJMSXGroupID:a\n", None),
        (b"\nJMSXGroupID:in the body\n\0", None),
    ],
)
def test_the_group_is_read_from_headers_only(lines, group):
    assert group_of(lines) == group


@pytest.mark.parametrize("singly", [False, True])
async def test_frames_of_one_read_are_sorted_by_group_and_each_receipt_comes_once(singly):
    world = bench()
    if singly:
        world.edge.configure(
            EngineSettings(addresses={"q": {"partitions": 3, "full_policy": "FAIL", "max_size_bytes": 1 << 30}})
        )
        assert world.edge.singly is not None and world.edge.singly("q")
    session, wire = world.session()
    groups = [b"%d" % (number % 7) for number in range(30)]
    session.receive(
        b"".join(b"SEND\ndestination:q\nJMSXGroupID:%b\nreceipt:r%d\n\n%d\0" % (g, n, n) for n, g in enumerate(groups))
    )
    publishes = commands(world, Publish)
    where: dict[bytes, set[int]] = {}
    for publish in publishes:
        for record in publish.run.records:
            text = publish.run.lines + record
            where.setdefault(text.split(b"JMSXGroupID:")[1].split(b"\n")[0], set()).add(publish.slot)
        assert publish.run.nbytes == sum(len(publish.run.lines + record) for record in publish.run.records)
    assert sum(len(publish.run) for publish in publishes) == 30
    assert all(len(slots) == 1 for slots in where.values()) and len(set.union(*where.values())) > 1
    world.edge.on_effects([Done(session.id, publish.seq) for publish in reversed(publishes)])
    sent = wire.take()
    assert sorted(sent.count(b"receipt-id:r%d\n" % number) for number in range(30)) == [1] * 30


async def test_runs_take_turns():
    world = bench()
    session, _ = world.session()
    for _ in range(6):
        session.receive(b"SEND\ndestination:q\n\nx\0")
    slots = [publish.slot for publish in commands(world, Publish)]
    assert slots[:3] == slots[3:] and sorted(slots[:3]) == sorted(slots_of("q", 3))


async def test_a_large_message_goes_where_its_group_goes():
    world = bench()
    session, _ = world.session()
    frames = [
        b"SEND\ndestination:q\nJMSXGroupID:g\n\nx\0",
        b"SEND\ndestination:q\nJMSXGroupID:g\ncontent-length:2000\n\n" + b"x" * 2000 + b"\0",
    ]
    for number in range(3):
        session.receive(frames[1])
        world.port.writers[number].finished(Blob(1, 2000), "")
    session.receive(frames[0])
    assert len({publish.slot for publish in commands(world, Publish)}) == 1


@pytest.mark.parametrize(("shares", "more"), [(True, b"browser:true\n"), (False, b"")])
async def test_wildcards_with_a_part_in_every_slot_are_counted_by_themselves(shares, more):
    """Browsing and durable ones have a queue there, and in a cluster the others still have something."""
    bench = Bench(max_wildcard_subscriptions=2)
    bench.port.shares_wildcards = shares
    session, wire = bench.session()
    for number in range(5):
        session.receive(b"SUBSCRIBE\nid:q%d\ndestination:/topic/q%d\n\n\0" % (number, number))
    for number in range(2):
        session.receive(b"SUBSCRIBE\nid:%d\ndestination:/topic/w%d.#\n%b\n\0" % (number, number, more))
    session.receive(b"UNSUBSCRIBE\nid:0\n\n\0SUBSCRIBE\nid:0\ndestination:/topic/w3.#\n%b\n\0" % more)
    await taken(session, bench)
    assert wire.closed is None and len(session.subscriptions) == 7
    bench.port.commands.clear()
    session.receive(b"SUBSCRIBE\nid:3\ndestination:/topic/w4.#\nreceipt:r\n%b\n\0" % more)
    assert not [command for command in bench.port.commands if isinstance(command, Subscribe | SubscribeAll)]
    said = wire.take()
    assert b"error-code:1502" in said and b"max_wildcard_subscriptions" in said and wire.closed is not None


async def taken(session, bench) -> int:
    """Nothing of the session waits for a turn of the loop any more, nor for an answer of owners. How many turns."""
    turns = told = 0
    while session.inbound.parked:
        await asyncio.sleep(0)
        turns += 1
        seqs = [
            wide.seq for wide in bench.port.commands if isinstance(wide, SubscribeAll | UnsubscribeAll) and wide.seq
        ]
        bench.edge.on_effects([Done(session.id, seq) for seq in seqs[told:]])
        told = len(seqs)
    return turns


@pytest.mark.parametrize(("shares", "more"), [(True, b"browser:true\n"), (False, b"")])
async def test_what_reaches_into_every_slot_is_asked_for_once_a_turn_of_the_loop(shares, more):
    """A read of many such SUBSCRIBEs would hold everybody else up, 256 commands each."""
    bench = Bench(max_wildcard_subscriptions=100)
    bench.port.shares_wildcards = shares
    session, wire = bench.session()
    frames = b"".join(b"SUBSCRIBE\nid:%d\ndestination:/topic/w%d.#\n%b\n\0" % (n, n, more) for n in range(5))
    ends = b"".join(b"UNSUBSCRIBE\nid:%d\n\n\0" % n for n in range(5))
    session.receive(frames + ends + b"SEND\ndestination:/queue/q\n\nx\0")
    assert len(session.subscriptions) == 1, "one of them, and the rest waits"
    assert await taken(session, bench) >= 9 and wire.closed is None
    assert not session.subscriptions and isinstance(bench.port.commands[-1], Publish)


async def test_in_a_cluster_one_wildcard_of_a_connection_is_under_way_at_a_time():
    """200 of one connection are 51,200 requests to owners, and what others send stood behind all of them."""
    bench = Bench(max_wildcard_subscriptions=100)
    bench.port.shares_wildcards = False
    session, wire = bench.session()
    frames = b"".join(b"SUBSCRIBE\nid:%d\ndestination:/topic/w%d.#\n\n\0" % (n, n) for n in range(3))
    session.receive(frames + b"UNSUBSCRIBE\nid:0\n\n\0SEND\ndestination:/queue/q\nreceipt:r\n\nx\0")
    for number in range(4):
        await asyncio.sleep(0.01)
        asked = [wide for wide in bench.port.commands if isinstance(wide, SubscribeAll | UnsubscribeAll)]
        assert len(asked) == number + 1 and session.inbound.parked, "it waits for the answer, not for the loop"
        session.inbound.pause_reading("owner")
        session.inbound.resume_reading("owner")
        bench.edge.on_effects([Done(session.id, asked[-1].seq)])
    await asyncio.sleep(0.01)
    send = bench.port.commands[-1]
    assert isinstance(send, Publish) and not session.inbound.parked
    bench.edge.on_effects([Done(session.id, send.seq)])
    assert wire.take().count(b"RECEIPT") == 1


async def test_a_wildcard_that_is_refused_in_a_cluster_is_not_taken_for_the_frame_behind_it():
    bench = Bench()
    bench.port.shares_wildcards = False
    session, wire = bench.session()
    session.receive(b"SUBSCRIBE\nid:1\ndestination:/topic/a.#\n\n\0SEND\ndestination:/queue/q\nreceipt:r\n\nx\0")
    bench.edge.on_effects([Refused(session.id, bench.port.last(SubscribeAll).seq, Code.OWNER_UNAVAILABLE, "why")])
    said = wire.take()
    assert b"ERROR" in said and b"receipt-id" not in said and wire.closed is not None


@pytest.mark.parametrize("how", ["eof", "abort"])
async def test_an_end_finds_what_waits_for_its_turn(how):
    """What a client sent before it hung up counts; of one that was cut off nothing is left."""
    bench = Bench()
    bench.port.shares_wildcards = False
    session, wire = bench.session()
    session.receive(b"SUBSCRIBE\nid:1\ndestination:/topic/a.#\n\n\0SEND\ndestination:/queue/q\n\nx\0")
    session.eof() if how == "eof" else session.abort(Reason.CLIENT_GONE)
    await asyncio.sleep(0.01)
    assert (Publish in {type(command) for command in bench.port.commands}) == (how == "eof")
    asked = [wide.seq for wide in bench.port.commands if isinstance(wide, SubscribeAll)]
    bench.edge.on_effects([Done(session.id, seq) for seq in asked])
    assert wire.closed is not None and not bench.edge.consumers and not bench.edge.wildcards
