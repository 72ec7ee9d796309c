"""A large body on its way to a client whose owner changes goes on where it was, and the client notices nothing."""

from __future__ import annotations

import pytest

from broker.core.address import AckMode, Outcome, Routing
from broker.core.commands import Confirm, Settle, Subscribe
from broker.core.effects import Deliver, Refused
from broker.core.errors import Code
from broker.core.message import BLOB, DURABLE, Blob
from broker.link.bodies.edge_bodies import CHUNK, MOVED, NOT_HELD
from broker.link.owner_port import Away
from broker.rpc.v1 import link_pb2 as pb
from tests.unit.link.test_body_spool import Place as Senders
from tests.unit.link.test_edge_bodies import BODY, SLOT
from tests.unit.link.world import run_of

MODES = [AckMode.AUTO, AckMode.CLIENT, AckMode.INDIVIDUAL]
ID = 40


class Place(Senders):
    """One consumer; its message is 9 in a's files and 11 in b's."""

    def __init__(self):
        super().__init__()
        self.files.stored = {9: BODY, 11: BODY}
        self.held = {"a": {}, "b": {(SLOT, ID): Blob(11, len(BODY))}}
        for name, owner in self.owners.items():
            owner.server.find_body = lambda slot, consumer, message, found, name=name: found(
                self.held[name].get((slot, message))
            )
        self.got = b""
        self.whole = False

    def consume(self, mode):
        self.port.submit([Subscribe(SLOT, 1, 2, 7, "a", Routing.ANYCAST, mode)])
        self.world.run()
        self.consumer = self.owners["a"].shard.of(Subscribe)[0].consumer
        self.give(9)
        self.reader = self.port.read_body(SLOT, Blob(9, len(BODY)), 7, ID)

    def give(self, blob):
        run = run_of(b"\n", ids=range(ID, ID + 1), flags=BLOB | DURABLE, blob=Blob(blob, len(BODY)))
        self.owners["a"].effects(Deliver(self.consumer, run, len(BODY) + 2))
        self.world.run()

    def read(self, n, most=1 << 30):
        """`n` bytes at a time, until `most` have come."""

        def arrived(data, why):
            if not data:
                self.done.append((data, why))
                return
            self.got += data
            if len(self.got) < min(len(BODY), most):
                self.reader.read(n, arrived)

        self.reader.read(n, arrived)
        self.world.run()

    def taken(self, name, kind):
        return self.owners[name].shard.of(kind)


@pytest.fixture
def place():
    return Place()


@pytest.mark.parametrize("mode", MODES)
def test_it_goes_on_with_the_next_leader(place, mode):
    place.consume(mode)
    place.read(100_000, 300_000)
    place.lead("b")
    (again,) = place.taken("b", Subscribe)
    assert again.resume.held == [(ID, ID)] and again.resume.taken == []
    place.world.cut()  # nothing comes from a any more
    place.world.pass_time(1)
    place.read(100_000)
    assert place.got == BODY and place.done == []


@pytest.mark.parametrize("mode", MODES)
def test_also_in_the_middle_of_a_read(place, mode):
    place.consume(mode)
    place.reader.read(len(BODY), lambda data, why: place.done.append((data, why)))
    place.world.cut()
    place.owners["a"].stop_listening()
    place.world.pass_time(0.5)
    assert place.done == []
    place.lead("b")
    assert place.done == [(BODY, "")]


@pytest.mark.parametrize("more", [0, 1000])
def test_also_when_all_had_come_and_only_the_end_is_missing(place, more):
    """Cluster history 570: nobody was told that there is no more."""
    place.consume(AckMode.AUTO)
    place.world.run()
    place.files.last_reader.offset = 0
    place.reader.read(len(BODY) + more, lambda data, why: place.done.append((data, why)))
    place.reader.hub.on_body(pb.Body(id=place.reader.id, data=BODY))
    place.world.cut()
    place.owners["a"].stop_listening()
    place.world.pass_time(0.5)
    place.lead("b")
    assert place.done == [(BODY, "")]


def test_and_when_it_is_begun_while_nobody_leads(place):
    place.consume(AckMode.AUTO)
    place.owners["a"].server.unserve(SLOT)
    place.port.offline(SLOT)
    place.world.run()
    place.reader = place.port.read_body(SLOT, Blob(9, len(BODY)), 7, ID)
    place.read(CHUNK)
    assert place.got == b"" and place.done == []
    place.lead("b")
    assert place.got == BODY


def test_but_not_for_ever(place):
    place.consume(AckMode.AUTO)
    place.world.cut()
    place.owners["a"].server.unserve(SLOT)
    place.port.offline(SLOT)
    place.read(CHUNK)
    place.world.pass_time(40)
    ((data, why),) = place.done
    assert data is None and isinstance(why, Away) and "unavailable_after_s" in why


def test_not_even_when_its_owner_turns_it_away_and_leaves_behind_that(place):
    """It was to be asked for again a little later, and by then nobody led the slot: nothing else waited for it."""
    place.consume(AckMode.AUTO)
    place.world.run()
    place.reader.read(CHUNK, lambda data, why: place.done.append((data, why)))
    place.reader.hub.on_body(pb.Body(id=place.reader.id, failed=MOVED, fault=pb.Body.MOVED))
    assert place.port._downloads.waits(SLOT) and not place.port._channels[SLOT].kept
    place.owners["a"].server.unserve(SLOT)
    place.port.offline(SLOT)
    place.world.pass_time(40)
    ((data, why),) = place.done
    assert data is None and isinstance(why, Away) and "unavailable_after_s" in why


def test_a_message_that_died_with_its_leader_ends_it(place):
    place.consume(AckMode.AUTO)
    place.held["b"].clear()
    place.world.cut()
    place.owners["a"].stop_listening()
    place.read(CHUNK)
    place.lead("b")
    ((data, why),) = place.done
    assert data is None and why == NOT_HELD and isinstance(why, Away)


def test_who_has_left_asks_for_nothing(place):
    place.consume(AckMode.AUTO)
    place.world.run()
    place.world.cut()
    place.owners["a"].stop_listening()
    place.reader.close()
    place.lead("b")
    assert place.files.opened == 1


# ── AckMode.AUTO: consumed when all of it is there ─────────────────────────────────────────────────


def test_it_is_consumed_when_all_of_it_has_come(place):
    """By a Settle of its own; what is delivered beside it is by the batch, as ever."""
    place.consume(AckMode.AUTO)
    place.owners["a"].effects(Deliver(place.consumer, run_of(b"x", ids=range(41, 42)), 1))
    place.world.pass_time(0.1)
    assert [each.count for each in place.taken("a", Confirm)] == [1] and not place.taken("a", Settle)
    place.port.arrived(7, ID)
    place.port.arrived(7, ID)
    place.world.run()
    ((settle),) = place.taken("a", Settle)
    assert (settle.ids, settle.outcome) == ([ID], Outcome.ACK)
    place.lead("b")
    (again,) = place.taken("b", Subscribe)
    assert again.resume.held == [] and again.resume.taken == [(41, 41)]


def test_what_was_settled_and_not_answered_is_said_again(place):
    place.consume(AckMode.AUTO)
    place.owners["a"].shard.answers = False
    place.port.arrived(7, ID)
    place.lead("b")
    assert place.taken("b", Subscribe)[0].resume.held == [(ID, ID)]
    assert [settle.ids for settle in place.taken("b", Settle)] == [[ID]]


def test_that_it_is_settled_already_is_no_error(place):
    """By its first try; or its owner is of an older release, which confirms it when the delivery has come."""
    place.consume(AckMode.AUTO)
    place.owners["a"].shard.answers = False
    place.port.arrived(7, ID)
    place.world.run()
    (settle,) = place.taken("a", Settle)
    place.owners["a"].effects(Refused(settle.session, settle.seq, Code.NO_SUCH_DELIVERY, "not held"))
    place.world.run()
    assert place.edge.of(Refused) == []
    place.lead("b")
    assert place.taken("b", Settle) == []


def test_a_slot_without_an_owner_does_not_forget_it(place):
    place.consume(AckMode.AUTO)
    place.owners["a"].server.unserve(SLOT)
    place.port.offline(SLOT)
    place.world.pass_time(40)
    place.port.arrived(7, ID)
    place.world.pass_time(40)
    assert place.edge.of(Refused) == []
    place.lead("b")
    assert [settle.ids for settle in place.taken("b", Settle)] == [[ID]]


def test_an_edge_of_an_older_release_confirms_it_with_the_rest(place):
    place.consume(AckMode.AUTO)
    attached = next(iter(place.owners["a"].server._peers.values())).consumers.get(place.consumer)
    place.world.pass_time(0.1)
    assert place.taken("a", Confirm) == []
    attached.bodies = False
    place.give(9)
    place.world.pass_time(0.1)
    assert [each.count for each in place.taken("a", Confirm)] == [1]
