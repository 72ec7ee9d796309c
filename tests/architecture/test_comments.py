"""Comments that give reasons: how many of the lines of the hard rooms are comments.

Rule: a share may only grow. It says nothing of what a comment is worth; without it they go one by one, each for a good
reason. And the head of any file says which actor it means: a leader, follower, edge, session, consumer.
"""

from __future__ import annotations

import ast
import io
import re
import tokenize
from pathlib import Path

import pytest

BROKER = Path(__file__).resolve().parents[2] / "broker"

SHARES = {"engine": 8, "journal": 9, "link": 6, "owner": 8, "wire": 11}
"""Room → per cent of its lines (empty ones not counted) that have a comment. A docstring counts as code."""
FOR_TOOLS = ("# noqa", "# type:", "# fmt:", "#!")
"""Comments that are no comments."""
SKIPPED = {tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT, tokenize.ENDMARKER}


def counted(text: str) -> tuple[int, int]:
    """(lines with a comment, lines with a comment or code)."""
    comments: set[int] = set()
    code: set[int] = set()
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type == tokenize.COMMENT:
            if not token.string.startswith(FOR_TOOLS):
                comments.add(token.start[0])
        elif token.type not in SKIPPED:
            code.update(range(token.start[0], token.end[0] + 1))
    return len(comments), len(comments | code)


def test_it_counts():
    assert counted('"""Text."""\n\n# why\nx = 1  # in bytes\ny = """\n# no\n"""  # noqa\n') == (2, 6)


@pytest.mark.parametrize("room", SHARES)
def test_a_room_says_why(room):
    counts = [counted(path.read_text()) for path in (BROKER / room).rglob("*.py") if "_pb2" not in path.name]
    share = 100 * sum(comments for comments, _ in counts) / sum(lines for _, lines in counts)
    assert share >= SHARES[room], f"{share:.1f} %: say why it is so, which rule it keeps, what would break otherwise"
    assert share < SHARES[room] + 3, f"{share:.1f} %: it has grown, say so above"


NOBODY_IN_PARTICULAR = re.compile(r"\b(?:somebody|someone|whoever|the others)\b", re.IGNORECASE)


@pytest.mark.parametrize("tree", ["broker", "operator", "pipeline"])
def test_the_head_of_a_file_names_its_actors(tree):
    """docs/glossary.md has the words."""
    found = {}
    for path in (BROKER.parent / tree).rglob("*.py"):
        head = "" if "_pb2" in path.name else ast.get_docstring(ast.parse(path.read_text())) or ""
        if words := NOBODY_IN_PARTICULAR.findall(head):
            found[path.relative_to(BROKER.parent).as_posix()] = words
    assert not found, "say who: a leader, a follower, an edge, a session, a consumer, a client"
