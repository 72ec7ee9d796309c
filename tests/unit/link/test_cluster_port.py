"""Whoever leads a slot now hears everything that is not answered, once, in order, and nothing else."""

from __future__ import annotations

from broker.core.address import AckMode
from broker.core.commands import (
    Barrier,
    Disconnect,
    Hold,
    Publish,
    Settle,
    Subscribe,
    Unsubscribe,
)
from broker.core.effects import Deliver, Done, Refused
from broker.core.errors import Code
from tests.unit.link.two import SLOT, TOKEN, bodies, publish
from tests.unit.link.world import run_of


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


def test_what_stopped_an_owner_is_not_asked_of_the_next_one(two):
    """Its last words are who was to blame (owner/shard/failure_answers.py); the rest goes on elsewhere."""
    two.a.shard.answers = False
    two.submit(publish(1, b"good"), publish(2, b"poison"), publish(3, b"better"))
    command = two.a.shard.of(Publish)[1]
    two.a.effects(Refused(command.session, command.seq, Code.INTERNAL, "stopped its owner"))
    two.a.server.on_stopped("internal error")
    two.world.run()
    two.fail_over()
    assert bodies(two.b.shard) == [b"good", b"better"]
    assert [(refused.seq, refused.code) for refused in two.edge.of(Refused)] == [(2, Code.INTERNAL)]
    assert sorted(done.seq for done in two.edge.of(Done)) == [1, 3]


def test_what_a_consumer_was_allowed_to_create_once_it_may_have_again(two):
    """Its address may have died with a leader. One that nobody has answered may not."""
    two.subscribe(3, AckMode.AUTO, create=False)
    two.a.shard.answers = False
    two.subscribe(4, AckMode.AUTO, create=False)
    two.fail_over()
    assert [(command.consumer & 0xFF, command.create) for command in two.b.shard.of(Subscribe)] == [
        (3, True),
        (4, False),
    ]


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


def test_ids_that_no_message_can_have_are_refused_here(two):
    two.submit(Settle(SLOT, 1, 4, 3, [1 << 70]), Hold(SLOT, 1, 5, 3, [-1]))
    assert [(each.seq, each.code) for each in two.edge.of(Refused)] == [
        (4, Code.NO_SUCH_DELIVERY),
        (5, Code.NO_SUCH_DELIVERY),
    ]
    assert two.a.shard.commands == []
