"""`make abuse ARGS="--seconds 20"`: a polite client beside each abuser, a line each, as docs/reliability.md shows them.

Exit status 1 when one waits longer than the bound: p99 10 ms beside one broker, 20 ms in a cluster (`--cluster`), on a
quiet machine of two cores. Each row names what bounds that abuser.

Broker and polite client come before all else on the machine where that may be asked for (root), the abuser behind it:
what is measured is who waits for the broker, not for a processor that the abuser, or a compiler, has. The line above
the table says so. Behind the table stands for each row whose steps were long, by process and kind, and how much of a
core each process has used: a row that is slow with short steps and two full cores has waited for a processor.
"""

from __future__ import annotations

import argparse
import asyncio
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path

from tests.harness.priorities import LAST, behind, go_first

from .abusers import ALL
from .polite import Polite
from .sites import Place, Stepped, alone, in_cluster
from .target import BOUNDS

BOUND_S = {alone: 0.010, in_cluster: 0.020}
HEAD = (
    "| beside | p50 ms | p99 ms | longest ms | steps > 5 ms of 1,000 | longest step ms, whose | memory MB | bound by |"
)
NOBODY = "nobody"
RULE = "| --- | ---: | ---: | ---: | ---: | ---: | ---: | --- |"


def beside(name: str, place: Place, seconds: float, rate: int) -> Polite:
    """The polite client beside this abuser, or nobody."""
    polite = Polite(place.port, rate)
    line = [sys.executable, "-m", "tests.abuse.programme.abusers", name]
    line += [str(port) for port in (place.port, place.ws_port, place.edge)]
    abuser = subprocess.Popen([*behind(), *line, str(seconds + 30)]) if name != NOBODY else None
    try:
        time.sleep(1)
        asyncio.run(polite.run(seconds))
    finally:
        if abuser is not None:
            abuser.kill()
            abuser.wait()
    return polite


def row(name: str, polite: Polite, steps: Stepped, peak: int) -> str:
    """A line of the table."""
    p50, p99, worst = (1000 * polite.percentile(part) for part in (0.5, 0.99, 1.0))
    longest, whose = steps.longest
    what = f"{p50:.1f} | {p99:.1f} | {worst:.1f} | {steps.long_ones:.1f} | {1000 * longest:.0f} {whose}"
    return f"| {name} | {what} | {peak / 1e6:.0f} | {BOUNDS.get(name, '')} |"


def busy(before: Mapping[str, float], after: Mapping[str, float], seconds: float) -> str:
    """How much of a core each process had."""
    return ", ".join(f"{name} {(after[name] - spent) / seconds:.2f}" for name, spent in before.items())


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=15, help="beside each (default 15)")
    parser.add_argument("--rate", type=int, default=200, help="messages a second of the polite client (default 200)")
    parser.add_argument("--only", default="", help=f"comma list of {', '.join([NOBODY, *ALL])}")
    parser.add_argument("--cluster", action="store_true", help="three owners and two edges instead of one broker")
    parser.add_argument("--set", action="append", default=[], help="name=value for the broker")
    given = parser.parse_args()
    only = [name for name in given.only.split(",") if name] or [NOBODY, *ALL]
    if unknown := set(only) - {NOBODY, *ALL}:
        parser.error(f"no such abuser: {', '.join(sorted(unknown))}")
    settings: Mapping[str, object] = dict(pair.partition("=")[::2] for pair in given.set)
    start = in_cluster if given.cluster else alone
    bad = False
    first = "before all else on this machine" if go_first() else "like all else (only root could have them go first)"
    print(f"broker and polite client run {first}, the abuser at nice {LAST}\n\n{HEAD}\n{RULE}", flush=True)
    more: list[str] = []
    for name in only:
        with tempfile.TemporaryDirectory() as folder, start(Path(folder), settings) as place:
            steps, computed, begun = place.steps(), place.computed(), time.monotonic()
            polite = beside(name, place, given.seconds, given.rate)
            cores = busy(computed, place.computed(), time.monotonic() - begun)
            steps = place.steps().since(steps)
            print(row(name, polite, steps, place.peak()), flush=True)
            more.append(f"- {name}: {steps.told() or 'none'}. Of a core: {cores}")
        bad |= polite.percentile(0.99) > BOUND_S[start]
    print("\nSteps of more than 5 ms, by process and kind:", *more, sep="\n", flush=True)
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
