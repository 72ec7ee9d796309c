"""Much that is given back, or acknowledged, by one word is carried out in pieces, one a turn; who waits for it is told
when all of it has happened."""

from __future__ import annotations

import pytest

from broker.core.address import Outcome
from broker.core.commands import Barrier, Decide, Prepare, Publish, Settle, Unsubscribe
from broker.core.effects import Done, Refused, Turn
from broker.core.errors import Code
from broker.core.records import MetaRecord
from broker.engine.queue.large_returns import BACK, LIGHT
from broker.engine.routing.addresses import delete
from broker.engine.state import slot as bounds

from .world import ANYCAST, AUTO, CLIENT, INDIVIDUAL, World, got, ids, refused, run_of

MANY = 8 * BACK


def done(effects: list) -> list[int]:
    return [effect.seq for effect in effects if isinstance(effect, Done | Refused) and effect.seq]


def holding(many: int = MANY, ack=CLIENT, session: int = 1, world: World | None = None, queue: str = "q", **settings):
    """A world whose consumer holds so many, which goes on turn by turn."""
    world = world or World(**settings)
    world.in_pieces, world.auto_commit = False, True
    durable = settings.get("durable", True)
    for n in range(many):
        world.publish(queue, b"%d" % n, durable=durable)
    world.subscribe(session, queue, ack=ack)
    assert world.queue(queue)["delivering"] == many
    world.in_pieces = True
    world.auto_commit = False
    return world


def last(world: World, consumer: int = 1) -> int:
    return list(world.engine.shown.consumers[consumer].ledger)[-1]


def goes_on(world: World, most: int = 1000) -> list:
    """Turns until nothing is left to do. Their effects."""
    before = len(world.effects)
    for _ in range(most):
        if not (world.engine.unfinished or world.engine.pending or world.fetches):
            break
        world.commit()
        if world.fetches:
            world.serve()
    assert not world.engine.unfinished
    return world.effects[before:]


@pytest.mark.parametrize("outcome", [Outcome.NACK, Outcome.REJECT])
@pytest.mark.parametrize("ack", [CLIENT, INDIVIDUAL])
def test_one_nack_of_very_much_is_carried_out_in_pieces_and_answered_behind_the_last(outcome, ack):
    """It was one step, of 156 ms for 100,000 messages."""
    world = holding(ack=ack, dead_letter_address="dead")
    named = list(world.engine.shown.consumers[1].ledger) if ack is INDIVIDUAL else [last(world)]
    effects, turns = world.do(Settle(7, 1, 5, 1, named, outcome)), 0
    while world.engine.shown.queues[1].returning is not None:
        before = world.queue()["delivering"]
        assert done(effects) == [] and got(effects) == [], "not all of it has happened"
        effects += world.commit()
        assert before - world.queue()["delivering"] <= BACK or got(effects)
        turns += 1
    effects += goes_on(world)
    assert done(effects) == [5] and turns >= MANY // BACK - 1
    if outcome is Outcome.REJECT:
        assert world.queue("dead")["ready"] == MANY and not got(effects)
    else:
        assert got(effects, 1) == [b"%d" % n for n in range(MANY)], "again, in order, nothing twice"


@pytest.mark.parametrize("outcome", [Outcome.ACK, Outcome.NACK])
def test_what_is_settled_for_good_goes_in_larger_pieces(outcome):
    many = 2 * LIGHT + 10
    world = World(nack_policy="discard")
    world.publish("q", *[b"x"] * many, durable=True)
    world.subscribe(1, ack=CLIENT)
    world.in_pieces, world.auto_commit = True, False
    effects, left = world.do(Settle(7, 1, 5, 1, [last(world)], outcome)), []
    while world.engine.shown.queues[1].returning is not None:
        left.append(world.queue()["delivering"])
        assert done(effects) == []
        effects += world.commit()
    assert left == [many - LIGHT, many - 2 * LIGHT]
    assert done(effects + goes_on(world)) == [5]
    world.restart()
    assert got(world.subscribe(2)) == []


def test_a_crash_between_pieces_of_an_ack_leaves_what_was_not_answered():
    world = World()
    world.publish("q", *[b"x"] * (3 * LIGHT), durable=True)
    world.subscribe(1, ack=CLIENT)
    world.in_pieces, world.auto_commit = True, False
    effects = world.do(Settle(7, 1, 5, 1, [last(world)])) + world.commit()
    assert done(effects) == []
    world.restart()
    world.in_pieces, world.auto_commit = False, True
    assert len(got(world.subscribe(2))) in (LIGHT, 2 * LIGHT)


def test_a_nack_of_few_is_one_step_as_ever():
    world = holding(BACK)
    world.do(Settle(7, 1, 5, 1, [last(world)], Outcome.NACK))
    assert world.engine.shown.queues[1].returning is None


def test_all_of_it_is_in_the_log_when_it_is_answered():
    world = holding()
    world.do(Settle(7, 1, 5, 1, [last(world)], Outcome.NACK, 60_000))
    effects = goes_on(world)
    counted = [record for _, record in world.log if isinstance(record, MetaRecord) and record.kind == "count"]
    assert done(effects) == [5]
    assert sum(b - a + 1 for record in counted for a, b in record.data["spans"]) == MANY
    world.restart()
    world.auto_commit = True
    assert got(world.subscribe(2)) == [], "they are delayed, also after a crash"
    assert world.queue()["delayed"] == MANY


def test_a_crash_in_between_loses_and_doubles_nothing():
    world = holding()
    effects = world.do(Settle(7, 1, 5, 1, [last(world)], Outcome.NACK))
    effects += world.do()
    assert done(effects) == []
    world.restart()
    world.in_pieces, world.auto_commit = False, True
    assert got(world.subscribe(2)) == [b"%d" % n for n in range(MANY)]


@pytest.mark.parametrize(
    "behind",
    [Barrier(7, 1, 6), Unsubscribe(7, 1, 6, 1, "q")],
    ids=["a DISCONNECT's receipt", "UNSUBSCRIBE"],
)
def test_what_stands_for_all_before_is_told_behind_it(behind):
    """An edge forgets the consumer with the answer to UNSUBSCRIBE, and could not tell the next leader of it."""
    world = holding(dead_letter_address="dead")
    effects = world.do(Settle(7, 1, 5, 1, [last(world)], Outcome.REJECT), behind)
    assert done(effects) == []
    assert done(effects + goes_on(world)) == [5, 6]
    assert world.queue("dead")["ready"] == MANY


def test_of_another_session_it_is_told_at_once():
    world = holding()
    effects = world.do(Settle(7, 1, 5, 1, [last(world)], Outcome.NACK), Barrier(7, 2, 6))
    assert done(effects + world.commit()) == [6]
    assert world.engine.shown.queues[1].returning is not None


def test_nobodys_commands_wait_meanwhile():
    world = holding()
    first = world.do(Settle(7, 1, 5, 1, [last(world)], Outcome.NACK))
    first += world.publish("other", b"x", seq=6)
    world.subscribe(3, "other")
    assert done(first) == [6] and got(world.effects, 3) == [b"x"]
    assert world.engine.shown.queues[1].returning is not None
    goes_on(world)


def test_a_second_word_while_the_first_is_under_way():
    world = holding(MANY, ack=INDIVIDUAL)
    named = list(world.engine.shown.consumers[1].ledger)
    half = MANY // 2
    effects = world.do(Settle(7, 1, 5, 1, named[half:], Outcome.NACK), Settle(7, 1, 6, 1, named[:half], Outcome.NACK))
    effects += goes_on(world)
    assert done(effects) == [5, 6]
    assert got(effects, 1) == [b"%d" % n for n in range(MANY)], "in order, whatever came back first"


def test_a_queue_that_goes_meanwhile_answers():
    world = holding()
    effects = world.do(Settle(7, 1, 5, 1, [last(world)], Outcome.NACK))
    turn = world.turn()
    slot = world.engine.shown
    delete(slot, next(iter(slot.queues.values())), turn)
    effects += world.finish(turn) + goes_on(world)
    assert done(effects) == [5]
    assert not slot.returning.tells_later(1, Done(1, 9)), "and nobody waits for it"


def test_a_consumer_that_comes_again_finds_all_of_it_back():
    """A new stream of its edge: a REJECT that was not answered is said again (link/edge_side/consumer_replay.py)."""
    world = holding(dead_letter_address="dead")
    named = last(world)
    before = list(world.engine.shown.consumers[1].ledger)
    effects = world.do(Settle(7, 1, 5, 1, [named], Outcome.REJECT))
    effects += world.attach(1, held=[(before[0], before[-1])], ack=CLIENT, seq=6)
    effects += world.do(Settle(7, 1, 7, 1, [named], Outcome.REJECT))
    effects += goes_on(world)
    assert sorted(done(effects)) == [5, 6, 7] and world.queue("dead")["ready"] == MANY


def test_many_who_give_back_share_a_turn():
    """20 clients that gave back 100,000 each at once made 20 ms of every turn."""
    queues = 20
    world = World()
    for n in range(1, queues + 1):
        holding(MANY, session=n, world=world, queue=f"q{n}")
    lasts = {n: last(world, n) for n in range(1, queues + 1)}
    world.do(*(Settle(7, n, 5, n, [lasts[n]], Outcome.NACK, 60_000) for n in lasts))
    turns, least = 0, 0
    while world.engine.unfinished:
        before = sum(world.queue(f"q{n}")["delivering"] for n in lasts)
        world.do()
        came = before - sum(world.queue(f"q{n}")["delivering"] for n in lasts)
        assert came <= bounds.RETURNED + BACK
        turns += 1
        least = max(least, max(MANY - world.queue(f"q{n}")["delivering"] for n in lasts) - min(
            MANY - world.queue(f"q{n}")["delivering"] for n in lasts))  # fmt: skip
    assert turns >= queues * MANY // (bounds.RETURNED + BACK)
    assert least <= 2 * BACK, "in turn: nobody is far behind"


def test_a_slot_whose_turn_comes_late_gives_back_something():
    world = holding()
    world.do(Settle(7, 1, 5, 1, [last(world)], Outcome.NACK, 60_000))
    before = world.queue()["delivering"]
    turn = world.turn()
    turn.returns(bounds.RETURNED)
    world.finish(turn)
    assert before - world.queue()["delivering"] == bounds.LEAST_RETURNED


def test_within_a_transaction_its_parts_happen_together():
    world = holding()
    part = Settle(7, 1, 0, 1, [last(world)], Outcome.NACK, 60_000)
    world.do(Prepare(7, 1, 5, "tx", 9, [part, Publish(7, 1, 0, "out", ANYCAST, run_of(b"x"))]))
    world.commit()
    world.do(Decide(7, 1, 6, "tx", True))
    assert world.queue()["delivering"] == 0 and world.queue()["delayed"] == MANY


def test_credit_in_bytes_is_whole_when_nothing_is_held_and_right_when_some_is():
    world = World()
    for n in range(10):
        world.publish("q", *(b"x" * 20 for _ in range(n % 3 + 1)))
    world.subscribe(1, ack=CLIENT, credit_bytes=10_000, overhead=7)
    consumer = world.engine.shown.consumers[1]
    sizes = {i: run.size_of(list(run.ids).index(i)) + 7 for i, run in consumer.ledger.items()}
    for count in (1, 4, 7):
        world.settle(1, list(consumer.ledger)[count - 1])
        assert consumer.credit_bytes == 10_000 - sum(sizes[i] for i in consumer.ledger)
    world.settle(1, list(consumer.ledger)[-1])
    assert consumer.credit_bytes == 10_000


@pytest.mark.parametrize("outcome", [Outcome.ACK, Outcome.NACK, Outcome.REJECT])
def test_auto_has_nothing_to_give_back_by_a_word(outcome):
    world = World()
    world.publish("q", b"a")
    (message,) = ids(world.subscribe(1, ack=AUTO))
    assert refused(world.settle(1, message, outcome=outcome)) == [Code.NO_SUCH_DELIVERY]


@pytest.mark.parametrize("many", [1, MANY])
@pytest.mark.parametrize("waits", [False, True])
def test_a_reject_is_answered_when_its_dead_letters_are_where_they_go(many, waits):
    """In a cluster another owner has them: one that died before that told success, and all of them came again."""
    world = holding(many, dead_letter_address="dead")
    slot = world.engine.shown
    turn = world.turn()
    world.engine.handle(Settle(7, 1, 5, 1, [last(world)], Outcome.REJECT), turn)
    world.engine.handle(Barrier(7, 1, 6), turn)
    world.engine.flush(turn)
    moves, effects, number = turn.take_moves(), list(turn.effects), 1
    while world.engine.unfinished:
        number += 1
        more = Turn(world.now, number)
        world.engine.flush(more)
        moves += more.take_moves()
        effects += more.effects
    released = Turn(world.now, number + 1)
    world.engine.release(number, released)
    assert done(effects + released.effects) == [] and sum(len(move.ids) for move in moves) == many
    later = Turn(world.now, number + 2)
    for at, move in enumerate(moves):
        assert slot.returning.tells_later(1, Done(1, 100 + at)), f"{at} of {len(moves)} are there"
        (world.engine.waits if waits and at == 0 else world.engine.moved)(move, later)
    assert done(later.effects) == [], "not in the log yet"
    end = Turn(world.now, number + 3)
    world.engine.release(number + 2, end)
    assert done(end.effects)[:2] == [5, 6] and len(done(end.effects)) == 2 + len(moves)
    world.engine.moved(moves[0], Turn(world.now, number + 4))  # one that waited: nobody is told again


@pytest.mark.parametrize("outcome", [Outcome.NACK, Outcome.REJECT])
def test_a_large_part_of_a_commit_is_carried_out_in_pieces_of_one_turn(outcome):
    """They were one step, of 50 ms for 20,000."""
    world = holding(dead_letter_address="dead")
    part, turn = Settle(7, 1, 0, 1, [last(world)], outcome, 60_000), world.turn()
    world.engine.check(part, {})
    world.engine.handle(part, turn)
    pieces = 0
    while world.engine.more:
        for _ in world.engine.rest():
            pieces += 1
    world.engine.after(Done(1, 5), turn)
    assert pieces >= MANY // BACK - 1 and not world.engine.shown.queues[1].returning
    effects = world.finish(turn)
    assert done(effects) == [], "when the log has it"
    assert done(effects + goes_on(world)) == [5]
    many = world.queue("dead")["ready"] if outcome is Outcome.REJECT else world.queue()["delayed"]
    assert many == MANY and world.queue()["delivering"] == 0


@pytest.mark.parametrize("commit", [True, False])
def test_a_decision_about_much_is_carried_out_in_pieces(commit):
    world = holding()
    world.do(Prepare(7, 1, 5, "tx", 9, [Settle(7, 1, 0, 1, [last(world)], Outcome.NACK, 60_000)]))
    world.commit()
    turn, decide = world.turn(), Decide(7, 1, 6, "tx", commit)
    pieces = sum(1 for _ in world.engine.in_pieces(decide, turn))
    first = world.finish(turn)
    assert pieces >= MANY // BACK - 1 if commit else world.engine.shown.queues[1].returning is not None
    assert done(first + goes_on(world))[:1] == [6]
    if commit:
        assert world.queue()["delayed"] == MANY
