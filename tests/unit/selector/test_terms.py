"""Terms: each must hold wherever the selector is true, they decide it alone where it is called exact, and are few."""

from __future__ import annotations

import pytest

from broker.selector.heads import key
from broker.selector.parser import parse
from broker.selector.terms import DEEP, There, Values, Within, hopeless, terms_of
from broker.selector.values import Mode

N, M = key("n"), key("m")


def of(text: str, mode: Mode = Mode.AUTO) -> tuple[tuple[object, ...], bool]:
    return terms_of(parse(text).node, mode)


def one(*values: bytes | str | int | float) -> Values:
    return Values(N, frozenset(values))


@pytest.mark.parametrize(
    ("text", "terms", "exact"),
    [
        ("n = 'a'", [one(b"a")], True), ("'a' = n", [one(b"a")], True), ("n = 5", [one(5)], True),
        ("n = 'b:c'", [one("b:c")], True), ("n IN ('a', 'b:c')", [one(b"a", "b:c")], True),
        ("n IN ('\ufffd')", [one("\ufffd")], True), ("n = 'a' OR n = 5", [one(b"a", 5)], True),
        ("n > 5", [Within(N, 5, True, None, False)], True), ("5 > n", [Within(N, None, False, 5, True)], True),
        ("n >= 5", [Within(N, 5, False, None, False)], True), ("5 <= n", [Within(N, 5, False, None, False)], True),
        ("n BETWEEN 1 AND 9", [Within(N, 1, False, 9, False)], True),
        ("n > 1 AND n > 2 AND n < 9 AND n <= 9", [Within(N, 2, True, 9, True)], True),
        ("n IS NULL", [There(N, False)], True), ("n IS NOT NULL", [There(N, True)], True),
        ("n = 'a' AND m + 1 > 2", [one(b"a")], False),
        # In these nothing of a single header has to hold.
        ("n = 'a' OR m = 'b'", [], False), ("n = 'a' OR n > 5", [], False), ("n > 5 OR n = 'a'", [], False),
        ("n <> 'a'", [], False), ("NOT n = 'a'", [], False), ("n NOT IN ('a')", [], False), ("n = m", [], False),
        ("n = TRUE", [], False), ("n LIKE 'a%'", [], False), ("priority = 5", [], False),
        ("priority IS NULL", [], False), ("priority IN ('5')", [], False), ("n > 1e301", [], False),
        ("n < 1e999", [], False), ("TRUE", [], False),
    ],
)  # fmt: skip
def test_what_must_hold_of_single_headers(text, terms, exact):
    assert of(text) == (tuple(terms), exact)


@pytest.mark.parametrize("mode", [Mode.STRICT, Mode.CONVERT])
def test_where_texts_are_not_the_numbers_that_they_look_like_numbers_decide_nothing_alone(mode):
    for text in ("n = 5", "n > 5", "n = 'a' OR n = 5"):
        terms, exact = of(text, mode)
        assert terms == of(text)[0] and not exact
    assert of("n = 'a'", mode)[1] and of("n IS NULL", mode)[1]


def test_terms_stand_in_one_order_whatever_the_text_says():
    parts = ["n = 'a'", "m > 5", "k IS NULL", "j IS NOT NULL"]
    wanted, _ = of(" AND ".join(parts))
    assert of(" AND ".join(reversed(parts)))[0] == wanted
    assert [type(term) for term in wanted] == [Values, Within, There, There]
    assert [term.wanted for term in wanted[2:]] == [False, True]


def test_a_selector_has_few_terms_and_one_of_many_values():
    terms, exact = of(" AND ".join([f"h{n} = 'x'" for n in range(DEEP)]))
    assert len(terms) == DEEP and exact
    terms, exact = of(" AND ".join([f"h{n} = 'x'" for n in range(DEEP + 1)]))
    assert len(terms) == DEEP and not exact
    terms, exact = of("h1 IN ('a', 'b') AND h2 IN ('a', 'b') AND h3 = 'x'")
    assert [term.name for term in terms] == [key("h1"), key("h3")] and not exact


@pytest.mark.parametrize(
    ("text", "never"),
    [
        ("n > 5 AND n < 5", True), ("n > 5 AND n <= 5", True), ("n >= 5 AND n < 5", True), ("n > 6 AND n < 5", True),
        ("n >= 5 AND n <= 5", False), ("n > 5", False), ("n < 5", False), ("n > 5 AND m < 5", False),
    ],
)  # fmt: skip
def test_bounds_that_leave_no_number_are_hopeless(text, never):
    assert hopeless(of(text)[0]) is never


def test_of_two_bounds_the_narrower_counts_whichever_comes_first():
    over, at = Within(N, 5, True, None, False), Within(N, 5, False, None, False)
    under, to = Within(N, None, False, 9, True), Within(N, None, False, 9, False)
    assert over.and_also(at) == at.and_also(over) == over
    assert under.and_also(to) == to.and_also(under) == under
    assert over.and_also(to) == to.and_also(over) == Within(N, 5, True, 9, False)
