"""Large bodies at their owner: taken, kept while somebody may publish them, and read before a delivery is confirmed."""

from __future__ import annotations

from functools import partial

import pytest

from broker.core.address import Routing
from broker.core.commands import Publish
from broker.core.errors import Code, JournalDead, JournalFull
from broker.core.message import BLOB, Blob, Run
from broker.link.bodies.edge_bodies import CHUNK
from broker.link.owner_port import broken_disk
from broker.link.owner_side.link_server import SWEEP_S
from broker.owner.bodies.bodies import FileBodyWriter

from .bodies_world import Place, read_all

SLOT = 5


@pytest.fixture
def place():
    return Place()


BODY = bytes(range(256)) * 12_000  # 3 MB


def large(blob, seq=3):
    run = Run(range(0), b"", [b"\n"], blob.length + 2, BLOB, blob=blob)
    return Publish(SLOT, 1, seq, "a", Routing.ANYCAST, run)


def stored(place):
    writer = place.write()
    writer.write(b"x" * 1000)
    place.finish(writer)
    place.world.run()
    return place.done[-1][0]


def test_a_body_that_cannot_be_stored_says_why(place):
    place.files.fails = "no space"
    writer = place.write()
    writer.write(b"x")
    place.finish(writer)
    place.world.run()
    assert place.done == [(None, "no space")]


def test_what_nobody_published_goes_with_the_edge(place):
    stored(place)
    place.port.close()
    place.world.run()
    place.a.server.edge_gone("edge-0", "b")
    assert place.files.writers[0].aborted


def test_what_nobody_published_goes_with_the_slot(place):
    """Cluster history 1: its Publish went to the next leader, which refused it."""
    stored(place)
    place.a.server.unserve(SLOT)
    place.b.server.serve(SLOT, 2)
    place.world.pass_time(SWEEP_S + 0.1)
    assert place.files.writers[0].aborted


def test_and_with_a_stream_that_ended_before_its_edge_heard_of_it(place):
    """Cluster history 655: the edge never asks for it again."""
    stored(place)
    place.world.cut()
    place.world.pass_time(0.5)
    assert place.files.writers[0].aborted


def test_also_what_is_complete_only_then(place):
    """Cluster history 71."""
    writer = place.write()
    writer.write(b"x")
    place.world.run()
    place.a.server.unserve(SLOT)
    place.a.server.serve(SLOT, 3)
    place.finish(writer)
    place.world.pass_time(SWEEP_S + 0.1)
    assert place.files.writers[0].aborted
    ((blob, _),) = place.done
    place.port.submit([large(blob)])
    place.port.route(SLOT, 3, "a", "a:1")
    place.world.run()
    assert [each.code for each in place.edge.effects] == [Code.OWNER_MOVED]


def test_a_body_is_read_in_pieces(place):
    place.files.stored[9] = BODY
    reader = place.port.read_body(SLOT, Blob(9, len(BODY)))
    assert read_all(place, reader) == BODY
    assert place.done == [(b"", "")]
    assert max(place.files.last_reader.sizes) <= CHUNK
    reader.close()
    place.world.run()
    assert place.files.last_reader.closed


@pytest.mark.parametrize(
    "error, code, words",
    [
        (JournalDead("cannot write a large body: Input/output error"), Code.OWNER_STOPPED, "Input/output error"),
        (JournalFull("no space to write a large body"), None, "no space"),
    ],
)
def test_a_disk_that_is_broken_is_not_one_that_is_full(place, error, code, words):
    """With EIO a client of a cluster was told that there is no space left."""

    class Failing:
        def create(self):
            return self

        def write(self, data):
            raise error

        def finish(self, sync):
            return None

        def abort(self):
            pass

    class Io:
        def submit(self, job, done):
            try:
                result = job()
            except Exception as raised:
                place.world.schedule(partial(done, None, raised))
            else:
                place.world.schedule(partial(done, result, None))

    place.a.server.new_body = lambda slot, on_drain: FileBodyWriter(Failing(), Io(), on_drain, broken_disk)
    for peer in place.a.server._peers.values():
        peer.bodies._new_body = place.a.server.new_body
    writer = place.write()
    writer.write(b"x")
    place.finish(writer)
    place.world.run()
    ((blob, why),) = place.done
    assert blob is None and words in why
    assert getattr(why, "code", None) is code


def test_a_reading_opens_the_file_before_the_delivery_is_confirmed(place):
    """Confirming settles the message and removes the file."""
    place.port.read_body(SLOT, Blob(9, 10))
    place.world.run()
    assert place.files.opened == 1
