"""Values side by side: unknown stays unknown, no value raises, and neither LIKE nor + costs more than its bound."""

from __future__ import annotations

import math
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker.selector import compile
from broker.selector.values import (
    MAX_DIGITS,
    MAX_JOINED,
    ORDER,
    SHORT,
    Mode,
    beside,
    compute,
    equal,
    like_weight,
    liker,
    number,
    operand,
    ordered,
    whole,
)

from .messages import CONVERT, STRICT, holds, message


@pytest.mark.parametrize(
    ("text", "strict", "convert", "auto"),
    [
        ("half > 18", False, False, True),  # "21.5" is no int
        ("half > 18.0", False, True, True),
        ("rank > 18", False, True, True),
        ("rank + 2 = 125", False, False, True),  # a text on the left of + is joined
        ("2 + rank = 125", False, True, True),
        ("rank <> 5", True, True, True),
        ("name <> 5", True, True, True),
        ("yes = TRUE", False, True, True),
        ("name = FALSE", False, True, False),
        ("yes", False, True, True),
        ("blank = 21", False, False, True),
        ("rank = '123'", True, True, True),
        ("AMQPriority = '7'", False, True, True),
    ],
)
def test_what_a_text_is_worth_beside_a_number(text, strict, convert, auto):
    assert [holds(STRICT + text), holds(CONVERT + text), holds(text)] == [strict, convert, auto]


@pytest.mark.parametrize("prefix", ["", STRICT, CONVERT])
def test_no_sum_of_texts_is_slow(prefix):
    long = message(a="a" * 9000)
    text = prefix + "(" + "+".join(["''"] + ["a"] * 400)
    started = time.perf_counter()
    assert holds(f"{text}) IS NULL", long), "longer than any header: unknown, and given up on at once"
    assert time.perf_counter() - started < 1
    assert holds(f"{prefix}{'+'.join(['a'] * 7)} LIKE '%a'", long)


def test_no_pattern_of_like_is_slow():
    start = time.process_time()
    run = message(a="a" * 9000)
    assert not holds(f"a LIKE '{'%a' * 500}%b'", run)
    assert not holds(f"a LIKE '{'%_a' * 500}_b%'", run)
    assert time.process_time() - start < 2


def naive(pattern: str, text: str) -> bool:
    if not pattern:
        return not text
    if pattern[0] == "%":
        return any(naive(pattern[1:], text[n:]) for n in range(len(text) + 1))
    return bool(text) and pattern[0] in ("_", text[0]) and naive(pattern[1:], text[1:])


@given(st.text("ab%_", max_size=7), st.text("ab\n", max_size=8))
def test_like_is_what_the_definition_says(pattern, text):
    assert liker(pattern, "")(text) is naive(pattern, text)


@pytest.mark.parametrize("close", ["a" * 400, "ab" * 200, "a_" * 200, "_" * 400, "ab_" * 130 + "b"])
def test_long_pieces_are_found_where_they_stand(close):
    """Pieces too long to be tried place by place: in the middle, at ends, at seams of windows, nowhere."""
    spelt = close.replace("_", "x")
    like = liker(f"%{close}_q%", "")
    for before in (0, 1, 401, 2815, 2816, 2817, 9000):
        for behind in (0, 1, 5000):
            text = "a" * before + spelt + "\nq" + "b" * behind
            assert like(text)
            assert not like(text.replace("q", "r"))
    assert liker(f"%{close}_q%{close}_q%", "")("a" * 3000 + (spelt + "zq") * 2)
    assert not liker(f"%{close}_q%{close}_q%", "")("a" * 3000 + (spelt + "zq") + "q" * 401)


@given(
    st.text("ab_", min_size=33, max_size=40), st.text("ab\n", max_size=30), st.text("ab\n", max_size=30), st.booleans()
)
def test_long_pieces_are_what_the_definition_says(piece, before, behind, hit):
    text = before + (piece.replace("_", "a") if hit else "ab" * 15) + behind
    assert liker(f"%{piece}%", "")(text) is naive(f"%{piece}%", text)


def test_like_costs_what_text_and_pattern_are_long_not_their_product():
    """4.8 KB beside a header of 9.9 KB held the loop for 75 ms: 24 million steps."""
    run = message(h="a" * 9_900)
    predicate = compile(f"h LIKE '%{'a_' * 2_400}b%'")
    predicate(run, 0, "q")
    start = time.process_time()
    for _ in range(10):
        assert not predicate(run, 0, "q")
    assert time.process_time() - start < 0.4  # 0.02 on the machine it was written on


ODD = [
    None,
    True,
    False,
    0,
    -1,
    1 << 62,
    0.0,
    -0.0,
    0.5,
    math.inf,
    -math.inf,
    math.nan,
    "",
    "5",
    " 5 ",
    "true",
    "1e999",
    "a",
]


@pytest.mark.parametrize("mode", list(Mode))
def test_every_function_is_total_and_what_is_unknown_stays_so(mode):
    for left in ODD:
        operand(left, mode)
        for right in ODD:
            answers = [equal(left, right, mode), *[ordered(operator)(left, right, mode) for operator in ORDER]]
            computed = [compute(operator, left, right, mode) for operator in "+-*/%"]
            if left is None or right is None:
                assert {*answers, *computed} == {None}
            else:
                assert {*answers} <= {True, False}


@pytest.mark.parametrize(
    ("text", "as_int", "as_number"),
    [
        ("5", 5, 5), ("+5", 5, 5), ("-007", -7, -7), ("9" * 18, 10**18 - 1, 10**18 - 1), ("9" * 19, None, 1e19),
        ("1.", None, 1.0), (".5", None, 0.5), ("1e400", None, math.inf), ("1e4000", None, None), (".", None, None),
        ("", None, None), ("1_000", None, None), ("0x1F", None, None), ("NaN", None, None), ("inf", None, None),
        ("\u0665", None, None), ("5\n", None, None), ("1" * MAX_DIGITS, None, float("1" * MAX_DIGITS)),
        ("1" * (MAX_DIGITS + 1), None, None),
    ],
)  # fmt: skip
def test_a_text_is_a_number_only_where_it_is_written_as_one(text, as_int, as_number):
    assert whole(text) == as_int
    found = number(text)
    assert found == as_number and type(found) is type(as_number)


def test_what_a_text_is_worth_depends_on_the_mode_and_on_the_other_side():
    assert [beside(" 5 ", 1, mode) for mode in Mode] == [" 5 ", " 5 ", 5]
    assert [beside("5.5", 1, mode) for mode in Mode] == ["5.5", "5.5", 5.5]
    assert [beside("5.5", 1.0, mode) for mode in Mode] == ["5.5", 5.5, 5.5]
    assert [beside("TRUE", True, mode) for mode in Mode] == ["TRUE", True, True]
    assert [beside("no", True, mode) for mode in Mode] == ["no", False, "no"]
    assert [beside(" false ", True, mode) for mode in Mode] == [" false ", False, False]


@pytest.mark.parametrize("mode", list(Mode))
def test_values_of_different_types_differ_and_have_no_order(mode):
    for left, right in ((True, 1), (1, True), ("a", 1), (1.0, "a"), (False, 0.0), ("x", False)):
        assert not (equal(left, right, mode) and mode is not Mode.CONVERT)
        assert [ordered(operator)(left, right, mode) for operator in ORDER] == [False] * 4
    assert equal(1, 1.0, mode) and ordered("<")("a", "b", mode) and not ordered("<")("b", "a", mode)


def test_division_and_overflow_are_those_of_doubles():
    auto = Mode.AUTO
    assert compute("/", 1, 0, auto) == math.inf and compute("/", -1, 0, auto) == -math.inf
    assert compute("/", 1, -0.0, auto) == -math.inf
    assert math.isnan(compute("/", 0, 0, auto)) and math.isnan(compute("%", 1, 0, auto))
    assert math.isnan(compute("%", math.inf, 2, auto)) and compute("/", math.inf, -2, auto) == -math.inf
    assert compute("%", -7, 4, auto) == -3.0
    most = (1 << 63) - 1
    assert type(compute("+", most, 0, auto)) is int and type(compute("+", most, 1, auto)) is float
    assert type(compute("-", -most, 1, auto)) is int and type(compute("-", -most, 2, auto)) is float
    assert type(compute("*", 1 << 32, 1 << 32, auto)) is float


def test_texts_are_joined_up_to_a_bound():
    assert compute("+", "a", True, Mode.STRICT) == "atrue" and compute("+", "a", 1.5, Mode.AUTO) == "a1.5"
    assert compute("+", "1", "2", Mode.AUTO) == 3 and compute("+", "1", "2", Mode.CONVERT) == "12"
    assert compute("+", "1", True, Mode.AUTO) == "1true"
    assert len(compute("+", "a" * (MAX_JOINED - 1), "b", Mode.AUTO)) == MAX_JOINED
    assert compute("+", "a" * MAX_JOINED, "b", Mode.AUTO) is None


def test_an_escape_takes_the_meaning_of_three_characters_only():
    like = liker("a!%!_!!!x%", "!")
    assert like("a%_!!x") and like("a%_!!xyz") and not like("ab_!!x") and not like("a%b!!x") and not like("a%_!x")
    assert liker("a!", "!")("a!"), "the last character stands for itself"


def test_what_like_weighs_grows_with_what_is_tried_at_each_place():
    plain, one, short, long = (like_weight(p, "") for p in ("%a%", "%a_%", f"%{'_' * SHORT}%", f"%{'_' * 3000}%"))
    assert plain < one == short < long
    assert like_weight("%a!_%", "!") == one, "an escape is not looked at: too much is said, never too little"
