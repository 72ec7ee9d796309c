"""What selectors mean, whole: grammar, three values and coercion, as somebody sees it who writes one."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker.core.errors import RefusedError
from broker.selector import compile

from .messages import CONVERT, PERSON, STRICT, holds, message

TRUE = [
    "name = 'James'", "rank > 100", "rank >= 123", "name = 'James' and rank < 200", "name = 'James' or rank > 200",
    "name = 'Foo' or rank < 200", "rank + 2 = 125", "(rank + 2) = 125", "125 = (rank + 2)", "rank + version = 125",
    "name + '!' = 'James!'", "rank - 2 = 121", "rank - version = 121", "rank * 2 = 246", "rank * version = 246",
    "rank / version = 61.5", "version / 2 = 1", "rank % 2 = 1", "rank between 100 and 150",
    "rank not between 1 and 2", "name in ('James', 'Bob')", "name not in ('Bob')", "dummy is null", "name is not null",
    "empty is not null", "empty = ''", "quote = '''In God We Trust'''", "quote LIKE '''In G_d We Trust'''",
    "quote NOT LIKE '''In Gd_ We Trust'''", "foo LIKE '%oo'", "foo NOT LIKE '%ar'", "foo LIKE '!_%' ESCAPE '!'",
    "quote NOT LIKE '!_%' ESCAPE '!'", "foo LIKE '%_%' ESCAPE '%'", "under LIKE '_D7xlJIQn$_' ESCAPE '$'",
    "under LIKE '_D7xlJIQn__' ESCAPE '_'", "under LIKE '%D7xlJIQn%_' ESCAPE '%'", "under LIKE '%D7xlJIQn%' ESCAPE '%'",
    r"under LIKE '_D7xlJIQn\_' ESCAPE '\'", "punctuation LIKE '!#$&()*+,-./;<=>?@[]^`{|}~'", "-1.1 < 1.0",
    "1.0E1 < 1.1E1", "-5E8 < 2E2", ".1E1 < .5E1", "1. < 1.1", "4E-10 < 5E-10", "0x1F = 31", "017 = 15", "0 = 00",
    "5L = 5", "NOT name = 'Bob'", "NOT NOT name = 'James'", "NOT (name = 'Bob' OR rank = 1) AND rank = 123",
    "name = 'James' -- a comment\n AND /* another\n one */ rank = 123", "\"foo-bar\" = 'zzz'",
    "hyphenated_props:foo-bar = 'zzz'", "JMSType = 'order'", "type = 'order'", "\"correlation-id\" = 'c1'",
    "JMSCorrelationID = 'c1'", "JMSReplyTo = '/queue/r'", "AMQGroupID = 'g1'", "AMQPriority = 7", "priority > 6",
    "AMQDurable = 'NON_DURABLE'", "AMQExpiration = 99000", "AMQTimestamp < 55001", "AMQSize > 100",
    "AMQAddress = 'shop'", "AMQUserID IS NULL", "half > 18", "yes", "yes = TRUE", "NOT no", "TRUE", "1 = 1",
    r"odd = 'a:b\n" + "\nz'", "blank = 21", "rank <> 1", "(rank > 1) = TRUE", "name > 'Ja' + 'a'", "+rank = 123",
    "-rank = -123", "rank = +123", "9223372036854775808 > 9223372036854775807", "rank - - 1 = 124",
]  # fmt: skip


FALSE = [
    "name = 'Foo'", "rank >= 124", "unknown = 'Foo' and anotherUnknown < 200", "unknown = 'Foo' or other < 200",
    "rank + 2 < 124", "rank * 2 < 130", "rank / 3 > 100.0", "name in ('Bob')", "dummy is not null", "name is null",
    "unknown not in ('a')", "unknown NOT LIKE 'a'", "unknown <> 'x'", "'x' <> unknown", "NOT unknown = 'x'",
    "under LIKE '%D7xlJIQn%%' ESCAPE '%'", "name = 5", "NULL", "FALSE", "no", "name", "unknown", "foo-bar = 'zzz'",
    "name + 1 > 3", "rank * name = 1", "rank / 0 = 1", "0 / 0 = 0 / 0", "name LIKE 'J'", "name LIKE 'James_'",
    "3 LIKE '3'", "name > 5", "rank > 'z' + 'z'", "half = 21", "correlation = 'c1'", "JMSMessageID = 'x'",
    "AMQAddress = 'other'",
]  # fmt: skip


@pytest.mark.parametrize("text", TRUE)
def test_true(text):
    assert holds(text)


@pytest.mark.parametrize("text", FALSE)
def test_not_true(text):
    assert not holds(text)


VALUES = st.sampled_from(["", "abc", "1", "5", "9", "10", "5.5", " 5 ", "-1", "true", "1e1", "NaN", "x'y"])


@given(
    st.dictionaries(st.sampled_from(["x", "low", "high"]), VALUES),
    st.sampled_from(["x", "x + 1", "AMQPriority", "5"]),
    st.sampled_from(["low", "1", "6.5", "-low"]),
    st.sampled_from(["high", "9", "9.5", "high + 0"]),
    st.sampled_from([STRICT, CONVERT, ""]),
)
def test_between_is_what_it_is_written_out(headers, x, low, high, prefix):
    """JMS 3.8.1.2: NOT BETWEEN too is false of what cannot be compared, and unknown where a bound is missing."""
    run = message(**headers)
    for written, means in (
        (f"{x} BETWEEN {low} AND {high}", f"{x} >= {low} AND {x} <= {high}"),
        (f"{x} NOT BETWEEN {low} AND {high}", f"{x} < {low} OR {x} > {high}"),
    ):
        for shape in ("{}", "NOT ({})", "({}) OR FALSE", "(({}) AND TRUE) IS NULL"):
            assert holds(prefix + shape.format(written), run) is holds(prefix + shape.format(means), run), written


@pytest.mark.parametrize("prefix", ["", STRICT, CONVERT])
@pytest.mark.parametrize("amount", ["abc", ""])
def test_what_cannot_be_compared_is_not_outside_of_bounds(prefix, amount):
    assert not holds(f"{prefix}amount NOT BETWEEN 1 AND 9", message(amount=amount))


TOKENS = "a rank name 'x' 5 2.5 NULL TRUE = <> < + * / % - ( ) AND OR NOT IS IN LIKE BETWEEN ,".split()  # noqa: SIM905


@given(st.lists(st.sampled_from(TOKENS), max_size=14), st.sampled_from([STRICT, CONVERT, ""]))
def test_whatever_is_compiled_never_raises_over_a_message(tokens, prefix):
    try:
        predicate = compile(prefix + " ".join(tokens))
    except RefusedError:
        return
    assert predicate(PERSON, 0, "shop") in (True, False)
