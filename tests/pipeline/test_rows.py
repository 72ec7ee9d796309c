"""Rows as columns: what is not there is null, never a made-up value."""

from __future__ import annotations

import pytest

pytest.importorskip("pyarrow")

from broker_pipeline.datasource.queue_consumer import Taken
from broker_pipeline.datasource.rows import SCHEMA, TEXT, VIEW, arrow_schema, taken_table


@pytest.mark.parametrize(("text", "view"), [(False, False), (True, False), (True, True)])
def test_both_schemas_name_the_same_columns_in_the_same_order(text, view):
    said = SCHEMA + (TEXT if text else "") + (VIEW if view else "")
    assert arrow_schema(text, view).names == [column.split()[0] for column in said.split(", ")]


def row(headers: dict[str, str], body: bytes | None = b"x") -> dict[str, object]:
    (found,) = taken_table([Taken("7-3", headers, body, 1, None, 2, "a")], True).to_pylist()
    return found


def test_a_header_that_is_not_there_makes_no_value():
    found = row({})
    assert [found[name] for name in ("ts", "expires", "group_id", "body_ref", "offset", "queue", "event")] == [None] * 7
    assert (found["slot"], found["message_id"], found["priority"], found["attempt"]) == (7, "7-3", 4, 2)
    found = row({"expires": "0", "ingress-timestamp": "1790000000123", "priority": "9", "JMSXGroupID": "g"})
    assert found["expires"] is None and found["ts"].microsecond == 123000
    assert (found["priority"], found["group_id"]) == (9, "g")
    assert row({"priority": "high", "expires": "soon"})["priority"] == 4


def test_a_body_is_a_text_if_it_is_one():
    assert [row({}, body)["text"] for body in (b"a\xc3\xbc", b"\xff", None)] == ["aü", None, None]


def test_what_only_looks_like_a_number_stops_no_stream():
    found = row({"priority": "²", "expires": "9" * 18, "ingress-timestamp": "٣"})
    assert (found["priority"], found["expires"], found["ts"]) == (4, None, None)
