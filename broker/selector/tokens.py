"""A selector's text as tokens.

Rule: one pass, linear in the length of the text, and bounded: who reads them takes about 5 µs for each. Must not know
grammar.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from enum import IntEnum
from math import inf
from typing import Final, NamedTuple

from broker.core.errors import Code, RefusedError


class TokenKind(IntEnum):
    """What a token is; KEYWORD and OPERATOR tell by their text (keywords in upper case). LIST: what is in the
    parentheses behind IN."""

    END = 0
    NAME = 1
    STRING = 2
    NUMBER = 3
    KEYWORD = 4
    OPERATOR = 5
    LIST = 6


class Token(NamedTuple):
    """`value` of a NUMBER is int or float, of a LIST its texts, else str. `at`: where it begins in the text."""

    kind: TokenKind
    value: str | int | float | frozenset[str]
    at: int


KEYWORDS: Final = frozenset(
    ["AND", "OR", "NOT", "IS", "NULL", "LIKE", "ESCAPE", "BETWEEN", "IN", "TRUE", "FALSE", "XPATH", "XQUERY"]
)
MAX_NUMBER: Final = 400
"""Characters: no double needs more."""
MAX_WORDS: Final = 1000
"""Tokens of one text. Why: to compile so many takes 5 ms, in which everybody else waits (docs/adr/0009)."""
TEXT_AS_WORD: Final = 16
"""Characters of a text that cost as much as one: each of a LIKE is looked at."""
LIST_AS_WORD: Final = 256
"""… of a list behind IN, which is read at once."""

_PARTS: Final = r"""
    (?P<space>[ \t\r\n\f]+|--[^\r\n]*|/\*.*?\*/)
  | (?P<string>'(?:[^']|'')*')
  | (?P<quoted>"(?:[^"]|"")*")
  | (?P<float>(?:[0-9]+\.[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?|[0-9]+[eE][+-]?[0-9]+)
  | (?P<hex>0[xX][0-9a-fA-F]+)
  | (?P<octal>0[0-7]*[lL]?)
  | (?P<decimal>[1-9][0-9]*[lL]?)
  | (?P<name>[A-Za-z_$][A-Za-z0-9_$%s]*)
  | (?P<operator><>|<=|>=|[=<>(),+\-*/%%])
"""
_TEXT: Final = r"'[^']*(?:''[^']*)*'"
_SPACE: Final = r"[ \t\r\n\f]*"
_LIST: Final = re.compile(rf"{_SPACE}\({_SPACE}{_TEXT}(?:{_SPACE},{_SPACE}{_TEXT})*{_SPACE}\)")
"""All of a list behind IN, where it is written without comments."""
_TEXTS: Final = re.compile(r"'([^']*(?:''[^']*)*)'")
_STRICT: Final = re.compile(_PARTS % "", re.VERBOSE | re.DOTALL)
_HYPHENATED: Final = re.compile(_PARTS % r"\-", re.VERBOSE | re.DOTALL)


def tokens(text: str, start: int, hyphenated: bool, most: int = MAX_WORDS) -> Iterator[Token]:
    """The tokens from `start` on, END last. hyphenated: names may hold hyphens.    most: so many words.

    Raises RefusedError(BAD_SELECTOR)."""
    pattern, at, end = _HYPHENATED if hyphenated else _STRICT, start, len(text)
    left = most
    while at < end:
        match = pattern.match(text, at)
        if match is None:
            raise refused(text, at, _strange(text[at]))
        if match.lastgroup != "space":
            token = _token(match, text, at)
            left -= 1 if token.kind is not TokenKind.STRING else 1 + (match.end() - at) // TEXT_AS_WORD
            if left < 0:
                raise refused(text, at, _too_long(most))
            yield token
            if token.kind is TokenKind.KEYWORD and token.value == "IN" and (whole := _LIST.match(text, match.end())):
                left -= 1 + len(whole[0]) // LIST_AS_WORD
                match = whole
                yield _list(whole)
        at = match.end()
    yield Token(TokenKind.END, "", end)


def _list(found: re.Match[str]) -> Token:
    """The texts behind IN."""
    values = _TEXTS.findall(found[0])
    if "''" in found[0]:
        values = [value.replace("''", "'") for value in values]
    return Token(TokenKind.LIST, frozenset(values), found.start())


def _too_long(most: int) -> str:
    return (
        f"more than {most} words; name IN ('a', 'b', …) asks for many values of one header in few words, and of two "
        "subscriptions each gets what its own selector says"
    )


def _token(match: re.Match[str], text: str, at: int) -> Token:
    found, group = match[0], match.lastgroup
    if group == "name":
        upper = found.upper()
        return Token(TokenKind.KEYWORD, upper, at) if upper in KEYWORDS else Token(TokenKind.NAME, found, at)
    if group == "operator":
        return Token(TokenKind.OPERATOR, found, at)
    if group == "string":
        return Token(TokenKind.STRING, found[1:-1].replace("''", "'"), at)
    if group == "quoted":
        return Token(TokenKind.NAME, found[1:-1].replace('""', '"'), at)
    if len(found) > MAX_NUMBER:
        raise refused(text, at, f"a number has more than {MAX_NUMBER} characters")
    return Token(TokenKind.NUMBER, _number(group, found), at)


def _number(group: str | None, found: str) -> int | float:
    if group == "float":
        return float(found)
    digits = found.rstrip("lL")
    value = int(digits, {"hex": 16, "octal": 8}.get(group or "", 10))
    if -(1 << 63) <= value < 1 << 63:
        return value
    try:
        return float(value)
    except OverflowError:  # beyond 1e308 it is what 1e400 is: larger than every number
        return inf


def _strange(char: str) -> str:
    if char in "'\"":
        return f"the {char} is never closed"
    return f"{char!r} is not part of the language"


def refused(text: str, at: int, why: str) -> RefusedError:
    """The error about `text` at that place."""
    shown = text if len(text) <= 100 else f"{text[:100]}…"
    return RefusedError(Code.BAD_SELECTOR, f'"{shown}", character {at + 1}: {why}')
