"""One ACK or NACK of all that a client holds is carried out in pieces, and answered behind the last one."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from broker.core.address import Outcome
from broker.core.commands import Act, Decide, Hold, Manage, Prepare, Settle
from broker.core.effects import Refused
from broker.core.errors import Code
from broker.core.records import GroupRecord, MetaRecord, SettleRecord
from broker.engine.consumers.pieces import BACK, LONG, STRETCH
from broker.engine.state.why_queue_waits import why

from .world import CLIENT, World, again, done, got, ids, refused

MANY = 5 * BACK


def holding(many: int = MANY, durable: bool = True, batch: int = 1, **settings) -> World:
    """Consumer 1 holds that many, in runs of `batch`."""
    world = World(**settings)
    world.subscribe(1, ack=CLIENT)
    for at in range(0, many, batch):
        world.publish("q", *[b"%d" % n for n in range(at, at + batch)], durable=durable)
    assert len(world.engine._slot.consumers[1].ledger) == many
    world.effects.clear()
    world.in_pieces = True
    return world


@pytest.mark.parametrize(
    "outcome, settings",
    [
        (Outcome.NACK, {"nack_policy": "discard"}),
        (Outcome.NACK, {"non_destructive": True}),
        (Outcome.REJECT, {"dead_letter_address": "dead"}),
    ],
)
def test_a_queue_stands_still_only_for_what_comes_back(outcome, settings) -> None:
    world = holding(**settings)
    world.engine._slot.consumers[1].withhold(1 << 63)
    world.subscribe(2, ack=CLIENT)
    command = word(world, outcome)
    piece(world, command)
    assert command in world.engine.unsettled
    world.publish("q", b"new", durable=True)
    assert b"new" in got(world.effects, 2)


def last(world: World) -> int:
    return next(reversed(world.engine._slot.consumers[1].ledger))


def piece(world: World, command: Settle) -> list:
    """One turn that has more of it."""
    turn = world.turn()
    world.engine.handle(command, turn)
    return world.finish(turn)


def pieces(world: World, command: Settle) -> Iterator[list]:
    """All of it, a turn each; their effects."""
    yield piece(world, command)
    while command in world.engine.unsettled:
        yield piece(world, command)


def word(world: World, outcome: Outcome = Outcome.NACK, seq: int = 5, delay: int = -1) -> Settle:
    return Settle(7, 1, seq, 1, [last(world)], outcome, delay)


@pytest.mark.parametrize("outcome", [Outcome.NACK, Outcome.ACK, Outcome.REJECT])
@pytest.mark.parametrize("batch", [1, 50])
def test_a_step_is_as_long_whatever_the_client_holds(outcome, batch) -> None:
    """156 ms of a NACK of 100,000, and 40 ms of an ACK, were one step of everybody's loop."""
    many = 2 * STRETCH if outcome is Outcome.ACK or batch > 1 else MANY
    world = holding(many - many % batch, batch=batch, dead_letter_address="dead")
    bound = STRETCH if outcome is Outcome.ACK else min(BACK * batch, BACK * LONG)
    world.engine._slot.consumers[1].withhold(1 << 63)  # it is given nothing again
    held, steps = world.queue()["delivering"], 0
    for _ in pieces(world, word(world, outcome)):
        left = world.queue()["delivering"]
        assert held - left <= bound
        held, steps = left, steps + 1
    assert held == 0 and steps > 1


def test_it_is_answered_behind_the_last_piece_and_when_that_is_durable() -> None:
    world, told = holding(3 * STRETCH, batch=STRETCH), []
    world.auto_commit = False
    for effects in pieces(world, word(world, Outcome.ACK)):
        told += [done(effects), done(world.commit())]
    assert told == [[], [], [], [], [], [5]]


def test_what_comes_back_stands_in_its_order_and_nothing_younger_overtakes_it() -> None:
    world = holding()
    world.subscribe(2, ack=CLIENT)
    command, late = word(world), 0
    for effects in pieces(world, command):
        if command in world.engine.unsettled:
            assert not got(effects), "what is younger would be there first"
            world.publish("q", b"%d" % (MANY + late), durable=True)
            late += 1
    while world.engine.unfinished:
        world.finish(world.turn())
    assert late > 2
    for consumer in (1, 2):
        mine = list(map(int, got(world.effects, consumer)))
        assert mine == sorted(mine)
    assert sorted(map(int, got(world.effects))) == list(range(MANY + late))


def test_who_asks_why_nothing_goes_out_is_told() -> None:
    world = holding()
    command = word(world)
    piece(world, command)
    (told, *_) = why(world.engine._slot, world.engine.queues()[0], world.now)
    assert "given back very many messages" in told
    assert list(pieces(world, command))
    assert "given back" not in " ".join(why(world.engine._slot, world.engine.queues()[0], world.now))


def test_others_get_what_is_new_while_it_is_consumed() -> None:
    world = holding(2 * STRETCH, batch=STRETCH)
    world.subscribe(2, ack=CLIENT)
    command = word(world, Outcome.ACK)
    piece(world, command)
    assert command in world.engine.unsettled
    assert got(world.publish("q", b"new", durable=True)) == [b"new"]


def test_each_failure_is_counted_once_and_in_the_log() -> None:
    world = holding()
    world.appended.clear()
    world.do(word(world))
    counts = [record for record in world.appended if isinstance(record, MetaRecord) and record.kind == "count"]
    assert sum(b - a + 1 for record in counts for a, b in record.data["spans"]) == MANY
    assert {record.data["attempts"] for record in counts} == {1}
    world.in_pieces = False
    world.finish(world.turn())
    assert [tries for _, tries, _ in again(world.effects)] == [1] * MANY


def test_too_many_failures_make_dead_letters_of_all() -> None:
    world = holding(max_delivery_attempts=1, dead_letter_address="dead")
    world.do(word(world))
    assert world.queue("dead")["ready"] == MANY and world.queue()["delivering"] == world.queue()["ready"] == 0
    assert done(world.effects) == [5]


def test_a_delay_is_of_each_piece() -> None:
    world = holding()
    world.do(word(world, delay=1000))
    assert world.queue()["delayed"] == MANY and not got(world.effects)
    world.in_pieces = False
    world.tick(1001)
    assert got(world.effects) == [b"%d" % n for n in range(MANY)]


def test_what_is_delivered_meanwhile_is_not_covered() -> None:
    """The ledger grows at its end while pieces leave its front."""
    world = holding(2 * STRETCH, batch=STRETCH)
    command = word(world, Outcome.ACK)
    piece(world, command)
    (new,) = ids(world.publish("q", b"new", durable=True))
    assert list(pieces(world, command))
    assert list(world.engine._slot.consumers[1].ledger) == [new] and done(world.effects) == [5]


def test_a_bad_id_among_several_refuses_all_of_it() -> None:
    world = holding(2 * STRETCH, batch=STRETCH)
    held = list(world.engine._slot.consumers[1].ledger)
    for named in ([held[3], 1 << 40, held[-1]], [held[-2], held[3], held[-1]], [held[3], held[3], held[-1]]):
        assert refused(world.do(Settle(7, 1, 5, 1, named))) == [Code.NO_SUCH_DELIVERY]
        assert list(world.engine._slot.consumers[1].ledger) == held and not world.engine.unsettled
    assert done(world.do(Settle(7, 1, 6, 1, [held[3], held[-2], held[-1]]))) == [6]
    assert not world.engine._slot.consumers[1].ledger


def test_a_crash_between_two_pieces_leaves_the_rest_and_its_repetition_goes_well() -> None:
    world = holding(3 * STRETCH, batch=STRETCH)
    command = word(world, Outcome.ACK)
    held = [(1, last(world))]
    piece(world, command)
    world.commit()
    assert command in world.engine.unsettled and not done(world.effects)
    world.restart(first_id=1 << 30)
    assert world.queue()["paged"] == 2 * STRETCH
    world.attach(1, held=held, ack=CLIENT)
    repeated = Settle(7, 1, 6, 1, command.ids)
    assert len(list(pieces(world, repeated))) > 1
    assert done(world.effects) == [6] and not refused(world.effects)
    assert world.queue()["ready"] == world.queue()["delivering"] == world.queue()["paged"] == 0


def test_the_same_leader_finds_its_own_first_pieces() -> None:
    """The stream was lost, and what it has asked comes behind what it holds: in the same epoch."""
    world = holding(2 * STRETCH, batch=STRETCH)
    command = word(world, Outcome.ACK)
    held = [(1, last(world))]
    assert len(list(pieces(world, command))) == 2
    world.effects.clear()
    world.attach(1, held=held, ack=CLIENT)
    assert done(world.do(Settle(7, 1, 6, 1, command.ids))) == [6]
    settled = [record for record in world.appended if isinstance(record, SettleRecord)]
    assert sum(b - a + 1 for record in settled for a, b in record.spans) == 2 * STRETCH


def test_a_purge_in_between_takes_the_rest() -> None:
    world = holding()
    command = word(world)
    piece(world, command)
    world.do(Manage(7, 9, 1, Act.PURGE, "q", "q"))
    assert list(pieces(world, command))
    assert done(world.effects)[-1] == 5 and not refused(world.effects)
    world.in_pieces = False
    world.effects.clear()
    world.publish("q", b"new", durable=True)
    assert got(world.effects) == [b"new"] and world.queue()["delivering"] == 1


def test_a_consumer_that_an_operator_ends_is_refused_the_rest() -> None:
    world = holding()
    command = word(world)
    piece(world, command)
    world.do(Manage(7, 9, 1, Act.DELETE, "q", "q", force=True))
    effects = piece(world, command)
    assert [(e.seq, e.code) for e in effects if isinstance(e, Refused)] == [(5, Code.NO_SUCH_DELIVERY)]
    assert not world.engine.unsettled


def test_one_whose_consumer_ends_does_not_keep_its_queue_from_handing_out() -> None:
    world = holding()
    command = word(world)
    piece(world, command)
    world.subscribe(2, ack=CLIENT)
    world.disconnect(1)
    piece(world, command)
    world.in_pieces = False
    world.finish(world.turn())
    assert list(map(int, got(world.effects, 2))) == list(range(MANY)) and world.queue()["delivering"] == MANY


def test_all_slots_together_have_one_piece_a_turn() -> None:
    first, second = holding(), holding()
    turn = first.turn()
    one, two = word(first), word(second)
    first.engine.handle(one, turn)
    second.engine.handle(two, turn)
    assert len(second.engine._slot.consumers[1].ledger) == MANY and two in second.engine.unsettled
    piece(second, two)
    assert len(second.engine._slot.consumers[1].ledger) < MANY


def test_what_a_transaction_settles_is_one_piece() -> None:
    """Half of a COMMIT would be seen after a crash."""
    world = holding(2 * STRETCH, batch=STRETCH)
    command = word(world, Outcome.ACK)
    turn = world.turn()
    world.engine.check(command, {})
    world.engine.handle(command, turn)
    assert not world.engine.unsettled and not world.engine._slot.consumers[1].ledger
    world.finish(turn)
    assert done(world.effects) == [5]


def test_what_is_decided_over_several_slots_goes_in_pieces_and_is_one_group() -> None:
    world = holding()
    nack = word(world)
    world.do(Hold(7, 1, 1, 1, nack.ids))
    world.engine._slot.consumers[1].withhold(1 << 63)
    world.do(Prepare(7, 50, 2, "t", 99, [nack]))
    world.appended.clear()
    turn = world.turn()
    steps = sum(1 for _ in world.engine.in_pieces(Decide(7, 50, 3, "t", True), turn))
    world.finish(turn)
    assert steps >= MANY // BACK
    (group,) = world.appended
    assert isinstance(group, GroupRecord) and world.queue()["ready"] == MANY
    world.in_pieces = False
    world.subscribe(2, ack=CLIENT)
    assert list(map(int, got(world.effects, 2))) == list(range(MANY))


def test_a_few_are_one_piece() -> None:
    world = holding(BACK - 2)
    assert len(list(pieces(world, word(world)))) == 1
    assert done(world.effects) == [5]
