"""Wildcards of queues for one name: as matching says of each, of the same virtual host, and never of `$…`."""

from __future__ import annotations

import random

import pytest

from broker.engine.address.address_settings import matches
from broker.engine.address.named_by import NamedBy


def known(*patterns: str) -> NamedBy:
    found = NamedBy(".")
    for pattern in patterns:
        found.add(pattern)
    return found


@pytest.mark.parametrize(
    ("name", "found"),
    [
        ("a.b", ["a.#", "a.*", "#"]),
        ("a", ["a.#", "#"]),
        ("b.c", ["#"]),
        ("$temp.1", []),
        ("$host/shop.a.b", ["$host/shop.a.*"]),
        ("$host/shop$exchange/x", []),
        ("$host/other.a.b", []),
    ],
)
def test_names_of_each_host(name: str, found: list[str]) -> None:
    assert sorted(known("a.#", "a.*", "#", "$host/shop.a.*").find(name)) == sorted(found)


def test_it_says_what_each_pattern_says_by_itself() -> None:
    chance = random.Random(17)
    patterns = {".".join(chance.choices(["a", "b", "*", "#"], k=chance.randint(1, 4))) for _ in range(60)}
    index = known(*patterns)
    for _ in range(300):
        name = ".".join(chance.choices("abc", k=chance.randint(1, 4)))
        wanted = [pattern for pattern in patterns if matches(pattern.split("."), name.split("."))]
        assert sorted(index.find(name)) == sorted(wanted), name
