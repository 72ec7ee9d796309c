"""No name that people give reaches a key that is not its own, and each comes back as it was given."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker.cluster.keys import Keys, escape, last_part, slot_of_key

NAMES = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)


@given(NAMES)
def test_a_name_is_one_part_of_a_key_and_comes_back(name):
    part = escape(name)
    assert "/" not in part and part.isascii() and part.isprintable()
    keys = Keys("/stampede")
    for of in (keys.address, keys.user, keys.permission, keys.subscription, keys.disk):
        assert last_part(of(name)) == name


@given(NAMES, NAMES)
def test_two_names_are_two_keys(one, other):
    keys = Keys("/stampede/")
    assert (keys.queue(one) == keys.queue(other)) is (one == other)
    assert keys.suspicion_of(keys.suspicion(one, other)) == (one, other)


def test_what_is_whose_stands_beside_the_configuration():
    keys = Keys("/stampede")
    assert keys.marker(keys.address("orders")).startswith(keys.managed)
    assert not keys.marker(keys.address("orders")).startswith(keys.config)
    assert Keys("/a/").slots == Keys("/a").slots


@pytest.mark.parametrize("name", ["", "x", "1_0", "+1", "٣", "²", "1 "])
def test_a_key_that_is_no_slots_says_so(name):
    keys = Keys("/stampede")
    assert slot_of_key(keys.slot(17)) == 17
    with pytest.raises(ValueError, match="is not the key of a slot; delete it"):
        slot_of_key(keys.slots + escape(name))
