"""Group commit: one at a time, whatever gathers meanwhile is the next one, and a failed write is never repeated but for
want of space."""

from __future__ import annotations

from collections.abc import Iterator
from types import SimpleNamespace

import pytest

from broker.config.settings import Settings
from broker.core.errors import JournalDead, JournalError, JournalFull
from broker.owner.commit import group_commit
from broker.owner.commit.group_commit import FULL_RETRY_S, LAZY_BYTES, LAZY_S, PIECE, GroupCommit

from .hand_io import HandIo


class Disk:
    """A journal that gathers records, a shard that is told, and followers that hear of it: all in one `log`."""

    alone = False

    def __init__(self) -> None:
        self.log: list[object] = []
        self.gathered: list[object] = []
        self.writes: list[list] = []
        self.bad: list[Exception] = []
        self.wants_snapshot = self.wants_prepare = False
        self.dead: list[list[int]] = []
        """What each clear() removes."""
        self.copied = False
        """A backup has the folder: nothing may go."""
        self.backlog = 0
        self.inflight_bytes = 0
        self.small: list[list[object]] = []
        self.io, self.prepare_io = HandIo(), HandIo()
        self.timers: list[tuple] = []
        self.stats = SimpleNamespace(
            full_waits=0, commits=0, waits_for_room=self._waited, pauses_producers=lambda: self._log("paused")
        )
        self.commits = GroupCommit(
            Settings(), self, self, self.stats, self.io, self.prepare_io, lambda *timer: self.timers.append(timer), self
        )

    def _log(self, *what: object) -> None:
        self.log.append(what[0] if len(what) == 1 else what)

    def _waited(self) -> None:
        self.stats.full_waits += 1

    # ── the journal ──
    def append(self, record) -> None:
        self.gathered.append(record)

    def seal(self):
        if not self.gathered:
            return None
        batch, self.gathered = SimpleNamespace(items=self.gathered), []
        return batch

    def write(self, batch) -> None:
        self.writes.append(batch.items)
        if self.bad:
            raise self.bad.pop(0)

    def committed(self, what=None) -> None:
        """Of the journal (a batch), of followers (a number), of the shard (nothing)."""
        self._log("turn" if what is None else ("counts", what) if isinstance(what, int) else ("written", *what.items))

    def prepare(self) -> None:
        self._log("prepared")

    @property
    def wants_clear(self) -> bool:
        return bool(self.dead)

    def clear(self):
        if self.bad:
            raise self.bad.pop(0)
        return None if self.copied else self.dead.pop(0)

    def cleared(self, segments) -> None:
        self._log(("gone", *segments))

    def maintain(self) -> bool:
        if self.bad:
            raise self.bad.pop(0)
        return True

    def begin_snapshot(self) -> None:
        self._log("copying")

    def add_snapshot(self, piece) -> None:
        self._log(("piece", len(piece)))
        self.gathered += piece

    def end_snapshot(self) -> None:
        self.wants_snapshot = False
        self._log("copied")

    # ── followers ──
    def sealed(self, number, items) -> None:
        self._log(("sealed", number, *items))

    # ── the shard ──
    def snapshot(self) -> Iterator[list[object]]:
        yield from self.small

    def wake(self) -> None:
        self._log("wake")

    def relieved(self) -> None:
        self._log("relieved")

    def fail(self, why: str) -> None:
        self._log(("failed", why))

    # ── ──
    def put(self, *records: object) -> None:
        """Somebody waits for these."""
        self.commits.append(list(records))
        self.commits.want()
        self.commits.commit()


def test_what_gathers_while_one_is_under_way_is_the_next_one():
    disk = Disk()
    disk.put("a")
    disk.put("b")
    disk.put("c")
    assert len(disk.io.jobs) == 1 and disk.log == [("sealed", 1, "a")] and disk.commits.open == 2
    disk.io.one()
    assert disk.log[1:] == [("written", "a"), ("counts", 1), "turn"] and disk.commits.done == 1
    assert disk.commits.commit() is False
    assert disk.log[-1] == ("sealed", 2, "b", "c")
    disk.io.one()
    assert disk.writes == [["a"], ["b", "c"]] and disk.commits.done == 2 and disk.stats.commits == 2
    assert disk.commits.commit() is True, "nothing is under way"


def test_who_asks_is_called_when_all_before_it_is_on_the_disk_and_not_before():
    disk, told = Disk(), []
    disk.put("a")
    disk.commits.append(["b"])
    disk.commits.after(lambda: told.append("b"))
    disk.io.one()
    assert told == []
    disk.commits.commit()
    disk.io.one()
    assert told == ["b"]


def test_a_number_that_somebody_waits_for_without_bytes_counts_at_once():
    disk, told = Disk(), []
    disk.commits.after(lambda: told.append(1))
    assert disk.commits.commit() is True
    assert told == [1] and disk.commits.done == 1 and not disk.io.jobs
    assert disk.log == [("sealed", 1), ("counts", 1), "wake"]


def test_what_nobody_waits_for_goes_a_little_later_with_what_comes_next():
    disk = Disk()
    disk.commits.append(["lazy"])
    disk.inflight_bytes = 10
    disk.commits.commit()
    disk.commits.commit()
    assert not disk.io.jobs and [seconds for seconds, _ in disk.timers] == [LAZY_S], "one timer"
    disk.timers.pop()[1]()
    assert disk.log == [("sealed", 1, "lazy")]
    disk.io.one()
    disk.commits.append(["lazy"])
    disk.inflight_bytes = LAZY_BYTES
    disk.commits.commit()
    assert disk.log[-1] == ("sealed", 2, "lazy"), "not if it is much"


def test_a_shard_that_has_failed_seals_nothing_by_itself():
    disk = Disk()
    disk.commits.append(["lazy"])
    disk.inflight_bytes = 10
    disk.commits.commit()
    disk.commits.stop()
    disk.timers.pop()[1]()
    assert not disk.io.jobs


def test_half_of_something_is_not_sealed():
    disk = Disk()
    disk.commits.keep_open(True)
    disk.put("half")
    assert not disk.io.jobs
    disk.commits.keep_open(False)
    disk.put("other half")
    assert disk.log == [("sealed", 1, "half", "other half")]


def test_a_full_disk_is_tried_again_with_the_same_bytes_and_nothing_overtakes(caplog):
    disk = Disk()
    disk.bad = [JournalFull("no room"), JournalFull("no room")]
    disk.put("a")
    disk.io.one()
    disk.put("b")
    assert not disk.io.jobs and disk.commits.done == 0
    for _ in range(2):
        seconds, again = disk.timers.pop()
        assert seconds == FULL_RETRY_S
        again()
        disk.io.one()
    assert disk.writes == [["a"]] * 3 and disk.commits.done == 1 and disk.stats.full_waits == 2
    assert caplog.text.count("no room") == 1, "told once a while"


def test_any_other_failure_ends_the_owner_and_is_never_repeated():
    disk = Disk()
    disk.bad = [JournalDead("EIO")]
    disk.put("a")
    disk.io.one()
    assert disk.log[-1] == ("failed", "journal: EIO") and disk.commits.done == 0
    assert not disk.timers and not disk.io.jobs


@pytest.mark.parametrize("slower", ["inflight_bytes", "backlog"])
def test_producers_pause_by_the_slower_of_disk_and_followers_and_go_on_at_half(slower):
    disk = Disk()
    most = Settings().journal.max_inflight_bytes
    for amount, congested in (
        (most, False),
        (most + 1, True),
        (most + 2, True),
        (most, True),
        (most // 2, True),
        (most // 2 - 1, False),
    ):
        setattr(disk, slower, amount)
        disk.commits.check_pressure()
        assert disk.commits.congested is congested, amount
    assert disk.log == ["paused", "relieved"]


def test_small_state_goes_in_pieces_one_with_each_commit():
    disk = Disk()
    disk.wants_snapshot = True
    disk.small = [[n] * 50 for n in range(9)]
    disk.put("a")
    while disk.io.jobs:
        disk.io.one()
        disk.commits.commit()
    pieces = [what[1] for what in disk.log if isinstance(what, tuple) and what[0] == "piece"]
    assert sum(pieces) == 450 and max(pieces) == PIECE and len(pieces) == 3
    assert disk.log.count("copying") == disk.log.count("copied") == 1
    assert disk.writes[0][0] == "a" and len(disk.writes) == 3


def test_a_stop_does_not_wait_for_the_rest_of_it():
    disk = Disk()
    disk.wants_snapshot = True
    disk.small = [[n] * 300 for n in range(9)]
    disk.put("a")
    disk.commits.hurry()
    disk.io.one()
    disk.commits.commit(now=True)
    assert [what for what in disk.log if isinstance(what, tuple) and what[0] == "piece"] == [("piece", 300)]


def test_segments_are_prepared_one_at_a_time_and_behind_a_commit():
    disk = Disk()
    disk.wants_prepare = True
    for _ in range(2):
        disk.put("a")
        disk.io.one()
    assert len(disk.prepare_io.jobs) == 1
    disk.wants_prepare = False
    disk.prepare_io.one()
    assert disk.log[-1] == "prepared" and not [what for what in disk.log if what[0] == "failed"]


def test_a_segment_that_cannot_be_prepared_and_maintenance_that_fails_end_the_owner():
    disk = Disk()
    disk.wants_prepare = True
    disk.put("a")
    disk.io.one()
    _, done = disk.prepare_io.jobs.pop()
    done(None, JournalError("EIO"))
    assert disk.log[-1] == ("failed", "journal: EIO")
    disk.bad = [JournalError("rot")]
    assert disk.commits.maintain() is False and disk.log[-1] == ("failed", "journal: rot")


def test_what_compaction_waits_for_is_sealed_though_nobody_else_waits():
    disk = Disk()
    disk.commits.append(["moved"])
    disk.inflight_bytes = 10
    assert disk.commits.maintain() is True
    assert disk.log == [("sealed", 1, "moved")] and group_commit.LAZY_S > 0


def test_files_nobody_needs_are_removed_behind_the_commit_some_at_a_time():
    disk = Disk()
    disk.dead = [[3], [], [4]]
    disk.put("a")
    disk.io.one()
    assert disk.log[-1] == "turn" and len(disk.prepare_io.jobs) == 1, "told before anything is removed"
    disk.put("b")
    disk.io.one()
    assert len(disk.prepare_io.jobs) == 1, "one at a time"
    while disk.prepare_io.jobs:
        disk.prepare_io.one()
    assert [what for what in disk.log if what[0] == "gone"] == [("gone", 3), ("gone",), ("gone", 4)]


def test_what_a_backup_copies_is_asked_for_again_with_the_next_commit_or_when_the_disk_is_full():
    disk = Disk()
    disk.dead, disk.copied = [[]], True
    disk.put("a")
    disk.io.one()
    disk.prepare_io.one()
    assert not disk.prepare_io.jobs, "not again and again"
    disk.bad = [JournalFull("no room")]
    disk.put("b")
    disk.io.one()
    disk.copied = False
    disk.prepare_io.one()
    assert not disk.dead and disk.log[-1] == ("gone",)


def test_a_file_that_cannot_be_removed_ends_the_owner():
    disk = Disk()
    disk.dead = [[3]]
    disk.put("a")
    disk.io.one()
    disk.bad = [JournalDead("EIO")]
    disk.prepare_io.one()
    assert disk.log[-1] == ("failed", "journal: EIO")


def test_a_process_that_ends_removes_nothing_any_more():
    """Behind its end the folder is another's, who may have files of these names."""
    for end in (lambda disk: disk.commits.hurry(), lambda disk: disk.commits.stop()):
        disk = Disk()
        disk.dead = [[3], [4]]
        disk.put("a")
        disk.io.one()
        end(disk)
        disk.prepare_io.one()
        assert not disk.prepare_io.jobs and disk.dead == [[4]]
