"""Comments that give reasons: how many of the lines of the hard rooms are comments.

Rule: a share may only grow. It says nothing of what a comment is worth; without it they go one by one, each for a good
reason.
"""

from __future__ import annotations

import io
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
