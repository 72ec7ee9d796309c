"""What is carried out in pieces, and its queue goes, its leader, or who waits for it meanwhile: what was asked for
before has happened, and nobody waits for what was asked for later."""

from __future__ import annotations

import pytest

from broker.config.addressing import AddressSettings
from broker.config.settings import EngineSettings
from broker.core.address import Outcome
from broker.core.commands import Barrier, Disconnect, Publish, Settle, Unsubscribe
from broker.core.effects import Done
from broker.core.message import Blob
from broker.core.records import Left, SettleRecord
from broker.engine.messages.unloaded import is_ghost
from broker.engine.queue.large_returns import BACK, LIGHT
from broker.engine.state import slot as bounds

from .test_returns import MANY, done, goes_on, holding, last
from .world import ANYCAST, CLIENT, MULTICAST, World, ids, refused, run_of

LETTERS = {"dead_letter_address": "dead", "max_delivery_attempts": 1}


def subscriber(world: World, many: int = MANY, blobs: bool = False, **more) -> World:
    """Consumer 1 of topic t holds so many, and the world goes on turn by turn."""
    world.subscribe(1, "t", ack=CLIENT, routing=MULTICAST, **more)
    for n in range(many):
        blob = Blob(n + 1, 100) if blobs and n % 2 else None
        world.publish("t", b"%d" % n, durable=True, routing=MULTICAST, blob=blob)
    world.in_pieces, world.auto_commit = True, False
    return world


@pytest.mark.parametrize("outcome", [Outcome.REJECT, Outcome.NACK])
@pytest.mark.parametrize("blobs", [False, True])
@pytest.mark.parametrize(
    "end, more",
    [
        (Unsubscribe(7, 1, 6, 1, "t"), {}),
        (Disconnect(7, 1), {}),
        (Unsubscribe(7, 1, 6, 1, "t", "sub"), {"queue": "sub", "durable": True}),
    ],
    ids=["UNSUBSCRIBE", "the end of its session", "the end of a durable subscription"],
)
def test_what_is_rejected_is_a_dead_letter_though_its_queue_goes(outcome, blobs, end, more):
    world = subscriber(World(addresses={"t": LETTERS}), blobs=blobs, **more)
    effects = world.do(Settle(7, 1, 5, 1, [last(world)], outcome), end)
    effects += goes_on(world)
    assert done(effects)[0] == 5 and world.queue("dead")["ready"] + world.queue("dead")["paged"] == MANY
    assert not world.engine.shown.returning.tells_later(1, Done(1, 9)), "and nobody waits for it"


def test_also_where_it_is_purged_when_its_last_consumer_goes():
    world = World(addresses={"q": LETTERS | {"purge_on_no_consumers": True}})
    world.subscribe(1, "q", ack=CLIENT)
    for n in range(MANY):
        world.publish("q", b"%d" % n, durable=True)
    world.in_pieces, world.auto_commit = True, False
    effects = world.do(Settle(7, 1, 5, 1, [last(world)], Outcome.REJECT), Unsubscribe(7, 1, 6, 1, "q"))
    assert done(effects + goes_on(world)) == [5, 6] and world.queue("dead")["ready"] == MANY


def test_what_is_only_to_come_again_goes_with_its_queue():
    world = subscriber(World(addresses={"t": {"dead_letter_address": "dead"}}))
    effects = world.do(Settle(7, 1, 5, 1, [last(world)], Outcome.NACK), Unsubscribe(7, 1, 6, 1, "t"))
    assert sorted(done(effects + goes_on(world))) == [5, 6] and world.queue("dead") is None


@pytest.mark.parametrize("durable", [False, True])
def test_what_was_acknowledged_counts_as_that_though_its_queue_goes(durable):
    world = World()
    more = {"queue": "sub", "durable": True} if durable else {}
    world.subscribe(1, "t", ack=CLIENT, routing=MULTICAST, **more)
    world.publish("t", *[b"x"] * (2 * LIGHT), durable=durable, routing=MULTICAST)
    world.in_pieces, world.auto_commit = True, False
    end = Unsubscribe(7, 1, 6, 1, "t", "sub" if durable else None)
    effects = world.do(Settle(7, 1, 5, 1, [last(world)]), end) + goes_on(world)
    assert done(effects) == [5, 6] and world.engine.counters()["acked"] == 2 * LIGHT
    assert Left.PURGED not in [record.why for _, record in world.log if isinstance(record, SettleRecord)]


@pytest.mark.parametrize("behind", [Unsubscribe(7, 1, 6, 1, "a"), Barrier(7, 1, 6)], ids=["UNSUBSCRIBE", "Barrier"])
def test_nobody_waits_for_what_the_session_gives_back_later(behind):
    """A session that always gives something back never heard of the end of its consumer."""
    world = World(max_delivery_attempts=-1)
    for consumer, queue in enumerate("abcd", 1):
        for n in range(MANY):
            world.publish(queue, b"%d" % n)
        world.subscribe(consumer, queue, ack=CLIENT, session=1)
    world.in_pieces, world.auto_commit = True, False
    consumers = world.engine.shown.consumers
    effects = world.do(Settle(7, 1, 5, 1, [last(world)], Outcome.NACK, 3_600_000), behind)
    seq, turns = 7, 0
    while 6 not in done(effects):
        ready = [c for c in (2, 3, 4) if len(consumers[c].ledger) == MANY]
        under_way = sum(queue.returning is not None for queue in world.engine.shown.queues.values())
        if ready and under_way < 2:
            effects += world.do(Settle(7, 1, seq, ready[0], [last(world, ready[0])], Outcome.NACK, 0))
            seq += 1
        effects += world.commit()
        turns += 1
        assert turns < 50
    assert seq > 8, "it was about others that were under way"


def test_an_ack_of_what_is_on_its_way_back_is_refused():
    """A late edge's client acknowledges what another consumer has got since, and gives back just now."""
    world = holding()
    world.restart(first_id=1 << 40)
    world.in_pieces, world.auto_commit = False, True
    world.subscribe(8, ack=CLIENT)
    held = list(world.engine.shown.consumers[8].ledger)
    world.attach(1, held=[(held[0], held[-1])], ack=CLIENT)
    world.in_pieces, world.auto_commit = True, False
    effects = world.do(Settle(7, 8, 5, 8, [held[-1]], Outcome.NACK, 60_000), Settle(7, 1, 6, 1, [held[-1]]))
    effects += goes_on(world)
    assert len(refused(effects)) == 1 and world.queue()["delayed"] == MANY


def test_a_limit_that_is_set_meanwhile_counts_it():
    world = holding()
    world.do(Settle(7, 1, 5, 1, [last(world)], Outcome.NACK))
    limited = AddressSettings(max_size_messages=1000, full_policy="FAIL")
    world.engine.configure(EngineSettings(address=limited))
    goes_on(world)
    queue = world.engine.shown.queues[1]
    world.in_pieces, world.auto_commit = False, True
    assert queue.usage.messages == sum(queue.tally()) == MANY
    world.settle(1, last(world))
    assert queue.usage.messages == queue.usage.nbytes == 0


@pytest.mark.parametrize("kind", [{"ring_size": 10}, {"last_value_key": "k"}])
def test_a_queue_keeps_its_bound_meanwhile(kind):
    world = World(**kind)
    world.subscribe(1, ack=CLIENT)
    for n in range(MANY):
        world.publish("q", b"x", lines=b"k:%d\n" % n)
    world.in_pieces = True
    world.do(Settle(7, 1, 5, 1, [last(world)], Outcome.NACK, 3_600_000))
    queue = world.engine.shown.queues[1]
    while queue.returning is not None:
        world.do(*(Publish(7, 9, 0, "q", ANYCAST, run_of(b"y", lines=b"k:same\n")) for _ in range(50)))
        assert queue.count <= 110


def test_an_ack_of_much_lets_younger_messages_out_meanwhile():
    world = World()
    world.publish("q", *[b"x"] * (3 * LIGHT))
    world.subscribe(1, ack=CLIENT)
    world.in_pieces = True
    named = last(world)
    world.publish("q", b"y")
    world.do(Settle(7, 1, 5, 1, [named]))
    assert world.engine.shown.queues[1].returning is not None
    assert list(world.engine.shown.consumers[1].ledger) == [3 * LIGHT + 1]
    world.publish("q", b"z")
    assert len(world.engine.shown.consumers[1].ledger) == 2
    goes_on(world)


@pytest.mark.parametrize("named", [(BACK + 1, BACK + 1), (1, MANY), (MANY // 2, MANY)])
def test_who_comes_again_has_what_it_names_and_the_rest_stays_under_way(named):
    """All of it came back in that step: 325 ms for 50,000."""
    world = holding()
    world.do(Settle(7, 1, 5, 1, [last(world)], Outcome.NACK))
    world.attach(2, held=[named], ack=CLIENT, credit_messages=0)
    consumer, queue = world.engine.shown.consumers[2], world.engine.shown.queues[1]
    assert not any(map(is_ghost, consumer.ledger.values()))
    left = sum(returning.left for returning in queue.returning or ())
    many = named[1] - max(named[0], BACK + 1) + 1
    least = max(MANY - BACK - many - BACK, 0)
    assert least <= left <= least + 4, "what was on its way, without these and another piece"
    assert queue.delivering == left + len(consumer.ledger)
    effects = goes_on(world)
    assert done(effects) == [5]
    world.in_pieces, world.auto_commit = False, True
    world.disconnect(2)
    world.disconnect(1)
    world.effects.clear()
    assert sorted(ids(world.subscribe(3))) == list(range(1, MANY + 1)), "each is in one place"


def test_who_comes_again_to_a_reject_under_way_is_answered_behind_it():
    world = holding(dead_letter_address="dead")
    named = last(world)
    world.do(Settle(7, 1, 5, 1, [named], Outcome.REJECT))
    world.effects.clear()
    world.attach(1, held=[(1, named)], ack=CLIENT)
    effects = world.do(Settle(7, 1, 7, 1, [named], Outcome.REJECT))
    assert world.engine.shown.queues[1].returning is not None and done(effects) == []
    assert done(effects + goes_on(world)) == [5, 7] and world.queue("dead")["ready"] == MANY


def test_what_an_earlier_attachment_held_and_its_client_has_not_comes_back_in_pieces():
    world = holding()
    world.attach(1, held=[(1, 1)], ack=CLIENT, credit_messages=0)
    assert world.engine.shown.queues[1].returning is not None
    goes_on(world)


def test_who_comes_again_and_names_nothing_leaves_it_under_way():
    world = holding()
    world.do(Settle(7, 1, 5, 1, [last(world)], Outcome.NACK))
    world.attach(2, ack=CLIENT)
    assert world.engine.shown.queues[1].returning is not None
    goes_on(world)


def test_others_of_the_slot_have_their_turn_beside_many_who_give_back():
    world = World()
    many = 30
    for n in range(1, many + 1):
        holding(BACK + 10, session=n, world=world, queue=f"q{n}")
    world.subscribe(50, "other")
    world.do(*(Settle(7, n, 5, n, [last(world, n)], Outcome.NACK, 60_000) for n in range(1, many + 1)))
    turn = world.turn()
    turn.returns(bounds.RETURNED)
    world.engine.handle(Publish(7, 9, 0, "other", ANYCAST, run_of(b"x")), turn)
    assert [effect.consumer for effect in world.finish(turn)] == [50]


def test_a_durable_subscription_that_is_purged_when_its_consumer_goes_may_be_deleted_with_it():
    """The queue that had been purged was deleted a second time, and the owner stopped."""
    world = World(addresses={"t": {"purge_on_no_consumers": True}})
    world.subscribe(1, "t", ack=CLIENT, routing=MULTICAST, queue="sub", durable=True)
    world.publish("t", b"x", durable=True, routing=MULTICAST)
    assert done(world.do(Unsubscribe(7, 1, 6, 1, "t", "sub"))) == [6]
    assert not world.engine.subscriptions()


def test_nobody_waits_for_an_advisory():
    world = holding(1, message_advisories="MessageDLQd", dead_letter_address="")
    turn = world.turn()
    world.engine.handle(Settle(7, 1, 5, 1, [last(world)], Outcome.REJECT), turn)
    assert turn.moves and not any(move.queue for move in turn.moves) and all(move.heard is None for move in turn.moves)
    assert done(world.finish(turn) + world.commit()) == [5]
