"""A selector's text as tokens: what each is, where it begins, and how many of them are read."""

from __future__ import annotations

import pytest

from broker.core.errors import Code, RefusedError
from broker.selector import NOTHING, compile, stored
from broker.selector.tokens import MAX_NUMBER, TEXT_AS_WORD, TokenKind, refused, tokens

from .messages import holds, message


@pytest.mark.parametrize(
    "text",
    [
        " OR ".join(["a = 1"] * 1000),
        "a = " + "+".join("a" * 4000),
        " OR ".join(["(((a)))"] * 1000),
        " OR ".join(["a BETWEEN 1 AND 2"] * 500),
        " OR ".join([f"a LIKE '{'b_' * 400}%'"] * 80),
        "a IN (" + ",".join(["/**/'b'"] * 1000) + ")",
    ],
)
def test_no_text_is_longer_than_what_is_compiled_in_one_step(text):
    """Counted in words: a step of the loop compiles one text as a whole (docs/adr/0009)."""
    read = []
    with pytest.raises(RefusedError, match="more than 1000 words; name IN"):
        read.extend(tokens(text, 0, False))
    assert len(read) <= 1000
    with pytest.raises(RefusedError, match="more than 1000 words"):
        compile(text)
    assert stored(text) is not NOTHING, "one that was taken by an earlier release is still carried out"


def test_a_list_costs_few_words():
    names = [f"it''s {n}" for n in range(3000)]
    text = "a IN (\n" + " , ".join(f"'{name}'" for name in names) + " )"
    assert sum(1 for _ in tokens(text, 0, False)) == 4
    assert holds(text, message(a="it's 2999")) and not holds(text, message(a="it's 3000"))
    assert holds(text.replace("IN", "NOT IN"), message(a="it's 3000"))
    assert holds("a IN('x','y')", message(a="y")) and holds("a IN ('x', /* and */ 'y')", message(a="y"))
    for wrong in ("a IN ('x' 'y')", "a IN ()", "a IN ('x',)", "a IN ('x'", "IN ('x')", "1 IN ('x')", "a ('x')"):
        with pytest.raises(RefusedError):
            compile(wrong)


def read(text: str, hyphenated: bool = False, most: int = 1000) -> list[tuple[TokenKind, object, int]]:
    return [(token.kind, token.value, token.at) for token in tokens(text, 0, hyphenated, most)]


def kinds(text: str, **more: bool) -> list[tuple[TokenKind, object]]:
    return [(kind, value) for kind, value, _ in read(text, **more)][:-1]


def test_each_token_knows_what_it_is_and_where_it_begins():
    assert read("a  >= 'it''s' -- note\n aNd/* x */b_$1") == [
        (TokenKind.NAME, "a", 0), (TokenKind.OPERATOR, ">=", 3), (TokenKind.STRING, "it's", 6),
        (TokenKind.KEYWORD, "AND", 23), (TokenKind.NAME, "b_$1", 33), (TokenKind.END, "", 37),
    ]  # fmt: skip
    assert [token.at for token in tokens("skip a", 4, False)] == [5, 6]


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("0", 0), ("017", 15), ("017L", 15), ("0x1f", 31), ("0XFF", 255), ("42l", 42), ("1.", 1.0), (".5", 0.5),
        ("1e3", 1000.0), ("2.5E-1", 0.25), (str(2**63 - 1), 2**63 - 1), (str(2**63), float(2**63)),
        ("0x8000000000000000", float(2**63)), ("1e999", float("inf")),
    ],
)  # fmt: skip
def test_numbers_are_whole_up_to_64_bits(text, value):
    ((kind, found),) = kinds(text)
    assert kind is TokenKind.NUMBER and found == value and type(found) is type(value)


def test_a_hyphen_belongs_to_a_name_only_where_it_was_asked_for():
    assert kinds("a-b", hyphenated=True) == [(TokenKind.NAME, "a-b")]
    assert kinds("a-b") == [(TokenKind.NAME, "a"), (TokenKind.OPERATOR, "-"), (TokenKind.NAME, "b")]
    assert kinds('"and ""b-"') == [(TokenKind.NAME, 'and "b-')], "no keyword, where it is quoted"


def test_a_list_behind_in_is_one_token():
    assert kinds("in ( 'a' , 'it''s','a')")[1] == (TokenKind.LIST, frozenset({"a", "it's"}))
    assert [kind for kind, _ in kinds("x ('a', 'b')")].count(TokenKind.LIST) == 0
    assert [kind for kind, _ in kinds("in ('a', /* */ 'b')")].count(TokenKind.LIST) == 0


def test_words_are_counted_and_long_texts_as_several():
    assert len(read("a " * 5, most=5)) == 6
    text = "'" + "x" * (TEXT_AS_WORD * 3 - 2) + "'"
    assert len(read(text, most=4)) == 2
    for short in ((text, 3), ("a " * 5, 4)):
        with pytest.raises(RefusedError, match=f"more than {short[1]} words"):
            read(short[0], most=short[1])
    names = "in (" + ",".join(["'abcdefgh'"] * 500) + ") x"
    assert len(read(names, most=30)) == 4
    with pytest.raises(RefusedError, match="more than 20 words"):
        read(names, most=20)


def test_what_is_no_token_is_refused_at_its_place():
    for text, why in (
        ("a = ?", "character 5: '\\?' is not part"), ("a = 'b", "character 5: the ' is never closed"),
        ('"b', 'character 1: the " is never'), ("1" * (MAX_NUMBER + 1), f"more than {MAX_NUMBER}"),
    ):  # fmt: skip
        with pytest.raises(RefusedError, match=why) as caught:
            read(text)
        assert caught.value.code is Code.BAD_SELECTOR
    read(f"0.{'1' * (MAX_NUMBER - 2)}")


def test_the_text_is_shown_up_to_a_hundred_characters():
    assert refused("a" * 100, 0, "why").detail == f'"{"a" * 100}", character 1: why'
    assert refused("a" * 101, 4, "why").detail == f'"{"a" * 100}…", character 5: why'


@pytest.mark.parametrize("text", ["1" * 310, "0x" + "f" * 300, "1e400"])
def test_a_number_beyond_all_is_larger_than_every_other(text):
    assert holds(f"rank < {text} AND rank > -{text}") and not holds(f"rank = {text}")
