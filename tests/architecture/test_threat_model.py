"""docs/threat-model.md names a test for each claim; a claim without one is a wish."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "threat-model.md").read_text()
NAMED = sorted(set(re.findall(r"`(tests/[\w/]+\.py(?:::\w+)?)`", PAGE)))


@pytest.mark.parametrize("named", NAMED)
def test_what_the_page_names_is_there(named):
    file, _, function = named.partition("::")
    text = (ROOT / file).read_text()
    assert not function or re.search(rf"def {function}\(", text), f"{file} has no {function}"


def test_every_claim_names_one():
    rows = [
        line for line in PAGE.split("## Claims")[1].split("## What is not")[0].splitlines() if line.startswith("| ")
    ]
    claims = [row for row in rows if not row.startswith(("| claim", "| ---"))]
    assert len(claims) > 20
    assert not [row for row in claims if "`tests/" not in row]
