"""Is this tree slower than another commit? `bench/run.py --compare COMMIT` measures both in turns.

Rule: both trees run on this Python and this machine, with one generator and one after the other inside every
repetition, the first one in turns too; what counts is the ratio within a repetition, never a figure of its own.
"""

from __future__ import annotations

import statistics
import subprocess
import sysconfig
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from brokers import ROOT, Stampede
from scenarios import METRICS, SCENARIOS

SLOWER = 1.05
"""A median ratio beyond that fails. Medians of five short runs on a virtual machine differ by 3 % without a cause."""
SCENARIOS_COMPARED = (
    "one-to-one", "jms", "persistent", "jms-persistent", "open-5000", "individual", "topic", "in-turn", "durable-1",
)  # fmt: skip
"""Unless some are named: what a change of the message path shows in."""
COST = "broker_us_per_message"


@contextmanager
def checkout(commit: str, scratch: Path) -> Iterator[type[Stampede]]:
    """That commit as a broker, in a worktree of its own as long as it is needed."""
    where = scratch / "other"
    subprocess.run(["git", "worktree", "add", "-q", "--detach", str(where), commit], cwd=ROOT, check=True)

    class Other(Stampede):
        name = commit
        root = where

        def command(self) -> tuple[list[str], dict[str, str]]:
            argv, extra = super().command()
            return argv, extra | {"PYTHONPATH": str(where)}

    try:
        yield Other
    finally:
        subprocess.run(["git", "worktree", "remove", "--force", str(where)], cwd=ROOT, check=False)


def flags() -> str:
    """How this Python was built: without profile-guided optimisation all figures are a fifth worse."""
    given = sysconfig.get_config_var("CONFIG_ARGS") or ""
    found = [flag for flag in ("--enable-optimizations", "--with-lto", "--enable-shared") if flag in given]
    return " ".join(found) or "no optimisation"


def ratios(records: list[dict], scenario: str, commit: str, name: str) -> list[float]:
    """Ours by theirs, one per repetition in which both came to a figure."""
    found = []
    for run in sorted({record["run"] for record in records}):
        pair = {
            record["broker"]: record["figures"][name]
            for record in records
            if record["scenario"] == scenario and record["run"] == run and name in record.get("figures", {})
        }
        if len(pair) == 2 and pair[commit] > 0:
            found.append(pair["stampede"] / pair[commit])
    return found


def judged(records: list[dict], scenarios: list[str], commit: str) -> tuple[str, list[str]]:
    """A table of ratios (below 1: this tree is cheaper), and the scenarios whose CPU a message has grown too much."""
    lines = [
        f"| scenario | figure | {commit} | this tree | ratio | spread |",
        "| --- | --- " + "| ---: " * 3 + "| --- |",
    ]
    slower = []
    for scenario in scenarios:
        title = SCENARIOS[scenario][0]
        runs = [r for r in records if r["scenario"] == scenario and "figures" in r]
        for name in (name for name in METRICS if any(name in r["figures"] for r in runs)):
            found = ratios(records, scenario, commit, name)
            if not found:
                continue
            ours, theirs = (
                statistics.median(r["figures"][name] for r in runs if r["broker"] == broker)
                for broker in ("stampede", commit)
            )
            middle = statistics.median(found)
            lines.append(
                f"| {title} | {METRICS[name][0]} | {theirs:,.3g} | {ours:,.3g} | {middle:.3f} | "
                f"{min(found):.2f}–{max(found):.2f} |"
            )
            title = ""
            if name == COST and middle > SLOWER:
                slower.append(f"{scenario}: {middle:.3f} times the CPU a message of {commit}")
    return "\n".join(lines), slower
