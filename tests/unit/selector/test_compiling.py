"""Trees as tests over messages: True, False or unknown, the names that are no headers, and what one weighs."""

from __future__ import annotations

import itertools

import pytest

from broker.core.errors import Code, RefusedError
from broker.core.message import DURABLE, Blob, Run
from broker.selector import compile
from broker.selector.compiling import NAME_WEIGHT, OWN, header_of, reads_bodies, single, test_of, weight
from broker.selector.heads import head_of
from broker.selector.parser import parse
from broker.selector.syntax import Literal, Name
from broker.selector.values import Mode, like_weight

from .messages import PERSON, holds, message

result_of = test_of
del test_of  # it is no test of ours


def test_durable_and_large():
    run = Run(range(1), b"", [b"a:x\n\n"], 5, DURABLE, blob=Blob(1, 1000))
    assert holds("AMQDurable = 'DURABLE' AND a = 'x' AND AMQSize > 1000", run)
    assert not holds("XPATH 'a'", run)  # a large body is not read for it


def test_the_delivery_mode_of_jms_is_a_name():
    lasting, passing = message(flags=DURABLE), message()
    for text, wanted in (
        ("JMSDeliveryMode = 'PERSISTENT'", lasting),
        ("'NON_PERSISTENT' <> JMSDeliveryMode", lasting),
        ("JMSDeliveryMode IN ('PERSISTENT')", lasting),
        ("JMSDeliveryMode = 'NON_PERSISTENT'", passing),
        ("JMSDeliveryMode <> 'PERSISTENT'", passing),
        ("JMSDeliveryMode NOT IN ('PERSISTENT')", passing),
        ("JMSDeliveryMode LIKE 'NON%'", passing),
    ):
        assert [holds(text, lasting), holds(text, passing)] == [wanted is lasting, wanted is passing], text


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("JMSDeliveryMode = 'persistent'", "JMSDeliveryMode is never 'persistent'"),
        ("2 = JMSDeliveryMode", "JMSDeliveryMode is never '2'"),
        ("a = 'b' OR NOT JMSDeliveryMode <> 'DURABLE'", "JMSDeliveryMode is never 'DURABLE'"),
        ("JMSDeliveryMode IN ('PERSISTENT', 'x')", "'NON_PERSISTENT' or 'PERSISTENT'"),
        ("AMQDurable = 'true'", "compare it with 'DURABLE' or 'NON_DURABLE'"),
    ],
)
def test_a_constant_that_a_name_never_is_is_refused_by_name(text, named):
    with pytest.raises(RefusedError, match=named) as refused:
        compile(text)
    assert refused.value.code is Code.BAD_SELECTOR


def found(text: str, run: Run = PERSON, mode: Mode = Mode.AUTO, address: str = "shop") -> bool | None:
    return result_of(parse(text).node, mode)(head_of(run, 0), run, 0, address)


WORTH = {"TRUE": True, "FALSE": False, "gone = 1": None}


def test_unknown_is_neither_true_nor_false():
    for left, right in itertools.product(WORTH, repeat=2):
        values = {WORTH[left], WORTH[right]}
        both = False if False in values else None if None in values else True
        either = True if True in values else None if None in values else False
        assert found(f"({left}) AND ({right})") is both
        assert found(f"({left}) OR ({right})") is either
    assert [found(f"NOT ({text})") for text in WORTH] == [False, True, None]


@pytest.mark.parametrize(
    "text", ["gone = 'x'", "gone <> 'x'", "gone > 5", "gone <> 5", "gone LIKE '%'", "gone IN ('x')", "gone",
             "-gone = 1", "gone + 1 = 1", "rank + gone > 1", "gone BETWEEN 1 AND 2"]
)  # fmt: skip
def test_what_asks_for_a_header_that_is_not_there_is_unknown(text):
    assert found(text) is None and found("gone IS NULL") is True


@pytest.mark.parametrize("mode", list(Mode))
@pytest.mark.parametrize("value", ["5", "05", "6", "-6", " 6", "6.5", "a", "9" * 30, ""])
def test_short_cuts_say_what_the_long_way_says(mode, value):
    """name = 'text' and name > 5 are looked up in the bytes; beside a sum they are not."""
    run = message(h=value)
    for operator in ("=", "<>"):
        assert found(f"h {operator} '6'", run, mode) is ((value == "6") is (operator == "="))
    for operator in ("<", "<=", ">", ">="):
        turned = operator.translate(str.maketrans("<>", "><"))
        assert found(f"h {operator} 5", run, mode) is found(f"5 {turned} h", run, mode), operator


def test_the_longer_of_two_values_is_not_taken_for_the_shorter():
    assert found("h = 'ab'", message(h="abc")) is False and found("h = 'abc'", message(h="ab")) is False
    assert found("h <> 'ab'", message(h="abc")) is True
    assert found(r"h = 'a:b'", message(h=r"a\cb")) is True


def test_names_of_our_own_are_no_headers_and_aliases_are_others():
    assert {name for name in OWN if header_of(Name(name)) is not None} == set()
    assert header_of(Name("JMSType")) == b"\ntype:" and header_of(Name("a:b")) == b"\na\\cb:"
    assert header_of(Literal("a")) is None
    run = message(priority="1", AMQAddress="forged")
    assert found("priority = 7 AND AMQAddress = 'shop'", run) is True


@pytest.mark.parametrize(
    "frame",
    ["{}", "NOT {}", "a AND {}", "{} OR a", "({}) = TRUE", "TRUE = ({})", "({}) IS NULL", "({}) LIKE 'x'",
     "1 + ({}) = 1"],
)  # fmt: skip
def test_what_is_looked_at_is_found_wherever_it_stands(frame):
    for text, each, body in (("AMQSize", True, False), ("AMQMessageID", True, False), ("XPATH '/a'", True, True),
                             ("name", False, False), ("AMQPriority", False, False)):  # fmt: skip
        node = parse(frame.format(text)).node
        assert (single(node), reads_bodies(node)) == (each, body)
    assert single(parse("AMQMessageID IN ('1')").node) and single(parse("-AMQSize = 1").node)
    assert weight(parse(frame.format("b LIKE '%x_%'")).node) >= NAME_WEIGHT + like_weight("%x_%", "")


def test_the_weight_is_that_of_all_its_parts():
    def of(text: str) -> int:
        return weight(parse(text).node)

    assert of("a = 1 AND b = 2 OR c = d") == 4 * NAME_WEIGHT and of("a + b - 1 > -c") == 3 * NAME_WEIGHT
    assert of("NOT a IN ('x')") == of("a IS NULL") == NAME_WEIGHT and of("1 = 1") == of("TRUE") == 0
