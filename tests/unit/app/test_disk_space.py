"""Low disk is said before it is there, once, with numbers, and when it is over."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

import pytest

from broker.app.process.disk_space import SpaceWatch
from broker.core.message import DURABLE
from broker.journal.journal import Space
from broker.owner.commit.stats import ShardStats
from tests.sim.disk import SimDisk
from tests.unit.journal.support import open_journal, put, sent

SEGMENT = 64 * 1024


class InPlace:
    """Io that works at once."""

    def submit(self, job: Callable[[], Any], done: Callable[[Any, BaseException | None], None]) -> None:
        done(job(), None)


@pytest.fixture
def disk() -> SimDisk:
    return SimDisk(0)


def values(journal) -> dict[str, float]:
    return {m.name: m.samples[0][1] for m in ShardStats().metrics([], journal) if m.name.startswith("stomp_journal_")}


def test_it_is_said_when_it_is_near_when_it_has_come_and_when_it_is_over(disk, caplog):
    journal = open_journal(disk, segment_bytes=SEGMENT, min_free_bytes=10 * SEGMENT)
    watch = SpaceWatch(journal, InPlace())
    caplog.set_level(logging.INFO, "stampede")
    watch.look()
    assert journal.space is Space.ENOUGH and watch.details() == {} and not caplog.records
    assert values(journal)["stomp_journal_space"] == 0
    disk.capacity = disk.used() + 15 * SEGMENT
    for _ in range(3):
        watch.look()
    [near] = caplog.records
    assert near.levelname == "WARNING" and f"{15 * SEGMENT:,} bytes free" in near.getMessage()
    assert values(journal)["stomp_journal_space"] == 1 and "nearly full" in watch.details()["disk"]
    assert values(journal)["stomp_journal_free_bytes"] == 15 * SEGMENT
    disk.capacity = disk.used() + 9 * SEGMENT
    watch.look()
    assert "1601" in caplog.records[-1].getMessage() and watch.details()["disk"].startswith("full")
    assert values(journal)["stomp_journal_space"] == 2
    disk.capacity = disk.used() + 100 * SEGMENT
    watch.look()
    assert "again" in caplog.records[-1].getMessage() and len(caplog.records) == 3
    journal.close(clean=True)


def test_a_volume_that_is_too_small_is_said_at_the_start(disk, caplog):
    disk.capacity = 12 * SEGMENT
    journal = open_journal(disk, segment_bytes=SEGMENT, min_free_bytes=10 * SEGMENT)
    SpaceWatch(journal, InPlace()).look()
    [said] = caplog.records
    assert "too small" in said.getMessage() and f"{12 * SEGMENT:,}" in said.getMessage()
    put(journal, sent(1, b"x", flags=DURABLE))
    journal.close(clean=True)
