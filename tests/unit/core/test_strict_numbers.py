"""What is a number, and what int() alone would take for one."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker.core.strict_numbers import DIGITS, integer, natural, naturals

NONE = ["", " ", "1_0", "+1", " 1", "1 ", "1\n", "٣", "²", "①", "1.0", "1e3", "0x1", "-", "--1", "-+1", "\0", "1\0"]


@pytest.mark.parametrize("text", [*NONE, "-1", "9" * (DIGITS + 1), "9" * 5000])
def test_what_is_no_number(text):
    assert natural(text) is None
    assert natural(text.encode()) is None
    assert naturals([b"1", text.encode()]) is None


@given(st.integers(0, 10**DIGITS - 1))
def test_what_is_one(number):
    for text in (str(number), str(number).zfill(DIGITS)):
        assert natural(text) == natural(text.encode()) == integer(text) == number
        assert naturals([text.encode(), b"0"]) == [number, 0]
    assert integer(f"-{number}") == -number


@given(st.text(max_size=4))
def test_nothing_else_is(text):
    assert (natural(text) is not None) is (text != "" and set(text) <= set("0123456789"))


@pytest.mark.parametrize("text", NONE)
def test_a_minus_makes_no_number_of_what_is_none(text):
    assert integer(text) is None
    assert integer(f"-{text}") is None or text == "-1"


def test_as_many_digits_as_the_reader_has_room_for():
    assert (natural("255", 3), natural("0255", 3), integer("-255", 3)) == (255, None, -255)
