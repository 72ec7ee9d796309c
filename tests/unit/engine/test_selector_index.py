"""Many selectors at once answer as each of them does alone."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from broker.core.message import NO_IDS, Run
from broker.engine.consumers.selector_index import SelectorIndex
from broker.selector import Predicate, compile

LITERALS = ["5", "5.0", "-5", "0", "1e1", "9999999999999999999", "'5'", "'05'", "' 5'", "'a'", "TRUE"]
VALUES = [
    "5",
    "5.0",
    "05",
    "+5",
    " 5 ",
    "-5",
    "-0",
    "1e1",
    "10",
    "1e999",
    "9999999999999999999",
    "a",
    "",
    "true",
    "5\\c",
]

conditions = st.builds(
    lambda prefix, shape, one, two: prefix + shape.format(one, two),
    st.sampled_from(["", "convert_string_expressions:"]),
    st.sampled_from(
        ["n = {0}", "{0} = n", "n = {0} OR n = {1}", "n = {0} AND m = {1}", "n = {0} OR m = {1}", "n <> {0}", "m = {0}",
         "NOT n = {0}", "n IN ('5', 'a') OR n = {0}"]
    ),
    st.sampled_from(LITERALS),
    st.sampled_from(LITERALS),
)  # fmt: skip


def sieve(selectors: list[tuple[int, Predicate]]) -> SelectorIndex:
    made = SelectorIndex("a")
    for bit, selector in selectors:
        made.add(bit, selector)
    return made


@given(st.lists(conditions, min_size=1, max_size=8), st.sampled_from(VALUES), st.none() | st.sampled_from(VALUES))
def test_the_sieve_finds_what_each_selector_finds(texts: list[str], n: str, m: str | None) -> None:
    head = f"n:{n}\n" + ("" if m is None else f"m:{m}\n")
    record = f"{head}\nbody\0".encode()
    run = Run(NO_IDS, b"", [record], len(record))
    selectors = [(1 << at, compile(text)) for at, text in enumerate(texts)]
    expected = sum(bit for bit, selector in selectors if selector(run, 0, "q"))
    found, _ = sieve(selectors).sift(run)
    assert found == expected, (texts, head)


def test_numbers_are_found_by_their_value() -> None:
    """A hundred selectors for a number cost one look at the header: none of them is asked."""
    made = sieve([(1 << n, compile(f"rank = {n}")) for n in range(100)])
    record = b"rank: 07.0\n\n\0"
    assert made.sift(Run(NO_IDS, b"", [record], len(record)))[0] == 1 << 7
    assert made.index.work < 1000


def test_bits_come_and_go() -> None:
    one, other = compile("a = 'x'"), compile("a IS NOT NULL")
    made = sieve([(1, one), (2, one), (4, other)])
    run = Run(NO_IDS, b"", [b"a:x\n\n\0"], 6)
    assert made.sift(run)[0] == made.asked == 7
    made.remove(1, one)
    assert made.sift(run)[0] == made.asked == 6
    made.remove(2, one)
    made.remove(4, other)
    assert made.sift(run)[0] == made.asked == 0
