"""A new leader is told what each consumer holds, and its deliveries go on from there."""

from __future__ import annotations

import pytest

from broker.core.address import AckMode, Outcome, Routing
from broker.core.commands import (
    Barrier,
    Confirm,
    Disconnect,
    Grant,
    Hold,
    Prepare,
    Publish,
    Settle,
    Subscribe,
    Transact,
    Unsubscribe,
)
from broker.core.effects import BrowseEnd, ConsumerClosed, Deliver, Done, Refused
from broker.core.errors import Code
from broker.core.message import DURABLE
from broker.core.reasons import Reason
from broker.link.codec.codec import Open
from broker.link.codec.command_codec import put_command
from broker.rpc.v1 import link_pb2 as pb
from tests.unit.link.two import SLOT, TOKEN, Two, held, publish
from tests.unit.link.world import Edge, make_settings, run_of


def saying(command):
    up = pb.Up()
    put_command(command, up)
    return up


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


@pytest.mark.parametrize("elsewhere", [True, False], ids=["led-by-another", "led-by-nobody"])
def test_what_a_leader_hands_out_that_the_edge_has_left_already_is_not_confirmed(two, elsewhere):
    """The edge hears of its successor first, and hands nothing on that comes from it. Confirmed, an AUTO message would
    be settled, and its followers might still take that: gone without having reached anybody."""
    two.lead(two.a, 1, slot=SLOT + 1)  # so that there is a stream to it all the time
    two.subscribe(3, AckMode.AUTO)
    two.deliver(two.a, 3, [1])
    two.world.pass_time(0.1)
    if elsewhere:
        two.port.route(SLOT, 2, "b", two.b.address)
    else:
        two.port.offline(SLOT)
    two.deliver(two.a, 3, [2])
    two.world.pass_time(0.1)
    assert [effect.run.ids for effect in two.edge.of(Deliver)] == [[1]]
    assert [confirm.count for confirm in two.a.shard.of(Confirm)] == [1]
    two.lead(two.a, 3)
    two.deliver(two.a, 3, [2])
    two.world.pass_time(0.1)
    assert [confirm.count for confirm in two.a.shard.of(Confirm)] == [1, 1], "its next attachment is another one"


def test_nothing_new_comes_before_what_was_settled_is_told(two):
    """History 525: what an old cumulative ACK named had come back to its consumer, behind a message that was new to it;
    the ACK settled both."""
    two.subscribe(3, AckMode.CLIENT, room=5000)
    two.subscribe(4, AckMode.CLIENT, room=5000)
    two.deliver(two.a, 3, [1, 2, 3], cost=30)
    two.a.shard.answers = False
    two.submit(Settle(SLOT, 1, 0, 3, [2]))
    two.fail_over()
    told = [
        (type(c).__name__, c.consumer & 0xFF, getattr(c, "room", getattr(c, "nbytes", 0)))
        for c in two.b.shard.of((Subscribe, Settle, Grant))
    ]
    assert told == [("Subscribe", 3, 0), ("Subscribe", 4, 5000), ("Settle", 3, 0), ("Grant", 3, 4970)]


def test_a_hand_over_that_is_taken_back_has_everybody_say_again_what_they_have(two):
    """History 422: what came to an AUTO consumer counted as settled for the edge, and not for the engine: confirmations
    between the two do not count, nor do deliveries leave."""
    two.subscribe(3, AckMode.AUTO)
    two.deliver(two.a, 3, [1])
    two.a.server.unserve(SLOT)
    two.deliver(two.a, 3, [2])
    two.world.pass_time(0.1)
    assert two.a.shard.of(Confirm) == []
    two.lead(two.a, 1, told=False)
    two.submit(publish(7))
    two.world.pass_time(0.1)
    again = two.a.shard.of(Subscribe)[-1].resume
    assert (again.held, again.taken) == ([], [(1, 1)]), "2 has not come"
    assert [done.seq for done in two.edge.of(Done)] == [7]


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


def test_what_a_new_leader_was_told_of_a_transaction_is_given_back_when_it_is_answered(two):
    """It may have happened before, and what its Holds claim there would stay with the consumer."""
    two.subscribe(3, AckMode.INDIVIDUAL)
    two.deliver(two.a, 3, [1, 2])
    two.submit(Hold(SLOT, 1, 0, 3, [1]))
    two.submit(Transact(SLOT, 1, 5, [Settle(SLOT, 1, 0, 3, [1])]))
    assert two.a.shard.of(Settle) == [], "nobody else has been told"
    two.submit(Hold(SLOT, 1, 0, 3, [2]))
    two.a.shard.answers = False
    two.submit(Transact(SLOT, 1, 6, [Settle(SLOT, 1, 0, 3, [2])]))
    two.fail_over()
    (back,) = two.b.shard.of(Settle)
    assert (back.consumer & 0xFFFF, list(back.ids), back.outcome) == (3, [2], Outcome.RETURN)
    assert [type(command) for command in two.b.shard.commands] == [Subscribe, Hold, Transact, Grant, Settle]


def test_a_prepare_waits_for_the_edge_whose_consumers_it_settles_for(two):
    """The cluster's histories 123, 150, 284. Another owner's stream is faster than the edge's own."""
    two.subscribe(3, AckMode.INDIVIDUAL)
    coordinator = Edge(two.world, make_settings(), "owner-c", "b", 9)
    two.a.server.unserve(SLOT)
    two.b.server.serve(SLOT, 2)
    coordinator.port.route(SLOT, 2, "b", "b:1")

    def prepare(seq):
        me = TOKEN << 40
        settle = Settle(SLOT, me | 1, 0, me | 3, [1])
        coordinator.port.submit([Prepare(SLOT, 1, seq, "tx", 6, [settle, publish()])])
        two.world.run()

    prepare(1)
    assert [refused.code for refused in coordinator.of(Refused)] == [Code.OWNER_UNAVAILABLE]
    assert two.b.shard.of(Prepare) == []
    two.port.route(SLOT, 2, "b", "b:1")
    two.world.run()
    prepare(2)
    assert [done.seq for done in coordinator.of(Done)] == [2]
    assert [type(command) for command in two.b.shard.commands] == [Subscribe, Prepare]


def test_a_prepare_waits_again_where_a_hand_over_was_taken_back(two):
    """The edge says anew what it holds, on the same stream and in the same epoch: that it had said all before does not
    count. A Prepare between its Subscribe and its Hold took what the Hold names, and the session was refused."""
    two.subscribe(3, AckMode.INDIVIDUAL)
    assert two.a.server.told(TOKEN, SLOT)
    two.a.server.unserve(SLOT)
    two.a.server.serve(SLOT, 1)
    peer = two.a.server._peers[TOKEN]
    peer.receive(saying(Open(SLOT, 1)))
    assert peer.leads(SLOT) and not two.a.server.told(TOKEN, SLOT)
    peer.receive(saying(Open(SLOT, 1, told=True)))
    assert two.a.server.told(TOKEN, SLOT)


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
    assert [type(command) for command in two.b.shard.commands] == [Subscribe, Settle, Hold, Grant]


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
    """The edge's Resume does not know it: the owner gives it to somebody else, and two clients would have it. The
    Resume of 3 has come, and not had its turn; that of 8 is still on its way."""
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
    assert two.edge.of(Deliver) == []
    two.deliver(two.a, 3, [9])
    assert [list(effect.run.ids) for effect in two.edge.of(Deliver)] == [[9]]


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


def test_what_a_session_that_ends_held_for_an_open_transaction_is_not_claimed_again(two):
    """The cluster's histories 636 and 715: its end had happened, and somebody else had the message."""
    two.subscribe(3, AckMode.INDIVIDUAL)
    two.deliver(two.a, 3, [1, 2, 3])
    two.submit(Hold(SLOT, 1, 0, 3, [1]))
    two.a.shard.answers = False
    two.submit(Settle(SLOT, 1, 0, 3, [2]), Disconnect(SLOT, 1))
    two.fail_over()
    assert held(two.b) == [[(2, 2)]]
    assert two.b.shard.of(Hold) == []
    assert two.edge.of(Refused) == []


def test_a_claim_says_how_often_the_message_had_been_delivered(two):
    """The cluster's history 809: who had it before that must not get it back."""
    two.subscribe(3, AckMode.INDIVIDUAL)
    run = run_of(b"x", b"y", ids=[1, 2])
    run.attempts = 2
    two.a.effects(Deliver(TOKEN << 40 | 3, run, 10))
    two.deliver(two.a, 3, [3])
    two.submit(Settle(SLOT, 1, 0, 3, [2]))
    two.fail_over()
    (resumed,) = two.b.shard.of(Subscribe)
    assert (resumed.resume.held, resumed.resume.tries) == ([(1, 1), (3, 3)], {1: 2})


@pytest.mark.parametrize("ack", [AckMode.CLIENT, AckMode.INDIVIDUAL])
def test_what_open_transactions_acknowledge_is_named_if_all_of_it_is_durable(two, ack):
    """It did not die with a leader: where it is gone somebody else has it (engine/recovery/already_settled.py)."""
    two.subscribe(3, ack)
    for first, flags in ((1, DURABLE), (3, 0), (5, DURABLE), (7, DURABLE)):
        run = run_of(b"x", b"y", ids=[first, first + 1])
        run.flags = flags
        two.a.effects(Deliver(TOKEN << 40 | 3, run, 10))
    two.world.run()
    for last in (2, 4, 6):
        two.submit(Hold(SLOT, 1, 0, 3, [last] if ack is AckMode.CLIENT else [last - 1, last]))
    two.submit(Settle(SLOT, 1, 0, 3, [7]))
    two.a.shard.answers = False
    two.fail_over()
    resume = two.b.shard.of(Subscribe)[-1].resume
    assert (resume.held, resume.firm) == ([(1, 6), (8, 8)], [(1, 2), (5, 6), (8, 8)]), "the last one is nobody's yet"


def test_what_its_client_holds_is_not_handed_on_but_its_attempts_are_learnt_and_its_room_given_back(two):
    two.subscribe(3, AckMode.INDIVIDUAL)
    two.deliver(two.a, 3, [1, 2])
    two.world.run()
    before = len(two.edge.of(Deliver))
    run = run_of(b"x", ids=[1])
    run.attempts = 2
    run.note_held()
    two.a.effects(Deliver(TOKEN << 40 | 3, run, 10))
    two.world.pass_time(0.1)
    assert len(two.edge.of(Deliver)) == before
    assert [(command.consumer, command.nbytes) for command in two.a.shard.of(Grant)] == [(TOKEN << 40 | 3, 10)]
    two.fail_over()
    (resumed,) = two.b.shard.of(Subscribe)
    assert (resumed.resume.held, resumed.resume.tries) == ([(1, 2)], {1: 2})
