"""Large bodies on their way to followers, where the leader has trouble with its own copy."""

from __future__ import annotations

import pytest

from broker.core.errors import JournalError
from broker.owner.replication.catchup import RETRY_S
from tests.unit.owner.test_repl_basics import SLOT, in_sync, ready_world, told


class Failing:
    """A BlobStore of which the next `times` openings, or readings, fail."""

    def __init__(self, store, opens=0, reads=0, data=None):
        self.store, self.opens, self.reads, self.data = store, opens, reads, data
        self.tried = []

    def __getattr__(self, name):
        return getattr(self.store, name)

    def open(self, id):
        if self.opens:
            self.opens -= 1
            raise JournalError(f"large body {id:016x} cannot be opened: Too many open files")
        return Reader(self, self.store.open(id))


class Reader:
    def __init__(self, failing, reader):
        self.failing, self.reader = failing, reader

    def __getattr__(self, name):
        return getattr(self.reader, name)

    def read(self, offset, n):
        failing = self.failing
        failing.tried.append(offset)
        if offset and failing.reads:
            failing.reads -= 1
            if failing.data is None:
                raise JournalError("Input/output error")
            return failing.data
        return self.reader.read(offset, n)


def sent_with(world, **trouble):
    leader = world.leader(SLOT)
    body = world.random.randbytes(200_000)
    failing = leader.journal.blobs = Failing(leader.journal.blobs, **trouble)
    leader.send(SLOT, body=body)
    return failing, body


def has(world, body):
    (id,) = world.bodies
    return [owner.journal.blobs.read(id, 0, len(body)) == body for owner in world.owners.values()]


@pytest.mark.parametrize("trouble", [{"reads": 5}, {"reads": 5, "data": b""}, {"opens": 5}])
def test_a_body_that_cannot_be_read_is_read_again(trouble):
    world = ready_world()
    failing, body = sent_with(world, **trouble)
    begin = world.now
    world.until(lambda: told(world) == 1 and in_sync(world, "o0", "o1", "o2"), 60)
    assert has(world, body) == [True] * 3
    assert world.now - begin > RETRY_S, "not at once: it would only fail again"
    assert len(failing.tried) < 40, "every pause is twice as long"


def test_an_empty_one_that_stands_for_a_message_that_is_gone_is_handed_on():
    """Cluster history 169: a follower that was given it became the leader before the record was gone from its log, and
    found its file too short: whoever it was to bring up never came to be in sync."""
    world = ready_world()
    world.owners["o2"].crash(wipe=True)
    world.until(lambda: in_sync(world, "o0", "o1"))
    leader = world.leader(SLOT)
    leader.send(SLOT, body=b"x" * 100_000)
    world.until(lambda: told(world) == 1)
    (id,) = world.bodies
    leader.disk.names[leader.journal.blobs.path(id)].data.clear()
    world.owners["o2"].start()
    world.until(lambda: in_sync(world, "o0", "o1", "o2"))
