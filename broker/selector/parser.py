"""A selector's text as a tree: Artemis' grammar, with SQL's place of NOT.

    selector := prefix* or          prefix := convert_string_expressions: | hyphenated_props:, each also with no_
    or    := and (OR and)*          and := not (AND not)*          not := NOT not | equal
    equal := comp ((= | <>) comp | IS [NOT] NULL)*
    comp  := add ((< | <= | > | >=) add | [NOT] LIKE string [ESCAPE string] | [NOT] BETWEEN add AND add
                  | [NOT] IN (string, …))*
    add   := mul ((+ | -) mul)*     mul := unary ((* | / | %) unary)*
    unary := + unary | - unary | NOT unary | XPATH string | string | number | TRUE | FALSE | NULL | name | ( or )

Rule: every way down is counted, so that no text can exhaust the stack. Must not know messages.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from .syntax import And, Compare, In, IsNull, Like, Literal, Name, Negative, Node, Not, Or, Sum, XPath, is_condition
from .tokens import MAX_WORDS, Token, TokenKind, refused, tokens

MAX_LENGTH: Final = 64 * 1024
"""Characters; a header line is shorter, but settings may be long."""
MAX_DEPTH: Final = 50
"""Nested parentheses, NOTs, signs and chained comparisons; each takes ten calls, of the thousand that Python allows."""

CONVERT: Final = "convert_string_expressions:"
KEEP: Final = "no_convert_string_expressions:"
_HYPHENATED: Final = "hyphenated_props:"
_NOT_HYPHENATED: Final = "no_hyphenated_props:"

_EQUALS: Final = frozenset({"=", "<>", "IS"})
_COMPARES: Final = frozenset({"<", "<=", ">", ">=", "NOT", "LIKE", "BETWEEN", "IN"})
"""Looked for first: most values have none of them behind them, and each of the rules is asked of every value."""


class Parsed:
    """node      the condition.
    convert   True: strings become what they are compared with, as Artemis does; False: never; None: nobody said."""

    __slots__ = ("convert", "node")

    def __init__(self, node: Node, convert: bool | None) -> None:
        self.node = node
        self.convert = convert


def parse(text: str, most: int = MAX_WORDS) -> Parsed:
    """Raises RefusedError(BAD_SELECTOR) that names the text, the place and the reason.    most: words of it."""
    if len(text) > MAX_LENGTH:
        raise refused(text, MAX_LENGTH, f"longer than {MAX_LENGTH} characters")
    start, convert, hyphenated = _prefixes(text)
    parser = _Parser(text, start, hyphenated, most)
    return Parsed(parser.whole(), convert)


def conjunction(text: str, *others: str) -> str:
    """What `text`, a selector, and all of the other conditions say together; these have no words in front."""
    start = _prefixes(text)[0]
    # A comment at the end of it ends with its line.
    return text[:start] + " AND ".join([f"({text[start:]}\n)", *[f"({other})" for other in others]])


def _prefixes(text: str) -> tuple[int, bool | None, bool]:
    """Where the condition begins, and what stands before it; the last of two that contradict each other counts."""
    at, convert, hyphenated = 0, None, False
    while True:
        while at < len(text) and text[at] in " \t\r\n\f":
            at += 1
        if text.startswith(CONVERT, at):
            at, convert = at + len(CONVERT), True
        elif text.startswith(KEEP, at):
            at, convert = at + len(KEEP), False
        elif text.startswith(_HYPHENATED, at):
            at, hyphenated = at + len(_HYPHENATED), True
        elif text.startswith(_NOT_HYPHENATED, at):
            at, hyphenated = at + len(_NOT_HYPHENATED), False
        else:
            return at, convert, hyphenated


class _Parser:
    """Recursive descent over the tokens; `_next` is the token to come."""

    __slots__ = ("_depth", "_next", "_text", "_tokens")

    def __init__(self, text: str, start: int, hyphenated: bool, most: int) -> None:
        self._text = text
        self._depth = 0
        self._tokens = tokens(text, start, hyphenated, most)
        self._next = next(self._tokens)

    def whole(self) -> Node:
        if self._ended():
            raise refused(self._text, self._next.at, "it is empty; leave the header out to get every message")
        node = self._condition(self._or, self._next)
        if self._ended():
            return node
        raise self._unexpected("AND, OR or the end")

    def _ended(self) -> bool:
        return self._next.kind is TokenKind.END

    # ── tokens ─────────────────────────────────────────────────────────────────────────────────────

    def _advance(self) -> Token:
        token = self._next
        if token.kind is not TokenKind.END:
            self._next = next(self._tokens)
        return token

    def _is(self, kind: TokenKind, *values: str) -> bool:
        return self._next.kind is kind and self._next.value in values

    def _accept(self, kind: TokenKind, value: str) -> bool:
        if self._is(kind, value):
            self._advance()
            return True
        return False

    def _must(self, kind: TokenKind, value: str) -> None:
        if not self._accept(kind, value):
            raise self._unexpected(value)

    def _unexpected(self, wanted: str) -> Exception:
        token = self._next
        found = "the end" if token.kind is TokenKind.END else f"'{str(token.value)[:50]}'"
        return refused(self._text, token.at, f"{wanted} should come here, not {found}")

    def _deeper(self, levels: int = 1) -> None:
        self._depth += levels
        if self._depth > MAX_DEPTH:
            raise refused(self._text, self._next.at, f"nested deeper than {MAX_DEPTH} levels")

    # ── conditions ─────────────────────────────────────────────────────────────────────────────────

    def _condition(self, rule: Callable[[], Node], first: Token) -> Node:
        node: Node = rule()
        if not is_condition(node):
            raise refused(self._text, first.at, "this is a value; compare it with something")
        return node

    def _or(self) -> Node:
        return self._joined("OR", self._and, Or)

    def _and(self) -> Node:
        return self._joined("AND", self._not, And)

    def _joined(self, word: str, rule: Callable[[], Node], make: type[And] | type[Or]) -> Node:
        first = self._next
        node: Node = rule()
        if self._next.value != word or not self._is(TokenKind.KEYWORD, word):
            return node
        if not is_condition(node):
            raise refused(self._text, first.at, f"this is a value; {word} joins conditions")
        parts = [node]
        while self._accept(TokenKind.KEYWORD, word):
            parts.append(self._condition(rule, self._next))
        return make(tuple(parts))

    def _not(self) -> Node:
        if not self._accept(TokenKind.KEYWORD, "NOT"):
            return self._equal()
        self._deeper()
        node = Not(self._condition(self._not, self._next))
        self._depth -= 1
        return node

    def _equal(self) -> Node:
        left, chained = self._comparison(), 0
        while True:
            if self._next.value not in _EQUALS:
                self._depth -= chained
                return left
            if self._is(TokenKind.OPERATOR, "=", "<>"):
                node: Node = self._compared(self._advance(), left, self._comparison, null_only=True)
            elif self._accept(TokenKind.KEYWORD, "IS"):
                negated = self._accept(TokenKind.KEYWORD, "NOT")
                self._must(TokenKind.KEYWORD, "NULL")
                node = Not(IsNull(left)) if negated else IsNull(left)
            else:
                self._depth -= chained
                return left
            left = node
            chained += 1
            self._deeper()

    def _comparison(self) -> Node:
        left, chained = self._add(), 0
        while True:
            if self._next.value not in _COMPARES:
                self._depth -= chained
                return left
            if self._is(TokenKind.OPERATOR, "<", "<=", ">", ">="):
                node: Node = self._compared(self._advance(), left, self._add)
            elif self._is(TokenKind.KEYWORD, "NOT", "LIKE", "BETWEEN", "IN"):
                node = self._special(left, self._accept(TokenKind.KEYWORD, "NOT"))
            else:
                self._depth -= chained
                return left
            left = node
            chained += 1
            self._deeper()

    def _special(self, left: Node, negated: bool) -> Node:
        if self._is(TokenKind.KEYWORD, "BETWEEN"):
            return self._between(left, negated)
        node = self._like(left) if self._accept(TokenKind.KEYWORD, "LIKE") else self._in(left)
        return Not(node) if negated else node

    def _between(self, left: Node, negated: bool) -> Node:
        """JMS 3.8.1.2 writes it out, `NOT` too: `x < a OR x > b` is false of what cannot be compared; the opposite of
        BETWEEN would be true of it."""
        word = self._advance()
        low = self._add()
        self._must(TokenKind.KEYWORD, "AND")
        high = self._add()
        below, above = ("<", ">") if negated else (">=", "<=")
        bounds = Compare(below, left, low), Compare(above, left, high)
        for bound in bounds:
            self._check(word, bound)
        return Or(bounds) if negated else And(bounds)

    def _in(self, left: Node) -> Node:
        at = self._next.at
        if not self._accept(TokenKind.KEYWORD, "IN"):
            raise self._unexpected("LIKE, BETWEEN or IN")
        if not isinstance(left, Name):
            raise refused(self._text, at, "only a header name may stand before IN")
        if self._next.kind is TokenKind.LIST:
            found = self._advance().value
            assert isinstance(found, frozenset)
            return In(left, found)
        self._must(TokenKind.OPERATOR, "(")
        values = [self._string("IN")]
        while self._accept(TokenKind.OPERATOR, ","):
            values.append(self._string("IN"))
        self._must(TokenKind.OPERATOR, ")")
        return In(left, frozenset(values))

    def _like(self, left: Node) -> Node:
        pattern, escape = self._string("LIKE"), ""
        if self._accept(TokenKind.KEYWORD, "ESCAPE"):
            at = self._next.at
            escape = self._string("ESCAPE")
            if len(escape) != 1:
                raise refused(self._text, at, "ESCAPE takes one character")
        return Like(left, pattern, escape)

    def _string(self, after: str) -> str:
        if self._next.kind is not TokenKind.STRING:
            raise self._unexpected(f"a text in '…' (for {after})")
        return str(self._advance().value)

    def _compared(self, operator: Token, left: Node, rule: Callable[[], Node], null_only: bool = False) -> Compare:
        node = Compare(str(operator.value), left, rule())
        self._check(operator, node, null_only)
        return node

    def _check(self, operator: Token, node: Compare, null_only: bool = False) -> None:
        for side in (node.left, node.right):
            if not isinstance(side, Literal):
                continue
            if side.value is None:
                raise refused(self._text, operator.at, "nothing equals NULL; write IS NULL or IS NOT NULL")
            if not null_only and isinstance(side.value, bool | str):
                raise refused(self._text, operator.at, f"{operator.value} orders numbers, not texts or TRUE and FALSE")

    # ── values ─────────────────────────────────────────────────────────────────────────────────────

    def _add(self) -> Node:
        return self._sum(("+", "-"), self._multiply)

    def _multiply(self) -> Node:
        return self._sum(("*", "/", "%"), self._unary)

    def _sum(self, operators: tuple[str, ...], rule: Callable[[], Node]) -> Node:
        first: Node = rule()
        if self._next.value not in operators or not self._is(TokenKind.OPERATOR, *operators):
            return first
        rest: list[tuple[str, Node]] = []
        while self._is(TokenKind.OPERATOR, *operators):
            rest.append((str(self._advance().value), rule()))
        return Sum(first, tuple(rest))

    def _unary(self) -> Node:
        token = self._next
        if token.kind is TokenKind.NAME or token.kind is TokenKind.NUMBER:
            return self._primary()
        if self._is(TokenKind.OPERATOR, "+", "-"):
            self._advance()
            self._deeper()
            value = self._unary()
            self._depth -= 1
            return _signed(value) if token.value == "-" else value
        if self._accept(TokenKind.KEYWORD, "NOT"):
            self._deeper()
            node = Not(self._condition(self._unary, self._next))
            self._depth -= 1
            return node
        if self._accept(TokenKind.OPERATOR, "("):
            self._deeper()
            node_in = self._or()
            self._depth -= 1
            self._must(TokenKind.OPERATOR, ")")
            return node_in
        return self._primary()

    def _primary(self) -> Node:
        token = self._next
        if token.kind is TokenKind.NAME:
            if not token.value:
                raise refused(self._text, token.at, "a header name is not empty")
            return Name(str(self._advance().value))
        if token.kind in (TokenKind.STRING, TokenKind.NUMBER):
            value = self._advance().value
            assert not isinstance(value, frozenset)
            return Literal(value)
        if self._is(TokenKind.KEYWORD, "TRUE", "FALSE", "NULL"):
            return Literal({"TRUE": True, "FALSE": False, "NULL": None}[str(self._advance().value)])
        if self._accept(TokenKind.KEYWORD, "XPATH"):
            return XPath(self._string("XPATH"))
        if self._is(TokenKind.KEYWORD, "XQUERY"):
            raise refused(self._text, token.at, "XQUERY is not supported; XPATH is")
        raise self._unexpected("a header name, a value or (")


def _signed(value: Node) -> Node:
    if isinstance(value, Literal) and isinstance(value.value, int | float) and not isinstance(value.value, bool):
        return Literal(-value.value)
    return Negative(value)
