"""What may stand where a condition is wanted: conditions, names, and the three constants of them."""

from __future__ import annotations

from typing import get_args

import pytest

from broker.selector.syntax import CONDITIONS, Literal, Name, Negative, Node, Sum, is_condition


@pytest.mark.parametrize(
    ("value", "may"), [(None, True), (True, True), (False, True), (1, False), (0.0, False), ("", False)]
)
def test_of_constants_only_those_that_a_condition_can_be(value, may):
    assert is_condition(Literal(value)) is may


def test_values_are_none_and_every_other_kind_of_node_is_one():
    assert not is_condition(Negative(Name("a"))) and not is_condition(Sum(Name("a"), (("+", Literal(1)),)))
    assert is_condition(Name("a")), "a header may be 'true'"
    assert {*get_args(Node)} - {*CONDITIONS} == {Literal, Negative, Sum}


def test_trees_that_mean_the_same_are_equal_and_stay_as_they_are():
    assert Sum(Name("a"), (("+", Literal(1)),)) == Sum(Name("a"), (("+", Literal(1)),))
    with pytest.raises(AttributeError):
        Name("a").name = "b"
