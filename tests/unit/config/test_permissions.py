"""One entry of edge.permissions: groups by commas, and what cannot be meant."""

from __future__ import annotations

import pytest

from broker.config.permissions import OPERATIONS, check_permission, groups_of
from broker.core.errors import ConfigError


def test_groups_are_told_apart_by_commas_and_blanks_do_not_count():
    assert groups_of(" a , b,a") == {"a", "b"}
    assert groups_of("") == groups_of("  ") == frozenset()
    assert groups_of("a,") == {"a", ""}


@pytest.mark.parametrize("operation", OPERATIONS)
def test_an_empty_name_is_a_mistake_in_whatever_operation(operation):
    with pytest.raises(ConfigError, match=f"^here: {operation} has an empty name"):
        check_permission("a", {operation: "x,"}, "here")
    check_permission("a", {operation: ""}, "here")


@pytest.mark.parametrize("match", ["::q", "a::", "::"])
def test_a_queue_is_named_with_its_address(match):
    with pytest.raises(ConfigError, match="an address and a queue"):
        check_permission(match, {}, "here")
    check_permission("a::q", {}, "here")
    check_permission("a.#", {}, "here")
