"""Durable subscriptions that nobody uses get a queue in each new partition, before a message goes there."""

from __future__ import annotations

import asyncio

import pytest

from broker.admin.api import new_partitions
from broker.admin.api.new_partitions import NewPartitions
from broker.admin.api.ports import Missing
from broker.admin.desk.desk import Desk
from broker.core.commands import Disconnect, Subscribe
from broker.core.effects import Done, Refused
from broker.core.errors import Code
from tests.harness.waiting import eventually


class World:
    """Owners with queues {(name, address, slot)}; what they are asked for is done at once."""

    def __init__(self, *queues, refused=()):
        self.queues = set(queues)
        self.refused = list(refused)
        self.missing = []
        self.asked = []
        self.commands = []
        self.names = {name: address for name, address, _ in queues}
        numbers = iter(range(1, 1 << 20))
        self.desk = Desk(self.submit, lambda: next(numbers), lambda: next(numbers))
        self.new = NewPartitions(self, self.desk, self.names.get)
        self.done = []

    async def ask(self, question):
        """Two owners: even and odd slots."""
        self.asked.append(question["kind"])
        answers = []
        for odd in (0, 1):
            rows = sorted((n, a, s) for n, a, s in self.queues if s % 2 == odd)
            if question["kind"] == "queue":
                rows = [row for row in rows if row[:2] == (question["name"], question["address"])]
            else:
                rows = [row for row in rows if not question["after"] or row > tuple(question["after"][1])]
            most = question.get("limit", 1000)
            answers.append({
                "rows": [{"name": n, "address": a, "slot": s, "selector": f"of = '{n}'", "at": [n, [n, a, s]]}
                         for n, a, s in rows[:most]],
                "more": len(rows) > most,
            })  # fmt: skip
        return answers, self.missing

    def submit(self, commands):
        self.commands += commands
        for command in commands:
            if isinstance(command, Subscribe):
                if self.refused:
                    answer = Refused(command.session, command.seq, self.refused.pop(), "no")
                else:
                    self.queues.add((command.queue, command.address, command.slot))
                    answer = Done(command.session, command.seq)
                asyncio.get_running_loop().call_soon(self.desk.on_effect, answer)
        return False

    def follow(self, **grown):
        self.new.follow(lambda address: grown.get(address, ()), lambda: self.done.append(True))

    def made(self):
        return sorted((c.queue, c.slot) for c in self.commands if isinstance(c, Subscribe))


@pytest.mark.parametrize("page", [1, 2, 1000])
async def test_they_are_made_where_they_are_missing(monkeypatch, page):
    monkeypatch.setattr(new_partitions, "ROWS", page)
    world = World(
        ("c.a", "t", 1), ("c.b", "t", 1), ("c.b", "t", 4), ("d.x", "other", 2), ("c.c", "t", 1), ("e", "t", 3)
    )
    world.follow(t=[1, 3, 4])
    await eventually(lambda: world.done)
    assert world.made() == [("c.a", 3), ("c.a", 4), ("c.b", 3), ("c.c", 3), ("c.c", 4), ("e", 1), ("e", 4)]
    made = [command for command in world.commands if isinstance(command, Subscribe)]
    assert all(command.durable and command.room == 0 for command in made)
    assert {command.selector for command in made if command.queue == "c.a"} == {"of = 'c.a'"}
    ends = {(each.session, each.slot) for each in world.commands if isinstance(each, Disconnect)}
    assert ends == {(command.session, command.slot) for command in made}
    assert not world.desk.errands and not world.desk.feeds


async def test_what_was_deleted_meanwhile_is_not_made_again():
    world = World(("c.a", "t", 1))
    world.names["c.a"] = "another"
    world.follow(t=[1, 2])
    await eventually(lambda: world.done)
    assert world.made() == []


async def test_nothing_goes_there_before_all_owners_have_answered(monkeypatch, caplog):
    monkeypatch.setattr(new_partitions, "RETRY_S", 0.01)
    world = World(("c.a", "t", 1), refused=[Code.OWNER_UNAVAILABLE])
    world.missing = [Missing("owner-2", "nobody leads it")]
    world.follow(t=[1, 2])
    await eventually(lambda: len(world.asked) > 3)
    assert not world.done and world.made() == []
    assert "owner-2: nobody leads it" in caplog.text
    world.missing = []
    await eventually(lambda: world.done)
    assert world.made() == [("c.a", 2), ("c.a", 2)], "it was refused once"


async def test_a_later_growth_takes_its_place():
    world = World(("c.a", "t", 1))
    world.missing = [Missing("owner-2", "it does not live")]
    world.follow(t=[1, 2])
    await asyncio.sleep(0)
    world.missing = []
    world.follow(t=[1, 2, 3])
    await eventually(lambda: world.done)
    assert world.made() == [("c.a", 2), ("c.a", 3)] and world.done == [True]
    world.new.stop()
