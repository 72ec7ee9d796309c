"""The end of a turn: whoever was touched has its turn, and no turn is long because of somebody else's subscribers."""

from __future__ import annotations

from broker.engine.queue.queue import Queue
from broker.engine.state.slot import MESSAGES, QUEUES, SHARE

from .test_copies import READ, delivered, publishing, topic
from .world import got


def test_somebody_elses_queue_does_not_wait_for_the_subscribers() -> None:
    world = topic()
    world.subscribe(1000, "mine")
    world.do(*publishing(True))
    assert world.engine.unfinished
    for n in range(3):
        assert got(world.publish("mine", b"%d" % n), 1000) == [b"%d" % n]
    assert world.engine.unfinished


def test_who_waits_has_his_turn_however_many_others_are_touched() -> None:
    world = topic()
    for _ in range(3):
        world.do(*publishing(True))
    waiting = list(world.engine._slot.unfinished)
    last = waiting[-1].consumers[0].id
    before = len(got(world.effects, last))
    for _ in waiting:
        world.do(*publishing(True))
        if len(got(world.effects, last)) > before:
            return
    raise AssertionError("never")


def test_a_turn_looks_at_no_more_queues_than_it_comes_to(monkeypatch) -> None:
    """Not at all that wait: with 50,000 subscribers that alone was 15 ms, each turn."""
    looked = [0]

    def counting(queue: Queue) -> int:
        looked[0] += 1
        return object.__hash__(queue)

    monkeypatch.setattr(Queue, "__hash__", counting)
    world = topic(subscribers=4 * QUEUES)
    world.subscribe(1 << 20, "mine")
    world.do(publishing(True)[0])
    most = 0
    while len(world.engine._slot.unfinished) > QUEUES:
        looked[0] = 0
        assert got(world.publish("mine", b"x"), 1 << 20) == [b"x"]
        most = max(most, looked[0])
    assert 0 < most <= 8 * 80, "80 queues of 50 messages are a turn here"


def test_who_was_touched_only_now_and_who_waits_take_turns() -> None:
    world = topic()
    world.do(*publishing(True))
    waiting = [queue.name for queue in world.engine._slot.unfinished]
    served = []
    while world.engine.unfinished:
        before = list(world.engine._slot.unfinished)
        world.publish("t2", b"")
        after = world.engine._slot.unfinished
        served += [queue.name for queue in before if queue not in after]
    assert served == waiting


def test_a_slot_whose_turn_comes_last_has_a_share() -> None:
    world = topic()
    turn = world.turn()
    turn.handed = MESSAGES
    for command in publishing(True):
        world.engine.handle(command, turn)
    assert SHARE <= delivered(world.finish(turn)) <= SHARE + 3 * READ
