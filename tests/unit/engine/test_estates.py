"""Dead letters of a queue that is deleted behind them: none is lost, whoever leads the slot by then, and who rejected
is told when they are where they go."""

from __future__ import annotations

import pytest

from broker.core.address import Outcome
from broker.core.commands import Act, Decide, Disconnect, Manage, Prepare, Resume, Settle, Subscribe, Unsubscribe
from broker.core.effects import Done, Refused, Turn
from broker.core.errors import Code
from broker.core.message import Blob
from broker.core.records import GroupRecord, Left, MetaRecord, SettleRecord
from broker.engine.queue.large_returns import BACK

from .test_prepared import sent_away
from .test_returns import MANY, done, goes_on, last
from .world import ANYCAST, CLIENT, MULTICAST, World, refused

LETTERS = {"t": {"dead_letter_address": "dead", "max_delivery_attempts": 1}}
SUB = {"ack": CLIENT, "routing": MULTICAST, "address": "t", "queue": "sub", "durable": True}
DELETE = Unsubscribe(7, 1, 6, 1, "t", "sub")


def held(many: int, unread: bool = True) -> World:
    """Consumer 1 of durable subscription `sub` holds so many. unread: since it has come to a new leader, which knows
    their numbers."""
    world = World(addresses=LETTERS)
    world.subscribe(1, **SUB)
    for n in range(many):
        world.publish("t", b"%d" % n, durable=True, routing=MULTICAST)
    ids = list(world.engine.shown.consumers[1].ledger)
    if unread:
        world.restart(first_id=1 << 40)
        world.attach(1, held=[(ids[0], ids[-1])], **SUB)
    assert world.queue("sub")["delivering"] == many
    world.effects.clear()
    world.in_pieces, world.auto_commit = True, False
    return world


def dead(world: World) -> int:
    queue = world.queue("dead")
    return 0 if queue is None else queue["ready"] + queue["paged"]


@pytest.mark.parametrize("outcome", [Outcome.REJECT, Outcome.NACK])
@pytest.mark.parametrize("many", [3, MANY])
def test_a_reject_of_what_is_not_read_back_is_answered_when_its_letters_are_there(many, outcome):
    world = held(many)
    effects = world.do(Settle(7, 1, 5, 1, [last(world)], outcome))
    while not world.fetches:
        effects += world.commit()
    effects += world.commit() + world.commit()
    assert done(effects) == [] and not dead(world), "its bytes are asked for"
    effects += goes_on(world)
    assert done(effects) == [5] and dead(world) == many


@pytest.mark.parametrize("many", [3, BACK, BACK + 1, MANY])
def test_who_rejects_again_is_told_behind_the_letters_of_the_first_time(many):
    """Its stream broke. Of more than 64 it was told at once, for they are ghosts now: had the leader died then, all of
    them would have come again."""
    world = held(many)
    ids = list(world.engine.shown.consumers[1].ledger)
    world.do(Settle(7, 1, 5, 1, [ids[-1]], Outcome.REJECT))
    for _ in range(MANY // BACK + 4):
        world.commit()
    world.attach(1, held=[(ids[0], ids[-1])], **SUB)
    world.do(Settle(7, 1, 5, 1, [ids[-1]], Outcome.REJECT))
    for _ in range(MANY // BACK + 4):
        world.commit()
    assert world.fetches and done(world.effects) == [] and not dead(world), "nothing has been read back"
    goes_on(world)
    assert done(world.effects) == [5, 5] and dead(world) == many


@pytest.mark.parametrize("outcome", [Outcome.REJECT, Outcome.NACK])
@pytest.mark.parametrize("many", [3, MANY])
@pytest.mark.parametrize("unread", [False, True])
def test_a_subscription_that_is_deleted_behind_it_loses_none(many, outcome, unread):
    world = held(many, unread)
    effects = world.do(Settle(7, 1, 5, 1, [last(world)], outcome), DELETE)
    assert not world.engine.subscriptions() and world.queue("sub") is None, "it is gone for everybody"
    if unread:
        assert done(effects + world.commit()) == []
    effects = [*world.effects, *goes_on(world)]
    assert done(effects) == [5, 6] and dead(world) == many
    gone = [record for _, record in world.log if isinstance(record, MetaRecord) and record.kind == "unqueue"]
    assert len(gone) == 1 and [queue.name for queue in world.engine.queues()] == ["dead"]


@pytest.mark.parametrize("turns", [1, 2, 3, 5, 20])
@pytest.mark.parametrize("unread", [False, True])
@pytest.mark.parametrize("snapshot", [False, True])
def test_nor_does_the_next_leader(turns, unread, snapshot):
    """Who repeats the REJECT there finds neither its queue nor its messages."""
    world = held(MANY, unread)
    world.do(Settle(7, 1, 5, 1, [last(world)], Outcome.REJECT), DELETE)
    for _ in range(turns):
        world.commit()
        if world.fetches:
            world.serve()
    if snapshot:
        world.log = [(0, r) for r in world.engine.snapshot()] + [
            (n, r) for n, r in world.log if not isinstance(r, MetaRecord)
        ]
    world.restart(first_id=1 << 41)
    goes_on(world)
    world.in_pieces, world.auto_commit = False, True
    world.restart(first_id=1 << 42)
    assert dead(world) == MANY and [queue.name for queue in world.engine.queues()] == ["dead"]
    assert "dead-letter-reason:rejected" in letters(world)


@pytest.mark.parametrize("unread", [False, True])
@pytest.mark.parametrize("snapshot", [False, True])
@pytest.mark.parametrize(("many", "turns"), [(3, 0), (MANY, 0), (MANY, 3)])
def test_the_next_leader_knows_which_have_failed_too_often(unread, snapshot, many, turns):
    """Of letters that a NACK made it said "rejected"."""
    world = held(many, unread)
    *_, rejected, last_one = world.engine.shown.consumers[1].ledger
    turn = world.turn()
    world.engine.handle(Settle(7, 1, 4, 1, [rejected], Outcome.NACK), turn)
    world.engine.handle(Settle(7, 1, 5, 1, [last_one], Outcome.REJECT), turn)
    world.engine.handle(DELETE, turn)
    world.engine.flush(turn)
    turn.take_moves()  # they are on their way when the leader dies
    world.finish(turn)
    for _ in range(turns):
        world.commit()
    small = [(0, record) for record in world.engine.snapshot()]
    world.commit()
    if snapshot:
        world.log = small + [(n, r) for n, r in world.log if not isinstance(r, MetaRecord)]
    world.restart(first_id=1 << 41)
    goes_on(world)
    world.in_pieces, world.auto_commit = False, True
    world.settle_down()
    said = letters(world)
    assert said.count("reason:delivery-limit") == many - 1 and said.count("reason:rejected") == 1


@pytest.mark.parametrize("outcome", [Outcome.REJECT, Outcome.NACK])
@pytest.mark.parametrize("says", [3, MANY])
@pytest.mark.parametrize("arrives", [True, False])
def test_who_says_it_again_to_the_next_leader_is_told_behind_its_letters(outcome, says, arrives):
    """There its subscription is made anew by being asked for, and holds none of them: it was told at once."""
    world = held(MANY, unread=False)
    named = list(world.engine.shown.consumers[1].ledger)
    world.do(Settle(7, 1, 5, 1, [named[-1]], outcome), DELETE)
    world.commit()
    named = named[-says:]
    world.restart(first_id=1 << 40)
    world.effects.clear()
    again = Subscribe(7, 1, 0, 1, "t", MULTICAST, CLIENT, queue="sub", durable=True)
    again.resume = Resume([(named[0], named[-1])], [])
    away = sent_away(world, again, Settle(7, 1, 15, 1, [named[-1]], outcome), DELETE)
    assert done(world.effects) == []
    assert away
    for move in away[1:] + away[:1]:
        assert done(world.effects) == []
        later = world.turn()
        (world.engine.moved if arrives else world.engine.waits)(move, later)
        world.finish(later)
    goes_on(world)
    assert sorted(done(world.effects)) == [6, 15] and not world.engine.shown.estates
    assert any(queue.estate for queue in world.engine.queues()) is not arrives


def letters(world: World) -> str:
    world.effects.clear()
    world.subscribe(9, "dead", ack=CLIENT, routing=ANYCAST)
    return str([effect.run.lines + effect.run.records[0] for effect in world.effects if hasattr(effect, "run")])


@pytest.mark.parametrize("many", [1, MANY])
def test_what_is_on_its_way_to_another_owner_when_its_queue_goes(many):
    world = held(many, unread=False)
    turn = world.turn()
    world.engine.handle(Settle(7, 1, 5, 1, [last(world)], Outcome.REJECT), turn)
    world.engine.flush(turn)
    away = turn.take_moves()
    world.engine.handle(DELETE, turn)
    effects = world.finish(turn)
    while world.engine.unfinished:
        more = Turn(world.now, world.open)
        world.engine.flush(more)
        away += more.take_moves()
        effects += world.finish(more)
    assert done(effects + world.commit()) == [] and sum(len(move.ids) for move in away) == many
    saved = world.engine, list(world.log), world.committed
    world.restart(first_id=1 << 40)
    goes_on(world)
    assert dead(world) == many, "the owner died before they arrived"
    world.engine, world.log, world.committed = saved
    world.open += 1
    for move in away:
        later = world.turn()
        world.engine.moved(move, later)
        effects += world.finish(later)
    effects += goes_on(world)
    assert done(effects) == [5, 6] and not world.engine.queues()


def test_who_subscribes_rejects_and_deletes_in_turn_is_stopped():
    """Where dead letters cannot go, each time an estate stays: nothing bounded them, and nothing showed them."""
    world = World(addresses=LETTERS, max_queues=3)
    away = []
    for n in range(5):
        world.subscribe(n + 1, session=1, seq=n + 1, **{**SUB, "queue": f"sub{n}"})
        if refused(world.effects):
            break
        world.publish("t", b"x" * 1000, durable=True, routing=MULTICAST)
        turn = world.turn()
        world.engine.handle(Settle(7, 1, 0, n + 1, [last(world, n + 1)], Outcome.REJECT), turn)
        world.engine.handle(Unsubscribe(7, 1, 0, n + 1, "t", f"sub{n}"), turn)
        world.engine.flush(turn)
        away += turn.take_moves()  # the dead letter address is full
        world.finish(turn)
    budget = world.engine.shown.budget
    assert refused(world.effects) == [Code.QUEUE_LIMIT] and len(away) == 3
    (told,) = [effect.detail for effect in world.effects if isinstance(effect, Refused)]
    assert "3 deleted ones have dead letters to send, and engine.max_queues is 3" in told
    (shown,) = [metric for metric in budget.metrics() if metric.name == "stomp_deleted_queues"]
    assert shown.samples == [({}, 3.0)] and not budget.used
    world.commit()
    world.restart(first_id=1 << 40)
    assert dead(world) == 3, "what they need to go they get"
    world.subscribe(9, **SUB)
    assert not refused(world.effects) and not world.engine.shown.budget.estates


def test_it_weighs_what_its_queue_did():
    world = held(MANY, unread=False)
    world.commit()
    memory = world.engine.shown.budget.memory
    before = memory.queues
    world.do(Settle(7, 1, 5, 1, [last(world)], Outcome.REJECT), DELETE)
    (estate,) = [queue for queue in world.engine.queues() if queue.estate]
    assert estate.out > before // 100 and memory.queues == sum(queue.weight for queue in world.engine.queues())
    goes_on(world)
    assert memory.queues == sum(queue.weight for queue in world.engine.queues())


def test_another_subscription_of_the_name_may_be_made_meanwhile():
    world = held(MANY)
    world.do(Settle(7, 1, 5, 1, [last(world)], Outcome.REJECT), DELETE)
    world.subscribe(2, **SUB)
    world.publish("t", b"new", durable=True, routing=MULTICAST)
    world.commit()
    world.do(Settle(7, 2, 7, 2, [last(world, 2)], Outcome.REJECT), Unsubscribe(7, 2, 8, 2, "t", "sub"))
    world.subscribe(3, **SUB)
    world.publish("t", b"newer", durable=True, routing=MULTICAST)
    world.commit()
    world.restart(first_id=1 << 41)
    assert list(world.engine.subscriptions()) == ["sub"]
    goes_on(world)
    assert world.queue("sub")["paged"] + world.queue("sub")["ready"] == 1 and dead(world) == MANY + 1


def test_a_page_that_is_under_way_when_its_queue_goes_is_of_nobody():
    world = World(addresses=LETTERS, queue_memory_bytes=2000, page_bytes=500)
    world.subscribe(1, **SUB, credit_messages=20)
    for n in range(100):
        world.publish("t", b"%d" % n + b"x" * 100, durable=True, routing=MULTICAST)
    ids = list(world.engine.shown.consumers[1].ledger)
    world.restart(first_id=1 << 40)
    world.auto_commit = False
    world.in_pieces = True
    world.attach(1, held=[(ids[0], ids[-1])], credit_messages=25, **SUB)
    assert len(world.fetches) == 1, "the head of what is paged"
    world.do(Settle(7, 1, 5, 1, [ids[-1]], Outcome.REJECT), DELETE)
    goes_on(world)
    assert dead(world) == 20 and done(world.effects)[-2:] == [5, 6]


def test_large_bodies_go_piece_by_piece_and_the_log_says_what_became_of_them():
    """They went in one step, 125 ms for 20,000, and counted as purged."""
    world = World(addresses=LETTERS)
    world.subscribe(1, **SUB)
    for n in range(MANY):
        world.publish("t", b"%d" % n, durable=True, routing=MULTICAST, blob=Blob(n + 1, 100))
    world.in_pieces, world.auto_commit = True, False
    before = len(world.log)
    world.do(Settle(7, 1, 5, 1, [last(world)], Outcome.REJECT), DELETE)
    while not done(world.effects):
        had = dead(world)
        world.commit()
        assert dead(world) - had <= BACK
    said = [record for _, record in world.log[before:] if isinstance(record, SettleRecord)]
    assert sum(b - a + 1 for r in said if r.why == Left.DEAD_LETTERED for a, b in r.spans) == MANY
    assert Left.PURGED not in [record.why for record in said] and dead(world) == MANY


@pytest.mark.parametrize(
    "end",
    [Disconnect(7, 1), Unsubscribe(7, 1, 6, 1, "t")],
)
def test_of_one_that_dies_with_its_consumer_as_well(end):
    world = World(addresses=LETTERS)
    world.subscribe(1, "t", ack=CLIENT, routing=MULTICAST)
    for n in range(MANY):
        world.publish("t", b"%d" % n, routing=MULTICAST, blob=Blob(n + 1, 100) if n % 2 else None)
    world.in_pieces, world.auto_commit = True, False
    before = len(world.log)
    world.do(Settle(7, 1, 5, 1, [last(world)], Outcome.REJECT), end)
    goes_on(world)
    assert dead(world) == MANY and [queue.name for queue in world.engine.queues()] == ["dead"]
    kinds = [r.kind for _, each in world.log[before:] for r in records(each) if isinstance(r, MetaRecord)]
    assert "unqueue" not in kinds, "nothing of it lasts"


@pytest.mark.parametrize("unread", [False, True])
@pytest.mark.parametrize("outcome", [Outcome.REJECT, Outcome.NACK])
def test_a_crash_finds_the_queue_or_its_estate(unread, outcome):
    """Between the settlement of the rest and the estate there was a queue that had the letters as its messages."""
    world = held(MANY, unread)
    world.publish("t", b"goes", durable=True, routing=MULTICAST)
    world.commit()
    world.do(Settle(7, 1, 5, 1, [last(world)], outcome))
    before = len(world.appended)
    world.do(DELETE)
    kinds = [[getattr(part, "kind", "settled") for part in records(each)] for each in world.appended[before:]]
    (group,) = [each for each in kinds if "estate" in each]
    assert group[:2] == ["settled", "estate"] and ("count" in group[2:]) is (outcome is Outcome.NACK)
    assert not [each for each in kinds[: kinds.index(group)] if "settled" in each]


def records(record):
    return record.records if isinstance(record, GroupRecord) else [record]


def test_what_waits_for_the_log_when_its_queue_goes_is_no_dead_letter():
    world = held(MANY, unread=False)
    world.publish("t", b"new", durable=True, routing=MULTICAST)
    world.do(Settle(7, 1, 5, 1, [last(world)], Outcome.REJECT), DELETE)
    goes_on(world)
    assert dead(world) == MANY


def test_a_queue_that_an_operator_deletes():
    world = held(MANY, unread=False)
    world.do(Settle(7, 1, 5, 1, [last(world)], Outcome.REJECT))
    world.do(Manage(7, 9, 8, Act.DELETE, "t", "sub", force=True))
    goes_on(world)
    assert dead(world) == MANY and [queue.name for queue in world.engine.queues()] == ["dead"]


@pytest.mark.parametrize("outcome", [Outcome.ACK, Outcome.NACK, Outcome.REJECT])
@pytest.mark.parametrize("commit", [True, False])
@pytest.mark.parametrize("fails_over", [False, True])
def test_what_a_transaction_in_doubt_has_claimed_goes_with_the_queue(outcome, commit, fails_over):
    """Its decision found the estate, which has the number: four fewer than none were on their way, so it stayed for
    ever, and what was rolled back was a dead letter."""
    world = World(addresses=LETTERS)
    world.subscribe(1, **SUB)
    world.subscribe(2, **SUB)
    for n in range(2 * MANY):
        world.publish("t", b"%d" % n, durable=True, routing=MULTICAST)
    mine, claimed = (list(world.engine.shown.consumers[n].ledger) for n in (1, 2))
    world.in_pieces, world.auto_commit = True, False
    world.do(Prepare(7, 2, 5, "tx", 9, [Settle(7, 2, 0, 2, [claimed[3]], outcome)]))
    world.commit()
    world.do(
        Settle(7, 1, 5, 1, [mine[-1]], Outcome.REJECT),
        Unsubscribe(7, 2, 7, 2, "t"),
        Unsubscribe(7, 1, 6, 1, "t", "sub"),
    )
    world.commit()
    if fails_over:
        world.restart(first_id=1 << 41)
    world.do(Decide(7, 2, 8, "tx", commit))
    goes_on(world)
    assert 8 in done(world.effects) and dead(world) == len(mine) and not world.engine.shown.prepared
    assert [queue.name for queue in world.engine.queues()] == ["dead"]


def test_a_commit_is_answered_behind_the_letters_of_its_reject():
    world = held(3)
    turn = world.turn()
    part = Settle(7, 1, 0, 1, [last(world)], Outcome.REJECT)
    world.engine.check(part, {})
    world.engine.handle(part, turn)
    world.engine.after(Done(1, 5), turn)
    effects = world.finish(turn) + world.commit()
    assert done(effects) == [] and not dead(world)
    assert done(goes_on(world)) == [5] and dead(world) == 3


def test_an_older_release_does_not_take_an_estate_for_the_queue_that_was_made_again():
    """It refuses a kind that it does not know (NewerRelease), and waits for its upgrade. A "queue" of that number it
    would have kept beside the new one, and have dropped the new one at the "unqueue"."""
    world = held(MANY, unread=False)
    world.do(Settle(7, 1, 5, 1, [last(world)], Outcome.REJECT), DELETE)
    world.commit()
    metas = [record for _, record in world.log if isinstance(record, MetaRecord)]
    (estate,) = [record for record in metas if record.kind == "estate"]
    assert [record.kind for record in metas if record.data.get("id") == estate.data["id"]][-2:] == ["queue", "estate"]
    kept = world.engine.snapshot()
    assert [record.data for record in kept if record.kind == "estate"] == [estate.data], "so does a snapshot"
