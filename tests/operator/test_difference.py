"""What of a wanted object is not in the live one: only what we want is compared."""

from __future__ import annotations

from broker_operator.spec.difference import difference, merged


def test_only_what_is_wanted_is_compared():
    live = {"a": 1, "b": {"c": 2, "d": 3}, "list": [{"name": "x", "v": 1, "more": 2}, {"name": "y"}], "plain": [1, 2]}
    assert difference({"a": 1, "b": {"c": 2}, "list": [{"name": "x", "v": 1}], "plain": [1, 2]}, live) == {}
    assert difference({"a": 2, "b": {"e": 1}, "list": [{"name": "z"}], "plain": [2]}, live) == {
        ".a": 1, ".b.e": None, ".list[z]": None, ".plain": [1, 2],
    }  # fmt: skip
    assert difference({"gone": {}}, live) == {} == difference({"gone": []}, live)
    assert difference({"a": {"x": 1}}, live) == {".a": 1}
    assert difference([[1], [2]], [[1], [3]]) == {"[1][0]": 3}


def test_a_patch_is_laid_over():
    base = {"a": {"b": 1, "c": 2}, "list": [{"name": "x", "v": 1}], "plain": [1]}
    patch = {"a": {"b": None, "d": 3}, "list": [{"name": "x", "w": 2}, {"name": "y"}], "plain": [2]}
    assert merged(base, patch) == {
        "a": {"c": 2, "d": 3}, "list": [{"name": "x", "v": 1, "w": 2}, {"name": "y"}], "plain": [2],
    }  # fmt: skip
