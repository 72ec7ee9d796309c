"""The cluster's histories find planted bugs: without that their silence would mean nothing."""

from __future__ import annotations

import logging
from collections import deque
from dataclasses import replace

import pytest

from broker.core.commands import Decide
from broker.core.effects import Move
from broker.edge.subscriptions.split_subscription import Order
from broker.engine.consumers.message_groups import Groups
from broker.engine.dispatch import settle
from broker.engine.publishing import repeats
from broker.engine.recovery import reattach, slot_restore
from broker.engine.routing import forwarding
from broker.engine.state import schedule
from broker.engine.state.producer_state import Producers
from broker.engine.state.slot import Slot
from broker.journal.bodies.blobs import BlobWriter
from broker.journal.replica.seeds import SeedReader
from broker.link.codec import command_codec
from broker.link.edge_side.consumer_replay import ReplayedConsumer
from broker.link.edge_side.slot_channel import SlotChannel
from broker.link.owner_side.attach_barrier import AttachBarrier
from broker.link.owner_side.edge_peer import EdgePeer
from broker.link.owner_side.link_server import LinkServer
from broker.owner.replication.following.follower import Followers
from broker.owner.replication.isr import LedSlot
from broker.owner.replication.leader import Leaders
from broker.owner.shard.shard import Shard
from tests.sim.cluster_full import ClusterHistory

pytestmark = pytest.mark.timeout(600)
SEEDS = 200


@pytest.fixture(autouse=True)
def quiet(caplog):
    caplog.set_level(logging.CRITICAL + 1)


def found_by(*words, trait="", faults=()):
    """The first seed whose history ends with one of the words, or None. `trait`: what its work has. `faults`: all that
    may happen, instead of what the seed says, where few histories would ever come near the bug."""
    for seed in range(SEEDS):
        history = ClusterHistory(seed)
        if trait and not getattr(history.work, trait):
            continue
        if faults:
            history.habits.faults = list(faults)
        try:
            history.run()
        except Exception as error:
            if any(word in str(error) for word in words):
                return seed
    return None


def test_a_follower_acknowledges_before_its_disk_has_it(monkeypatch):
    original = Followers.start

    def start(self, home):
        original(self, replace(home, durable=lambda callback: callback()))

    monkeypatch.setattr(Followers, "start", start)
    assert found_by("disks only", "lost") is not None


def test_receipts_do_not_wait_for_followers(monkeypatch):
    monkeypatch.setattr(Leaders, "ready", lambda self, slot: self._committed)
    assert found_by("disks only") is not None


def test_a_leader_dispatches_without_a_promise(monkeypatch):
    monkeypatch.setattr(Leaders, "may_dispatch", lambda self, slot: slot in self._leads)
    monkeypatch.setattr(Followers, "promised_until", lambda self, slot: 0.0)
    assert found_by("hands out in epoch", faults=("freeze",)) is not None


def test_replays_are_not_recognised(monkeypatch):
    monkeypatch.setattr(Producers, "seen", lambda self, dedup: False)
    assert found_by("unmarked", "came to", "came back", "holds it", "order") is not None


def test_a_consumer_comes_back_without_what_it_holds(monkeypatch):
    original = ReplayedConsumer.again

    def again(self, seq):
        command = original(self, seq)
        command.resume.held = []
        return command

    monkeypatch.setattr(ReplayedConsumer, "again", again)
    assert found_by("holds it", "not held") is not None


def test_a_leader_goes_on_below_min_in_sync(monkeypatch):
    original = LedSlot.__init__

    def init(self, *args):
        original(self, *args)
        self.min_in_sync = 1

    monkeypatch.setattr(LedSlot, "__init__", init)
    assert found_by("disks only") is not None


def test_a_seed_loses_a_run(monkeypatch):
    original = SeedReader.read

    def read(self, budget):
        items = original(self, budget)
        return items[:-1] if items else items

    monkeypatch.setattr(SeedReader, "read", read)
    assert found_by("differ", "lost", "missing [message") is not None


def test_settlements_are_lost(monkeypatch):
    original = Slot.settle_ids

    def settle(self, queue, ids, *rest):
        if min(ids, default=0) % 5:
            original(self, queue, ids, *rest)

    monkeypatch.setattr(Slot, "settle_ids", settle)
    assert found_by("came back", "settled it", "left on disk") is not None


def test_a_transaction_over_slots_is_numbered_among_the_others(monkeypatch):
    """Bugs that were there once, this one and the next."""
    monkeypatch.setattr(SlotChannel, "turn", lambda self, entry: (0, entry.number))
    assert found_by("disks only", "missing [message", "split") is not None


def test_a_new_leader_takes_an_edge_for_heard_too_early(monkeypatch):
    def attached(self, slot):
        return {peer.edge for peer in self._peers.values() if slot in peer.opened}

    monkeypatch.setattr(LinkServer, "attached", attached)
    assert found_by("holds it", "settled it", "came back") is not None


def test_nobody_waits_before_a_slot_is_handed_over(monkeypatch):
    monkeypatch.setattr(Shard, "when_ready", lambda self, slot, callback: self._schedule(callback))
    words = ("disks only", "lost", "missing [message", "split", "came", "differ")
    assert found_by(*words, faults=("stop", "transfer")) is not None


def test_a_participant_forgets_what_was_decided(monkeypatch):
    original = Decide.__init__

    def init(self, slot, session, seq, tx, commit, *more):
        original(self, slot, session, seq, tx, False, *more)

    monkeypatch.setattr(Decide, "__init__", init)
    assert found_by("split", "missing [message", "lost") is not None


def test_the_link_forgets_when_a_message_is_due(monkeypatch):
    original = command_codec.READ["publish"]

    def publish(message, token):
        command = original(message, token)
        command.run.due = 0
        return command

    monkeypatch.setitem(command_codec.READ, "publish", publish)
    assert found_by("early", trait="scheduled") is not None


def test_a_new_leader_does_not_look_at_its_agenda(monkeypatch):
    monkeypatch.setattr(schedule, "restored", lambda *_: None)
    assert found_by("missing [message", trait="scheduled") is not None


def test_copies_for_another_slot_are_not_in_the_log(monkeypatch):
    def rest(slot, source, run, way, turn):
        turn.moves.append(Move(slot.number, 0, (), way.address, run, way.queue, way.routing))

    monkeypatch.setattr(forwarding, "_rest", rest)
    assert found_by("missing [message", "lost", "disks only", trait="diverted") is not None


def test_a_follower_says_that_it_has_a_body_before_its_disk_has(monkeypatch):
    original = BlobWriter.finish
    monkeypatch.setattr(BlobWriter, "finish", lambda self, sync: original(self, sync and not self._again))
    assert found_by("disks only", "is missing", trait="large") is not None


def test_a_leader_does_not_ask_whether_a_body_is_its_own(monkeypatch):
    monkeypatch.setattr(EdgePeer, "_admit_body", lambda self, *_: True)
    assert found_by("is missing", trait="large") is not None


def test_what_comes_behind_a_large_message_overtakes_it_while_its_body_is_sent_again(monkeypatch):
    original = SlotChannel._ask

    def ask(self, command):
        original(self, command)
        while self.asked is not None and self.rest:
            self.link.add(self.slot, *self.rest.popleft())

    monkeypatch.setattr(SlotChannel, "_ask", ask)
    # A body is sent again when its owner has died; other faults seldom come while one is under way.
    assert found_by("disks only", "lost", "missing [message", "order", trait="large", faults=("kill",)) is not None


def test_an_acknowledgement_covers_what_its_own_part_delivered_only(monkeypatch):
    def cover(self, sub, number):
        self._shown = deque((part, ids) for part, ids in self._shown if part is not sub or ids[-1] > number)
        return {sub: number}

    monkeypatch.setattr(Order, "_cover", cover)
    assert found_by("covers", "stuck", "no credit", trait="split") is not None


def test_what_waits_for_a_window_that_is_shared_is_forgotten(monkeypatch):
    monkeypatch.setattr(Order, "flow", lambda self: None)
    assert found_by("stuck", trait="split") is not None


def test_a_new_leader_does_not_know_who_has_subscribed_to_a_pattern(monkeypatch):
    original = slot_restore.bind

    def bind(slot, queue):
        original(slot, queue)
        slot.patterns = None

    monkeypatch.setattr(slot_restore, "bind", bind)
    assert found_by("missing [message", "lost", trait="wild") is not None


def test_a_new_leader_deals_groups_out_anew_although_their_messages_are_held(monkeypatch):
    monkeypatch.setattr(reattach, "reclaim", lambda *_: None)
    assert found_by("group", trait="groups") is not None


def test_a_group_is_everybodys(monkeypatch):
    monkeypatch.setattr(Groups, "owner", lambda self, group: None)
    assert found_by("group", trait="groups") is not None


def test_who_goes_in_order_has_failed(monkeypatch):
    """As it was once: prefetched messages became dead letters."""
    original = settle.leave

    def leave(slot, queue, messages, turn, failed):
        original(slot, queue, messages, turn, True)

    monkeypatch.setattr(settle, "leave", leave)
    assert found_by("failures counted", "nobody failed", trait="polite") is not None


def test_what_a_broken_stream_has_lost_counts(monkeypatch):
    original = reattach.leave

    def leave(slot, queue, messages, turn, failed):
        original(slot, queue, messages, turn, True)

    monkeypatch.setattr(reattach, "leave", leave)
    assert found_by("failures counted", "nobody failed", trait="polite", faults=("cut",)) is not None


def test_a_new_leader_takes_messages_before_it_knows_who_subscribes(monkeypatch):
    """A bug that was there once, and the next one."""
    monkeypatch.setattr(AttachBarrier, "passes", lambda *_: True)
    assert found_by("missed", trait="watched", faults=("transfer",)) is not None


def test_a_new_leader_tells_nobody_of_what_the_last_one_took_and_did_not_answer(monkeypatch):
    monkeypatch.setattr(repeats, "repeat", lambda *_: None)
    assert found_by("missed", trait="watched", faults=("transfer",)) is not None
