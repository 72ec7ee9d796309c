"""While somebody copies the folder no large body is removed; and nobody waits for anybody."""

from __future__ import annotations

import pytest

from broker.journal.log.copying_guard import NAME, BlobGuard
from tests.sim.disk import SimDisk

from .support import FOLDER


@pytest.fixture
def guard() -> BlobGuard:
    files = SimDisk(0)
    files.mkdir(FOLDER)
    return BlobGuard(files, FOLDER)


def test_without_a_backup_bodies_may_go(guard):
    with guard.removing() as may:
        assert may


def test_while_a_backup_copies_none_may_and_afterwards_they_may_again(guard):
    held = guard._files.lock(f"{FOLDER}/{NAME}")
    with guard.removing() as may:
        assert not may
    held.close()
    with guard.removing() as may:
        assert may


def test_a_backup_that_begins_meanwhile_finds_it_taken_until_they_are_gone(guard):
    with guard.removing(), pytest.raises(OSError):
        guard._files.lock(f"{FOLDER}/{NAME}")
    guard._files.lock(f"{FOLDER}/{NAME}").close()


def test_the_lock_is_let_go_of_when_removing_fails(guard):
    with pytest.raises(RuntimeError), guard.removing():
        raise RuntimeError("EIO")
    guard._files.lock(f"{FOLDER}/{NAME}").close()
