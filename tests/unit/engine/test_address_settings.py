"""Which settings an address has, against the rules of Artemis' manual and code, applied one by one."""

from __future__ import annotations

from dataclasses import replace
from functools import cmp_to_key

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from broker.config.addressing import AddressSettings
from broker.config.settings import EngineSettings
from broker.core.ids import slots_of
from broker.engine.address.address_settings import Matcher
from broker.engine.engine import Engine

NAMES = ("max_delivery_attempts", "redelivery_delay_ms", "max_size_messages")


def matches(pattern: list[str], words: list[str]) -> bool:
    """By the definition: `*` one word, `#` any number of them."""
    if not pattern:
        return not words
    if pattern[0] == "#":
        return any(matches(pattern[1:], words[n:]) for n in range(len(words) + 1))
    return bool(words) and pattern[0] in ("*", words[0]) and matches(pattern[1:], words[1:])


def compare(one: str, other: str) -> int:
    """Negative: `one` is more specific. The five rules in their order."""
    a, b = one.split("."), other.split(".")
    if ("#" in a) != ("#" in b):
        return 1 if "#" in a else -1
    if "#" in a and len(one) != len(other):
        return len(other) - len(one)
    if ("*" in a) != ("*" in b):
        return 1 if "*" in a else -1
    for x, y in zip(a, b, strict=False):
        if (x == "*") != (y == "*"):
            return 1 if x == "*" else -1
    return len(one) - len(other)


def expected(tables: dict[str, dict[str, int]], address: str) -> AddressSettings:
    words = address.split(".")
    wild = [name for name in tables if {"*", "#"} & set(name.split("."))]
    found = [address] if address in tables and address not in wild else []
    found += sorted([name for name in wild if matches(name.split("."), words)], key=cmp_to_key(compare))
    values: dict[str, int] = {}
    for name in found:
        for setting, value in tables[name].items():
            values.setdefault(setting, value)
    return AddressSettings(**values)


word = st.sampled_from(["a", "b", "cc"])
address = st.lists(word, min_size=1, max_size=4).map(".".join)
pattern = st.tuples(st.lists(st.one_of(word, st.just("*")), max_size=4), st.booleans()).map(
    lambda made: ".".join([*made[0], *(["#"] if made[1] or not made[0] else [])])
)
table = st.dictionaries(st.sampled_from(NAMES), st.integers(1, 99), min_size=1)


@settings(max_examples=500, deadline=None)
@given(st.dictionaries(st.one_of(address, pattern), table, max_size=6), st.lists(address, max_size=4))
def test_settings_merge_as_in_artemis(tables, addresses):
    matcher = Matcher(EngineSettings(addresses=tables))
    for name in [*addresses, "a", "a.b", "a.b.cc"]:
        assert matcher(name) == expected(tables, name), name


def test_the_example_of_the_manual():
    order = ["order.eu.foo", "order.eu.*", "order.*.foo", "order.eu.#", "order.#", "#"]
    for first in range(len(order)):
        tables = {name: {"max_delivery_attempts": n + 1} for n, name in enumerate(order) if n >= first}
        assert Matcher(EngineSettings(addresses=tables))("order.eu.foo").max_delivery_attempts == first + 1


@pytest.mark.parametrize("name", ["a/b/c", "a/b", "a"])
def test_words_may_have_another_delimiter(name):
    matcher = Matcher(EngineSettings(addresses={"a/#": {"max_delivery_attempts": 3}}, wildcard_delimiter="/"))
    assert matcher(name).max_delivery_attempts == 3
    assert matcher("a.b").max_delivery_attempts == 10
    assert matcher.is_pattern("a/*") and not matcher.is_pattern("a.*")


def test_all_slots_of_a_process_read_the_settings_once():
    """Ten thousand addresses, read by 256 slots each for itself, held an owner up for longer than its peers wait."""
    said = EngineSettings(addresses={"a": {"max_delivery_attempts": 3}, "b": {"declared": True}})
    engines = [Engine(slot, said) for slot in (slots_of("b", 1)[0], 255, 3)]
    one, *others = (engine._slot for engine in engines)
    assert all(other.match is one.match for other in others)
    assert one.declarations.addresses == {"b"} and all(not other.declarations.addresses for other in others)
    for engine in engines:
        engine.configure(replace(said, addresses={"a": {"max_delivery_attempts": 4}}))
    assert all(
        slot.match("a").max_delivery_attempts == 4 and not slot.declarations.addresses for slot in (one, *others)
    )
