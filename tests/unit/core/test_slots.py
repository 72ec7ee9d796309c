"""Who leads a slot, as it stands in etcd: read by older and newer releases."""

from __future__ import annotations

from dataclasses import replace

import msgspec
import pytest

from broker.core.slots import SlotRecord

RECORD = SlotRecord(7, 3, "owner-0", ("owner-0", "owner-1"), ("owner-0",), "owner-1", 42, "it throws")


def test_it_comes_back_as_it_was_written():
    assert SlotRecord.decode(7, RECORD.encode(), 42) == RECORD
    plain = replace(RECORD, shelved="", target="")
    assert SlotRecord.decode(7, plain.encode(), 42) == plain
    assert b"shelved" not in plain.encode(), "what is hardly ever there is unknown to older releases"


def test_what_older_releases_left_out_and_newer_ones_add():
    data = {"epoch": 1, "leader": "", "replicas": ["a"], "isr": [], "colour": "red"}
    found = SlotRecord.decode(7, msgspec.json.encode(data), 1)
    assert (found.target, found.shelved, found.leader) == ("", "", "")
    assert found.with_isr(["a"]).isr == ("a",) and found.isr == ()


@pytest.mark.parametrize(
    "data", [b"", b"[]", b"{}", b'{"epoch": "x", "leader": "", "replicas": [], "isr": []}', b"\xff", b"null"]
)
def test_what_is_none_is_refused_with_its_slot(data):
    with pytest.raises(ValueError, match="slot 7"):
        SlotRecord.decode(7, data, 1)
