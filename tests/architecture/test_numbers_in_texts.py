"""Texts of others become numbers in one place, core/strict_numbers.py: int() takes "1_0", "+5" and "٣", isdigit() "²".

Rule: nothing else asks isdigit() and its like, and int() of what is not a number already stands below, with what makes
sure that it is digits.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

import pytest

from tests.architecture.test_tidy import ROOT, TREES

HOME = "broker/core/strict_numbers.py"
ASKS = {"isdigit", "isdecimal", "isnumeric"}
STANDING = [[ast.Name], [ast.Attribute], [ast.Subscript]]
"""Arguments of int() that compute nothing."""
ROOMS = ("broker/admin", "broker/bridge", "broker/client", "broker/cluster", "broker/edge", "broker/wire")
"""Those that clients, browsers, other brokers and other versions write to."""

MAY = {
    "broker/admin/management/management.py": {"int(report['done'])": "a number of our own API"},
    "broker/admin/scaler.py": {"int(port)": "gRPC's"},
    "broker/cluster/controller.py": {"int(self.held)": "a bool"},
    "broker/edge/destinations/dialects/activemq.py": {"int(skip)": "a setting, as checks.py has let it in"},
    "broker/edge/quotas/quotas.py": {
        "int(address)": "an ipaddress",
        "int(found.network_address)": "an ipaddress",
    },
    "broker/edge/session/compressing.py": {
        "int(run.records[0][run.records[0].rindex(b':') + 1:-2])": "the content-length that outbound.py has written",
    },
    "broker/edge/session/heartbeat.py": {"int(n)": "wire/rules.py has looked at both"},
    "broker/edge/quotas/meters.py": {"int(left)": "a float", "int(self._left)": "a float"},
    "broker/edge/transport/draining.py": {"int(self._budget)": "a float"},
    "broker/edge/transport/framelog.py": {"int(length[1])": "a pattern of bytes, of a frame of ours"},
    "broker/selector/compiling.py": {
        "value.isdigit()": "bytes, of which it takes ASCII only: asked of every message, a call more would be seen",
    },
    "broker/selector/index.py": {"value.isdigit()": "the same"},
    "broker/wire/block.py": {
        "digits.isdigit()": "bytes; asked of every header block, with a bound of its own behind it",
        "value.isdigit()": "bytes; says which of two things is wrong",
        "int(digits)": "after isdigit()",
        "int(value)": "after isdigit()",
    },
    "broker/wire/shortcuts/known_sends.py": {
        "int(m[given])": "[0-9]{1,18} of layouts.py",
        "int(m[layout.length_at])": "the same",
    },
}
"""File → what stands there → why it may."""


def reads(tree: ast.Module) -> Iterator[str]:
    """Questions of a text for digits, and int() of a name, an attribute or an item."""
    for node in ast.walk(tree):
        if not isinstance(node, ast.Call):
            continue
        asks = isinstance(node.func, ast.Attribute) and node.func.attr in ASKS
        if asks or (ast.unparse(node.func) == "int" and [type(arg) for arg in node.args] in STANDING):
            yield ast.unparse(node)


def test_it_sees_them():
    code = "a = text.isdigit()\nb = int(text)\nc = int(row['n'])\nd = int(x * 2)\ne = int(digits, 16)\nf = int(now())"
    assert list(reads(ast.parse(code))) == ["text.isdigit()", "int(text)", "int(row['n'])"]


def found() -> dict[str, set[str]]:
    seen = {}
    for path, tree in TREES.items():
        name = path.relative_to(ROOT).as_posix()
        some = {what for what in reads(tree) if not what.startswith("int(") or name.startswith(ROOMS)}
        if some and name != HOME:
            seen[name] = some
    return seen


FOUND = found()


@pytest.mark.parametrize("name", sorted(FOUND.keys() | MAY.keys()))
def test_texts_are_read_in_one_place(name):
    allowed = MAY.get(name, {})
    assert FOUND.get(name, set()) - allowed.keys() == set(), f"ask {HOME}, or say below what makes sure of it"
    assert allowed.keys() - FOUND.get(name, set()) == set(), "it is gone: strike it out"
