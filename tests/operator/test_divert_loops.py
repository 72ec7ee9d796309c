"""Addresses whose diverts lead back to them: the youngest of a circle is refused, and only it."""

from __future__ import annotations

import itertools
import random

from broker_operator.spec.model import Resource
from broker_operator.spec.names import ADDRESS
from broker_operator.world.divert_loops import Circles

from .builders import raw


def address(born: int, name: str, *forward: str, resource: str = "") -> Resource:
    diverts = [{"name": f"{name}-{n}", "forward": [one]} for n, one in enumerate(forward)]
    created = f"2026-01-01T{born // 3600:02}:{born // 60 % 60:02}:{born % 60:02}Z"
    return Resource(raw(ADDRESS, resource or name.replace(".", "-"), created=created, name=name, diverts=diverts))


def circles_of(*resources: Resource) -> Circles:
    found = Circles()
    for one in resources:
        found.put(one)
    return found


def test_the_youngest_of_a_circle_is_refused_with_the_way():
    orders, audit, copies = (
        address(1, "orders", "audit"),
        address(2, "audit", "x", "copies"),
        address(3, "copies", "orders"),
    )
    found = circles_of(copies, audit, orders)
    assert found.through(orders) == found.through(audit) == []
    assert found.through(copies) == ["copies", "orders", "audit", "copies"]
    found.drop(audit.id)
    assert found.through(copies) == []


def test_a_queue_that_is_named_does_not_hide_its_address():
    one, two = address(1, "a", "b::b"), address(2, "b", "a::q")
    assert circles_of(one, two).through(two) == ["b", "a", "b"]


def test_what_does_not_come_back_is_no_circle():
    one, two, three = address(1, "a", "b", "c"), address(2, "b", "c"), address(3, "c", "d")
    found = circles_of(one, two, three)
    assert not any(found.through(each) for each in (one, two, three))


def test_one_that_changes_is_known_by_what_it_says_now():
    one, two = address(1, "a", "b"), address(2, "b", "a")
    found = circles_of(one, two)
    changed = Resource({**two.raw, "spec": {**two.raw["spec"], "diverts": []}})
    found.put(changed)
    assert found.through(changed) == [] and found.through(one) == []


def test_two_of_one_name_are_the_older_one():
    one, loser, two = address(1, "a", "x"), address(2, "a", "b", resource="second"), address(3, "b", "a")
    assert circles_of(one, loser, two).through(two) == []


def test_without_those_that_are_refused_there_is_no_circle():
    """Against a search by brute force, over random graphs."""
    for seed in range(300):
        chance = random.Random(seed)
        names = [f"n{number}" for number in range(chance.randrange(2, 7))]
        made = []
        for born, name in enumerate(chance.sample(names, len(names))):
            others = [one for one in names if one != name]
            made.append(address(born, name, *chance.sample(others, chance.randrange(0, min(3, len(others)) + 1))))
        found = circles_of(*made)
        refused = {one.id for one in made if found.through(one)}
        kept = [one for one in made if one.id not in refused]
        assert not circular(kept), seed
        for one in made:
            if one.id in refused:
                older = [each for each in made if each.created < one.created]
                assert circular([*older, one], one), f"{seed}: {one.id} closes none"


def circular(resources: list[Resource], through: Resource | None = None) -> bool:
    """By trying every way."""
    to = {one.raw["spec"]["name"]: [f for d in one.raw["spec"]["diverts"] for f in d["forward"]] for one in resources}
    wanted = [through.raw["spec"]["name"]] if through is not None else list(to)
    for length in range(1, len(to) + 1):
        for way in itertools.permutations(to, length):
            if way[0] in wanted and all(b in to[a] for a, b in itertools.pairwise([*way, way[0]])):
                return True
    return False
