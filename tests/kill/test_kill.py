"""Real processes and SIGKILL: every promise of a durable broker, judged over the whole run.

KILLS=50 (or 1000) makes the run long, KILL_SEED=n repeats one.
"""

from __future__ import annotations

import os
import random
from collections import Counter
from pathlib import Path

import pytest

from .checker import check, check_moves, unanswered
from .history import Kind
from .supervisor import run

KILLS = int(os.environ.get("KILLS", "3"))


@pytest.mark.timeout(150 + 5 * KILLS)
async def test_no_promise_is_broken_by_kill_9(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    seed = int(os.environ.get("KILL_SEED", random.randrange(1 << 30)))
    world = await run(tmp_path, KILLS, seed)
    history = world.history
    broken = check(history) + check_moves(history, "kill.in/p4", "kill.out")
    broken += unanswered(history, world.drained)
    counts = Counter(event.kind for event in history.events)
    again = sum(event.redelivered for event in history.events)
    slowest = max(world.recoveries)
    summary = (
        f"seed {seed}, {KILLS} kills: {counts[Kind.RECEIPTED]} receipted, {counts[Kind.DELIVERED]} delivered "
        f"({again} redelivered), {counts[Kind.SETTLED]} settled, {counts[Kind.COMMITTED]} commits; "
        f"slowest start {slowest:.2f} s"
    )
    assert not broken, f"{summary}\n{len(broken)} broken promises:\n" + "\n".join(broken[:40])
    # A run that did nothing would pass every check.
    assert counts[Kind.RECEIPTED] > 100 * KILLS and counts[Kind.COMMITTED] > 10 * KILLS, summary
    if KILLS > 3:
        with capsys.disabled():
            print("\n" + summary)
