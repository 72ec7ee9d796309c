"""Entries are found as if all of them had been looked at, from specific to general; and they come and go one by one."""

from __future__ import annotations

import itertools
import random

import pytest

from broker.edge.rights.permission_index import MOST_SETS, PermissionEntry, PermissionIndex, Said
from broker.edge.rights.permissions import Permissions
from broker.engine.address.address_settings import covers, is_pattern, matches, overlap, specificity

WORDS = ("a", "b", "*", "")
NAMES = sorted(
    {
        ".".join([*middle, *end])
        for length in range(4)
        for middle in itertools.product(WORDS, repeat=length)
        for end in ([], ["#"])
        if middle or end
    }
    | {"a.b::q", "a.*::q"}
)


def looked_at_all(names: list[str], address: str, name: str) -> tuple[set[str], str | None, bool]:
    """Who decides, who of them is last, and whether it speaks of all of the address: by the rule."""
    if name in names and "::" in name and not is_pattern(address):
        return {name}, name, True
    order = sorted(
        (each for each in names if "::" not in each),
        key=lambda each: (not is_pattern(each), specificity(each)), reverse=True,
    )  # fmt: skip
    words, some = address.split("."), []
    for each in order:
        if not is_pattern(address):
            if matches(each.split("."), words):
                return {each}, each, True
        elif overlap(each.split("."), words):
            some.append(each)
            if covers(each.split("."), words):
                return {*some, *([name] if name in names and "::" in name else [])}, each, True
    found = {*some, *([name] if name in names and "::" in name else [])}
    return found, None, False


def index_of(names: list[str]) -> PermissionIndex:
    index, said = PermissionIndex("."), Said({"send": "g"})
    for name in names:
        index.put(PermissionEntry(name, name, said))
    return index


@pytest.mark.parametrize("seed", range(20))
def test_what_decides_is_found_without_looking_at_all(seed: int) -> None:
    some = random.Random(seed)
    names = some.sample(NAMES, some.choice((1, 3, 10, 40)))
    index = index_of(names)
    gone = names[::3]
    for name in gone:
        index.drop(name, name)
    for name in gone[::2]:
        index.put(PermissionEntry(name, name, Said({})))
    left = [name for name in names if name not in gone] + gone[::2]
    assert len(index) == len(left)
    asked = [".".join(words) for length in (1, 2, 3) for words in itertools.product((*WORDS, "x"), repeat=length)]
    for address in [*asked, *(f"{each}.#" for each in asked if each), "#"]:
        for name in (address, f"{address}::q"):
            some_of_it, widest = index.some(address, name), index.of(address, name)
            expected, last, all_of_it = looked_at_all(left, address, name)
            assert {entry.name for entry in (*some_of_it, widest) if entry} == expected, (left, name)
            assert (widest is not None) == all_of_it, (left, name)
            if widest is not None:
                assert widest.name == (name if name in left and "::" in name else last), (left, name)
    order = [(not is_pattern(entry.name), specificity(entry.name)) for entry in index.entries]
    assert order == sorted(order, reverse=True)


def test_a_rest_in_the_middle_of_a_pattern_is_understood_though_no_config_has_one() -> None:
    index = index_of(["a.#.b", "a.#"])

    def of(address: str) -> str | None:
        found = index.of(address, address)
        return found.name if found is not None else None

    assert of("a.x.y.b") == "a.#.b" and of("a.*") == "a.#"
    assert [entry.name for entry in index.some("a.*", "a.*")] == ["a.#.b"]
    index.drop("a.#.b", "a.#.b")
    assert of("a.x.y.b") == "a.#"


def test_an_index_whose_entries_have_gone_holds_nothing() -> None:
    index = index_of(NAMES)
    for name in NAMES:
        index.drop(name, name)
    assert not len(index) and not index._first and not index._shapes and not index._odd and not index._exact


def test_one_entry_of_many_is_looked_up_and_changed_without_the_others() -> None:
    table = {f"a{n}.#": {"send": f"g{n % 100}"} for n in range(20_000)}
    permissions = Permissions(table)
    before = permissions.rights(("g1",))
    assert before is not None and before.at("a101.x") == {"send"} and before.at("a102.x") == frozenset()
    index = permissions._hosts[""]
    put: list[str] = []
    index_put = PermissionIndex.put
    try:
        PermissionIndex.put = lambda self, entry: (put.append(entry.match), index_put(self, entry))[1]  # type: ignore[method-assign, assignment]
        permissions.replace({**table, "a102.#": {"send": "g1"}, "new": {"send": "other"}})
    finally:
        PermissionIndex.put = index_put  # type: ignore[method-assign]
    assert put == ["a102.#", "new"] and permissions._hosts[""] is index
    now = permissions.rights(("g1",))
    assert now is not before and now is not None and now.at("a102.x") == {"send"} and "other" in permissions.groups
    permissions.replace(table)
    assert "other" not in permissions.groups and permissions.rights(("g1",)).at("a102.x") == frozenset()  # type: ignore[union-attr]


def test_entries_of_a_host_and_the_last_of_all_that_go_open_nothing() -> None:
    table = {"$host/shop.#": {"send": "*"}, "#": {"send": "g"}, "$host/shop.a::$host/shop.q": {"consume": "*"}}
    permissions = Permissions(table)
    shop = permissions.rights(())
    assert (
        shop is not None
        and shop.at("$host/shop.x") == {"send"}
        and shop.at("$host/shop.a", "$host/shop.q") == {"consume"}
    )
    permissions.replace({"#": {"send": "g"}})
    assert list(permissions._hosts) == [""] and permissions.rights(()).at("$host/shop.x") == frozenset()  # type: ignore[union-attr]
    permissions.replace({})
    assert not permissions.open and permissions.rights(()) is not None and not permissions._said
    assert Permissions({}).open and not Permissions({}, closed=True).open


TWINS = [
    ("$scheduled.$host/shop.orders", "$host/shop$scheduled.orders", "$scheduled.$host/shop.orders", None),
    ("$scheduled.$host/shop.*", "$host/shop$scheduled.*", "$scheduled.$host/shop.orders", None),
    ("$host/shop.a::q", "$host/shop.a::$host/shop.q", "$host/shop.a", "$host/shop.q"),
]


@pytest.mark.parametrize(("counts", "twin", "address", "queue"), TWINS)
def test_of_two_spellings_of_a_name_one_counts_and_each_may_go(
    counts: str, twin: str, address: str, queue: str | None
) -> None:
    """The second one to go ended in a KeyError, and with it every later change of the table; of a queue, the other
    was forgotten with it, so that its address' entry counted."""
    first, second = {counts: {"manage": "g"}}, {twin: {"manage": "h"}}

    def theirs() -> list[str]:
        rights = [(name, permissions.rights((name,))) for name in "gh"]
        return [name for name, found in rights if found is not None and "manage" in found.at(address, queue)]

    for both in ({**first, **second}, {**second, **first}):
        permissions = Permissions(both)
        assert theirs() == ["g"]
        for left, whose in ((first, ["g"]), (both, ["g"]), (second, ["h"]), (both, ["g"]), ({}, [])):
            permissions.replace(left)
            assert theirs() == whose
        assert list(permissions._hosts) == [""] and not permissions._said


def test_what_a_set_of_groups_may_is_remembered_within_bounds() -> None:
    said = Said({"send": "g,h", "consume": "h"})
    for number in range(2 * MOST_SETS):
        assert said.operations(frozenset({"h", f"x{number}"})) == {"send", "consume"}
    assert len(said._known) <= MOST_SETS and said.groups("send") == {"g", "h"} and said.groups("browse") == frozenset()
