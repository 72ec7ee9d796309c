"""Which slot owns an address: fixed for ever, because data lies where this function once said."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from broker.core.ids import SLOTS, slot_of, slots_of


def test_addresses_lie_where_they_always_lay():
    """Numbers of the first release: who changes them loses every queue that is on a disk."""
    assert SLOTS == 256
    assert [slot_of(name) for name in ("orders", "orders.eu", "DLQ", "", "ö")] == [238, 79, 101, 0, 203]
    assert slots_of("orders", 4) == (238, 41, 147, 5)


@given(st.text(max_size=20), st.integers(1, 40), st.integers(0, 40))
def test_more_partitions_move_none(address, few, more):
    assert slots_of(address, few + more)[:few] == slots_of(address, few)


def test_partitions_are_all_different_and_no_more_than_there_are_slots():
    assert sorted(slots_of("orders", 9999)) == list(range(SLOTS))
    assert slots_of("orders", 1) == (slot_of("orders"),)
