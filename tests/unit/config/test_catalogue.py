"""Every setting as one list: nothing is written down twice, and bounds follow from units and defaults."""

from __future__ import annotations

from dataclasses import dataclass
from operator import attrgetter

import pytest

from broker.config.catalogue import TABLES, Group, Leaf, _walk, entry_about, entry_leaves, groups, leaves
from broker.config.fields import setting
from broker.config.settings import Settings


@dataclass(frozen=True)
class Inner:
    """Inner things.

    More of it."""

    part: float = setting(0.5, "fraction", "how much")
    words: str = setting("a", "a|b", "which")


@dataclass(frozen=True)
class Outer:
    """Outer things."""

    inner: Inner = Inner()
    count: int = setting(3, "count", "how many", "because")


def test_a_tree_of_dataclasses_becomes_dotted_names_in_its_order():
    found: list[Group] = []
    _walk(Outer, "", found)
    assert [(group.name, group.about) for group in found] == [("", "Outer things."), ("inner", "Inner things.")]
    assert [leaf.name for group in found for leaf in group.leaves] == ["count", "inner.part", "inner.words"]
    (count,) = found[0].leaves
    assert (count.kind, count.default, count.unit, count.help, count.why) == (int, 3, "count", "how many", "because")


@pytest.mark.parametrize(
    ("kind", "default", "unit", "least", "bounds"),
    [
        (int, 61613, "TCP port", None, (-1, 65535)),
        (float, 0.5, "fraction", None, (0, 1)),
        (float, 5.0, "seconds", None, (0.05, None)),
        (float, 0.0, "seconds", None, (0, None)),
        (int, 10, "bytes", None, (1, None)),
        (int, 0, "bytes", None, (0, None)),
        (int, -1, "messages", None, (-1, None)),
        (int, 100, "bytes", 64, (64, None)),
        (str, "x", "text", 3, (None, None)),
        (bool, True, "yes|no", None, (None, None)),
    ],
)
def test_zero_and_less_are_legal_where_the_default_says_so(kind, default, unit, least, bounds):
    leaf = Leaf("a.b", kind, default, {"unit": unit, "help": "", "why": "", "least": least})
    assert (leaf.least, leaf.most) == bounds


def test_every_setting_stands_where_it_is_said_to_and_has_its_default():
    nothing = Settings()
    for name, leaf in leaves().items():
        assert attrgetter(name)(nothing) == leaf.default, name
        assert leaf.help and leaf.unit, name
    assert sum(len(group.leaves) for group in groups()) == len(leaves())
    assert groups()[0].name == ""


def test_tables_that_users_name_entries_of_are_one_setting_each():
    for table in TABLES:
        assert (leaves()[table].kind, leaves()[table].default) == (dict, {})
        assert not [name for name in leaves() if name.startswith(f"{table}.")]
        assert entry_leaves(table) and entry_about(table).endswith(".")
    assert entry_leaves("engine.addresses")["ring_size"].kind is int
