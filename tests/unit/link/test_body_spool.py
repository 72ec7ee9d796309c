"""A large body whose owner changes is sent again from what the edge keeps, and its client hears nothing of that."""

from __future__ import annotations

import pytest

from broker.core.address import AckMode, Routing
from broker.core.commands import Publish, Subscribe
from broker.core.effects import Deliver, Done, Refused
from broker.core.errors import Code
from broker.core.message import BLOB, Run
from broker.link.bodies import body_spool
from broker.link.bodies.body_spool import PIECE, SPILL, BodySpool
from broker.link.owner_port import Away
from broker.link.owner_side.edge_peer import SEQ_MASK
from broker.link.owner_side.link_server import SWEEP_S
from tests.unit.link.bodies_world import Files
from tests.unit.link.test_edge_bodies import BODY, SLOT
from tests.unit.link.world import Edge, Owner, World, make_settings, run_of


class Unnamed:
    """A file in memory; `fails`: verbs that do."""

    def __init__(self, place):
        self.place = place
        self.data = bytearray()
        self.closed = False

    def pread(self, n, offset):
        self.place.check("pread")
        return bytes(self.data[offset : offset + n])

    def pwrite(self, data, offset):
        self.place.check("pwrite")
        self.data[offset : offset + len(data)] = data
        return len(data)

    def close(self):
        self.closed = True


class Place:
    """Two owners and an edge, which keeps bodies; slot 5 is led by a."""

    def __init__(self, limit=1 << 30):
        self.world = World()
        self.files = Files(self.world)
        self.fails = set()
        self.made = []
        settings = make_settings()
        bodies = {"new_body": self.files.new_body, "open_body": self.files.open_body}
        self.owners = {name: Owner(self.world, name, settings, **bodies) for name in "ab"}
        self.keeper = BodySpool(self, self.new_file, limit)
        self.edge = Edge(self.world, settings, keeper=self.keeper)
        self.port = self.edge.port
        self.epoch = 0
        self.done = []
        self.lead("a")

    def submit(self, job, done):
        def work():
            try:
                result = job()
            except Exception as error:
                done(None, error)
            else:
                done(result, None)

        self.world.schedule(work)

    def new_file(self):
        self.made.append(Unnamed(self))
        return self.made[-1]

    def check(self, verb):
        if verb in self.fails:
            raise OSError(28, "No space left on device")

    def lead(self, name):
        """A planned move: the old owner lives on."""
        for owner in self.owners.values():
            owner.server.unserve(SLOT)
        self.epoch += 1
        self.owners[name].server.serve(SLOT, self.epoch)
        self.port.route(SLOT, self.epoch, name, f"{name}:1")
        self.world.run()

    def begin(self, *pieces):
        writer = self.port.write_body(SLOT, lambda: None)
        for piece in pieces:
            writer.write(piece)
        self.world.run()
        return writer

    def finish(self, writer):
        writer.finish(True, lambda blob, why: self.done.append((blob, why)))
        self.world.run()

    def stored(self, body=b"x" * 1000):
        self.finish(self.begin(body))
        return self.done.pop()[0]

    def publish(self, blob, seq=3):
        run = Run(range(0), b"", [b"\n"], blob.length + 2, BLOB, blob=blob)
        self.port.submit([Publish(SLOT, 1, seq, "a", Routing.ANYCAST, run)])
        self.world.run()

    def small(self, seq):
        self.port.submit([Publish(SLOT, 1, seq, "a", Routing.ANYCAST, run_of(b"x"))])
        self.world.run()

    def came(self, name):
        """What the owner's shard was given: the body of a large message, b"" for others."""
        runs = [publish.run for publish in self.owners[name].shard.of(Publish)]
        return [b"" if run.blob is None else self.files.stored[run.blob.id] for run in runs]

    def nothing_is_left(self, stored=1):
        """Neither here nor with an owner, but for what was published."""
        self.world.pass_time(SWEEP_S + 0.1)
        assert (self.keeper.nbytes, self.keeper.in_memory) == (0, 0)
        assert all(file.closed for file in self.made)
        assert sum(not writer.aborted for writer in self.files.writers) == stored


@pytest.fixture
def place():
    return Place()


def pieces(body, size=100_000):
    return [body[at : at + size] for at in range(0, len(body), size)]


def test_while_it_is_sent_and_the_leader_moves(place):
    half = pieces(BODY)
    writer = place.begin(*half[:15])
    place.lead("b")
    for piece in half[15:]:
        writer.write(piece)
    place.finish(writer)
    ((blob, why),) = place.done
    assert why == "" and place.files.stored[blob.id] == BODY and writer.pending == 0
    place.publish(blob)
    assert place.came("b") == [BODY] and [type(each) for each in place.edge.effects] == [Done]
    place.done.clear()
    del blob
    place.nothing_is_left()


def test_while_it_is_sent_and_the_stream_breaks(place):
    writer = place.begin(*pieces(BODY)[:15])
    place.world.cut()
    place.world.run()
    for piece in pieces(BODY)[15:]:
        writer.write(piece)
    writer.finish(True, lambda blob, why: place.done.append((blob, why)))
    place.world.pass_time(0.5)
    ((blob, _),) = place.done
    assert place.files.stored[blob.id] == BODY
    place.publish(blob)
    place.nothing_is_left()


def test_again_and_again(place):
    writer = place.begin(*pieces(BODY)[:20])
    for name in "bababa":
        place.lead(name)
    for piece in pieces(BODY)[20:]:
        writer.write(piece)
    place.lead("b")
    place.finish(writer)
    place.publish(place.done.pop()[0])
    assert place.came("b") == [BODY]
    place.nothing_is_left()


def test_when_nobody_leads_for_a_while(place):
    writer = place.begin(*pieces(BODY)[:5])
    place.owners["a"].server.unserve(SLOT)
    place.port.offline(SLOT)
    place.world.pass_time(10)
    for piece in pieces(BODY)[5:]:
        writer.write(piece)
    place.finish(writer)
    assert not place.done
    place.lead("b")
    assert place.files.stored[place.done[0][0].id] == BODY


def test_but_not_for_ever(place):
    writer = place.begin(b"x" * 1000)
    place.owners["a"].server.unserve(SLOT)
    place.port.offline(SLOT)
    place.finish(writer)
    place.world.pass_time(40)
    ((blob, why),) = place.done
    assert blob is None and why.code is Code.OWNER_UNAVAILABLE
    place.nothing_is_left(stored=0)


def test_when_it_is_stored_and_its_message_has_not_been_taken(place):
    place.owners["a"].shard.answers = False
    place.publish(place.stored(BODY))
    place.lead("b")
    assert place.came("b") == [BODY]
    assert [type(each) for each in place.edge.effects] == [Done]
    place.nothing_is_left(stored=2)  # a's shard was given the first one: its own affair


def test_not_when_its_message_has_been_taken(place):
    place.owners["a"].shard.answers = False
    place.publish(place.stored())
    place.owners["b"].server._published = lambda slot, dedup: True
    place.lead("b")
    assert len(place.edge.of(Done)) == 1 and len(place.files.writers) == 1
    place.nothing_is_left()


def test_what_was_sent_behind_it_stays_behind_it(place):
    """Owners take numbers in order: what overtook it would make it a replay, and lost."""
    place.owners["a"].shard.answers = False
    place.small(2)
    place.publish(place.stored(b"first"), 3)
    place.small(4)
    place.publish(place.stored(b"second"), 5)
    place.files.slow = True
    place.lead("b")
    place.small(6)
    place.files.release()
    place.world.run()
    assert place.came("b") == [b"", b"first", b"", b"second", b""]
    assert [effect.seq for effect in place.edge.of(Done)] == [2, 3, 4, 5, 6]


def test_also_when_the_leader_moves_on_meanwhile(place):
    place.owners["a"].shard.answers = False
    place.publish(place.stored(BODY))
    place.small(4)
    place.files.slow = True
    place.lead("b")
    place.files.slow = False
    place.owners["a"].shard.commands.clear()
    place.owners["a"].shard.answers = True
    place.lead("a")
    assert place.came("b") == [] and place.came("a") == [BODY, b""]
    assert [effect.seq for effect in place.edge.of(Done)] == [3, 4]
    place.nothing_is_left(stored=2)


def test_a_message_that_comes_late_asks_for_its_body_too(place):
    """Cluster history 122: it waited for a transaction of its session, and the slot moved on meanwhile."""
    blob = place.stored(BODY)
    place.lead("b")
    place.publish(blob)
    place.small(4)
    assert place.came("b") == [BODY, b""]
    assert [effect.seq for effect in place.edge.of(Done)] == [3, 4]


def test_who_has_messages_says_so_before_it_is_waited_for_a_body(place):
    """Cluster history 984: its Subscribe was not answered yet; the new leader gave what it held to somebody else."""
    shard = place.owners["a"].shard
    shard.answers = False
    place.publish(place.stored())
    place.port.submit([Subscribe(SLOT, 1, 4, 1, "a", Routing.ANYCAST, AckMode.CLIENT)])
    place.port.submit([Subscribe(SLOT, 1, 5, 2, "a", Routing.ANYCAST, AckMode.CLIENT)])
    place.world.run()
    place.owners["a"].effects(Deliver(shard.of(Subscribe)[0].consumer, run_of(b"m", ids=range(7, 8)), 10))
    place.world.run()
    place.lead("b")
    asked = [
        type(each) if type(each) is Publish else (each.seq & SEQ_MASK) >> 8 for each in place.owners["b"].shard.commands
    ]
    assert asked[:3] == [2, Publish, 3], "the one that has nothing waits for its turn"
    assert place.owners["b"].shard.of(Subscribe)[0].resume.held == [(7, 7)]


def test_what_the_next_owner_cannot_store_is_refused(place):
    place.owners["a"].shard.answers = False
    place.publish(place.stored())
    place.small(4)
    place.files.fails = "no space"
    place.lead("b")
    (refused,) = place.edge.of(Refused)
    assert refused.code is Code.DISK_FULL and refused.seq == 3
    assert [effect.seq for effect in place.edge.of(Done)] == [4]


def test_small_ones_need_no_file(place):
    writer = place.begin(b"x" * (SPILL - 1))
    assert place.made == []
    writer.write(b"x" * PIECE)
    place.world.run()
    assert len(place.made) == 1 and place.keeper.in_memory == 0
    writer.abort()
    place.nothing_is_left(stored=0)


def test_many_at_once_need_less_memory(place, monkeypatch):
    monkeypatch.setattr(body_spool, "MANY_BYTES", 2 * SPILL)
    writers = [place.begin() for _ in range(50)]
    for _ in range(SPILL // PIECE - 1):
        for writer in writers:
            writer.write(b"x" * (PIECE // 2))
    place.world.run()
    assert place.keeper.in_memory <= 2 * SPILL + PIECE * len(writers)
    for writer in writers:
        writer.abort()
    place.nothing_is_left(stored=0)


def test_what_is_above_the_bound_is_not_kept_and_arrives_all_the_same():
    place = Place(limit=100_000)
    writer = place.begin(b"x" * 60_000, b"y" * 60_000)
    assert place.keeper.given_up == 1 and place.keeper.nbytes == 0
    place.finish(writer)
    assert place.files.stored[place.done[0][0].id] == b"x" * 60_000 + b"y" * 60_000


def test_but_fails_when_its_owner_changes():
    place = Place(limit=100_000)
    kept_one, other = place.begin(b"x" * 60_000), place.begin(b"y" * 60_000)
    place.world.cut()
    place.world.pass_time(0.5)
    place.finish(kept_one)
    place.finish(other)
    (first, _), (second, why) = place.done
    assert place.files.stored[first.id] == b"x" * 60_000
    assert second is None and isinstance(why, Away) and why.code is Code.OWNER_MOVED


@pytest.mark.parametrize("verb", ["pwrite", "pread"])
def test_where_its_file_fails_it_goes_on_as_far_as_it_can(place, verb, caplog):
    place.fails.add(verb)
    writer = place.begin(*pieces(BODY))
    place.finish(writer)
    assert place.files.stored[place.done.pop()[0].id] == BODY
    writer = place.begin(*pieces(BODY))
    place.lead("b")
    place.finish(writer)
    ((blob, why),) = place.done
    assert blob is None and why.code is Code.OWNER_MOVED
    assert "a large body is not kept" in caplog.text
    place.world.pass_time(SWEEP_S + 0.1)
    assert place.keeper.nbytes == 0


def test_a_message_that_is_never_sent_leaves_nothing(place):
    """Its session ended while it waited for room at its address."""
    blob = place.stored(BODY)
    assert place.keeper.nbytes == len(BODY)
    del blob
    assert place.keeper.nbytes == 0


def test_who_gives_up_while_it_waits_leaves_nothing(place):
    writer = place.begin(*pieces(BODY))
    place.owners["a"].server.unserve(SLOT)
    place.port.offline(SLOT)
    writer.abort()
    place.lead("b")
    assert len(place.files.writers) == 1
    place.nothing_is_left(stored=0)
