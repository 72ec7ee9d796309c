"""A move that is not in the table raises, and the message says which."""

from __future__ import annotations

from enum import Enum

import pytest

from broker.core.states import IllegalMove, StateTable


class Door(Enum):
    SHUT = 1
    OPEN = 2
    GONE = 3


TABLE = StateTable(
    "a door", Door, {Door.SHUT: "built"}, {Door.SHUT: {Door.OPEN: "pushed"}, Door.OPEN: {Door.GONE: "burnt"}}
)


def test_what_the_table_has_is_done():
    assert TABLE.begin(Door.SHUT) is Door.SHUT
    assert TABLE.to(Door.SHUT, Door.OPEN) is Door.OPEN


@pytest.mark.parametrize(("was", "now"), [(Door.SHUT, Door.GONE), (Door.SHUT, Door.SHUT), (Door.GONE, Door.OPEN)])
def test_what_it_has_not_raises(was, now):
    with pytest.raises(IllegalMove, match=f"Door: {now.name} does not follow {was.name}"):
        TABLE.to(was, now)
    with pytest.raises(IllegalMove, match="nothing begins as OPEN"):
        TABLE.begin(Door.OPEN)
