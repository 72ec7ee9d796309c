"""Which XPath expressions are carried out: those whose work grows with the body, not with its square.

lxml cannot be told to stop, so what it is given has to be cheap whatever the body is. Taken are paths of child steps,
attributes and one `//`, predicates of one level about the children and attributes of a step, the functions below, and
comparisons with a text or a number. Each step then looks at each node once at most: of `//a[b/c = 'x']` the `b/c` of
two `a` are different nodes, whereas `//*[count(//*) > 1]` looks at all nodes for each node, and so does `//a//b`.

    expression := comparison ((and | or) comparison)*         comparison := value ((= | != | < | <= | > | >=) value)*
    value      := - value | text | number | function ( expression, … ) | ( expression ) | path
    path       := . | [/ | //] step ((/ | //) step)*
    step       := [@] (name | * | text() | node()) ([ expression ])*

Rule: one pass over the text; refuses by name. Must not know lxml.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final, NoReturn

from broker.core.errors import Code, RefusedError

MAX_EXPRESSION: Final = 4096
"""Characters."""
MAX_PARENTHESES: Final = 20
"""Levels: each is some calls of ours, and of libxml2."""
_KNOWN: Final = (
    "boolean concat contains count false last local-name name normalize-space not number position starts-with string"
    " string-length sum true"
)
FUNCTIONS: Final = frozenset(_KNOWN.split())
_NODES: Final = frozenset(["text", "node"])
_TOKEN: Final = re.compile(
    r"""[ \t\r\n]*(?:('[^']*'|"[^"]*")|([0-9]+(?:\.[0-9]*)?|\.[0-9]+)|([A-Za-z_][\w.-]*)|(//|!=|<=|>=|::|\.\.|.))""",
    re.DOTALL,
)
_TEXT, _NUMBER, _NAME, _SIGN, _END = range(1, 6)
_COMPARISONS: Final = ("=", "!=", "<", "<=", ">", ">=")


class DocumentShape:
    """What one evaluation may cost, by the size of the body.

    tokens     how often each node may be looked at.    texts   characters that may be looked for at each place."""

    __slots__ = ("texts", "tokens")

    def __init__(self, tokens: int, texts: int) -> None:
        self.tokens = tokens
        self.texts = texts


def shape_of(expression: str) -> DocumentShape:
    """Raises RefusedError(BAD_SELECTOR) that says what is not taken."""
    if len(expression) > MAX_EXPRESSION:
        raise RefusedError(Code.BAD_SELECTOR, f"XPATH '{expression[:100]}…' is longer than {MAX_EXPRESSION} characters")
    tokens = list(_tokens(expression))
    _Reader(expression, tokens).whole()
    return DocumentShape(len(tokens), sum([len(text) for kind, text in tokens if kind == _TEXT]))


def _tokens(expression: str) -> Iterator[tuple[int, str]]:
    at, end = 0, len(expression.rstrip(" \t\r\n"))
    while at < end and (match := _TOKEN.match(expression, at)):
        yield match.lastindex or _SIGN, match[match.lastindex or 0]
        at = match.end()
    yield _END, "the end"


class _Reader:
    """Recursive descent; `_at` is the token to come."""

    __slots__ = ("_at", "_expression", "_level", "_tokens", "_within")

    def __init__(self, expression: str, tokens: list[tuple[int, str]]) -> None:
        self._expression = expression
        self._tokens = tokens
        self._at = 0
        self._level = 0
        self._within = False
        """Between [ and ]."""

    def whole(self) -> None:
        self._either()
        if self._tokens[self._at][0] != _END:
            self._refuse()

    def _accept(self, *signs: str) -> bool:
        kind, text = self._tokens[self._at]
        if kind != _SIGN or text not in signs:
            return False
        self._at += 1
        return True

    def _must(self, sign: str) -> None:
        if not self._accept(sign):
            self._refuse()

    def _refuse(self, why: str = "") -> NoReturn:
        if not why:
            found = self._tokens[self._at][1]
            why = f"'{found[:30]}' does not belong there, or is beyond what is taken"
        raise RefusedError(
            Code.BAD_SELECTOR,
            f"XPATH '{self._expression[:100]}' is no XPath expression that this broker carries out: {why} "
            "(docs/selectors.md has what is)",
        )

    def _either(self) -> bool:
        """True: it is nodes, as in _value()."""
        nodes = self._compared()
        while self._tokens[self._at] in ((_NAME, "and"), (_NAME, "or")):
            self._at += 1
            self._compared()
            nodes = False
        return nodes

    def _compared(self) -> bool:
        nodes = self._value()
        while self._accept(*_COMPARISONS):
            others = self._value()
            if nodes and others:
                self._refuse("it compares nodes with nodes; compare with a text or a number")
            nodes = False
        return nodes

    def _value(self) -> bool:
        """True: it is nodes."""
        while self._accept("-"):
            pass
        kind, text = self._tokens[self._at]
        if kind in (_TEXT, _NUMBER):
            self._at += 1
            return False
        if kind == _NAME and self._tokens[self._at + 1] == (_SIGN, "(") and text not in _NODES:
            self._call(text)
            return False
        if self._accept("("):
            self._deeper()
            nodes = self._either()
            self._must(")")
            self._level -= 1
            if self._tokens[self._at][1] in ("[", "/", "//"):
                self._refuse("no step or [ ] may stand behind parentheses")
            return nodes
        return self._path()

    def _deeper(self) -> None:
        self._level += 1
        if self._level > MAX_PARENTHESES:
            self._refuse(f"parentheses are nested deeper than {MAX_PARENTHESES} levels")

    def _call(self, name: str) -> None:
        if name not in FUNCTIONS:
            self._refuse(f"there is no function {name}(); there are {_KNOWN}")
        self._at += 2
        self._deeper()
        if not self._accept(")"):
            self._either()
            while self._accept(","):
                self._either()
            self._must(")")
        self._level -= 1

    def _path(self) -> bool:
        if self._accept("."):
            return True
        anywhere = 0  # how often all below is asked for
        if self._tokens[self._at] in ((_SIGN, "/"), (_SIGN, "//")):
            if self._within:
                self._refuse("paths between [ and ] begin at the step itself")
            anywhere = self._tokens[self._at][1] == "//"
            self._at += 1
            if not anywhere and self._tokens[self._at][0] == _END:
                return True
        self._step()
        while self._accept("/", "//"):
            anywhere += self._tokens[self._at - 1][1] == "//"
            if anywhere > 1 or (anywhere and self._within):
                self._refuse("a path may have // once, and not between [ and ]")
            self._step()
        return True

    def _step(self) -> None:
        self._accept("@")
        kind, text = self._tokens[self._at]
        if self._accept("..", "::"):
            self._refuse("no way leads up or aside: '..' and axes are not taken")
        if kind == _NAME:
            self._at += 1
            if self._accept("("):
                if text not in _NODES:
                    self._refuse(f"{text}() is no step")
                self._must(")")
            elif self._accept("::"):
                self._refuse("no way leads up or aside: '..' and axes are not taken")
        else:
            self._must("*")
        while self._accept("["):
            if self._within:
                self._refuse("[ ] may not stand within [ ]")
            self._within = True
            self._either()
            self._must("]")
            self._within = False
