"""How far archives have got: never back, and on the disk before it counts."""

from __future__ import annotations

import pytest

from broker.core.errors import CorruptJournal
from broker.journal.log.archive_marks import NAME, ArchiveMarks
from broker.journal.log.store import write_all
from tests.sim.disk import SimDisk

from .support import FOLDER, open_journal


@pytest.fixture
def disk() -> SimDisk:
    return SimDisk(0)


def marks(disk: SimDisk) -> ArchiveMarks:
    return open_journal(disk).marks


def test_a_mark_goes_forward_only_and_nothing_changes_before_it_is_saved(disk):
    found = marks(disk)
    assert found.lowest() is None, "nobody needs anything"
    table = found.advanced("nightly", {1: 30, 2: 5})
    assert found.names == {}
    found.names = table
    assert found.advanced("nightly", {1: 20, 3: 4}) == {"nightly": {1: 30, 2: 5, 3: 4}}
    found.names = found.advanced("weekly", {1: 7})
    assert found.lowest() == {1: 7, 2: 5}
    assert found.without("weekly") == {"nightly": {1: 30, 2: 5}} and "weekly" in found.names


def test_an_interrupted_write_leaves_the_old_table(disk):
    found = marks(disk)
    found.save({"nightly": {1: 30}})
    disk.open(f"{FOLDER}/{NAME}.tmp", create=True).close()  # the next one was cut off before its rename
    found.load()
    assert found.names == {"nightly": {1: 30}}


def test_a_file_that_makes_no_sense_is_named_with_the_fix(disk):
    found = marks(disk)
    file = disk.open(f"{FOLDER}/{NAME}", create=True)
    write_all(file, b'{"nightly": [1]}', 0)
    file.close()
    with pytest.raises(CorruptJournal, match=r"archives.*remove it"):
        found.load()
