"""Which histories are run: the same ones in `make test`, others in each `make torture`.

Rule: STAMPEDE_SEED and a number of histories say all of it, so that what was printed can be run again.
"""

from __future__ import annotations

import os
import subprocess
import sys

BASE = int(os.environ.get("STAMPEDE_SEED", "0"))
"""Of the first history."""


def seeds(usual: int, setting: str = "STAMPEDE_CLUSTER_SEEDS") -> range:
    """As many as the setting says, else `usual`."""
    return range(BASE, BASE + int(os.environ.get(setting, str(usual))))


def parts(chosen: list[int] | range, most: int) -> list[list[int]]:
    """For tests of at most so many each."""
    return [list(chosen[at : at + most]) for at in range(0, len(chosen), most)]


def histories(module: str, *args: object, hashes: int) -> subprocess.CompletedProcess[str]:
    """Runs `module` with these in a process of its own. hashes: PYTHONHASHSEED, within what that may be."""
    return subprocess.run(
        [sys.executable, "-m", f"tests.sim.{module}", *map(str, args)],
        env={**os.environ, "PYTHONHASHSEED": str(hashes % 2**32)},
        capture_output=True, text=True, timeout=600, check=False,
    )  # fmt: skip
