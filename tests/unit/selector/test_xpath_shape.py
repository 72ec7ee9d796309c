"""Which XPath expressions are taken: those whose work grows with the body; all others are refused by name."""

from __future__ import annotations

import pytest

from broker.core.errors import Code, RefusedError
from broker.selector import compile
from broker.selector.xpath_shape import FUNCTIONS, MAX_EXPRESSION, MAX_PARENTHESES, shape_of

from .messages import XML, holds, message


@pytest.mark.parametrize(
    "expression",
    [
        "count(//*[count(//*) > 1]) > 1", "//*[count(//*[count(//*) > 5]) > 3]", "//a//b", "//a[b[c]]",
        "//a[//b]", "//a[/b]",
        "//a = //b", "(//a) = (//b)", "//a | //b", "//a/..", "//a[../b]", "a/ancestor::b", "descendant::a", "//a[.//b]",
        "(//a)[1]", "string(a)/b", "translate(a, \"b\", \"c\")", "substring(a, 1)", "$x", "1 + 1 = 2", "a[1", "", "()",
        "a and", "and and and and", "count(", "((((((((((((((((((((((a))))))))))))))))))))))", "a" * 5000,
    ],
)  # fmt: skip
def test_an_xpath_that_may_cost_the_square_of_the_body_is_refused(expression):
    with pytest.raises(RefusedError, match="XPATH"):
        compile(f"XPATH '{expression}'")


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        (".", True), ("/", True), ("/root", True), ("/root/node()", True), ("count(//*) = 3", True), ("//*/@num", True),
        ("//a[1]", True), ("//*[@num and not(text())]", True), ("root/*[position() = last()] = \"b\"", True),
        ("//b[contains(@key, \"eco\") and starts-with(., \"b\")]", True), ("-count(//a) = -1", True),
        ("(//a and //c) or (//b)", True), ("//*[*/@num > 1]", True), ("string-length(normalize-space(//b)) > 1", False),
        ("local-name(/root/*) = \"a\"", True), ("number(//b/@num) >= 2.0", True), ("boolean(//c) = false()", True),
    ],
)  # fmt: skip
def test_xpath_that_is_taken(expression, expected):
    assert holds(f"XPATH '{expression}'", message(XML)) is expected


@pytest.mark.parametrize(
    ("expression", "why"),
    [
        ("//a = //b", "compares nodes with nodes"), ("(//a)[1]", "behind parentheses"), ("(a)/b", "behind parentheses"),
        ("id(1)", r"no function id\(\); there are boolean"), ("a[/b]", "begin at the step itself"),
        ("//a//b", "// once"), ("a[b//c]", "not between"), ("a/..", "leads up or aside"), ("a/b::c", "leads up or"),
        ("a/string()", r"string\(\) is no step"), ("a[b[c]]", "within"), ("a b", "'b' does not belong there"),
        ("a[1", "'the end' does not belong"), ("", "'the end'"), ("1 + 1", "'\\+' does not belong"),
    ],
)  # fmt: skip
def test_the_refusal_says_why_and_where_to_read_on(expression, why):
    with pytest.raises(RefusedError, match=why) as refused:
        shape_of(expression)
    assert refused.value.code is Code.BAD_SELECTOR and "docs/selectors.md" in refused.value.detail


def test_levels_and_characters_are_bounded():
    shape_of("(" * MAX_PARENTHESES + "a" + ")" * MAX_PARENTHESES)
    shape_of(" and ".join([f"({'(' * (MAX_PARENTHESES - 1)}a{')' * MAX_PARENTHESES}"] * 3)), "levels that are closed"
    shape_of(" and ".join(["not(a)"] * (MAX_PARENTHESES + 1)))
    for deep in ("(" * (MAX_PARENTHESES + 1) + "a" + ")" * (MAX_PARENTHESES + 1), "not(" * 21 + "a" + ")" * 21):
        with pytest.raises(RefusedError, match=f"deeper than {MAX_PARENTHESES} levels"):
            shape_of(deep)
    shape_of("a" * MAX_EXPRESSION)
    with pytest.raises(RefusedError, match=f"longer than {MAX_EXPRESSION} characters") as refused:
        shape_of("a" * (MAX_EXPRESSION + 1))
    assert len(refused.value.detail) < 300


def test_the_shape_counts_tokens_and_the_characters_of_texts():
    found = shape_of("//a[. = 'xy' or contains(b, \"abc\")]")
    assert (found.tokens, found.texts) == (len(["//", "a", "[", ".", "=", "xy", "or", "contains", "(", "b", ",", "abc",
                                                ")", "]", "end"]), len("'xy'") + len('"abc"'))  # fmt: skip
    assert shape_of(" a ").tokens == shape_of("a").tokens


@pytest.mark.parametrize("name", sorted(FUNCTIONS))
def test_functions_are_values_not_nodes(name):
    shape_of(f"{name}(a) = b")
    with pytest.raises(RefusedError, match="nodes with nodes"):
        shape_of("(a) = b")
