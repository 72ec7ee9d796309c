"""docs/acceptance.md: all numbers, each with tests that are there."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "acceptance.md").read_text()
ROWS = {row.split(" | ")[0].strip("| "): row for row in PAGE.splitlines() if re.match(r"\| [EF]\d", row)}


def test_no_number_is_left_out():
    assert list(ROWS) == [*(f"F{number}" for number in range(1, 9)), *(f"E{number}" for number in range(1, 31))]


def test_each_chapter_has_its_page():
    rows = PAGE.partition("## Chapters")[2].splitlines()
    chapters = [row for row in rows if row.startswith("| ") and "](" in row]
    assert len(chapters) == 5
    for row in chapters:
        for page, _, place in re.findall(r"\]\(([\w-]+\.md)(#([\w-]+))?\)", row):
            text = (ROOT / "docs" / page).read_text()
            titles = [title.lower().replace(" ", "-") for title in re.findall(r"^## (.+)$", text, re.MULTILINE)]
            assert not place or place in titles, row
        assert all((ROOT / test).is_file() for test in re.findall(r"`(tests/[^`]+)`", row)), row


def test_each_names_tests_that_are_there():
    for number, row in ROWS.items():
        named = re.findall(r"`(tests/[^`]+)`", row)
        assert named, number
        for place in named:
            file, _, test = place.partition("::")
            assert (ROOT / file).is_file(), (number, place)
            assert not test or re.search(rf"def {test}\(", (ROOT / file).read_text()), (number, place)
