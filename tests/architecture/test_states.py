"""States are tables: written by one module, asked at every move; every state can be reached, and says what holds.

Rule: what is in docs/states.md is in `STATES`; tests/architecture/test_generated.py holds the page current.
"""

from __future__ import annotations

import ast
import inspect
import sys

import pytest

from broker.app.commands.docs import STATES, _texts
from broker.core.states import IllegalMove
from tests.architecture.test_house import NODES

HOMES = {table.states.__module__ for table in STATES}


def tables(name):
    """Names of the tables of a module."""
    return {key for key, value in vars(sys.modules[name]).items() if value in STATES}


def asks(value, names):
    """Is it what a table says: `TABLE.begin(…)` or `TABLE.to(…)`."""
    return (
        isinstance(value, ast.Call)
        and isinstance(value.func, ast.Attribute)
        and value.func.attr in ("begin", "to")
        and isinstance(value.func.value, ast.Name)
        and value.func.value.id in names
    )


@pytest.mark.parametrize("table", STATES, ids=lambda table: table.states.__name__)
def test_every_state_is_reached_left_and_described(table):
    reached, left = set(), list(table.begins)
    while left:
        state = left.pop()
        if state not in reached:
            reached.add(state)
            left += table.moves.get(state, {})
    assert reached == set(table.states)
    assert all(state in table.ends or table.moves.get(state) for state in table.states)
    texts = [*table.begins.values(), *table.ends.values()]
    texts += [why for after in table.moves.values() for why in after.values()]
    assert not [why for why in texts if set(why) & set(":;#")], "Mermaid reads more into these"
    assert set(_texts(table.states)) == {state.name for state in table.states}


@pytest.mark.parametrize("table", STATES, ids=lambda table: table.states.__name__)
def test_nothing_else_is_allowed(table):
    for was in table.states:
        for now in table.states:
            if now in table.moves.get(was, {}):
                assert table.to(was, now) is now
            else:
                with pytest.raises(IllegalMove, match=f"{now.name} does not follow {was.name}"):
                    table.to(was, now)
    for state in set(table.states) - set(table.begins):
        with pytest.raises(IllegalMove):
            table.begin(state)


def test_a_state_is_written_at_home_and_by_its_table():
    """`x.state = …` stands in the modules that have the tables, on `self`, and its value is what the table says (or
    what the constructor was given, by a method that asked)."""
    written = {}
    for name, nodes in NODES.items():
        for node in nodes:
            if not isinstance(node, ast.Assign):
                continue
            for target in node.targets:
                if isinstance(target, ast.Attribute) and target.attr == "state":
                    mine = isinstance(target.value, ast.Name) and target.value.id == "self"
                    asked = name in HOMES and asks(node.value, tables(name))
                    given = name in HOMES and isinstance(node.value, ast.Name) and node.value.id == "state"
                    written.setdefault(name, []).append(mine and (asked or given))
    strangers = {name for name in written if name not in HOMES}
    assert not strangers & {name for name in NODES if name.startswith("broker.owner.")}
    for name in HOMES:
        assert written[name] and all(written[name]), f"{name}: let the table say whether that may follow"


def test_who_makes_something_in_a_state_asks_its_table():
    """Constructors that are given a state get it from the table."""
    from broker.owner.slots import slot_role

    tree = ast.parse(inspect.getsource(slot_role.SlotRole))
    made = [n for n in ast.walk(tree) if isinstance(n, ast.Call) and isinstance(n.func, ast.Name)]
    made = [n for n in made if n.func.id in ("cls", "SlotRole")]
    assert made and all(asks(n.args[0], tables("broker.owner.slots.slot_role")) for n in made)
    elsewhere = [
        name
        for name, nodes in NODES.items()
        if name != "broker.owner.slots.slot_role"
        for n in nodes
        if isinstance(n, ast.Call) and isinstance(n.func, ast.Name) and n.func.id == "SlotRole"
    ]
    assert elsewhere == []
