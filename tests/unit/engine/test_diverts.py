"""Diverts: who gets what, over slots and crashes, and that circles end."""

from __future__ import annotations

import pytest

from broker.config.settings import EngineSettings
from broker.core.commands import Publish
from broker.core.ids import slot_of
from broker.core.message import BLOB, DURABLE, TRANSIENT, Blob, Run
from broker.core.records import GroupRecord, RunRecord, SettleRecord
from broker.engine.routing.forwarding import HOPS

from .world import ANYCAST, MULTICAST, UNSET, World, done, got, refused

HERE = next(f"here.{n}" for n in range(10_000) if slot_of(f"here.{n}") == 7)
"""An address of the slot under test; other names are of other slots."""
BOTH = pytest.mark.parametrize("target", ["away", HERE])


def world_with(addresses=None, auto_commit=True, **diverts):
    world = World(auto_commit, addresses)
    fields = {"address": "q"}
    table = {name: fields | values for name, values in diverts.items()}
    world.settings = EngineSettings(
        address=world.settings.address, addresses=world.settings.addresses, diverts=table
    )  # fmt: skip
    world.engine.configure(world.settings)
    return world


def send(world, *bodies, durable=True, seq=0, address="q", routing=ANYCAST, color=b"red"):
    lines = b"color:%b\n" % color
    records = [b"\n%b\0" % body for body in bodies]
    run = Run((), lines, records, sum(map(len, records)) + len(records) * len(lines), DURABLE if durable else 0)
    return world.do(Publish(7, 1, seq, address, routing, run))


def drained(world, address, number=None):
    number = number or 100 + len(world.stats())
    bodies = [record[1:-1] for record in got(world.subscribe(number, address, routing=UNSET))]
    world.unsubscribe(number)
    return bodies


@BOTH
@pytest.mark.parametrize("durable", [True, False])
def test_a_copy_goes_there_and_the_message_stays(target, durable):
    world = world_with(d={"forward": f"{target}, third"})
    assert done(send(world, b"a", b"b", durable=durable, seq=4)) == [4]
    for address in ("q", target, "third"):
        assert drained(world, address) == [b"a", b"b"]


@BOTH
def test_an_exclusive_one_takes_it(target):
    world = world_with(a={"forward": target, "exclusive": True}, b={"forward": "third"})
    assert done(send(world, b"a", seq=4)) == [4]
    assert (drained(world, "q"), drained(world, target), drained(world, "third")) == ([], [b"a"], [])


def test_only_what_the_selector_wants():
    world = world_with(
        red={"forward": "reds", "selector": "color = 'red'", "exclusive": True},
        blue={"forward": "blues", "selector": "color = 'blue'"},
    )
    for body, color in [(b"1", b"red"), (b"2", b"blue"), (b"3", b"green")]:
        send(world, body, color=color)
    run = Run((), b"", [b"color:red\n\n4\0", b"color:blue\n\n5\0", b"color:green\n\n6\0"], 40, DURABLE)
    world.do(Publish(7, 1, 0, "q", ANYCAST, run))
    assert [body[-1:] for body in drained(world, "q")] == [b"2", b"3", b"5", b"6"]
    assert [body[-1:] for body in drained(world, "reds")] == [b"1", b"4"]
    assert [body[-1:] for body in drained(world, "blues")] == [b"2", b"5"]


def test_copies_say_where_they_were_sent():
    world = world_with(d={"forward": "away", "exclusive": True})
    send(world, b"a")
    [run] = [effect.run for effect in world.subscribe(1, "away")]
    assert run.lines == b"_AMQ_ORIG_ADDRESS:q\ncolor:red\n"
    assert run.nbytes == len(run.lines) + 3


@pytest.mark.parametrize(
    ("routing", "queue", "topic"),
    [("STRIP", True, True), ("PASS", True, False), ("ANYCAST", True, False), ("MULTICAST", False, True)],
)
def test_the_routing_type_there(routing, queue, topic):
    world = world_with(d={"forward": HERE, "routing": routing})
    world.subscribe(1, HERE, routing=ANYCAST)
    world.subscribe(2, HERE, routing=MULTICAST)
    effects = send(world, b"a")
    assert (len(got(effects, 1)), len(got(effects, 2))) == (queue, topic)


def test_one_queue_by_name():
    world = world_with(d={"forward": "away::one"})
    world.subscribe(1, "away", queue="two")
    send(world, b"a")
    assert got(world.effects, 1) == []
    assert len(got(world.subscribe(2, "away", queue="one"))) == 1


def test_a_durable_copy_is_in_one_record_with_the_message():
    world = world_with(d={"forward": "away"}, auto_commit=False)
    send(world, b"a")
    [group] = [record for record in world.appended if isinstance(record, GroupRecord)]
    assert sum(isinstance(record, RunRecord) for record in group.records) == 2


@pytest.mark.parametrize("exclusive", [True, False])
def test_a_crash_between_the_receipt_and_the_copy_loses_and_doubles_nothing(exclusive):
    world = world_with(d={"forward": "away", "exclusive": exclusive}, auto_commit=False)
    send(world, b"a", seq=1)
    assert done(world.effects) == []
    world.committed = world.open  # on the disk, and then it dies
    world.restart()
    world.auto_commit = True
    world.settle_down()
    world.restart()
    assert (drained(world, "away"), drained(world, "q")) == ([b"a"], [] if exclusive else [b"a"])


def test_order_is_kept_over_a_restart():
    world = world_with(d={"forward": "away", "exclusive": True}, auto_commit=False)
    send(world, b"a")
    send(world, b"b")
    world.committed = world.open
    world.restart()
    send(world, b"c")
    world.auto_commit = True
    world.settle_down()
    assert drained(world, "away") == [b"a", b"b", b"c"]


def test_chains_are_followed_and_circles_end():
    world = world_with(
        a={"forward": HERE}, b={"address": HERE, "forward": "r"}, c={"address": "r", "forward": "q"}
    )  # fmt: skip
    send(world, b"a")
    counts = [len(drained(world, address)) for address in ("q", HERE, "r")]
    assert sum(counts) == HOPS + 1
    assert min(counts) >= 2


def test_a_repeated_id_is_diverted_once():
    world = world_with(d={"forward": "away"})
    for _ in range(2):
        record = b"_AMQ_DUPL_ID:1\n\na\0"
        world.do(Publish(7, 1, 0, "q", ANYCAST, Run((), b"", [record], len(record), DURABLE | 256)))
    assert (len(drained(world, "q")), len(drained(world, "away"))) == (1, 1)


def test_a_divert_that_is_taken_away_diverts_no_more():
    world = world_with(d={"forward": "away"})
    world.engine.configure(EngineSettings())
    send(world, b"a")
    assert (drained(world, "away"), drained(world, "q")) == ([], [b"a"])


def test_what_is_due_later_is_copied_now_and_due_there():
    world = world_with(d={"forward": "away"})
    run = Run((), b"", [b"\na\0"], 3, DURABLE, due=world.now + 500)
    world.do(Publish(7, 1, 0, "q", ANYCAST, run))
    world.subscribe(1, "away")
    assert (got(world.tick(499)), got(world.tick(1))) == ([], [b"\na\0"])


@pytest.mark.parametrize("durable", [True, False])
def test_what_no_queue_wants_goes_to_the_dead_letters_where_the_settings_say_so(durable):
    world = world_with({"t": {"send_to_dla_on_no_route": True}})
    send(world, b"a", address="t", routing=MULTICAST, durable=durable)
    send(world, b"b", address="u", routing=MULTICAST)
    world.subscribe(1, "t", routing=MULTICAST)
    send(world, b"c", address="t", routing=MULTICAST)
    assert not refused(world.effects)
    assert drained(world, "DLQ") == [b"a"]
    assert world.engine.counters()["dropped_unrouted"] == 1


def test_and_there_to_the_queue_of_their_own():
    world = world_with({"t": {"send_to_dla_on_no_route": True, "auto_create_dead_letter_resources": True}})
    send(world, b"a", address="t", routing=MULTICAST)
    assert world.queue("DLQ") is None
    assert len(got(world.subscribe(1, "DLQ", queue="DLQ.t", routing=UNSET))) == 1


@BOTH
def test_a_replay_after_a_fail_over_is_not_diverted_again(target):
    world = world_with(a={"forward": target, "exclusive": True})

    def numbered(seq):
        run = Run((), b"color:red\n", [b"\na\0"], 13, DURABLE)
        return done(world.do(Publish(7, 1, seq, "q", ANYCAST, run, dedup=(77, 5))))

    assert numbered(1) == [1]
    world.restart(first_id=1 << 40)
    numbered(2)
    assert drained(world, target) == [b"a"]


def test_nobody_keeps_his_messages_out_by_headers_of_ours():
    world = world_with(d={"forward": "audit"})
    lines = b"_AMQ_ORIG_ADDRESS:x\n" * (HOPS + 1)
    world.do(Publish(7, 1, 1, "q", ANYCAST, Run((), lines, [b"\na\0"], len(lines) + 3, DURABLE)))
    assert drained(world, "audit") == [b"a"]


def test_a_large_copy_does_not_last_longer_than_its_body():
    """Cluster history 234: the body of what is not durable is not synced. A record of it that a power loss leaves
    behind keeps the owner from starting."""
    world = world_with(auto_commit=False, d={"forward": "away"})
    run = Run((), b"", [b"h:v\n\n"], 1006, BLOB, blob=Blob(3, 1000))
    world.do(Publish(7, 1, 4, "q", ANYCAST, run))
    kept = [part for _, part in world.log if isinstance(part, RunRecord)]
    assert [bool(part.run.flags & DURABLE) for part in kept] == [False, False]
    assert all(part.run.flags & TRANSIENT for part in kept)
    world.settle_down()
    there = [part for _, part in world.log if isinstance(part, RunRecord) and part.address == "away"]
    ended = [part for _, part in world.log if isinstance(part, SettleRecord)]
    assert [(part.run.blob.id, part.run.flags & DURABLE) for part in there] == [(3, 0)]
    assert [(part.durable, part.spans) for part in ended] == [(False, [(kept[0].run.ids[0], kept[0].run.ids[0])])]
