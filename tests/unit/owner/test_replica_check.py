"""Replicas compared at one point of the log: the same under load, and every planted difference is named."""

from __future__ import annotations

from typing import Any

from tests.unit.owner.repl_world import QUEUE, World

SLOT = 7


def filled(messages: int = 40) -> World:
    world = World(seed=3)
    world.create(SLOT, "o0")
    world.until(lambda: world.leader(SLOT) is not None, what="a leader")
    for number in range(messages):
        first = world.leader(SLOT).send(SLOT)
        if number % 4 == 0:
            world.leader(SLOT).settle(SLOT, first)
        world.run(0.001)
    world.until(lambda: len(world.told.get(SLOT, ())) == messages)
    return world


def checked(world: World) -> dict[str, Any]:
    answers: list = []
    world.leader(SLOT).leaders.check(SLOT, answers.append)
    world.until(lambda: bool(answers), what="an answer")
    return answers[0].told()


def lose(owner, message: int) -> None:
    """A bug: its live index has lost a message."""
    owner.journal._live_index.settle(SLOT, QUEUE, [(message, message)])


def test_replicas_that_have_the_same_say_so_while_messages_come_and_go():
    world = filled()
    answers: list = []
    leader = world.leader(SLOT)
    sent = 0
    while len(answers) < 20:
        leader.settle(SLOT, leader.send(SLOT)) if sent % 3 else leader.send(SLOT)
        sent += 1
        if sent % 5 == 0:
            leader.leaders.check(SLOT, lambda answer: answer is None or answers.append(answer.told()))
        world.run(0.002)
    for told in answers:
        if not told["failed"]:  # a follower says so where it still was at the question before
            assert told["differences"] == [] and told["looked_at"] == ["o0", "o1", "o2"]
    assert sum(not told["failed"] for told in answers) >= 5
    assert len({told["lsn"] for told in answers}) > 1


def test_a_replica_whose_log_lacks_a_message_is_named():
    world = filled()
    lose(world.owners["o2"], max(world.told[SLOT]))
    told = checked(world)
    assert told["messages"] == 30 and told["failed"] == {}
    assert told["differences"] == ["queue 1: o2 has 29 messages, o0 (leader) 30"]


def test_a_replica_that_has_another_message_instead_is_named():
    world = filled()
    lose(world.leader(SLOT), max(world.told[SLOT]))
    lose(world.owners["o1"], max(world.told[SLOT]))
    lose(world.owners["o2"], max(world.told[SLOT]) - 1)
    assert checked(world)["differences"] == ["queue 1: o2 has other messages than o0 (leader), 29 each"]


def test_a_replica_that_would_lead_without_a_message_is_named():
    world = filled()
    world.owners["o1"].followers._followed[SLOT].standby._runs.pop()
    assert checked(world)["differences"] == ["queue 1: o1 would lead with 29 messages, its log has 30"]


def test_messages_with_other_bytes_are_named():
    world = filled(messages=8)
    other = world.owners["o2"]
    record = next(record for id, record in world.told[SLOT].items() if id not in world.gone[SLOT])
    look = other.journal.digest

    def changed(slot):
        reader = look(slot)
        found = reader._found

        def altered(**how):
            for one, settled in found(**how):
                if one.run.ids[0] == record.run.ids[0]:
                    one.run.records[0] = b"x" + one.run.records[0][1:]
                yield one, settled

        reader._found = altered
        return reader

    other.journal.digest = changed
    assert checked(world)["differences"] == ["queue 1: messages have other bytes at o2 than at o0 (leader)"]


def test_a_follower_that_is_away_is_not_looked_at():
    world = filled()
    world.owners["o2"].crash()
    world.until(lambda: "o2" not in world.records[SLOT].isr)
    told = checked(world)
    assert told["looked_at"] == ["o0", "o1"] and told["failed"] == {"o2": "it does not keep up"}
    assert told["differences"] == []


def test_a_slot_that_is_led_elsewhere_is_not_looked_at():
    world, answers = filled(messages=1), []
    world.owners["o1"].leaders.check(SLOT, answers.append)
    assert answers == [None]
