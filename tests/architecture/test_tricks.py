"""What Python lets one do and a reader cannot follow: none of it is in the product.

Rule: objects are made complete and stay of their class; what exists by now is a state with a name, not an attribute
that may be missing; nobody reads another function's variables.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

import pytest

from tests.architecture.test_tidy import ROOT, TREES


def tricks(tree: ast.Module) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute):
            if node.attr == "__class__" and isinstance(node.ctx, ast.Store):
                yield "another class for an object"
            elif node.attr in ("f_locals", "f_globals", "f_back"):
                yield "frame variables"
        elif isinstance(node, ast.Call):
            called = node.func
            if isinstance(called, ast.Attribute) and called.attr == "__new__" and isinstance(called.value, ast.Name):
                yield "an object without its __init__"
            elif isinstance(called, ast.Name) and called.id == "hasattr" and ast.unparse(node.args[0]) == "self":
                yield "an attribute that may be missing"
            elif isinstance(called, ast.Name) and called.id == "setattr" and isinstance(node.args[1], ast.Constant):
                yield "an attribute written by its name"


@pytest.mark.parametrize(
    "code, trick",
    [
        ("queue.__class__ = Tended", "another class for an object"),
        ("known = frame.f_locals", "frame variables"),
        ("end = RefusedError.__new__(RefusedError)", "an object without its __init__"),
        ("def close(self):\n    if hasattr(self, 'rpc'): pass", "an attribute that may be missing"),
        ("lambda bucket: setattr(bucket, 'owner', 0)", "an attribute written by its name"),
        ("text = super().__new__(cls, why)\nkind = thing.__class__\nhasattr(column, 'dtype')", None),
    ],
)
def test_it_sees_them(code, trick):
    assert list(tricks(ast.parse(code))) == ([trick] if trick else [])


def test_there_are_none():
    found = {f"{path.relative_to(ROOT)}: {trick}" for path, tree in TREES.items() for trick in tricks(tree)}
    assert found == set()
