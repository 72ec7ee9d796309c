"""Names of objects: those of this broker, and none of another's."""

from __future__ import annotations

from broker_operator.spec.names import ordinal_of


def test_ordinals_are_those_of_this_broker():
    assert ordinal_of("b", "b-owner-12") == 12
    assert ordinal_of("b", "c-owner-1") is None and ordinal_of("b", "b-owner-x") is None
