"""Commands and effects survive the wire; what is not one is refused as a whole."""

from __future__ import annotations

import inspect
import random
import re

import pytest

from broker.core.address import AckMode, Outcome, Routing
from broker.core.commands import (
    Barrier,
    Decide,
    Disconnect,
    Grant,
    Hold,
    Inquire,
    Publish,
    Resume,
    Settle,
    Subscribe,
    Unsubscribe,
)
from broker.core.errors import Code, ProtocolViolation
from broker.core.message import BLOB, DURABLE
from broker.link.codec import command_codec
from broker.link.codec.codec import Open, decode_up
from broker.link.codec.command_codec import put_command, read_commands
from broker.rpc.v1 import link_pb2 as pb
from tests.unit.link.world import run_of

TOKEN = 0x1234_5678_9ABC_DEF0 >> 1


def there(command):
    up = pb.Up()
    put_command(command, up)
    (back,) = read_commands(decode_up(up.SerializeToString()), TOKEN)
    return back


def commands():
    run = run_of(b"one", b"two", lines=b"a:b\n", flags=DURABLE, priority=7, expires=5)
    subscribe = Subscribe(
        3, 9, 5 << 8 | 3, 4, "a", Routing.MULTICAST, AckMode.INDIVIDUAL, queue="q", durable=True, selector="x>1",
        credit_messages=10, credit_bytes=20, room=30, overhead=40, priority=-5, create=False,
    )  # fmt: skip
    resumed = Subscribe(3, 9, 5 << 8 | 3, 4, "a", Routing.ANYCAST, AckMode.AUTO)
    resumed.confirm = True
    resumed.room = -4
    resumed.resume = Resume([(5, 9), (1, 1)], [(10, 20)], {7: 2, 1: 1}, [(6, 7)])
    return [
        Publish(3, 9, 5 << 8 | 3, "addr", Routing.ANYCAST, run, "q", False, (TOKEN, 5)),
        subscribe,
        resumed,
        Unsubscribe(3, 9, 1 << 8 | 3, 4, "a", "queue"),
        Settle(3, 9, 1 << 8 | 3, 4, [7, 1 << 62, 6], Outcome.NACK, 250),
        Settle(3, 9, 1 << 8 | 3, 4, [7], Outcome.REJECT),
        Hold(3, 9, 1 << 8 | 3, 4, [7, 8]),
        Barrier(3, 9, 1 << 8 | 3),
        Grant(3, 4, 100),
        Disconnect(3, 9),
        Disconnect(3, 9, calm=True),
        Decide(3, 9, 1 << 8 | 3, "tx", True),
        Inquire(3, 9, 1 << 8 | 3, "tx"),
    ]


def test_open_is_for_the_link_alone():
    back = there(Open(200, 17))
    assert (type(back), back.slot, back.epoch) == (Open, 200, 17)


def bad_ups():
    no_run = pb.Up()
    no_run.commands.add().publish.slot = 1
    slot = pb.Up()
    slot.commands.add().barrier.slot = 256
    nothing = pb.Up()
    nothing.commands.add()
    number = pb.Up()
    number.commands.add().disconnect.session = 1 << 40
    ids = pb.Up()
    run = ids.commands.add().publish.run
    run.records.append(b"x")
    run.ids.extend([1, 2])
    blob = pb.Up()
    run = blob.commands.add().publish.run
    run.records.append(b"x")
    run.flags = BLOB
    span = pb.Up()
    span.commands.add().subscribe.resume.held.add(first=5, last=4)
    return [no_run, slot, nothing, number, ids, blob, span]


@pytest.mark.parametrize("up", bad_ups(), ids=lambda up: str(up)[:30].replace("\n", " "))
def test_what_contradicts_itself_is_refused(up):
    with pytest.raises(ProtocolViolation) as error:
        read_commands(decode_up(up.SerializeToString()), TOKEN)
    assert error.value.code is Code.BAD_COMPONENT_MESSAGE


def test_all_that_looks_a_number_or_name_up_is_known():
    """A table that is asked in a command, and not of CODES, would end the link of a newer edge."""
    source = inspect.getsource(command_codec)
    asked = set(re.findall(r"\b([A-Z_]+)\[message\.(\w+)\]", source))
    assert {field for _, field in asked} == set(command_codec.CODES)


def test_garbage_is_refused_and_nothing_else_happens():
    seed = random.Random(5)
    up = pb.Up()
    for command in commands():
        put_command(command, up)
    good = up.SerializeToString()
    refused = 0
    for _ in range(2000):
        data = bytearray(good[: seed.randrange(len(good))] if seed.random() < 0.3 else good)
        for _ in range(seed.randrange(1, 4)):
            if data:
                data[seed.randrange(len(data))] = seed.randrange(256)
        try:
            read_commands(decode_up(bytes(data)), TOKEN)
        except ProtocolViolation:
            refused += 1
    assert refused > 300
