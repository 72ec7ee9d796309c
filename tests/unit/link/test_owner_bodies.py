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
from tests.unit.link.world import Edge, Owner, World, make_settings

SLOT = 5


class Files:
    """Bodies in memory; `slow`: nothing is written until release()."""

    def __init__(self, world):
        self.world = world
        self.stored = {}
        self.writers = []
        self.slow = False
        self.opened = 0
        self.fails = ""

    def new_body(self, slot, on_drain):
        self.writers.append(Writer(self, on_drain))
        return self.writers[-1]

    def open_body(self, slot, blob, offset=0):
        self.opened += 1
        return Reader(self, blob, offset)

    def release(self):
        self.slow = False
        for writer in self.writers:
            writer.drain()


class Writer:
    def __init__(self, files, on_drain):
        self.files = files
        self.on_drain = on_drain
        self.pending = 0
        self.data = b""
        self.aborted = False

    def write(self, data):
        self.data += data
        self.pending += len(data)
        if not self.files.slow:
            self.files.world.schedule(self.drain)

    def drain(self):
        self.pending = 0
        self.on_drain()

    def finish(self, sync, done):
        self.sync = sync
        if self.files.fails:
            self.files.world.schedule(lambda: done(None, self.files.fails))
            return
        blob = Blob(len(self.files.stored) + 100, len(self.data))
        self.files.stored[blob.id] = self.data
        self.files.world.schedule(lambda: done(blob, ""))

    def abort(self):
        self.aborted = True


class Reader:
    def __init__(self, files, blob, offset):
        self.files = files
        self.blob = blob
        self.offset = offset
        self.closed = False
        self.sizes = []
        files.last_reader = self

    def read(self, n, done):
        self.sizes.append(n)
        if self.files.fails:
            self.files.world.schedule(lambda: done(None, self.files.fails))
            return
        data = self.files.stored[self.blob.id][self.offset : self.offset + n]
        self.offset += len(data)
        self.files.world.schedule(lambda: done(data, ""))

    def close(self):
        self.closed = True


class Place:
    def __init__(self):
        self.world = World()
        self.files = Files(self.world)
        settings = make_settings()
        bodies = {"new_body": self.files.new_body, "open_body": self.files.open_body}
        self.a = Owner(self.world, "a", settings, **bodies)
        self.b = Owner(self.world, "b", settings, **bodies)
        self.edge = Edge(self.world, settings)
        self.port = self.edge.port
        self.a.server.serve(SLOT, 1)
        self.port.route(SLOT, 1, "a", "a:1")
        self.world.run()
        self.drains = 0
        self.done = []

    def write(self):
        def drained():
            self.drains += 1

        return self.port.write_body(SLOT, drained)

    def finish(self, writer, sync=True):
        writer.finish(sync, lambda blob, why: self.done.append((blob, why)))


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


def read_all(place, reader, n=256 * 1024):
    pieces = []

    def arrived(data, why):
        if data:
            pieces.append(data)
            reader.read(n, arrived)
        else:
            place.done.append((data, why))

    reader.read(n, arrived)
    place.world.run()
    return b"".join(pieces)


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
