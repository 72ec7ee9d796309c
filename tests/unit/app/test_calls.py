"""What a message costs, in Python calls: no noise, so a bound without slack for it. Lower a number when it can be;
who raises one says in the commit what for."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.harness.calls import COUNTED, WORK, count

MOST = {"unbatched": 47, "persistent": 109, "individual": 116, "topic": 156, "in_turn": 32}
"""Calls a message. At aad9957: 91, 197, 167, 270 and 41."""


@pytest.mark.parametrize("work", MOST)
def test_a_message_takes_few_calls(work: str, tmp_path: Path) -> None:
    pytest.importorskip("uvloop", reason="counted on uvloop, whose own calls are not Python's")
    for attempt in range(3):  # what a busy machine adds (a tick between, a step that is told as slow) it adds to one
        calls = count(WORK[work], tmp_path / str(attempt))
        if calls.each(COUNTED) <= MOST[work]:
            return
    pytest.fail(calls.table(COUNTED))
