"""Patterns of other people's files: what they cost is known before they are tried, whatever they say."""

from __future__ import annotations

import time

import pytest

from broker.config.foreign.patterns import BUDGET, LONGEST, NAME, TooMuchError, Trial

NAMES = ["orders.eu", "orders", "bills.eu", "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaab", ""]


@pytest.mark.parametrize(
    ("pattern", "found"),
    [
        (r"^(orders|bills)\.", {"orders.eu", "bills.eu"}),
        ("", set(NAMES)),
        ("^$", {""}),
        (r"[^a-n]\.eu$", {"orders.eu", "bills.eu"}),
        (r".*r.*e.*s", {"orders.eu", "orders"}),
        (r"(?:or|bi)\w{2,5}\.", {"orders.eu", "bills.eu"}),
        ("a+b", {NAMES[3]}),
    ],
)
def test_what_is_bounded_is_tried_as_python_does(pattern, found):
    assert Trial().pattern(pattern, NAMES) == found


@pytest.mark.parametrize("pattern", ["(a+)+$", "(a|b)*c$", "(a|aa)+$", "((a*)*)*x", "(a?){30}a{30}", r"(\w+\s?)*:"])
def test_what_could_take_for_ever_is_not_tried_at_all(pattern):
    begun = time.monotonic()
    with pytest.raises(TooMuchError):
        Trial().pattern(pattern, [NAMES[3]])
    assert time.monotonic() - begun < 1


@pytest.mark.parametrize("pattern", ["(", "a{", r"(a)\1", "(?P<n>a)(?P=n)", "(?i:a)", "a" * (LONGEST + 1)])
def test_what_is_not_understood_is_said_or_costs_nothing(pattern):
    try:
        assert Trial().pattern(pattern, ["x"]) == set()
    except TooMuchError as error:
        assert str(error)


def test_all_patterns_of_a_file_have_one_budget():
    trial = Trial(20_000)
    assert trial.pattern("^orders", NAMES) == {"orders.eu", "orders"}
    with pytest.raises(TooMuchError, match="minutes"):
        for _ in range(20):
            trial.pattern("^orders", NAMES)
    assert Trial(0).pattern("a", []) == set()
    with pytest.raises(TooMuchError):
        Trial(0).pattern("a", ["a"])


def test_a_pattern_at_its_longest_is_read_and_a_name_above_it_is_none():
    assert Trial().pattern("a" * LONGEST, ["a" * LONGEST]) == {"a" * LONGEST}
    with pytest.raises(TooMuchError, match="longer than"):
        Trial().pattern("a" * (LONGEST + 1), [])
    assert Trial().pattern("a", ["a" * NAME, "a" * (NAME + 1)]) == {"a" * NAME}


@pytest.mark.parametrize(
    ("pattern", "name"),
    [
        ("^" + "a?" * 22 + "b", "a" * 30),  # each `?` doubles: nothing is shared
        (".*.*" + "[ab]" * 45 + "b", "a" * NAME),  # each way looks at many characters
        (r".*.*.*[xy]", "a" * 120),
        ("^" + "(?:a|ab)?" * 10 + "c", "ab" * 15),
    ],
)
def test_what_is_counted_is_no_less_than_what_it_takes(pattern, name):
    trial = Trial()
    begun = time.thread_time_ns()
    assert trial.pattern(pattern, [name]) == set()
    # Of this thread alone, and a tenth: on another machine, and beside others, it may take longer.
    assert BUDGET - trial._left >= (time.thread_time_ns() - begun) / 10


@pytest.mark.parametrize("pattern", ["^" + "a?" * 32 + "b", ".*.*.*" + "[ab]" * 45 + "b", "[[:alpha:]]+"])
def test_what_takes_minutes_or_means_something_else_here_is_not_tried(pattern):
    with pytest.raises(TooMuchError):
        Trial().pattern(pattern, ["a" * NAME])


def test_usual_patterns_are_tried_on_many_names():
    names = [f"orders.{n:05}.one.of.many.two" for n in range(10_000)]
    trial = Trial()
    for pattern in [".*one.*two", r"^(?!amq\.).*", r"^orders\.[^.]+\.(one|two)", r".*\.dlq$", "^.*$"]:
        assert trial.pattern(pattern, names) in (set(), set(names))
