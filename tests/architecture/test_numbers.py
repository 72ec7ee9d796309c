"""docs/stomp-rules.md and docs/invariants.md are complete: each number that code or tests use is explained there, and
what a row names is there.

Rule: numbers are C01 … for sentences of STOMP and I1 … for invariants, anywhere in docstrings, comments and names.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
SOURCES = [
    path for top in ("broker", "tests") for path in sorted((ROOT / top).rglob("*.py")) if "_pb2" not in path.name
]
NUMBERS = {
    "stomp-rules.md": re.compile(r"(?<![A-Za-z0-9])C\d\d(?![A-Za-z0-9])"),
    "invariants.md": re.compile(r"(?<![A-Za-z0-9_])I\d\d?(?![A-Za-z0-9_])"),
}
ROW = re.compile(r"^\| ([CI]\d+) \|(.*)\|$", re.MULTILINE)
NAMED = re.compile(r"`((?:tests|broker)/[\w/]+\.py)(?:::(\w+))?`")


def rows(page: str) -> dict[str, str]:
    return dict(ROW.findall((ROOT / "docs" / page).read_text()))


def used(number: re.Pattern[str]) -> Iterator[tuple[str, str]]:
    """(number, file)"""
    for path in SOURCES:
        if path != Path(__file__).resolve():
            for found in set(number.findall(path.read_text())):
                yield found, path.relative_to(ROOT).as_posix()


@pytest.mark.parametrize("page", NUMBERS)
def test_every_number_that_is_used_is_explained(page):
    known = rows(page)
    assert len(known) > 10
    assert [(number, file) for number, file in used(NUMBERS[page]) if number not in known] == []


@pytest.mark.parametrize("page", NUMBERS)
def test_what_a_row_names_is_there(page):
    for number, row in rows(page).items():
        named = NAMED.findall(row)
        assert any(file.startswith("tests/") for file, _ in named), f"{number} names no test"
        for file, function in named:
            assert (ROOT / file).is_file(), f"{number}: there is no {file}"
            text = (ROOT / file).read_text()
            assert not function or re.search(rf"def {function}\(", text), f"{number}: {file} has no {function}"


def test_each_rule_of_stomp_has_a_test_of_its_name():
    """C66 is the exception: the cases of Artemis' users, which have numbers of their own, hold it."""
    for number, row in rows("stomp-rules.md").items():
        for file, _ in NAMED.findall(row):
            named = re.search(rf"def test_\w*{number}_", (ROOT / file).read_text())
            assert named or number == "C66", f"no test of {file} bears {number} in its name"
