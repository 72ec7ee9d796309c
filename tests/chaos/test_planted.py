"""Every planted bug still has its place in the code, and what becomes of it is Python."""

from __future__ import annotations

import pytest

from tests.harness.broker import ROOT

from . import faults
from .planted import BUGS, place


@pytest.mark.parametrize("bug", BUGS)
def test_a_bug_can_be_planted(bug):
    assert set(BUGS[bug].faults) <= faults.ALL.keys() and BUGS[bug].found
    for text, instead in BUGS[bug].changes:
        file = place(text, ROOT / "broker")
        compile(file.read_text().replace(text, instead), file, "exec")
