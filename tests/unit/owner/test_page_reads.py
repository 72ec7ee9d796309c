"""Pages on their way from the disk: for the engine that has asked, and in a turn."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from broker.core.effects import Fetch
from broker.core.errors import JournalError
from broker.owner.shard.page_reads import PageReads
from tests.unit.owner.lifecycle_world import ME, OTHER, World

from .hand_io import HandIo


def test_a_page_that_was_asked_for_before_is_not_given_to_the_next_engine():
    """Nor does it matter that it cannot be read: its log may have been replaced."""
    world = World()
    world.leading().send(b"m")
    world.is_now(2, OTHER)
    world.reads.held = True
    world.is_now(3, ME)
    world.wait(0.5)
    world.consume()
    (job, done), *_ = world.reads.waiting
    world.reads.waiting.clear()
    world.is_now(4, OTHER)
    world.is_now(5, ME)
    world.wait(0.5)
    world.consume()
    done(None, JournalError("no such segment"))
    done(job(), None)
    world.run()
    assert world.shard.stopped == "" and world.got() == []
    world.reads.go_on()
    world.run()
    assert world.got() == [b"m"]


class Reader:
    """As much of an engine as reads pages."""

    def __init__(self, told: list) -> None:
        self.told = told

    def fetched(self, *page: object) -> None:
        self.told.append(page)


class Reading:
    """Pages of slot 3, whose engine may be another one by the time they come."""

    def __init__(self, page: object = ("run",)) -> None:
        self.io, self.woken, self.failed, self.fetched = HandIo(), [], [], []
        self.engines = {3: self.engine()}
        journal = SimpleNamespace(read=lambda positions, nbytes: self._page(page, positions, nbytes))
        self.reads = PageReads(journal, self.io, self.engines, lambda: self.woken.append(1), self.failed.append)

    def engine(self) -> Reader:
        return Reader(self.fetched)

    def _page(self, page: object, positions: object, nbytes: int) -> object:
        if isinstance(page, Exception):
            raise page
        return page


FETCH = Fetch(3, 11, [100, 200])


def test_what_has_come_waits_for_a_turn_and_is_handed_in_once():
    reading, turn, touched = Reading(), object(), {}
    reading.reads.ask(FETCH, 64)
    reading.io.all()
    assert reading.woken == [1] and not reading.fetched, "never outside of a turn"
    reading.reads.hand_in(turn, touched)
    reading.reads.hand_in(turn, touched)
    assert reading.fetched == [(11, ("run",), turn)] and list(touched) == [reading.engines[3]]


@pytest.mark.parametrize("when", ["on its way", "before its turn"])
def test_another_engine_of_the_slot_has_asked_for_nothing(when):
    reading, touched = Reading(), {}
    reading.reads.ask(FETCH, 64)
    if when == "on its way":
        reading.engines[3] = reading.engine()
    reading.io.all()
    reading.engines[3] = reading.engine()
    reading.reads.hand_in(object(), touched)
    assert not reading.fetched and not touched
    assert reading.woken == ([] if when == "on its way" else [1])


@pytest.mark.parametrize("page", [OSError("EIO"), MemoryError(), None])
def test_a_log_that_cannot_be_read_back_stops_the_owner_if_anybody_still_needs_it(page):
    reading = Reading(page)
    reading.reads.ask(FETCH, 64)
    reading.io.all()
    assert len(reading.failed) == 1 and "read back" in reading.failed[0] and not reading.failed[0].endswith(": ")
    gone = Reading(page)
    gone.reads.ask(FETCH, 64)
    del gone.engines[3]
    gone.io.all()
    assert not gone.failed and not gone.woken
