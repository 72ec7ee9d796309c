"""Who may do what, as a table decides it: most specific match alone, groups, queues by name, patterns."""

from __future__ import annotations

import itertools
from dataclasses import replace

import pytest

from broker.config.load import checked_entry, from_tree
from broker.config.permissions import OPERATIONS
from broker.config.settings import EngineSettings
from broker.core.errors import ConfigError
from broker.edge.rights.permissions import REMEMBERED, Permissions, Rights
from broker.engine.address.address_settings import Matcher, covers, matches, overlap


def rights(table: dict[str, dict[str, str]], *groups: str, delimiter: str = ".") -> Rights:
    found = Permissions(table, delimiter).rights(groups)
    assert found is not None
    return found


def test_an_empty_table_lets_everybody_do_everything_and_one_entry_ends_that():
    assert Permissions({}).rights(("a",)) is None
    some = rights({"orders": {"send": "shop"}}, "shop")
    assert some.at("orders") == {"send"}
    assert some.at("other") == frozenset()


def test_the_most_specific_entry_decides_alone():
    table = {
        "#": {"send": "all", "consume": "all", "browse": "*"},
        "orders.#": {"send": "shop"},
        "orders.*.new": {"consume": "shop, audit"},
        "orders.eu.new": {"send": "all"},
    }
    shop, everyone = rights(table, "shop"), rights(table, "all")
    assert shop.at("orders") == shop.at("orders.eu.old") == {"send"}
    assert shop.at("orders.us.new") == {"consume"} and everyone.at("orders.us.new") == frozenset()
    assert everyone.at("orders.eu.new") == {"send"} and shop.at("orders.eu.new") == frozenset()
    assert everyone.at("mail") == {"send", "consume", "browse"} and shop.at("mail") == {"browse"}
    assert rights(table).at("mail") == {"browse"}, "a user without groups is somebody"


def test_settings_of_addresses_and_permissions_agree_on_what_is_most_specific():
    """Same pattern, same winner: otherwise nobody could predict either."""
    names = ["#", "a.#", "a.b.#", "a.*", "*.b", "a.b", "a.*.c", "*.b.c", "a.b.*"]
    table = {name: {"send": f"g{n}"} for n, name in enumerate(names)}
    settings = EngineSettings(addresses={name: {"dead_letter_address": f"g{n}"} for n, name in enumerate(names)})
    match, permissions = Matcher(settings), Permissions(table)
    for words in itertools.chain(*(itertools.product("abcx", repeat=length) for length in (1, 2, 3))):
        address = ".".join(words)
        winner = match(address).dead_letter_address
        allowed = [n for n in range(len(names)) if "send" in permissions.rights((f"g{n}",)).at(address)]
        assert [f"g{n}" for n in allowed] == [winner], address


def test_a_queue_is_its_addresses_affair_unless_an_entry_names_it():
    table = {"#": {"send": "all"}, "orders::audit": {"consume": "audit"}}
    audit = rights(table, "audit", "all")
    assert audit.at("orders", "audit") == {"consume"} and audit.at("orders", "other") == {"send"}
    assert audit.at("orders") == {"send"}
    assert audit.at("*") == {"send"}, "what is said of one named queue is not said of topics"


def test_another_delimiter():
    some = rights({"a/#": {"send": "g"}}, "g", delimiter="/")
    assert some.at("a/b") == {"send"} and some.at("a.b") == frozenset()


def test_a_pattern_shows_no_address_that_its_user_may_not_consume():
    table = {"#": {"consume": "g"}, "secret.#": {"consume": "boss"}, "news.*.draft": {"consume": "editor"}}
    some = rights(table, "g")
    assert "consume" in some.at("orders.*") and "consume" in some.at("orders.#")
    assert "consume" not in some.at("#") and "consume" not in some.at("*.plans") and "consume" not in some.at("secret")
    assert (
        some.against("consume", "#") in ("secret.#", "news.*.draft") and some.against("consume", "secret") == "secret.#"
    )
    assert "consume" not in some.at("news.eu.*") and "consume" in some.at("news.*")
    both = rights(table, "g", "boss", "editor")
    assert "consume" in both.at("#") and "consume" in both.at("news.#")
    maker = {"a.#": {"consume": "g", "create_durable_queue": "g"}, "a.b": {"consume": "g"}}
    assert rights(maker, "g").at("a.#") == {"consume", "create_durable_queue"}, "nothing is read by making a queue"
    hidden = {"*.#": {"consume": "g"}, "#": {}}
    assert "consume" not in rights(hidden, "g").at(".#"), "`*` is not the empty word of `.secret`"
    closed = {"#": {}, "orders.#": {"consume": "g"}}
    assert "consume" in rights(closed, "g").at("orders.*"), "an entry that decides nothing there does not count"


WORDS = ("a", "b", "*", "")
PATTERNS = [
    [*middle, *end]
    for length in range(3)
    for middle in itertools.product((*WORDS, "#"), repeat=length)
    for end in ([], ["#"])
    if middle or end
]
ADDRESSES = [list(words) for length in (1, 2, 3, 4) for words in itertools.product(("a", "b", "x", ""), repeat=length)]


def test_patterns_that_cover_and_overlap_against_every_address():
    stands = [{n for n, words in enumerate(ADDRESSES) if matches(pattern, words)} for pattern in PATTERNS]
    for (one, here), (other, there) in itertools.product(zip(PATTERNS, stands, strict=True), repeat=2):
        assert overlap(one, other) == bool(here & there), (one, other)
        assert covers(one, other) == (there <= here), (one, other)


def test_rights_are_shared_and_remembered_within_bounds():
    table = Permissions({"#": {"send": "g"}})
    assert table.rights(("g", "h")) is table.rights(("h", "g"))
    some = table.rights(("g",))
    assert some is not None and some.at("x") is some.at("x")
    for number in range(2 * REMEMBERED):
        assert "send" in some.at(f"reply.{number}")
    assert len(some._known) <= REMEMBERED


# ── as settings ──────────────────────────────────────────────────────────────────────────────────────


def test_permissions_are_settings_with_checked_names():
    tree = {"edge": {"permissions": {"orders.#": {"send": "shop, *"}, "orders::audit": {"consume": "audit"}}}}
    assert from_tree(tree, "t").edge.permissions == {
        "orders.#": {"send": "shop, *"},
        "orders::audit": {"consume": "audit"},
    }
    assert replace(from_tree({}, "t").edge).permissions == {}


@pytest.mark.parametrize(
    ("match", "values", "named"),
    [
        ("orders", {"publish": "a"}, "publish"),
        ("orders", {"sends": "a"}, "send"),
        ("orders.#.x", {"send": "a"}, "`#` comes last"),
        ("orders*", {"send": "a"}, "whole words"),
        ("orders", {"send": "a,,b"}, "send has an empty name"),
        ("orders", {"send": 5}, "must be"),
        ("orders::", {"send": "a"}, "an address and a queue"),
        ("or*::q", {"send": "a"}, "whole words"),
    ],
)
def test_what_makes_no_sense_is_refused_by_name(match, values, named):
    for load in (
        lambda: checked_entry("edge.permissions", match, values, "in a test", "."),
        lambda: from_tree({"edge": {"permissions": {match: values}}}, "in a test"),
    ):
        with pytest.raises(ConfigError) as raised:
            load()
        assert named in str(raised.value)


def test_every_operation_can_be_given():
    table = {"#": dict.fromkeys(OPERATIONS, "g")}
    assert rights(table, "g").at("x") == set(OPERATIONS)
