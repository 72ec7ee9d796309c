"""The histories find planted bugs: without that their silence would mean nothing."""

from __future__ import annotations

import logging

import pytest

from broker.engine.consumers.consumer import Consumer
from broker.engine.dispatch import dispatch, settle
from broker.engine.messages.page_index import PageIndex
from broker.engine.publishing import publish
from broker.engine.recovery import slot_restore
from broker.engine.routing import redelivery
from broker.engine.state import commit_release
from broker.engine.state.slot import Slot
from broker.journal.log.live_index import LiveIndex
from broker.owner.commit.group_commit import GroupCommit
from broker.owner.commit.release_gate import ReleaseGate
from broker.owner.shard import turn_commands
from broker.owner.transactions import transact
from tests.sim.shard_history import History

SEEDS = 300


@pytest.fixture(autouse=True)
def quiet(caplog):
    caplog.set_level(logging.CRITICAL + 1)


def found_by(seeds=SEEDS):
    """What the first history that fails says, or None."""
    for seed in range(seeds):
        try:
            History(seed).run()
        except Exception as error:
            return str(error)
    return None


def test_nothing_is_found_without_a_bug():
    assert found_by(30) is None


def test_effects_told_before_the_commit(monkeypatch):
    original = GroupCommit.commit

    def eager(self, now=False, wanted=False):
        number = self.open
        nothing = original(self, now, wanted)
        if self.open > number:
            self.done = number
            self._replicas.committed(number)
            self._owner.wake()
        return nothing

    monkeypatch.setattr(GroupCommit, "commit", eager)
    assert found_by() is not None


def test_marks_ignored_after_a_crash(monkeypatch):
    monkeypatch.setitem(slot_restore._REPLAY, "mark", lambda *_: None)
    assert "unmarked" in found_by()


def test_delivery_does_not_wait_for_the_mark(monkeypatch):
    original = dispatch._front

    def hasty(slot, queue, turn):
        queue.watermark.cleared = queue.last
        return original(slot, queue, turn)

    monkeypatch.setattr(dispatch, "_front", hasty)
    assert "unmarked" in found_by()


def test_held_run_lost_at_release(monkeypatch):
    original = commit_release.release

    def careless(slot, number, turn):
        if len(slot.pending) > 2 and slot.pending[1].entries:
            held = slot.pending[1]
            for queue, run, paged in held.entries:
                queue.gate.release(run, paged)
            held.entries = ()
        original(slot, number, turn)

    monkeypatch.setattr(commit_release, "release", careless)
    assert found_by() is not None


def test_transaction_split(monkeypatch):
    original = transact.transacting

    def splitting(shard, command, turn, touched):
        def loose(group, turn):
            if group.appends:
                shard.journal.append(group.appends[0])
            commits = shard._commits
            batch = shard.journal.seal() if not commits._committing else None
            if batch is not None:
                commits._committing = True
                commits._write(batch, commits.open)
                commits.open += 1
            for name in ("effects", "fetches", "moves"):
                getattr(turn, name).extend(getattr(group, name))
            turn.appends += group.appends[1:]

        monkeypatch.setattr(transact, "merge", loose)
        return original(shard, command, turn, touched)

    monkeypatch.setattr(turn_commands, "transacting", splitting)
    assert found_by() is not None


def test_settle_without_a_record(monkeypatch):
    monkeypatch.setattr(Slot, "settle_ids", lambda *_: None)
    assert found_by() is not None


def test_paging_reorders(monkeypatch):
    def hasty(slot, queue, run, turn):
        if queue.nbytes + queue.gate.nbytes + run.nbytes <= slot.limit:
            return False
        return original(slot, queue, run, turn)

    original = publish._must_page
    monkeypatch.setattr(publish, "_must_page", hasty)
    assert "order" in found_by()


def test_pages_dropped(monkeypatch):
    original = PageIndex.drop
    monkeypatch.setattr(PageIndex, "drop", lambda self, count: original(self, min(count + 1, len(self))))
    assert found_by() is not None


def test_credit_not_charged(monkeypatch):
    original = Consumer.charge

    def generous(self, run):
        cost = original(self, run)
        self.room += 1
        self.credit_messages += 1
        return cost

    monkeypatch.setattr(Consumer, "charge", generous)
    assert "no " in found_by()


def test_delivery_counts_not_recorded(monkeypatch):
    monkeypatch.setattr(redelivery, "_record", lambda *_: None)
    assert "unmarked" in found_by()


def test_who_goes_in_order_has_failed(monkeypatch):
    original = settle.leave
    monkeypatch.setattr(settle, "leave", lambda *args: original(*args[:4], True))
    assert "failures counted" in found_by()


def test_that_it_was_out_before_is_not_recorded_where_nobody_failed(monkeypatch):
    original = redelivery._record
    monkeypatch.setattr(redelivery, "_record", lambda *args: original(*args) if args[3] else None)
    assert "unmarked" in found_by()


def test_everything_is_marked_at_a_clean_start(monkeypatch):
    original = slot_restore.Restore.end
    monkeypatch.setattr(slot_restore.Restore, "end", lambda self, clean, turn: original(self, False, turn))
    assert "without need" in found_by()


def test_large_bodies_are_never_removed(monkeypatch):
    monkeypatch.setattr(LiveIndex, "take_idle_blobs", lambda self: self.idle_blobs.clear() or [])
    monkeypatch.setattr("broker.journal.bodies.blobs.BlobStore.remove", lambda *_: None)
    assert "large bodies left" in found_by()


def test_large_body_removed_while_somebody_needs_it(monkeypatch):
    monkeypatch.setattr(LiveIndex, "unused_blob", lambda *_: True)
    assert found_by() is not None


def test_a_commit_that_never_ends(monkeypatch):
    monkeypatch.setattr(ReleaseGate, "release", lambda self, committed, turn, touched: self._waiting.clear())
    assert found_by() is not None  # "never answered", or "something waits at rest"
