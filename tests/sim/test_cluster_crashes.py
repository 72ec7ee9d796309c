"""Histories of a whole cluster: three owners, edges, the metadata store, and all that can happen to them.

STAMPEDE_CLUSTER_SEEDS=10000 runs more of them. They run in processes of their own, so that sets of texts are walked in
the same order each time: a failure tells its seed, and `PYTHONHASHSEED=0 python -m tests.sim.cluster_full SEED` shows
it again.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys

import pytest

SCHEDULES = int(os.environ.get("STAMPEDE_CLUSTER_SEEDS", "200"))
PER_TEST = 50
OPEN = (
    r"left on disk",  # a settled message stays in the logs
    r"stuck: pending .* missing \[\] of 0",  # a message stays with a consumer that never got it; none is lost
    r"NO_SUCH_DELIVERY|NO_SUCH_TRANSACTION",  # an ACK or a COMMIT is refused though it could be carried out
    r"dead letter without reason",
    r"transaction split: .*became a dead letter",
)
"""What is not mended yet (docs/reliability.md), about 1 of 60 histories. They do not repeat to the last callback, so
they are known by what they end with. Anything else, a lost message above all, fails at once."""
OPEN_MOST = 3
"""Of PER_TEST histories."""


def histories(*seeds):
    return subprocess.run(
        [sys.executable, "-m", "tests.sim.cluster_full", *map(str, seeds)],
        env={**os.environ, "PYTHONHASHSEED": "0"}, capture_output=True, text=True, timeout=600, check=False,
    )  # fmt: skip


@pytest.mark.timeout(600)
@pytest.mark.parametrize("start", range(0, SCHEDULES, PER_TEST))
def test_a_cluster_keeps_its_promises(start):
    done = histories(*range(start, start + PER_TEST))
    ends = re.findall(r"^seed \d+: .*$", done.stdout, re.MULTILINE)
    assert len(ends) == done.returncode, done.stdout[-5000:] + done.stderr[-2000:]
    strange = [end for end in ends if not any(re.search(kind, end) for kind in OPEN)]
    assert not strange, "\n".join(strange) + done.stdout[-5000:]
    assert len(ends) <= OPEN_MOST, "\n".join(ends)


@pytest.mark.xfail(strict=False, reason="most do; what orders the others is not found yet")
def test_a_history_repeats_itself():
    first, second = histories("--tell", 5), histories("--tell", 5)
    assert first.returncode == 0
    assert first.stdout == second.stdout != ""
