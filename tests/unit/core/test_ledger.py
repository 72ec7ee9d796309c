"""What a cumulative ACK covers: all that was delivered before it, whatever the ids."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from broker.core.ledger import covered


def test_in_the_order_of_delivery_not_of_ids():
    ledger = dict.fromkeys([3, 5, 4])
    assert [covered(ledger, i) for i in (3, 5, 4)] == [[3], [3, 5], [3, 5, 4]]


@given(st.lists(st.integers(1, 50), min_size=1, unique=True), st.data())
def test_one_after_the_other_they_cover_each_message_once(ids, data):
    left, seen = dict.fromkeys(ids), []
    while left:
        last = data.draw(st.sampled_from(list(left)))
        found = covered(left, last)
        assert found[-1] == last
        for i in found:
            del left[i]
        seen += found
    assert seen == ids
