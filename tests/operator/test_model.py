"""A spec as values: what stands somewhere else is a table or nothing."""

from __future__ import annotations

from broker_operator.spec.model import json_table


def test_what_somebody_wrote_into_etcd_is_a_table_or_nothing():
    assert json_table(b'{"a": 1}') == {"a": 1}
    assert json_table(b"[]") == {} == json_table(None) == json_table(b"x")
