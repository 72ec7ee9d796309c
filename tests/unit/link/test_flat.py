"""The flat form of the link says the same as protobuf, and refuses what is none."""

from __future__ import annotations

import random
from functools import partial

import pytest

from broker.core.address import AckMode, Outcome, Routing
from broker.core.commands import Barrier, Grant, Publish, Settle, Subscribe
from broker.core.effects import Deliver, Done, Refused
from broker.core.errors import Code, ProtocolViolation
from broker.core.message import BLOB, DURABLE, Blob, Run
from broker.link.codec.codec import SlotState, decode_down, decode_up
from broker.link.codec.command_codec import put_command, read_commands
from broker.link.codec.effect_codec import DownBuilder, read_effects
from broker.link.codec.flat import FlatBuilder, joined, parted, put_flat, read_flat, read_flat_effects
from broker.rpc.v1 import link_pb2 as pb
from tests.unit.link.test_command_codec import SLOT, TOKEN, at_owner, commands, fields
from tests.unit.link.world import Edge, Owner, World, make_settings, run_of


def several():
    """What test_command_codec has, and what is said flat."""
    returned = Run([7, 3, 9], b"a:b\n", [b"\n1\0", b"\n22\0", b"\n\0"], 20, DURABLE, 3, 5, 6, 2, 0, None, 77)
    large = Run(range(5, 6), b"", [b"a:b\n\n"], 105, BLOB, blob=Blob(4, 99))
    timed = Publish(SLOT, 0, 21 << 8 | SLOT, "a", Routing.UNSET, returned, "q", False, (1, 21))
    timed.lasts(5, 6)
    return [
        *commands(), timed, Publish(SLOT, 1, 2, "b", Routing.MULTICAST, large),
        Settle(SLOT, 1, 2, 3, range(5, 9), Outcome.NACK, 7), Settle(SLOT, 1, 2, 3, [5, 8]),
        Grant(SLOT, 3, 1 << 40), Barrier(SLOT, 0, 5),
    ]  # fmt: skip


def by_protobuf(some):
    up = pb.Up()
    for command in some:
        put_command(command, up)
    return read_commands(decode_up(up.SerializeToString()), TOKEN)


def by_flat(some):
    flat, up = parted(joined(put_flat(some), pb.Up(batch=7).SerializeToString()), pb.Up)
    assert flat is not None and up.batch == 7
    return read_flat(flat, TOKEN)


def test_commands_are_the_same_both_ways():
    some = several()
    assert [fields(each) for each in by_flat(some)] == [fields(each) for each in by_protobuf(some)]
    assert [type(each) for each in by_flat(some)] == [type(each) for each in some]


def told(builder):
    one, other = (
        run_of(b"x" * 5000, b"y", ids=range(10, 12)),
        run_of(
            b"z",
            ids=[
                5,
            ],
        ),
    )
    builder.done(at_owner(1), 256)
    for consumer in (1, 2, 3):
        builder.deliver(at_owner(consumer), other, 10)
        builder.deliver(at_owner(consumer), one, 20)
    builder.other(Refused(at_owner(4), 512, Code.DISK_FULL, "why"))
    builder.other(SlotState(9, 4, 1))
    for seq in (1, 2):
        builder.done(at_owner(7), seq)
    builder.deliver(at_owner(1), one.cut(slice(1, None)), 5)


def test_effects_are_the_same_both_ways_and_a_shared_run_travels_once():
    flat, usual = FlatBuilder(), DownBuilder()
    told(flat)
    told(usual)
    assert (flat.count, flat.nbytes) == (usual.count, usual.nbytes)
    message = joined(flat.flat(), flat.finish().SerializeToString())
    assert len(message) < 5600
    data, _ = parted(message, pb.Down)
    assert data is not None
    effects, expected = read_flat_effects(data), read_effects(decode_down(usual.finish().SerializeToString()))
    assert [fields(each) for each in effects] == [fields(each) for each in expected]
    deliveries = [each for each in effects if type(each) is Deliver]
    assert deliveries[1].run is deliveries[3].run


def test_what_is_not_flat_is_as_it_was():
    assert parted(pb.Up(ping=True).SerializeToString(), pb.Up) == (None, pb.Up(ping=True))
    assert FlatBuilder().flat() == b""
    for size in (0, 1, 127, 128, 16_384, 70_000):
        flat, up = parted(joined(b"x" * size, pb.Up(taken=3).SerializeToString()), pb.Up)
        assert flat is not None and bytes(flat) == b"x" * size and up.taken == 3


WRONG = {
    "a slot": Grant(256, 1, 1), "a session": Barrier(1, 1 << 40, 5), "a number below 0": Grant(1, 1, -1),
    "a routing": Publish(1, 1, 1, "a", 9, run_of(b"x")),  # type: ignore[arg-type]
    "a priority": Publish(1, 1, 1, "a", Routing.ANYCAST, run_of(b"x", priority=10)),
    "ids": Publish(1, 1, 1, "a", Routing.ANYCAST, run_of(b"x", b"y", ids=[1])),
    "no body": Publish(1, 1, 1, "a", Routing.ANYCAST, run_of(b"x", flags=BLOB)),
    "no message": Publish(1, 1, 1, "a", Routing.ANYCAST, Run([], b"", [], 0)),
}  # fmt: skip


@pytest.mark.parametrize("wrong", WRONG.values(), ids=WRONG)
def test_what_contradicts_itself_is_refused_as_a_whole(wrong):
    with pytest.raises(ProtocolViolation):
        by_flat([Grant(1, 1, 1), wrong])


def test_whatever_bytes_come_it_is_a_violation_or_a_message():
    rng = random.Random(1)
    flat = FlatBuilder()
    told(flat)
    whole = [
        (joined(put_flat(several()), pb.Up(batch=7).SerializeToString()), pb.Up, partial(read_flat, token=TOKEN)),
        (joined(flat.flat(), b""), pb.Down, read_flat_effects),
    ]
    refused = 0
    for data, kind, take in whole * 500:
        broken = bytearray(data)
        for _ in range(rng.randint(1, 3)):
            broken[rng.randrange(min(len(broken), 400))] = rng.randrange(256)
        if rng.random() < 0.3:
            del broken[rng.randrange(len(broken)) :]
        try:
            some, _ = parted(bytes(broken), kind)
            if some is not None:
                take(some)
        except ProtocolViolation:
            refused += 1
    assert refused > 300


def linked():
    world, settings = World(), make_settings()
    owner = Owner(world, "a", settings, flat=True)
    edge = Edge(world, settings, token=7, flat=True)
    owner.server.serve(1, 1)
    edge.port.route(1, 1, "a", "a:1")
    world.run()
    return world, owner, edge


def test_an_edge_and_an_owner_of_one_machine_speak_it():
    world, owner, edge = linked()
    edge.port.submit(
        [
            Subscribe(1, 1, 5, 3, "a", Routing.ANYCAST, AckMode.AUTO),
            Publish(1, 1, 6, "a", Routing.ANYCAST, run_of(b"x")),
        ]
    )
    world.run()
    owner.effects(Deliver(7 << 40 | 3, run_of(b"hello", ids=[1]), 5))
    world.run()
    assert [done.seq for done in edge.of(Done)] == [5, 6]
    assert [bytes(each.run.records[0]) for each in edge.of(Deliver)] == [b"\nhello\0"]
    ours, theirs = world.pairs[-1]
    assert all(any(message[:1] == b"z" for message in pipe.sent) for pipe in (ours, theirs))


def test_a_number_that_no_field_takes_is_refused_to_its_sender_alone():
    world, _, edge = linked()
    far = Publish(1, 1, 5, "a", Routing.ANYCAST, run_of(b"x"))
    far.lasts(1 << 70, 0)
    edge.port.submit([far, Publish(1, 1, 6, "a", Routing.ANYCAST, run_of(b"y"))])
    world.run()
    assert [refused.seq for refused in edge.of(Refused)] == [5] and [done.seq for done in edge.of(Done)] == [6]
