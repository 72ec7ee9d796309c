"""Large bodies at either end of a link: files that can fail, and who reads and writes them."""

from __future__ import annotations

from broker.core.message import Blob
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
