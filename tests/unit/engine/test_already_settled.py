"""Acknowledgements of what a consumer held before: once, and only of what is nobody else's by now."""

from __future__ import annotations

import pytest

from broker.core.address import Outcome
from broker.core.commands import Hold, Resume, Settle, Subscribe
from broker.core.effects import Deliver
from broker.core.errors import Code, RefusedError
from broker.core.message import HELD

from .leaders import fail_over, loaded, settled, spans
from .world import ANYCAST, CLIENT, INDIVIDUAL, again, done, got, ids, refused


def test_a_ghost_gives_way_when_its_message_comes_to_the_consumer_again():
    """The cluster's history 403: an edge was given up, another one got its messages and gave them back."""
    world, i = loaded(2)
    world.disconnect(1)
    world.attach(2, ack=INDIVIDUAL)
    world.attach(1, spans(i), ack=INDIVIDUAL, credit_messages=3)
    assert world.queue()["delivering"] == 4, "two of them are ghosts"
    world.disconnect(2)
    world.settle_down()
    assert world.queue()["delivering"] == 2, "its credit came back with the first one"
    world.settle(1, i[0])
    world.settle(1, i[1])
    assert world.queue()["delivering"] == 0


@pytest.mark.parametrize("first", [1, 2])
def test_what_was_given_to_another_edge_is_that_ones_whoever_comes_back_first(first):
    """The cluster's history 809: an edge that had been given up was first at the next leader; the ACK of whom the
    message had been given to was then answered, and did nothing."""
    world, i = loaded(1)
    world.disconnect(1)
    world.attach(2, ack=INDIVIDUAL)
    fail_over(world, snapshot=first == 1)
    again = []
    for consumer in (first, 3 - first):
        again.append(Subscribe(7, consumer, 0, consumer, "q", ANYCAST, INDIVIDUAL))
        again[-1].resume = Resume(spans(i), [], {i[0]: 1} if consumer == 2 else {})
    world.do(*again)  # a new leader hands out nothing before all edges have come
    world.appended.clear()
    assert refused(world.settle(1, i[0])) == [Code.NO_SUCH_DELIVERY] and settled(world) == []
    assert refused(world.settle(2, i[0])) == [] and settled(world) == [(i[0], i[0])]


def test_a_ghost_that_a_transaction_holds_does_not_swallow_the_message_at_the_consumers_end():
    """The cluster's history 55: the message was in no queue any more until the next restart."""
    world, i = loaded(1)
    world.disconnect(1)
    world.attach(2, ack=INDIVIDUAL)
    world.attach(1, spans(i), ack=INDIVIDUAL)
    world.do(Hold(7, 1, 0, 1, i))
    world.disconnect(2)
    world.settle_down()
    assert world.queue()["delivering"] == 1
    world.disconnect(1)
    assert world.queue()["delivering"] == 0 and world.queue()["ready"] == 1


@pytest.mark.parametrize("ack", [CLIENT, INDIVIDUAL])
def test_giving_back_what_is_not_held_any_more_does_nothing(ack):
    world, i = loaded(3, ack=ack)
    world.do(Hold(7, 1, 0, 1, [i[0]]))
    world.effects.clear()
    assert refused(world.do(Settle(7, 1, 0, 1, [i[0], 999], Outcome.RETURN))) == []
    world.settle_down()
    assert [body for body, *_ in again(world.effects)] == [b"000"]
    assert refused(world.do(Settle(7, 1, 0, 1, [999], Outcome.RETURN))) == []
    assert world.queue()["delivering"] == 3


@pytest.mark.parametrize("ack", [CLIENT, INDIVIDUAL])
def test_a_repeated_acknowledgement_is_answered_when_its_first_try_counts(ack):
    """Its leader was cut off from its followers only; the edge's stream was reset meanwhile, in the same epoch."""
    world, i = loaded(2, ack=ack)
    world.auto_commit = False
    assert done(world.settle(1, i[0], seq=4)) == []
    world.attach(1, [(i[0], i[1])], ack=ack)
    assert done(world.settle(1, i[0], seq=5)) == [], "the next leader may not have the first try"
    assert done(world.commit()) == [4, 5]


def test_who_opens_a_slot_twice_holds_ghosts_still():
    """The message of one comes to it for real: it gives way, with its credit."""
    world, i = loaded(2)
    world.disconnect(1)
    world.attach(2, ack=INDIVIDUAL)
    for _ in range(2):
        world.attach(1, spans(i), ack=INDIVIDUAL, credit_messages=3)
    assert world.queue()["delivering"] == 4, "two of them are ghosts"
    world.disconnect(2)
    world.settle_down()
    assert world.queue()["delivering"] == 2


def test_a_ghost_whose_message_has_come_back_to_the_queue_is_the_clients_own_at_the_next_opening():
    world, i = loaded(1)
    world.disconnect(1)
    world.attach(2, ack=INDIVIDUAL)
    world.attach(1, spans(i), ack=INDIVIDUAL, room=0)
    world.disconnect(2)
    assert (world.queue()["ready"], world.queue()["delivering"]) == (1, 1)
    world.attach(1, spans(i), ack=INDIVIDUAL)
    assert (world.queue()["ready"], world.queue()["delivering"]) == (0, 1)
    world.appended.clear()
    world.settle(1, i[0])
    assert settled(world) == [(i[0], i[0])]


def given_up(count=1):
    """Consumer 1 was given up while it held messages; 2 has got them, then 1 comes back."""
    world, i = loaded(count)
    world.disconnect(1)
    world.attach(2, ack=INDIVIDUAL)
    world.attach(1, spans(i), ack=INDIVIDUAL, room=0)
    world.appended.clear()
    world.effects.clear()
    return world, i


def test_what_a_client_holds_it_is_not_handed_again():
    """`make chaos` had one thrown out for its second ACK (seed 20261130): the two copies had one id."""
    world, i = given_up()
    world.disconnect(2)  # gives it back
    effects = world.grant(1, 10_000)
    assert got(effects) == [] and (world.queue()["ready"], world.queue()["delivering"]) == (0, 1)
    assert done(world.settle(1, i[0], seq=4)) == [4] and settled(world) == [(i[0], i[0])]
    assert refused(world.settle(1, i[0], seq=6)) == [Code.NO_SUCH_DELIVERY], "once, as any other"


def test_what_a_client_holds_is_its_own_at_the_next_leader_too():
    """To be given up counts an attempt in the log: its edge is told, or the next leader takes them for others'."""
    world, i = given_up()
    world.disconnect(2)
    (told,) = [e for e in world.grant(1, 10_000) if isinstance(e, Deliver)]
    assert (told.consumer, list(told.run.ids), told.run.attempts) == (1, i, 2) and told.run.flags & HELD
    fail_over(world)
    mine, other = (Subscribe(7, n, 0, n, "q", ANYCAST, INDIVIDUAL) for n in (1, 2))
    mine.resume, other.resume = Resume(spans(i), [], {i[0]: told.run.attempts}, spans(i)), Resume([], [], {})
    world.effects.clear()
    world.do(other, mine)
    world.settle_down()
    assert got(world.effects) == [] and done(world.settle(1, i[0], seq=4)) == [4]


def test_a_transaction_may_hold_no_more_because_it_was_given_up_meanwhile():
    """A ghost weighs nothing, until it is real again."""
    world, i = loaded(2, runs=2, max_held_bytes=5)
    world.disconnect(1)
    world.attach(2, ack=INDIVIDUAL)
    world.attach(1, spans(i), ack=INDIVIDUAL)
    assert refused(world.do(Hold(7, 1, 0, 1, i[:1]))) == []
    world.disconnect(2)
    world.settle_down()
    assert refused(world.do(Hold(7, 1, 0, 1, i[1:]))) == [Code.TRANSACTION_LIMIT]


def test_of_a_run_it_is_handed_what_it_does_not_hold():
    world, i = loaded(4, runs=4)
    world.disconnect(1)
    world.attach(2, ack=INDIVIDUAL)
    world.attach(1, spans([i[1], i[2]]), ack=INDIVIDUAL, room=0)
    world.disconnect(2)
    effects = world.grant(1, 10_000)
    assert ids(effects, 1) == [i[0], i[3]] and (world.queue()["ready"], world.queue()["delivering"]) == (0, 4)
    for id in i:
        assert refused(world.settle(1, id)) == []
    assert world.queue()["delivering"] == 0


@pytest.mark.parametrize("named", [0, 1])
def test_a_cumulative_ack_of_what_has_come_back_covers_what_was_delivered_before_it(named):
    """Cluster histories 338 and 839, with edges that say whom they reach: its client was handed 0, 1 and 0 again, and
    said ACK 0. Of the one copy 1 is not covered, of the other it is."""
    world, i = loaded(1, ack=CLIENT)
    world.disconnect(1)
    world.attach(2, ack=CLIENT, credit_messages=1)
    world.attach(1, spans(i), ack=CLIENT)
    i += ids(world.publish("q", b"next", durable=True), 1)
    world.disconnect(2)
    world.settle_down()
    world.appended.clear()
    assert world.queue()["delivering"] == len(i) == 2
    world.settle(1, i[named])
    assert settled(world) == [(i[0], i[named])]
    assert world.queue()["delivering"] == 1 - named


def test_what_becomes_a_consumers_own_again_is_work_of_its_turn():
    """No effect tells of it: 100,000 of them were one step."""
    world, _ = given_up(2000)
    world.disconnect(2)
    world.settle_down()
    assert (world.queue()["ready"], world.queue()["delivering"]) == (2000, 2000)
    world.effects.clear()
    world.in_pieces = True
    world.grant(1, 10_000_000)
    assert 0 < world.queue()["ready"] < 2000, "not all in one turn"
    world.in_pieces = False
    world.grant(1, 0)
    assert (world.queue()["ready"], world.queue()["delivering"]) == (0, 2000) and got(world.effects, 1) == []


def test_what_another_consumer_has_by_now_is_not_acknowledged_and_nothing_with_it():
    world, i = given_up(2)
    world.settle(2, i[0], outcome=Outcome.NACK)  # to 2 again
    effects = world.settle(1, i[1], seq=4)
    assert done(effects) == [] and refused(effects) == [Code.NO_SUCH_DELIVERY]
    assert settled(world) == []


def test_what_another_consumer_has_given_back_is_settled_by_who_had_it_first():
    world, i = given_up()
    world.disconnect(2)
    assert world.queue()["ready"] == 1
    assert done(world.settle(1, i[0], seq=4)) == [4] and settled(world) == [(i[0], i[0])]
    assert (world.queue()["ready"], world.queue()["delivering"]) == (0, 0)


def test_what_another_consumer_has_acknowledged_may_be_acknowledged_again():
    world, i = given_up()
    world.settle(2, i[0])
    assert done(world.settle(1, i[0], seq=4)) == [4] and world.queue()["delivering"] == 0


@pytest.mark.parametrize("theirs", ["held", "acknowledged", "given back"])
def test_a_transaction_holds_only_if_what_it_acknowledges_is_its_clients_own(theirs):
    world, i = given_up()
    world.do(Hold(7, 1, 0, 1, i))
    if theirs == "acknowledged":
        world.settle(2, i[0])
    elif theirs == "given back":
        world.disconnect(2)
    world.appended.clear()
    part, turn = Settle(7, 1, 0, 1, i), world.turn()
    if theirs == "given back":
        world.engine.check(part, {})
        world.engine.handle(part, turn)
        world.finish(turn)
        assert settled(world) == [(i[0], i[0])]
    else:
        with pytest.raises(RefusedError):
            world.engine.check(part, {})


@pytest.mark.parametrize("durable", [False, True])
def test_a_transaction_may_name_what_died_with_an_earlier_leader_but_nothing_durable(durable):
    world, i = loaded(1)
    world.disconnect(1)
    world.attach(2, ack=INDIVIDUAL)
    world.settle(2, i[0])
    fail_over(world)
    world.attach(1, spans(i), ack=INDIVIDUAL, firm=spans(i) if durable else [])
    world.do(Hold(7, 1, 0, 1, i))
    for _ in range(2):
        if durable:
            with pytest.raises(RefusedError):
                world.engine.check(Settle(7, 1, 0, 1, i), {})
        else:
            world.engine.check(Settle(7, 1, 0, 1, i), {})
        world.attach(1, spans(i), ack=INDIVIDUAL, firm=spans(i) if durable else [])  # the stream broke
        world.do(Hold(7, 1, 0, 1, i))


@pytest.mark.parametrize("ended", [False, True])
def test_what_a_client_has_rejected_itself_is_not_somebody_elses_when_it_is_asked_again(ended):
    """Its bytes are still being read back, to be a dead letter, when the stream of its edge breaks."""
    world, i = loaded(3)
    fail_over(world)
    world.auto_commit = False
    world.attach(1, spans(i), ack=INDIVIDUAL, room=0)
    assert refused(world.settle(1, i[0], i[1], outcome=Outcome.REJECT, seq=4)) == []
    assert world.engine.queues()[0].pages.recalls
    if ended:
        world.disconnect(1)
    world.attach(1, spans(i[:2] if ended else i), ack=INDIVIDUAL, room=0)
    world.effects.clear()
    assert refused(world.settle(1, i[0], i[1], outcome=Outcome.REJECT, seq=4)) == []


def test_what_a_stranger_has_by_now_stays_a_strangers_when_its_edge_opens_its_slots_again():
    world, i = given_up()
    world.attach(1, spans(i), ack=INDIVIDUAL, room=0)
    assert refused(world.settle(1, i[0], seq=4)) == [Code.NO_SUCH_DELIVERY]


def counted_against(credit_messages=1):
    """Consumer 1 was given up by a leader that is gone; that one has counted it, so the next one leaves the message in
    the queue, for whoever was given it since. Nobody was."""
    world, i = loaded(1)
    world.disconnect(1)
    fail_over(world)
    world.attach(1, spans(i), ack=INDIVIDUAL, credit_messages=credit_messages)
    world.effects.clear()
    world.appended.clear()
    return world, i


def commit(world, *ids):
    part, turn = Settle(7, 1, 0, 1, list(ids)), world.turn()
    world.engine.check(part, {})
    world.engine.handle(part, turn)
    return world.finish(turn)


def test_what_a_transaction_acknowledges_is_taken_for_real_before_the_credit_of_it_comes_back():
    """`make chaos --seed 879736062`: the Hold let the very message out again, to the same consumer; its ghost gave way,
    and the COMMIT was receipted and settled nothing."""
    world, i = counted_against()
    assert got(world.effects) == []
    world.do(Hold(7, 1, 0, 1, i))
    assert got(world.effects) == []
    commit(world, *i)
    assert settled(world) == [(i[0], i[0])]
    assert (world.queue()["ready"], world.queue()["delivering"]) == (0, 0)


def test_a_transaction_holds_what_has_come_back_to_its_client():
    """Another consumer had it when the transaction acknowledged it, and has failed since."""
    world, i = loaded(1)
    world.disconnect(1)
    world.attach(2, ack=INDIVIDUAL)
    world.attach(1, spans(i), ack=INDIVIDUAL)
    world.do(Hold(7, 1, 0, 1, i))
    world.disconnect(2)
    world.settle_down()
    assert world.queue()["delivering"] == 1 and world.queue()["ready"] == 0
    world.appended.clear()
    commit(world, *i)
    assert settled(world) == [(i[0], i[0])] and world.queue()["delivering"] == 0


@pytest.mark.parametrize("transaction", [False, True])
def test_what_expired_before_its_edge_came_to_a_new_leader_may_be_acknowledged_but_not_in_a(transaction):
    """Its edge was later than the leader waits for (0.2 s): the message was in the queue, and its time was over. An ACK
    has a receipt then, though the expiry address has the message: docs/reliability.md says so."""
    world, i = loaded(1, expiry_delay_ms=1000)
    world.tick(2000)
    assert world.queue()["delivering"] == 1, "it does not expire in the hands of a client"
    fail_over(world)
    world.attach(2, ack=INDIVIDUAL)
    world.settle_down()
    assert got(world.effects, 2) == [] and (i[0], i[0]) in settled(world)
    world.attach(1, spans(i), ack=INDIVIDUAL, firm=spans(i))
    if transaction:
        world.do(Hold(7, 1, 0, 1, i))
        with pytest.raises(RefusedError):
            world.engine.check(Settle(7, 1, 0, 1, i), {})
    else:
        assert done(world.settle(1, i[0], seq=4)) == [4]


@pytest.mark.parametrize("what", ["unread", "a ghost"])
def test_a_message_whose_body_is_lost_may_be_known_by_its_number_only(what):
    """Its leader had died, or its edge been given up: the engine threw."""
    world, i = loaded(1, dead_letter_address="DLQ")
    if what == "unread":
        fail_over(world)
        world.attach(1, spans(i), ack=INDIVIDUAL)
    else:
        world.disconnect(1)
        world.attach(2, ack=INDIVIDUAL)
        world.attach(1, spans(i), ack=INDIVIDUAL)
    assert refused(world.settle(1, i[0], outcome=Outcome.UNREADABLE)) == []
    world.settle_down()
    letters = world.queue("DLQ")
    assert (letters is not None and letters["ready"] == 1) is (what == "unread"), "a ghost is another's, or nobody's"
    assert world.queue()["delivering"] == (0 if what == "unread" else 1)


def test_what_was_taken_out_for_an_ack_that_is_refused_is_seen_by_who_looks_on():
    world, i = loaded(2)
    world.disconnect(1)
    world.attach(2, ack=INDIVIDUAL)
    world.attach(1, spans(i), ack=INDIVIDUAL)
    world.settle(2, i[0], outcome=Outcome.NACK, delay=60_000)
    assert refused(world.settle(1, *i, seq=4)) == [Code.NO_SUCH_DELIVERY]
    assert (world.queue()["delayed"], world.queue()["delivering"]) == (0, 3), "one is its own again, one the other's"
