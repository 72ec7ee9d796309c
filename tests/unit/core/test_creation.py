"""Whose what a command makes is."""

from __future__ import annotations

from broker.core.creation import maker_of


def test_a_name_is_whose_it_is_and_yes_and_no_are_nobodys():
    assert maker_of("ada") == "ada" and maker_of(True) == maker_of(False) == ""
