"""Large bodies cross the link in pieces, beside everything else."""

from __future__ import annotations

import pytest

from broker.core.address import AckMode, Outcome, Routing
from broker.core.commands import Prepare, Publish, Settle, Subscribe
from broker.core.effects import Done, Refused
from broker.core.errors import Code
from broker.core.message import BLOB, Blob, Run
from broker.link.bodies.edge_bodies import CHUNK, MOVED, WINDOW
from broker.link.bodies.owner_bodies import OwnerBodies
from broker.link.codec import command_codec
from broker.link.edge_side.consumer_replay import PendingCommand, ReplayedConsumer
from broker.link.owner_port import Away, Rotten
from broker.rpc.v1 import link_pb2 as pb
from tests.unit.link.world import run_of

from .bodies_world import Place, read_all

SLOT = 5


@pytest.fixture
def place():
    return Place()


BODY = bytes(range(256)) * 12_000  # 3 MB


def test_a_body_arrives_whole_and_counts_down_what_is_pending(place):
    writer = place.write()
    for at in range(0, len(BODY), 100_000):
        writer.write(BODY[at : at + 100_000])
    assert writer.pending == len(BODY)
    place.finish(writer)
    place.world.run()
    ((blob, why),) = place.done
    assert why == "" and blob.length == len(BODY) and place.files.stored[blob.id] == BODY
    assert writer.pending == 0 and place.drains > 1 and place.files.writers[0].sync


def test_at_most_a_window_is_under_way_and_pieces_are_small(place):
    place.files.slow = True
    writers = [place.write(), place.write()]
    for writer in writers:
        writer.write(BODY)
    place.world.run()
    assert [len(writer.data) for writer in place.files.writers] == [WINDOW, 0]
    place.files.writers[0].drain()
    place.world.run()
    got = [len(writer.data) for writer in place.files.writers]
    assert got == [WINDOW + WINDOW // 2, WINDOW // 2], "both have their turn"
    ups = [pb.Up.FromString(data) for data in place.world.pairs[-1][0].sent]
    assert max(len(body.data) for up in ups for body in up.bodies) <= CHUNK
    for writer in writers:
        place.finish(writer)
    place.files.release()
    place.world.run()
    assert [blob.length for blob, _ in place.done] == [len(BODY)] * 2


def test_commands_do_not_wait_for_a_body(place):
    place.files.slow = True
    writer = place.write()
    writer.write(BODY)
    place.port.submit([Publish(SLOT, 1, 3, "a", Routing.ANYCAST, run_of(b"x"))])
    place.world.run()
    assert len(place.edge.of(Done)) == 1


def large(blob, seq=3):
    run = Run(range(0), b"", [b"\n"], blob.length + 2, BLOB, blob=blob)
    return Publish(SLOT, 1, seq, "a", Routing.ANYCAST, run)


def stored(place):
    writer = place.write()
    writer.write(b"x" * 1000)
    place.finish(writer)
    place.world.run()
    return place.done[-1][0]


def test_a_publish_of_a_body_is_taken_where_the_body_is(place):
    place.port.submit([large(stored(place))])
    place.world.run()
    assert len(place.edge.of(Done)) == 1
    assert not place.files.writers[0].aborted


def test_and_again_on_a_new_stream_of_the_same_owner(place):
    blob = stored(place)
    place.a.server._published = lambda slot, dedup: True
    place.a.shard.answers = False
    place.port.submit([large(blob)])
    place.world.run()
    place.world.cut()
    place.a.shard.answers = True
    place.world.pass_time(0.5)
    assert len(place.edge.of(Done)) == 1 and len(place.a.shard.of(Publish)) == 2


def test_a_publish_that_was_refused_does_not_come_back_without_its_body(place):
    """The answer was lost with the stream; the file went with the refusal."""
    blob = stored(place)
    place.a.shard.answers = False
    place.port.submit([large(blob)])
    place.world.run()
    place.world.cut()
    place.world.pass_time(0.5)
    assert [each.code for each in place.edge.effects] == [Code.OWNER_MOVED] and len(place.a.shard.of(Publish)) == 1


def test_but_not_by_another_owner_unless_it_had_been_taken(place):
    for known, expected in ((False, [Refused]), (True, [Refused, Done])):
        place.b.server._published = lambda slot, dedup, known=known: known
        place.a.shard.answers = False
        place.port.submit([large(stored(place))])
        place.world.run()
        place.a.server.unserve(SLOT)
        epoch = 2 + 2 * known
        place.b.server.serve(SLOT, epoch)
        place.port.route(SLOT, epoch, "b", "b:1")
        place.world.run()
        assert [type(each) for each in place.edge.effects] == expected
        place.b.server.unserve(SLOT)
        place.a.server.serve(SLOT, epoch + 1)
        place.port.route(SLOT, epoch + 1, "a", "a:1")
        place.world.run()
    assert place.edge.of(Refused)[0].code is Code.OWNER_MOVED


def test_the_body_of_what_a_newer_edge_alone_knows_goes_at_once(place, monkeypatch):
    def newer(*_):
        raise IndexError("a word of a later release")

    monkeypatch.setitem(command_codec.READ, "publish", newer)
    monkeypatch.setitem(command_codec.CODES, "routing", ())
    place.port.submit([large(stored(place))])
    place.world.run()
    assert place.edge.of(Refused)[0].code is Code.WRONG_RELEASE
    assert place.files.writers[-1].aborted


def test_a_large_part_of_a_transaction_is_not_prepared_where_its_body_is_not(place):
    """A dead letter whose new home has failed over between its body and its Prepare: it must be carried again."""
    prepare = Prepare(SLOT, 1, 1, "tx", 3, [large(stored(place))])
    place.a.shard.answers = False
    place.port.submit([prepare])
    place.world.run()
    assert len(place.a.shard.of(Prepare)) == 1
    place.a.server.unserve(SLOT)
    place.b.server.serve(SLOT, 2)
    place.port.route(SLOT, 2, "b", "b:1")
    place.world.run()
    assert place.b.shard.of(Prepare) == []
    assert [each.code for each in place.edge.of(Refused)] == [Code.OWNER_MOVED]


def test_a_broken_stream_fails_the_body(place):
    writer = place.write()
    writer.write(b"x" * 1000)
    place.world.run()
    place.world.cut()
    place.world.run()
    assert place.files.writers[0].aborted and writer.pending == 0
    writer.write(b"more")
    place.finish(writer)
    assert place.done == [], "never from within the call"
    place.world.run()
    ((blob, why),) = place.done
    assert blob is None and "lost" in why
    assert isinstance(why, Away), "no matter of the owner's disk"


def test_a_body_waits_for_an_owner(place):
    place.a.server.unserve(SLOT)
    place.port.offline(SLOT)
    writer = place.write()
    writer.write(b"x" * 1000)
    place.finish(writer)
    place.world.pass_time(1)
    place.b.server.serve(SLOT, 2)
    place.port.route(SLOT, 2, "b", "b:1")
    place.world.run()
    assert place.done[0][0].length == 1000


def test_or_is_refused_when_none_comes(place):
    place.port.offline(SLOT)
    writer = place.write()
    place.finish(writer)
    place.world.pass_time(40)
    assert place.done[0][0] is None and "unavailable_after_s" in place.done[0][1]
    assert place.done[0][1].code is Code.OWNER_UNAVAILABLE


def test_an_aborted_body_goes_also_when_it_was_complete(place):
    first, second = place.write(), place.write()
    first.write(b"x")
    second.write(b"y")
    place.finish(second)
    first.abort()
    second.abort()
    place.world.run()
    assert [writer.aborted for writer in place.files.writers] == [True, True]
    assert place.done == []


def test_a_broken_stream_ends_a_reading(place):
    place.files.stored[9] = BODY
    reader = place.port.read_body(SLOT, Blob(9, len(BODY)))
    place.world.run()
    place.world.cut()
    place.world.run()
    assert place.files.last_reader.closed
    reader.read(10, lambda data, why: place.done.append((data, why)))
    place.world.run()
    assert place.done[0][0] is None and "lost" in place.done[0][1]
    assert isinstance(place.done[0][1], Away)


@pytest.mark.parametrize("why, kind", [(Rotten("x is missing"), Rotten), ("another error", str), (MOVED, Away)])
def test_a_body_that_is_lost_is_told_from_an_owner_that_has_other_trouble(place, why, kind):
    place.files.stored[9] = BODY
    place.files.fails = why
    reader = place.port.read_body(SLOT, Blob(9, len(BODY)))
    assert read_all(place, reader) == b""
    assert place.done == [(None, why)] and type(place.done[0][1]) is kind


@pytest.mark.parametrize("mode", [AckMode.CLIENT, AckMode.INDIVIDUAL])
def test_a_message_whose_body_is_lost_takes_none_of_its_neighbours_along(mode):
    """Those before it came to the client, and it has said nothing of them."""
    consumer = ReplayedConsumer(Subscribe(SLOT, 1, 1, 7, "q", Routing.ANYCAST, mode))
    for i in (1, 2, 3):
        consumer.delivered(run_of(b"x", ids=[i]), 10)
    entry = PendingCommand(1, Settle(SLOT, 1, 0, 7, [2], Outcome.UNREADABLE), 0, 0)
    consumer.set_aside(entry, [2])
    assert list(consumer.ids) == [1, 3] and consumer.aside == {entry: [2]}
    consumer.let_go()  # another owner: it hands the message out as its own disk has it
    assert entry.happened and not consumer.aside and list(consumer.ids) == [1, 3]


def test_a_publish_of_an_earlier_stream_leaves_the_bodies_of_this_one_alone(place):
    """Cluster history 562: numbers of bodies begin anew with each stream."""
    told = []

    class Target:
        def send_body(self, body):
            told.append(body)

        def epoch(self, slot):
            return 1

    bodies = OwnerBodies(Target(), place.files.new_body, place.files.open_body)
    bodies.on_body(pb.Body(id=1, write=SLOT))
    bodies.on_body(pb.Body(id=1, finish=True))
    place.world.run()
    blob = told.pop().stored
    bodies.lost()
    bodies.on_body(pb.Body(id=1, write=SLOT))
    assert bodies.publish(Blob(blob.id, 0))
    bodies.on_body(pb.Body(id=1, data=b"x"))
    bodies.on_body(pb.Body(id=1, finish=True))
    place.world.run()
    assert told[-1].stored.length == 1
