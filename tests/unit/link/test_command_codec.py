"""Commands over the link: as they were, in the name space of their edge; what is not known is taken as unknown."""

from __future__ import annotations

import pytest

from broker.core.address import AckMode, Outcome, Routing
from broker.core.commands import (
    Barrier,
    Decide,
    Disconnect,
    Grant,
    Hold,
    Inquire,
    Prepare,
    Publish,
    Resume,
    Settle,
    Subscribe,
    Transact,
    Unsubscribe,
)
from broker.core.message import BLOB, DURABLE, Blob, Run
from broker.link.codec.codec import Unknown, decode_up, sequence
from broker.link.codec.command_codec import put_command, read_commands
from broker.rpc.v1 import link_pb2 as pb
from tests.unit.link.world import run_of

SLOT = 9
TOKEN = 0x1234_5678_9ABC_DEF0 >> 1


def fields(value):
    """What an object holds, as plain data."""
    if isinstance(value, list | tuple):
        return [fields(each) for each in value]
    if isinstance(value, range):
        return list(value)
    if hasattr(value, "__slots__"):
        return {name: fields(getattr(value, name)) for name in value.__slots__ if name not in ("parts", "position")}
    return value


def there(command):
    up = pb.Up()
    put_command(command, up)
    (back,) = read_commands(decode_up(up.SerializeToString()), TOKEN)
    return back


def at_owner(number):
    return TOKEN << 40 | number


def commands():
    run = run_of(b"one", b"two", lines=b"a:b\n", flags=DURABLE, priority=7, expires=5)
    subscribe = Subscribe(
        3, 9, 5 << 8 | 3, 4, "a", Routing.MULTICAST, AckMode.INDIVIDUAL, queue="q", durable=True, selector="x>1",
        credit_messages=10, credit_bytes=20, room=30, overhead=40, priority=-5, create=False, maker="ada",
    )  # fmt: skip
    resumed = Subscribe(3, 9, 5 << 8 | 3, 4, "a", Routing.ANYCAST, AckMode.AUTO)
    resumed.confirm = True
    resumed.room = -4
    resumed.resume = Resume([(5, 9), (1, 1)], [(10, 20)], {7: 2, 1: 1}, [(6, 7)])
    return [
        Publish(3, 9, 5 << 8 | 3, "addr", Routing.ANYCAST, run, "q", False, (TOKEN, 5)),
        Publish(3, 9, 5 << 8 | 3, "addr", Routing.ANYCAST, run, "q", "ada"),
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
        Decide(3, 9, 1 << 8 | 3, "tx", False, calm=True),
        Inquire(3, 9, 1 << 8 | 3, "tx"),
    ]


@pytest.mark.parametrize("command", commands(), ids=lambda command: type(command).__name__)
def test_a_command_arrives_as_it_was_in_the_name_space_of_its_edge(command):
    expected = fields(command)
    for name in ("session", "consumer"):
        if name in expected:
            expected[name] = at_owner(expected[name])
    if "run" in expected:
        expected["run"]["ids"] = []
    assert fields(there(command)) == expected


def test_who_was_told_no_by_an_earlier_release_has_failed_as_it_always_had():
    up = pb.Up()
    put_command(Decide(3, 9, 1 << 8 | 3, "tx", False, calm=True), up)
    up.commands[0].decide.ClearField("calm")
    (back,) = read_commands(decode_up(up.SerializeToString()), TOKEN)
    assert (back.commit, back.calm) == (False, False)


def test_parts_of_a_transaction_keep_the_edge_they_come_from():
    mine = Settle(3, 9, 0, 4, [7], Outcome.ACK)
    publish = Publish(8, 9, 0, "addr", Routing.ANYCAST, run_of(b"x"))
    transact = there(Transact(3, 9, 6 << 8 | 3, [publish, mine], (0, 6)))
    assert transact.dedup == (TOKEN, 6)
    assert there(Transact(3, 9, 6 << 8 | 3, [publish, mine], (2, 1))).dedup == (sequence(TOKEN, 2), 1)
    assert [type(part) for part in transact.parts] == [Publish, Settle]
    assert [part.session for part in transact.parts] == [at_owner(9)] * 2
    assert transact.parts[1].consumer == at_owner(4)
    # The coordinator passes on what another edge asked: sessions stay that edge's, at every owner.
    other = TOKEN - 1
    passed = Settle(8, other << 40 | 9, 0, other << 40 | 4, [7], Outcome.ACK)
    prepare = there(Prepare(8, 1, 2 << 8 | 8, "tx", 3, [passed], 6))
    assert (prepare.session, prepare.coordinator, prepare.epoch) == (at_owner(1), 3, 6)
    assert (prepare.parts[0].session, prepare.parts[0].consumer) == (other << 40 | 9, other << 40 | 4)
    # A dead letter is nobody's: limits and the life time of its address look at that.
    letter = Publish(8, 0, 0, "DLQ", Routing.UNSET, run_of(b"x"))
    assert there(Prepare(8, 1, 2 << 8 | 8, "tx", 3, [letter], 6)).parts[0].session == 0


def test_a_large_message_names_its_body():
    run = Run(range(0), b"", [b"\n"], 1 + 1000 + 1, BLOB, blob=Blob(77, 1000))
    publish = Publish(3, 9, 5 << 8 | 3, "addr", Routing.ANYCAST, run)
    publish.ttl, publish.delay = 5_000, 1 << 40
    again = there(publish)
    assert (again.ttl, again.delay) == (5_000, 1 << 40)
    back = again.run
    assert (back.blob.id, back.blob.length, back.nbytes) == (77, 1000, 1002)


def newer(kind: str, **what: object) -> pb.Command:
    command = pb.Command()
    getattr(command, kind).MergeFrom(type(getattr(command, kind))(slot=SLOT, session=3, seq=256 + SLOT, **what))
    return command


PUBLISH = pb.Publish(slot=SLOT, run=pb.Run(records=[b"x"]))
NEWER = [
    (newer("manage", act="polish"), "act 'polish'"),
    (newer("manage", act="create", routing=9), "routing 9"),
    (newer("publish", routing=9, run=PUBLISH.run), "routing 9"),
    (newer("subscribe", routing=2, ack=9), "ack 9"),
    (newer("settle", outcome=77), "outcome 77"),
    (newer("transact", parts=[pb.Part(publish=PUBLISH), pb.Part(settle=pb.Settle(outcome=77))]), "outcome 77"),
    (newer("prepare", parts=[pb.Part(settle=pb.Settle(outcome=77))]), "outcome 77"),
]
"""What an edge of a newer release may ask, and what this one does not know of it."""


@pytest.mark.parametrize(("command", "what"), NEWER, ids=lambda each: str(each)[:30].replace("\n", " "))
def test_what_a_newer_edge_knows_is_taken_as_unknown_and_the_rest_as_it_is(command, what):
    up = pb.Up(commands=[command])
    put_command(Barrier(SLOT, 1, 0), up)
    unknown, barrier = read_commands(decode_up(up.SerializeToString()), TOKEN)
    assert isinstance(unknown, Unknown) and isinstance(barrier, Barrier)
    assert (unknown.slot, unknown.session, unknown.seq, unknown.what) == (SLOT, at_owner(3), 256 + SLOT, what)
    assert unknown.bodies == []


def test_what_is_unknown_names_the_bodies_that_nobody_will_ask_for():
    large = pb.Publish(slot=SLOT, run=pb.Run(records=[b"x"], flags=BLOB, blob=pb.Blob(id=7, length=9)))
    parts = [pb.Part(publish=large), pb.Part(publish=PUBLISH), pb.Part(settle=pb.Settle(outcome=77))]
    for command in (newer("publish", routing=9, run=large.run), newer("transact", parts=parts)):
        (unknown,) = read_commands(pb.Up(commands=[command]), TOKEN)
        assert isinstance(unknown, Unknown) and unknown.bodies == [7]
