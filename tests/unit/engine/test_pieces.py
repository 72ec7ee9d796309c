"""A backlog is handed out in pieces, and costs what is dealt, not consumers × messages (docs/adr/0009)."""

from __future__ import annotations

import pytest

from broker.core.address import Outcome
from broker.core.commands import Act, Hold, Manage, Publish, Settle
from broker.core.effects import Deliver
from broker.engine.consumers.consumer import Consumer
from broker.engine.dispatch.selective_dispatch import PIECE_NS
from broker.engine.queue.large_returns import BACK
from broker.engine.routing import returns
from broker.engine.state.slot import LEAST, PIECE
from broker.selector import compile
from broker.selector.index import ASKED, BRIEF, Index

from .world import ANYCAST, CLIENT, INDIVIDUAL, World, got, ids, run_of

BACKLOG = PIECE * 5


def backlog(world, queue="q"):
    """Messages one by one, as many small reads bring them."""
    for i in range(BACKLOG):
        world.publish(queue, b"%d" % i)


def delivered(effects):
    return sum(type(effect) is Deliver for effect in effects)


def rest(world):
    """The pieces that follow, a turn each."""
    pieces = []
    while world.engine.unfinished:
        pieces.append(world.finish(world.turn()))
    return pieces


@pytest.mark.parametrize("consumers", [1, 7])
def test_a_backlog_goes_out_in_pieces_in_its_order(consumers):
    world = World()
    for consumer in range(1, consumers):
        world.subscribe(consumer, ack=INDIVIDUAL, room=0)
    backlog(world)
    for _ in range(20):
        world.finish(world.turn())  # what has come in lately goes out at once; this is long ago
    world.in_pieces = True
    pieces = [world.subscribe(consumers, ack=INDIVIDUAL)] if consumers == 1 else []
    for consumer in range(1, consumers):
        pieces.append(world.grant(consumer, 1 << 20))
    pieces += rest(world)
    assert max(map(delivered, pieces)) <= PIECE
    sent = [effect for piece in pieces for effect in piece]
    assert got(sent) == [b"%d" % i for i in range(BACKLOG)]
    assert ids(sent) == sorted(ids(sent))


def test_between_pieces_messages_come_and_consumers_go():
    world = World()
    world.subscribe(1, ack=INDIVIDUAL, room=0)
    world.subscribe(2, ack=INDIVIDUAL, session=2, room=0)
    backlog(world)
    for _ in range(20):
        world.finish(world.turn())
    world.in_pieces = True
    first = world.grant(1, 1 << 20)
    assert 0 < delivered(first) < BACKLOG
    world.settle(1, *ids(first)[:3], outcome=Outcome.NACK)
    world.publish("q", b"last")
    world.grant(2, 1 << 20)
    world.disconnect(2)
    rest(world)
    world.in_pieces = False
    held = world.engine._slot.consumers[1].ledger
    assert sorted(held) == list(range(min(held), min(held) + BACKLOG + 1)), "everything once, whoever had it before"


def test_many_queues_with_backlogs_share_a_turn_and_a_deleted_one_is_forgotten():
    world = World()
    for n in range(5):
        world.subscribe(n + 1, f"q{n}", room=0)
        backlog(world, f"q{n}")
    for _ in range(20):
        world.finish(world.turn())
    turn = world.turn()
    world.in_pieces = True
    for n in range(5):
        world.engine._slot.consumers[n + 1].room = 1 << 20
        world.engine._slot.touched[world.engine._slot.queues[n + 1]] = None
    assert delivered(world.finish(turn)) <= PIECE + 4 * LEAST
    assert sum(map(delivered, rest(world))) + delivered(turn.effects) == 5 * BACKLOG


def test_dealing_costs_what_is_dealt(monkeypatch):
    """400 consumers and 100,000 messages asked all consumers for each message: a second, for everybody."""
    world = World()
    many = 200
    for consumer in range(1, many + 1):
        world.subscribe(consumer, room=0)
    backlog(world)
    asked = 0
    ready = Consumer.ready

    def counted(consumer):
        nonlocal asked
        asked += 1
        return ready(consumer)

    for consumer in world.engine._slot.consumers.values():
        consumer.room = 1 << 20
    monkeypatch.setattr(Consumer, "ready", counted)
    assert len(got(world.grant(1, 1))) == BACKLOG
    assert asked < 5 * BACKLOG, f"{many} × {BACKLOG} before"


def test_a_run_for_many_with_little_credit_is_dealt_in_turn():
    world = World()
    for consumer in range(1, 6):
        world.subscribe(consumer, ack=INDIVIDUAL, credit_messages=consumer)
    sent = [b"%d" % i for i in range(20)]
    effects = world.publish("q", *sent)
    hands = [[int(body) for body in got(effects, consumer)] for consumer in range(1, 6)]
    assert hands == [[0], [1, 5], [2, 6, 9], [3, 7, 10, 12], [4, 8, 11, 13, 14]]


def test_what_a_commit_lets_in_goes_out_at_once_however_many_turns_it_took():
    """Only half of what had been accepted counted a turn later: with every commit something stayed behind, at the price
    of 400 writes for 400 messages, and a queue with many consumers got longer and longer."""
    world = World(auto_commit=False)
    for consumer in range(1, 8):
        world.subscribe(consumer, ack=INDIVIDUAL)
    world.commit()
    world.in_pieces = True
    for _ in range(3):
        for i in range(PIECE):
            world.publish("q", b"%d" % i, durable=True)  # a turn each, while a commit is under way
        for _ in range(5):
            world.finish(world.turn())
        assert delivered(world.commit()) == PIECE
        for i in range(3 * PIECE):
            world.publish("q", b"%d" % i, durable=True)
        assert delivered(world.commit()) == 3 * PIECE
        assert not world.engine.unfinished


def holding(durable=False, many=8 * BACK, **settings):
    """A consumer that holds many, all of them messages of their own."""
    world = World(**settings)
    world.subscribe(1, ack=INDIVIDUAL)
    for i in range(many):
        world.publish("q", b"%d" % i, durable=durable)
    assert len(world.engine._slot.consumers[1].ledger) == many
    world.effects.clear()
    world.in_pieces = True
    return world


@pytest.mark.parametrize("durable", [False, True])
@pytest.mark.parametrize("end", ["unsubscribe", "disconnect"])
def test_what_an_ended_consumer_held_comes_back_in_pieces_and_in_its_order(end, durable):
    """100,000 messages that a client held were one step of 1.4 s when it went."""
    world = holding(durable)
    world.subscribe(2, ack=INDIVIDUAL)
    effects = world.unsubscribe(1) if end == "unsubscribe" else world.disconnect(1)
    late = 0
    while world.queue()["delivering"] and not delivered(effects):
        before = world.queue()["delivering"]
        effects = world.finish(world.turn())
        assert before - world.queue()["delivering"] <= BACK, "a step costs a piece, not what the client chose to hold"
        if world.engine.unfinished:
            assert not delivered(effects), "what is younger would be there first"
            effects += world.publish("q", b"%d" % (8 * BACK + late), durable=durable)
            late += 1
    rest(world)
    assert got(world.effects, 2) == [b"%d" % i for i in range(8 * BACK + late)] and late > 1


def test_a_queue_may_go_while_messages_come_back_to_it():
    world = holding(purge_on_no_consumers=True)
    world.unsubscribe(1)
    rest(world)
    assert not world.engine.unfinished and world.queue()["ready"] == world.queue()["delivering"] == 0


def test_dead_letters_come_a_piece_a_turn():
    world = holding(max_delivery_attempts=1, dead_letter_address="dead")
    world.disconnect(1)
    assert world.queue()["delivering"] >= 6 * BACK
    for _ in range(8):
        world.finish(world.turn())
    assert world.queue("dead")["ready"] == 8 * BACK and not world.engine.unfinished


def test_a_consumer_that_comes_again_finds_what_is_still_on_its_way_back():
    world = holding()
    held = ids(world.effects) or list(world.engine._slot.consumers[1].ledger)
    world.disconnect(1)
    assert world.queue()["delivering"]
    world.attach(5, held=[(held[0], held[-1])], ack=INDIVIDUAL)
    assert list(world.engine._slot.consumers[5].ledger) == held and world.queue()["delivering"] == len(held)
    world.settle(5, *held)
    assert world.queue()["ready"] == world.queue()["delivering"] == 0


def test_a_crash_in_between_brings_everything_back():
    world = holding(durable=True)
    world.disconnect(1)
    assert world.queue()["delivering"]
    world.restart()
    world.in_pieces = False
    world.effects.clear()
    world.subscribe(2, ack=INDIVIDUAL)
    assert sorted(map(int, got(world.effects))) == list(range(8 * BACK))


def test_long_runs_cost_less():
    world = World()
    world.subscribe(1, ack=INDIVIDUAL)
    world.publish("q", *[b"x"] * (BACK * 16))
    world.in_pieces = True
    world.disconnect(1)
    assert not world.engine.unfinished and world.queue()["ready"] == BACK * 16


ONE = ASKED + 2 * BRIEF * compile("name LIKE '%x400%'").heavy
"""Nanoseconds, at most, that one of these is said to take."""


def choosy(selectors: int = 400) -> World:
    """A queue with that many consumers whose selectors no index helps with."""
    world = World()
    for number in range(1, selectors + 1):
        world.subscribe(number, selector=f"name LIKE '%x{number}%'")
    world.in_pieces = True
    return world


def looked_at(monkeypatch) -> list[int]:
    """Nanoseconds of looking, as it goes on."""
    spent, worked = [0], Index.worked

    def counted(index, nanoseconds):
        spent[0] += nanoseconds
        worked(index, nanoseconds)

    monkeypatch.setattr(Index, "worked", counted)
    return spent


@pytest.mark.parametrize("reads", [1, 60])
def test_messages_that_many_selectors_are_asked_of_are_looked_at_in_pieces(monkeypatch, reads) -> None:
    world, spent = choosy(), looked_at(monkeypatch)
    records = [b"name:x%dx\n\n\0" % (n % 9 + 1) for n in range(60)]
    size = 60 // reads
    runs = [run_of(*records[at : at + size]) for at in range(0, 60, size)]
    effects = world.do(*(Publish(7, 99, 0, "q", ANYCAST, run) for run in runs))
    turns = []
    while world.engine.unfinished:
        turns.append(spent[0])
        spent[0] = 0
        assert len(turns) < 100
        effects += world.finish(world.turn())
    assert max(turns) <= PIECE_NS + 400 * ONE
    assert sum(turns) + spent[0] >= 60 * 400 * ASKED
    got = {number: len(ids(effects, number)) for number in range(1, 401)}
    wanted = {n: sum(b"x%d" % n in record for record in records) for n in range(1, 401)}
    assert got == wanted


def test_what_comes_back_and_what_waits_is_looked_at_in_pieces_and_keeps_its_order(monkeypatch) -> None:
    world, spent = choosy(), looked_at(monkeypatch)
    world.in_pieces = False
    world.publish("q", *[b"name:y\n\n%d\0" % n for n in range(40)])
    world.in_pieces = True
    spent[0] = 0
    effects = world.subscribe(1000, selector="name LIKE 'y%' OR name = 'z'")
    turns = []
    while world.engine.unfinished:
        turns.append(spent[0])
        spent[0] = 0
        assert len(turns) < 100
        effects += world.finish(world.turn())
    assert max([*turns, spent[0]]) <= PIECE_NS + 401 * ONE * 2
    found = ids(effects, 1000)
    assert len(found) == 40 and found == sorted(found)


@pytest.mark.parametrize("act", [Act.DELETE, Act.PURGE])
def test_the_runs_of_a_queue_that_goes_are_freed_some_a_turn(act) -> None:
    """100,000 of them at once were 31 ms of nothing but freeing memory."""
    world = World()
    backlog(world)
    world.do(Manage(7, 1, 1, act, "q", "q"))
    budget = world.engine._slot.budget
    left = sum(map(len, budget.graves))
    assert left == BACKLOG
    while budget.forget():
        now = sum(map(len, budget.graves))
        assert 0 < left - now <= 1000
        left = now
    assert not budget.graves


def test_what_an_aborted_transaction_had_acknowledged_comes_back_in_pieces(monkeypatch):
    """ACK of the last of 10,000 messages, and ABORT: a step of 10 to 20 ms, each time."""
    world = World()
    world.subscribe(1, ack=CLIENT)
    sent = ids(world.publish("q", *[b"%d" % i for i in range(6000)]))
    for _ in range(20):
        sent += ids(world.finish(world.turn()))
    assert len(sent) == 6000
    world.do(Hold(7, 1, 0, 1, [sent[-1]]))
    at_once = []
    give_back = returns.give_back

    def counted(slot, queue, messages, *more, **options):
        at_once.append(len(messages))
        give_back(slot, queue, messages, *more, **options)

    monkeypatch.setattr(returns, "give_back", counted)
    world.in_pieces = True
    again = [world.do(Settle(7, 1, 0, 1, [sent[-1]], Outcome.RETURN)), *rest(world)]
    assert sum(at_once) == 6000 and max(at_once) <= BACK * 32
    assert ids([effect for piece in again for effect in piece]) == sent
