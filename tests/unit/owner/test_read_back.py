"""Slots that are stepped down from together are read back in one pass over the log."""

from __future__ import annotations

import pytest

from broker.owner.slots import read_back
from broker.owner.slots.read_back import ReadBack
from broker.owner.slots.standby import Standby
from tests.unit.journal.nodes import Node
from tests.unit.journal.support import commit, sent

SLOTS = (1, 2, 3)


class Thread:
    """Jobs wait until they are asked for, as those of a busy thread do."""

    def __init__(self):
        self.jobs = []

    def submit(self, job, done):
        self.jobs.append((job, done))

    def run(self):
        jobs, self.jobs = self.jobs, []
        for job, done in jobs:
            job()
            done(None, None)


class World:
    def __init__(self):
        self.log = Node(1)
        for slot in SLOTS:
            self.log.lead(slot)
            self.log.put(sent(slot, b"m", slot=slot))
        self.thread, self.ended = Thread(), {}
        self.reading = ReadBack(self.log.journal, self.thread, lambda callback: callback())

    def begin(self, slot):
        standby = Gathered()
        self.reading.begin(slot, standby, lambda error: self.ended.update({slot: error}))
        return standby


class Gathered(Standby):
    def __init__(self):
        self.ids = []

    def found(self, more):
        self.ids += [i for record, _ in more for i in record.run.ids]


@pytest.fixture
def world():
    return World()


def test_all_that_wait_are_read_at_once_and_each_gets_its_own(world, monkeypatch):
    passes, real = [], read_back.read_together

    def counted(surveys):
        passes.append(len(surveys))
        real(surveys)

    monkeypatch.setattr(read_back, "read_together", counted)
    standbys = {slot: world.begin(slot) for slot in SLOTS}
    world.thread.run()
    assert passes == [len(SLOTS)]
    assert {slot: standby.ids for slot, standby in standbys.items()} == {slot: [slot] for slot in SLOTS}
    assert world.ended == dict.fromkeys(SLOTS)
    world.begin(1)
    world.thread.run()
    assert passes == [len(SLOTS)], "one alone needs no company"


def test_what_cannot_be_read_is_told_to_all_of_them(world):
    for slot in SLOTS:
        world.begin(slot)
    commit(world.log.journal)
    data = next(file for name, file in world.log.disk.names.items() if name.endswith(".log")).data
    data[400] ^= 1
    world.thread.run()
    assert all("damaged" in str(world.ended[slot]) for slot in SLOTS)
