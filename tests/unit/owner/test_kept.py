"""What virtual hosts and users have, whoever is connected: counted in steps, by host and by the fronts of names."""

from __future__ import annotations

from collections.abc import Generator
from sys import getrefcount
from types import SimpleNamespace
from typing import Any

import pytest

from broker.owner.shard import kept
from broker.owner.shard.kept import kept_of_slot, lengths_of, side_by_side, summed, user_of
from broker.owner.shard.views import Views
from tests.unit.engine.world import MULTICAST, World, bodies

FRONTS = {"ada": "ada", "ada.eu": "ada.eu", "$host/shop.ada": "$host/shop.ada", "app-bob": "bob"}


@pytest.mark.parametrize(
    ("name", "user"),
    [
        ("ada.inbox", "ada"), ("ada.eu.inbox", "ada.eu"), ("adam.inbox", ""), ("ada", "ada"), ("ada-1.x", "ada"),
        ("ada.europe", "ada"), ("$host/shop.ada.x", "$host/shop.ada"), ("shop.ada.x", ""), ("bob.x", ""),
        ("app-bob-7.x", "bob"),
    ],
)  # fmt: skip
def test_a_durable_subscription_is_of_the_longest_front_that_ends_with_a_word(name: str, user: str):
    assert user_of(name, FRONTS, lengths_of(FRONTS)) == user


def test_all_queues_count_for_their_host_and_durable_ones_for_their_user():
    world = World()
    world.publish("q", *bodies(3), durable=True)
    world.publish("$host/shop.q", b"12345")
    world.subscribe(1, "news", routing=MULTICAST, queue="ada.news", durable=True)
    world.subscribe(2, "$host/shop.news", routing=MULTICAST)
    world.settle_down()
    views = Views(SimpleNamespace(engines={7: world.engine}), SimpleNamespace(wall_ms=lambda: 0))
    work = views.answer({"kind": "kept", "fronts": FRONTS})
    with pytest.raises(StopIteration) as end:
        while True:
            next(work)
    found = end.value.value["kept"]
    assert found["host:/"][:2] == [2, 1] and found["host:shop"][:2] == [2, 0] and found["user:ada"] == [0, 1, 0, 0]
    assert found["host:/"][2] > found["host:shop"][2] > 0, "the messages weigh something"
    assert found["host:/"][2] == found["host:/"][3], "all of it is in memory"


def test_a_slot_is_read_in_steps_and_queues_that_go_meanwhile_do_not_count():
    world = World()
    for at in range(20):
        world.publish(f"q.{at}", b"x")
    world.settle_down()
    assert len(list(kept_of_slot(world.engine._slot, {}))) == 4, "the numbers alone, and 8 queues of each step"
    steps = kept_of_slot(world.engine._slot, {})
    next(steps)
    del world.engine._slot.queues[next(reversed(world.engine._slot.queues))]
    assert ended(steps)["host:/"][0] == 19


def test_a_long_name_costs_no_more_than_a_short_one():
    """200 durable subscriptions with names of 20,000 marks had an owner stand still for ten seconds."""

    class Fronts(dict):
        asked = 0

        def __contains__(self, front: object) -> bool:
            Fronts.asked += 1
            return super().__contains__(front)

    world = World()
    world.subscribe(1, "news", routing=MULTICAST, queue="ada" + "." * 20_000, durable=True)
    world.settle_down()
    steps = kept_of_slot(world.engine._slot, Fronts(FRONTS))
    with pytest.raises(StopIteration) as end:
        while True:
            next(steps)
    assert end.value.value["user:ada"] == [0, 1, 0, 0]
    assert Fronts.asked <= len(FRONTS)


SLOTS = [{"host:/": [1, 0, 2, 2]}, {"host:/": [1, 1, 3, 0], "user:a": [0, 1, 0, 0]}]


def ended(steps: Generator[None, None, Any]) -> Any:
    with pytest.raises(StopIteration) as end:
        while True:
            next(steps)
    return end.value.value


def test_sums_are_over_slots_and_change_nothing_of_them():
    for _ in range(2):
        assert ended(summed(SLOTS)) == ({"host:/": [2, 1, 5, 2], "user:a": [0, 1, 0, 0]}, 0)
    assert side_by_side([side_by_side([SLOTS[:1]]), SLOTS[1:]]) == SLOTS


def test_many_rows_are_summed_in_steps_and_those_beyond_are_told_of(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(kept, "ROWS", 10)
    monkeypatch.setattr(kept, "MOST_ROWS", 40)
    slots = [{f"user:{user}": [1, 0, 2, 2] for user in range(50)}] * 2
    assert len(list(summed(slots))) == 10
    sums, untold = ended(summed(slots))
    assert len(sums) == 40 and untold == 10 and set(map(tuple, sums.values())) == {(2, 0, 4, 4)}


def test_a_host_has_its_row_however_many_users_there_are(monkeypatch: pytest.MonkeyPatch):
    """Without it the host would have no limit, and the log would speak of a user."""
    monkeypatch.setattr(kept, "MOST_ROWS", 2)
    users = {f"user:{user}": [1, 0, 2, 2] for user in range(3)}
    sums, untold = ended(summed([users, {"host:shop": [3, 0, 6, 6]}, {"host:/": [1, 0, 2, 2], "user:3": [1, 0, 2, 2]}]))
    assert list(sums) == ["user:0", "user:1", "host:shop", "host:/"] and untold == 2


def test_queues_and_their_bytes_count_for_who_has_made_them():
    world = World()
    world.publish("q", *bodies(3), durable=True, create="ada")
    world.subscribe(1, "news", routing=MULTICAST, maker="ada")
    world.publish("other", b"x", create="bob")
    world.publish("q", b"more", create="bob")
    world.publish("nobodys", b"x")
    world.settle_down()
    told: list[Any] = []
    shard = SimpleNamespace(
        engines={7: world.engine}, full_makers=SimpleNamespace(told=lambda *said: told.append(said))
    )
    views = Views(shard, SimpleNamespace(wall_ms=lambda: 0, monotonic=lambda: 0), later=lambda *_: None)
    answer = ended(views.answer({"kind": "kept", "fronts": {}, "full": ["ada"], "holds": 4.0}))
    assert told == [(["ada"], 4.0)] and answer["untold"] == 0
    rows = answer["kept"]
    assert rows["user:ada"][:2] == [2, 0] and rows["user:bob"][:2] == [1, 0] and rows["host:/"][0] == 4
    assert rows["host:/"][2] > rows["user:ada"][2] > rows["user:bob"][2] > 0, "also what others sent there"
    assert ended(views.answer({"kind": "kept", "fronts": {}}))["kept"] is rows, "nothing has happened"
    other = ended(views.answer({"kind": "kept", "fronts": FRONTS}))["kept"]
    assert ended(views.answer({"kind": "kept", "fronts": {}}))["kept"] is rows, "edges with others do not chase it away"
    assert ended(views.answer({"kind": "kept", "fronts": FRONTS}))["kept"] is other
    world.publish("other", b"x")
    assert ended(views.answer({"kind": "kept", "fronts": {}}))["kept"]["user:bob"][2] > rows["user:bob"][2]


def test_what_was_summed_goes_when_nobody_asks_any_more():
    world, alarms, time = World(), [], [0.0]
    world.publish("q", b"1", create="ada")
    views = Views(
        SimpleNamespace(engines={7: world.engine}),
        SimpleNamespace(wall_ms=lambda: 0, monotonic=lambda: time[0]),
        later=lambda seconds, callback: alarms.append(callback),
    )
    rows = ended(views.answer({"kind": "kept", "fronts": {}}))["kept"]
    before = getrefcount(rows)
    time[0] = 60.0
    while alarms:
        alarms.pop()()
    assert getrefcount(rows) == before - 1
