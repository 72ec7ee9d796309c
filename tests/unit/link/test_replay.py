"""Whoever leads a slot now hears everything that is not answered, once, in order, and nothing else."""

from __future__ import annotations

import pytest

from broker.core.address import AckMode, Outcome, Routing
from broker.core.commands import (
    Barrier,
    Confirm,
    Disconnect,
    Grant,
    Hold,
    Publish,
    Settle,
    Subscribe,
    Transact,
    Unsubscribe,
)
from broker.core.effects import BrowseEnd, ConsumerClosed, Deliver, Done, Refused
from broker.core.errors import Code
from broker.core.reasons import Reason
from tests.unit.link.world import Edge, Owner, World, make_settings, run_of

SLOT = 5
TOKEN = 7


class Two:
    """One edge, owners a and b; slot 5 is led by a in epoch 1."""

    def __init__(self, **cluster):
        self.world = World()
        settings = make_settings(**cluster)
        self.a, self.b = Owner(self.world, "a", settings), Owner(self.world, "b", settings)
        self.edge = Edge(self.world, settings, token=TOKEN)
        self.port = self.edge.port
        self.lead(self.a, 1)

    def lead(self, owner, epoch, slot=SLOT, told=True):
        owner.server.serve(slot, epoch)
        if told:
            self.port.route(slot, epoch, owner.name, owner.address)
        self.world.run()

    def fail_over(self, epoch=2):
        self.a.server.unserve(SLOT)
        self.lead(self.b, epoch)

    def submit(self, *commands):
        paused = self.port.submit(list(commands))
        self.world.run()
        return paused

    def subscribe(self, consumer, ack, session=1, **more):
        self.submit(Subscribe(SLOT, session, 0, consumer, "a", Routing.ANYCAST, ack, **more))

    def deliver(self, owner, consumer, ids, cost=10):
        run = run_of(*[b"x"] * len(ids), ids=ids)
        owner.effects(Deliver(TOKEN << 40 | consumer, run, cost))
        self.world.run()


@pytest.fixture
def two():
    return Two()


def publish(seq=0, body=b"x", session=1, slot=SLOT):
    return Publish(slot, session, seq, "a", Routing.ANYCAST, run_of(body))


def bodies(shard):
    return [command.run.records[0].strip(b"\n\0") for command in shard.of(Publish)]


def test_requests_are_answered_under_their_own_numbers(two):
    two.submit(publish(7), publish(), Settle(SLOT, 1, 8, 3, [1]), Barrier(SLOT, 2, 9))
    assert [(done.session, done.seq) for done in two.edge.of(Done)] == [(1, 7), (1, 8), (2, 9)]


def test_each_publish_has_a_number_of_its_own_that_grows(two):
    two.submit(publish(7), publish(), publish())
    dedups = [command.dedup for command in two.a.shard.of(Publish)]
    assert [producer for producer, _ in dedups] == [TOKEN] * 3
    numbers = [number for _, number in dedups]
    assert numbers == sorted(set(numbers))


def test_unanswered_requests_go_to_the_new_leader_in_order_with_the_same_numbers(two):
    two.submit(publish(1, b"answered"))
    two.a.shard.answers = False
    two.submit(publish(2, b"p2"), publish(0, b"p3"))
    two.submit(Settle(SLOT, 1, 0, 3, [4]))
    before = [command.dedup for command in two.a.shard.of(Publish)][1:]
    two.a.server.unserve(SLOT)
    two.port.offline(SLOT)
    two.submit(publish(5, b"p5"))
    two.lead(two.b, 2)
    assert bodies(two.b.shard) == [b"p2", b"p3", b"p5"]
    assert [type(command) for command in two.b.shard.commands] == [Publish, Publish, Settle, Publish]
    assert [command.dedup for command in two.b.shard.of(Publish)][:2] == before
    assert [done.seq for done in two.edge.of(Done)] == [1, 2, 5]
    two.world.cut(1)
    two.world.pass_time(1)
    assert bodies(two.b.shard) == [b"p2", b"p3", b"p5"], "answered ones are never sent again"


def test_a_broken_stream_is_dialed_again_and_everything_unanswered_replayed(two):
    two.a.shard.answers = False
    two.submit(publish(1, b"one"))
    two.world.cut()
    two.submit(publish(2, b"two"))
    two.world.pass_time(0.5)
    assert bodies(two.a.shard) == [b"one", b"one", b"two"]
    assert len({command.dedup for command in two.a.shard.of(Publish)}) == 2


def test_answers_of_a_leader_that_is_not_one_any_more_are_not_heard(two):
    two.a.shard.answers = False
    two.submit(publish(1))
    (command,) = two.a.shard.of(Publish)
    two.a.server.served.clear()
    _, theirs = two.world.pairs[0]
    theirs.held = []
    two.a.effects(Done(command.session, command.seq))
    two.world.run()
    two.b.shard.answers = False
    two.lead(two.b, 2)
    theirs.release()
    two.world.run()
    assert two.edge.effects == []
    (again,) = two.b.shard.of(Publish)
    two.b.effects(Done(again.session, again.seq))
    two.world.run()
    assert [done.seq for done in two.edge.of(Done)] == [1]


def test_deliveries_of_an_old_epoch_on_the_same_stream_are_not_heard(two):
    """The leader stays, the epoch grows: what it had sent before our Open is void."""
    two.subscribe(3, AckMode.INDIVIDUAL)
    _, theirs = two.world.pairs[0]
    theirs.held = []
    two.a.effects(Deliver(TOKEN << 40 | 3, run_of(b"x", ids=[1]), 10))
    two.world.run()
    two.a.server.serve(SLOT, 2)
    two.port.route(SLOT, 2, "a", "a:1")
    two.world.run()
    theirs.release()
    two.world.run()
    assert two.edge.of(Deliver) == []
    assert two.a.shard.of(Subscribe)[-1].resume.held == []
    two.deliver(two.a, 3, [1])
    assert len(two.edge.of(Deliver)) == 1


def test_a_slot_that_is_not_led_there_yet_is_opened_when_it_is(two):
    two.a.server.unserve(SLOT)
    two.port.route(SLOT, 2, "b", "b:1")
    two.submit(publish(1, b"early"))
    assert two.b.shard.commands == []
    two.b.server.serve(SLOT, 2)
    two.world.run()
    assert bodies(two.b.shard) == [b"early"]
    assert [done.seq for done in two.edge.of(Done)] == [1]


def test_an_idle_slot_opened_too_early_works_later(two):
    two.a.server.unserve(SLOT)
    two.port.route(SLOT, 2, "b", "b:1")
    two.world.run()
    two.b.server.serve(SLOT, 2)
    two.world.run()
    two.submit(publish(1, b"late"))
    assert bodies(two.b.shard) == [b"late"]


def test_moved_means_nothing_of_it_happened(two):
    two.a.server.unserve(SLOT)
    two.submit(publish(1, b"x"), Settle(SLOT, 1, 2, 3, [4]))
    assert two.a.shard.commands == []
    two.lead(two.b, 2)
    assert [type(command) for command in two.b.shard.commands] == [Publish, Settle]


def test_a_leader_of_an_older_epoch_takes_nothing(two):
    two.a.server.serve(SLOT, 1)
    two.port.route(SLOT, 2, "a", "a:1")
    two.submit(publish(1, b"new"))
    assert two.a.shard.commands == []
    two.a.server.serve(SLOT, 2)
    two.world.run()
    assert bodies(two.a.shard) == [b"new"]


def test_an_older_record_is_not_believed(two):
    two.fail_over(5)
    two.port.route(SLOT, 4, "a", "a:1")
    two.submit(publish(1))
    assert len(two.b.shard.of(Publish)) == 1


def held(owner):
    return [command.resume.held for command in owner.shard.of(Subscribe)]


def test_resume_individual(two):
    two.subscribe(3, AckMode.INDIVIDUAL)
    two.deliver(two.a, 3, [1, 2, 3, 4, 5, 9])
    two.submit(Settle(SLOT, 1, 0, 3, [2, 9]))
    two.a.shard.answers = False
    two.submit(Settle(SLOT, 1, 0, 3, [4]))
    two.fail_over()
    assert held(two.b) == [[(4, 4), (1, 1), (3, 3), (5, 5)]], "4 is not known to be settled"
    assert [list(command.ids) for command in two.b.shard.of(Settle)] == [[4]]
    two.port.route(SLOT, 3, "a", "a:1")
    two.a.shard.answers = True
    two.a.server.serve(SLOT, 3)
    two.world.run()
    assert two.a.shard.of(Subscribe)[-1].resume.held == [(1, 1), (3, 3), (5, 5)]


def test_resume_cumulative(two):
    two.subscribe(3, AckMode.CLIENT)
    two.deliver(two.a, 3, range(1, 11))
    two.submit(Settle(SLOT, 1, 0, 3, [3]))
    two.a.shard.answers = False
    two.submit(Settle(SLOT, 1, 0, 3, [6]))
    two.deliver(two.a, 3, [20, 15])
    two.fail_over()
    assert held(two.b) == [[(4, 10), (20, 20), (15, 15)]]


def test_resume_auto_tells_what_was_taken_until_it_is_settled_for_good(two):
    two.subscribe(3, AckMode.AUTO)
    assert two.a.shard.of(Subscribe)[0].confirm
    two.deliver(two.a, 3, range(1, 5))
    two.world.pass_time(0.1)
    assert [(c.slot, c.consumer, c.count) for c in two.a.shard.of(Confirm)] == [(SLOT, TOKEN << 40 | 3, 1)]
    two.world.pass_time(1.5)
    two.a.shard.answers = False
    two.deliver(two.a, 3, range(5, 8))
    two.deliver(two.a, 3, [8, 12])
    two.world.pass_time(1.5)
    two.deliver(two.a, 3, [13])
    two.fail_over()
    (again,) = two.b.shard.of(Subscribe)
    assert again.resume.taken == [(5, 8), (12, 12), (13, 13)] and again.resume.held == [] and again.confirm


def test_room_of_a_consumer_that_comes_back_is_what_was_left(two):
    two.subscribe(3, AckMode.INDIVIDUAL, room=1000)
    two.deliver(two.a, 3, [1], cost=300)
    two.deliver(two.a, 3, [2], cost=100)
    two.submit(Grant(SLOT, 3, 300))
    assert [grant.nbytes for grant in two.a.shard.of(Grant)] == [300]
    two.a.server.unserve(SLOT)
    two.port.offline(SLOT)
    two.submit(Grant(SLOT, 3, 60))
    two.lead(two.b, 2)
    assert [command.room for command in two.b.shard.of(Subscribe)] == [960]
    assert two.b.shard.of(Grant) == []


def test_a_hold_is_told_again_until_its_transaction_ends(two):
    two.subscribe(3, AckMode.CLIENT)
    two.deliver(two.a, 3, range(1, 9))
    two.submit(Hold(SLOT, 1, 4, 3, [3]))
    two.submit(Settle(SLOT, 1, 0, 3, [5]))
    two.fail_over()
    assert held(two.b) == [[(1, 3), (6, 8)]]
    assert [list(command.ids) for command in two.b.shard.of(Hold)] == [[3]]
    two.submit(Transact(SLOT, 1, 6, [Settle(SLOT, 1, 0, 3, [3])]))
    assert [done.seq for done in two.edge.of(Done)] == [4, 6], "the Hold was answered once"
    two.a.server.serve(SLOT, 3)
    two.port.route(SLOT, 3, "a", "a:1")
    two.world.run()
    assert len(two.a.shard.of(Hold)) == 1
    assert two.a.shard.of(Subscribe)[-1].resume.held == [(6, 8)]


def test_an_unanswered_settle_comes_before_the_hold_behind_it(two):
    """Else the Hold of a cumulative consumer would cover what the Settle is about."""
    two.subscribe(3, AckMode.CLIENT)
    two.deliver(two.a, 3, range(1, 9))
    two.a.shard.answers = False
    two.submit(Settle(SLOT, 1, 0, 3, [2]), Hold(SLOT, 1, 4, 3, [5]))
    (settle,) = two.a.shard.of(Hold)
    two.a.effects(Done(settle.session, settle.seq))
    two.world.run()
    two.fail_over()
    assert held(two.b) == [[(1, 8)]]
    assert [type(command) for command in two.b.shard.commands] == [Subscribe, Settle, Hold]


def test_an_aborted_transaction_gives_its_holds_back_once(two):
    two.subscribe(3, AckMode.INDIVIDUAL)
    two.deliver(two.a, 3, [1, 2])
    two.submit(Hold(SLOT, 1, 0, 3, [1]))
    two.a.shard.answers = False
    two.submit(Settle(SLOT, 1, 0, 3, [1], Outcome.RETURN))
    two.deliver(two.a, 3, [1])
    two.fail_over()
    assert held(two.b) == [[(2, 2), (1, 1)]]
    assert two.b.shard.of(Settle) == [] and two.b.shard.of(Hold) == []
    assert len(two.b.shard.of(Barrier)) == 2, "their answers are still asked for"


def test_a_nack_that_was_seen_to_happen_is_not_repeated(two):
    two.subscribe(3, AckMode.INDIVIDUAL)
    two.deliver(two.a, 3, [1, 2])
    two.a.shard.answers = False
    two.submit(Settle(SLOT, 1, 9, 3, [1], Outcome.NACK))
    two.deliver(two.a, 3, [1])
    two.fail_over()
    assert held(two.b) == [[(2, 2), (1, 1)]]
    assert two.b.shard.of(Settle) == []
    assert [done.seq for done in two.edge.of(Done)] == [9]


def test_what_was_given_back_is_not_claimed_again(two):
    """Somebody else may have it: two claims on one message, and the loser's ACK would be lost."""
    two.subscribe(3, AckMode.INDIVIDUAL)
    two.subscribe(4, AckMode.INDIVIDUAL)
    two.deliver(two.a, 3, [1, 2])
    two.a.shard.answers = False
    two.submit(Settle(SLOT, 1, 9, 3, [1], Outcome.NACK), Settle(SLOT, 1, 10, 3, [2], Outcome.REJECT))
    two.deliver(two.a, 4, [1])
    two.fail_over()
    assert held(two.b) == [[(2, 2)], [(1, 1)]]
    assert [list(command.ids) for command in two.b.shard.of(Settle)] == [[2]]
    assert [done.seq for done in two.edge.of(Done)] == [9, 10]


def test_a_consumer_that_ends_claims_nothing_any_more(two):
    two.subscribe(3, AckMode.INDIVIDUAL)
    two.deliver(two.a, 3, [1, 2])
    two.a.shard.answers = False
    two.submit(Settle(SLOT, 1, 9, 3, [1]), Unsubscribe(SLOT, 1, 10, 3, "a"))
    two.fail_over()
    assert held(two.b) == [[(1, 1)]]


def test_an_edge_is_attached_when_it_has_said_all():
    """A new leader that hands out earlier gives away what a client holds."""
    two = Two(batch_bytes=300)
    for consumer in range(3, 9):
        two.subscribe(consumer, AckMode.INDIVIDUAL)
        two.deliver(two.a, consumer, [consumer])
    seen = []
    take = two.b.server._submit
    two.b.server._submit = lambda commands: (seen.append(two.b.server.attached(SLOT)), take(commands))[1]
    two.fail_over()
    assert len(held(two.b)) == 6
    assert seen[0] == set() and two.b.server.attached(SLOT) == {"edge-0"}


def test_what_is_handed_out_before_a_consumer_is_back_is_not_sent():
    """The edge's Resume does not know it: the owner gives it to somebody else, and two clients would have it."""
    two = Two(batch_bytes=300)
    for consumer in range(3, 9):
        two.subscribe(consumer, AckMode.INDIVIDUAL)
    take = two.a.server._submit

    def early(commands):
        two.a.server._submit = take
        two.a.effects(*[Deliver(TOKEN << 40 | n, run_of(b"x", ids=[n]), 1) for n in (3, 8)])
        return take(commands)

    two.a.server._submit = early
    two.world.cut(0)
    two.world.pass_time(0.1)
    assert [effect.consumer for effect in two.edge.of(Deliver)] == [3]


def test_a_session_waits_for_its_own_transaction_over_slots_not_for_an_earlier_one(two):
    two.a.shard.answers = False
    two.submit(Transact(SLOT, 1, 1, [publish()]))
    two.submit(Transact(SLOT, 1, 2, [publish(), publish(slot=6)]))
    inside, over = two.a.shard.of(Transact)
    two.submit(publish(body=b"behind"))
    two.a.effects(Done(inside.session, inside.seq))
    two.world.run()
    assert bodies(two.a.shard) == []
    two.a.effects(Done(over.session, over.seq))
    two.world.run()
    assert bodies(two.a.shard) == [b"behind"]


def test_two_transactions_over_slots_are_numbered_apart(two):
    """One that comes late must not pass for a replay of what has overtaken it."""
    two.a.shard.answers = False
    for session in (1, 2):
        two.submit(Transact(SLOT, session, 5, [publish(session=session), publish(session=session, slot=6)]))
    two.submit(Transact(SLOT, 3, 5, [publish(session=3)]))
    first, second, inside = two.a.shard.of(Transact)
    assert len({first.dedup[0], second.dedup[0], TOKEN}) == 3 and first.dedup[1] == second.dedup[1] == 1
    assert inside.dedup == (TOKEN, 3)
    two.a.effects(Done(second.session, second.seq))
    two.world.run()
    two.submit(Transact(SLOT, 2, 6, [publish(session=2), publish(session=2, slot=6)]))
    assert two.a.shard.of(Transact)[-1].dedup == (second.dedup[0], 2)


def test_a_subscription_that_was_never_answered_begins_at_the_new_leader(two):
    two.a.shard.answers = False
    two.submit(publish(1, b"before"))
    two.submit(Subscribe(SLOT, 1, 2, 3, "a", Routing.ANYCAST, AckMode.INDIVIDUAL))
    two.fail_over()
    assert [type(command) for command in two.b.shard.commands] == [Publish, Subscribe]
    assert [done.seq for done in two.edge.of(Done)] == [1, 2]


def test_a_consumer_that_cannot_come_back_ends_its_session(two):
    two.subscribe(3, AckMode.INDIVIDUAL)
    two.b.shard.answers = False
    two.fail_over()
    (again,) = two.b.shard.of(Subscribe)
    two.b.effects(Refused(again.session, again.seq, Code.NO_SUCH_DESTINATION, "deleted"))
    two.world.run()
    (refused,) = two.edge.of(Refused)
    assert (refused.session, refused.seq, refused.code) == (1, 0, Code.NO_SUCH_DESTINATION)


def test_an_unsubscribe_that_an_earlier_leader_carried_out_counts(two):
    two.subscribe(3, AckMode.AUTO)
    two.a.shard.answers = False
    two.submit(Unsubscribe(SLOT, 1, 4, 3, "a"))
    two.b.shard.answers = False
    two.fail_over()
    assert [type(command) for command in two.b.shard.commands] == [Subscribe, Unsubscribe]
    assert two.b.shard.commands[0].room == 0, "it gets nothing any more"
    end = two.b.shard.commands[1]
    two.b.effects(Refused(end.session, end.seq, Code.NO_SUCH_SUBSCRIPTION, "ended"))
    two.world.run()
    assert [(type(each), each.seq) for each in two.edge.effects] == [(Done, 4)]


def test_deliveries_that_reach_nobody_are_not_confirmed(two):
    """The client unsubscribed while they were on the way: they must go back to the queue, not be settled. The news
    waits behind an untaken batch, and what was taken is told before it."""
    two.subscribe(3, AckMode.AUTO)
    two.subscribe(4, AckMode.AUTO)
    two.world.pass_time(0.1)
    _, theirs = two.world.pairs[0]
    theirs.held = []
    two.deliver(two.a, 3, [1])
    two.deliver(two.a, 4, [2])
    deliveries = list(theirs.held)
    theirs.held = []
    two.submit(publish())
    two.submit(Unsubscribe(SLOT, 1, 4, 3, "a"))
    for message in deliveries:
        theirs.other.arrive(message)
    two.world.pass_time(0.1)
    assert two.a.shard.of(Unsubscribe) == []
    assert [confirm.consumer & 0xFF for confirm in two.a.shard.of(Confirm)] == [4]
    assert [each.consumer for each in two.edge.of(Deliver)] == [4]
    theirs.release()
    two.world.run()
    assert len(two.a.shard.of(Unsubscribe)) == 1


def test_the_end_of_a_session_reaches_whoever_leads(two):
    two.subscribe(3, AckMode.INDIVIDUAL)
    two.deliver(two.a, 3, [1])
    two.a.shard.answers = False
    two.submit(Settle(SLOT, 1, 0, 3, [1]), Disconnect(SLOT, 1))
    two.fail_over()
    assert [type(command) for command in two.b.shard.commands] == [Subscribe, Settle, Disconnect, Barrier]
    two.world.cut(1)
    two.world.pass_time(1)
    assert len(two.b.shard.commands) == 4, "nothing is left of it"


def test_a_closed_consumer_is_not_attached_again(two):
    two.subscribe(3, AckMode.INDIVIDUAL)
    two.a.effects(ConsumerClosed(TOKEN << 40 | 3, Reason.QUEUE_DELETED, "x"))
    two.world.run()
    assert len(two.edge.of(ConsumerClosed)) == 1
    two.fail_over()
    assert two.b.shard.of(Subscribe) == []


def test_a_browser_goes_on_where_it_was(two):
    two.subscribe(3, AckMode.AUTO, browse=True, room=1000)
    two.deliver(two.a, 3, [1, 2, 3])
    two.fail_over()
    (again,) = two.b.shard.of(Subscribe)
    assert again.browse and not again.confirm and again.resume.taken == []
    two.deliver(two.b, 3, [1, 2, 3, 4], cost=44)
    two.deliver(two.b, 3, [2], cost=11)
    assert [list(each.run.ids) for each in two.edge.of(Deliver)] == [[1, 2, 3], [4]]
    two.b.effects(BrowseEnd(TOKEN << 40 | 3))
    two.world.run()
    assert len(two.edge.of(BrowseEnd)) == 1
    granted = sum(grant.nbytes for grant in two.b.shard.of(Grant))
    assert granted == 44 - two.edge.of(Deliver)[1].cost + 11
    two.a.server.serve(SLOT, 3)
    two.port.route(SLOT, 3, "a", "a:1")
    two.submit(Unsubscribe(SLOT, 1, 4, 3, "a"))
    assert len(two.a.shard.of(Subscribe)) == 1, "it has seen everything"


def test_a_transaction_over_slots_waits_for_its_holds_elsewhere_and_its_session_for_it():
    two = Two()
    two.lead(two.b, 1, slot=6)
    two.submit(Subscribe(6, 1, 0, 3, "b", Routing.ANYCAST, AckMode.INDIVIDUAL))
    two.b.effects(Deliver(TOKEN << 40 | 3, run_of(b"x", ids=[1]), 1))
    two.world.run()
    two.b.shard.answers = two.a.shard.answers = False
    two.submit(Hold(6, 1, 0, 3, [1]))
    inner = publish(body=b"inside")
    two.submit(Transact(SLOT, 1, 5, [inner, Settle(6, 1, 0, 3, [1])]))
    assert two.submit(publish(0, b"behind"), publish(0, b"there", slot=6))
    two.submit(publish(0, b"other", session=2))
    assert two.a.shard.of(Transact) == [] and bodies(two.a.shard) == [b"other"]
    two.world.cut(0)
    two.world.pass_time(0.1)
    assert two.a.shard.of(Transact) == [], "also not on a new stream"
    (hold,) = two.b.shard.of(Hold)
    two.b.effects(Done(hold.session, hold.seq))
    two.world.run()
    (transact,) = two.a.shard.of(Transact)
    assert bodies(two.b.shard) == []
    two.a.effects(Done(transact.session, transact.seq))
    two.world.run()
    assert bodies(two.a.shard)[-1] == b"behind" and bodies(two.b.shard) == [b"there"]
    assert {1} in two.edge.relieved
    two.b.shard.answers = True
    two.a.server.serve(6, 2)
    two.port.route(6, 2, "a", "a:1")
    two.world.run()
    assert two.a.shard.of(Hold) == [], "its transaction is over"


def test_ids_that_no_message_can_have_are_refused_here(two):
    two.submit(Settle(SLOT, 1, 4, 3, [1 << 70]), Hold(SLOT, 1, 5, 3, [-1]))
    assert [(each.seq, each.code) for each in two.edge.of(Refused)] == [
        (4, Code.NO_SUCH_DELIVERY),
        (5, Code.NO_SUCH_DELIVERY),
    ]
    assert two.a.shard.commands == []
