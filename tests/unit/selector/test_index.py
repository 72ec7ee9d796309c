"""Many selectors at once find what each of them finds alone, whatever they are and whoever comes and goes."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from broker.core.message import DURABLE, NO_IDS, Run
from broker.selector import Index, Predicate, compile
from broker.selector.heads import head_of

NAMES = ["n", "m", "JMSType", "JMSXGroupID", '"a:b"', "priority", *[f"h{at}" for at in range(8)]]
NUMBERS = ["0", "5", "5.0", "-5", "7", "1e1", "1e400", "9223372036854775807", "9999999999999999999", "0.1", "1e-320"]
STRINGS = ["'5'", "'05'", "' 5'", "'a'", "'b:c'", "''", "'true'", "'\ufffd'", "'x\ny'", "'ä'"]
VALUES = ["5", "5.0", "05", "+5", " 5 ", "-5", "-0", "0", "6", "1e1", "10", "1e999", "-1e999", "0.1", "1e-320", "a", ""]
VALUES += ["9223372036854775807", "9999999999999999999", "b\\cc", "b:c", "true", "5\\c", "x\\ny", "ä", "\ufffd"]
MODES = ["", "convert_string_expressions:", "no_convert_string_expressions:"]

name = st.sampled_from(NAMES)
number = st.sampled_from(NUMBERS)
string = st.sampled_from(STRINGS)
literal = number | string | st.sampled_from(["TRUE", "FALSE"])


def shape(pattern: str, *parts: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    return st.tuples(*parts).map(lambda found: pattern.format(*found))


condition = st.recursive(
    st.one_of(
        shape("{} = {}", name, literal),
        shape("{} = {}", literal, name),
        shape("{} <> {}", name, literal),
        shape("{} {} {}", name, st.sampled_from(["<", "<=", ">", ">="]), number),
        shape("{} {} {}", number, st.sampled_from(["<", "<=", ">", ">="]), name),
        shape("{} {} BETWEEN {} AND {}", name, st.sampled_from(["", "NOT"]), number, number),
        shape("{} {} IN ({}, {})", name, st.sampled_from(["", "NOT"]), string, string),
        shape("{} IS {} NULL", name, st.sampled_from(["", "NOT"])),
        shape("{} LIKE '%5%'", name),
        shape("{} + 1 > {}", name, number),
        shape("{} = {}", name, name),
        shape("{}", name),
    ),
    lambda inner: st.one_of(
        shape("({} AND {})", inner, inner),
        shape("({} AND {} AND {})", inner, inner, inner),
        shape("({} OR {})", inner, inner),
        shape("NOT ({})", inner),
    ),
    max_leaves=6,
)
selector = st.tuples(st.sampled_from(MODES), condition).map("".join)
header = st.tuples(st.sampled_from(["n", "m", "type", "JMSXGroupID", "a\\cb", *[f"h{at}" for at in range(8)], "no"]),
                   st.sampled_from(VALUES)).map(lambda pair: f"{pair[0]}:{pair[1]}\n")  # fmt: skip
message = st.lists(header, max_size=8).map(lambda lines: f"{''.join(lines)}\nbody\0".encode())


def alone(predicates: list[Predicate], run: Run) -> set[str]:
    return {predicate.text for predicate in predicates if predicate(run, 0, "a")}


def together(index: Index, run: Run) -> set[str]:
    return {predicate.text for predicate in index.find(head_of(run, 0), run, 0, "a")}


@settings(max_examples=250)
@given(st.lists(selector, min_size=1, max_size=14, unique=True), st.lists(message, min_size=1, max_size=5), st.data())
def test_found_is_what_each_finds_alone(texts: list[str], records: list[bytes], data: st.DataObject) -> None:
    runs = [Run(NO_IDS, b"", [record], len(record), DURABLE, 5, 0, 7) for record in records]
    index, predicates = Index(), [compile(text) for text in texts]
    for predicate in predicates:
        index.add(predicate)
    for run in runs:
        assert together(index, run) == alone(predicates, run), run.records
    gone = data.draw(st.sets(st.sampled_from(predicates)))
    for predicate in gone:
        index.remove(predicate)
    left = [predicate for predicate in predicates if predicate not in gone]
    for run in runs:
        assert together(index, run) == alone(left, run), run.records
    for predicate in left:
        index.remove(predicate)
    assert not index, "nothing of those that went is left behind"


def test_the_first_of_repeated_headers_counts_however_many_are_looked_for() -> None:
    record = b"h0:a\nh0:b\n\n\0"
    run = Run(NO_IDS, b"", [record], len(record))
    index = Index()
    for at in range(20):
        index.add(compile(f"h{at} = 'a'"))
        index.add(compile(f"h{at} = 'b'"))
        index.add(compile(f"h{at} IS NULL"))
    assert together(index, run) == {"h0 = 'a'", *[f"h{at} IS NULL" for at in range(1, 20)]}


def work(texts: list[str], record: bytes) -> int:
    index = Index()
    for text in texts:
        index.add(compile(text))
    index.find(head_of(Run(NO_IDS, b"", [record], len(record)), 0), Run(NO_IDS, b"", [record], len(record)), 0, "a")
    return index.work


def test_what_does_not_match_costs_nothing() -> None:
    """Three hundred selectors, of which one matches, are one look at the message."""
    record = b"type:t7\nrank:7\n\n\0"
    for pattern in (
        "type = 't{0}'", "rank = {0}", "rank BETWEEN {0} AND {0}.5", "type IN ('t{0}', 'u{0}')", "h{0} = 'x'",
        "type = 't7' AND rank = {0}", "type = 't{0}' AND rank > 5", "rank > {0} AND rank < {0}.5", "JMSType = 't{0}'",
        "type = 't{0}' AND note LIKE '%x%'", "h{0} IS NOT NULL", "region IS NULL AND type = 't{0}'",
    ):  # fmt: skip
        assert work([pattern.format(n) for n in range(300)], record) < 3000, pattern


def test_a_selector_is_a_bounded_number_of_places() -> None:
    values = ", ".join([f"'{n}'" for n in range(300)])
    index = Index()
    predicate = compile(" AND ".join([f"h{n} IN ({values})" for n in range(4)]))
    index.add(predicate)
    assert sum(len(table.values) for table in index._root.tables.values()) <= 300
    record = b"h0:1\nh1:2\nh2:3\nh3:4\n\n\0"
    assert together(index, Run(NO_IDS, b"", [record], len(record))) == {predicate.text}
