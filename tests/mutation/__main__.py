"""`python -m tests.mutation owner.replication.isr wire.block --each 60`: how many changes of logic the unit tests
notice.

A line per module and one per change that none noticed. Without names all of targets.py. Exit status 1 when fewer than
`--least` percent were noticed.
"""

from __future__ import annotations

import argparse
import math
import sys
import time

from .mutants import some
from .targets import TARGETS
from .trial import alone, tried


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.mutation", description=__doc__)
    parser.add_argument("modules", nargs="*", help=f"default: all of {', '.join(TARGETS)}")
    parser.add_argument("--each", type=int, default=40, help="changes of each module (default 40), drawn by --seed")
    parser.add_argument("--seed", type=int, default=1, help="other changes (default 1)")
    parser.add_argument("--jobs", type=int, default=2, help="at the same time (default 2)")
    parser.add_argument("--minutes", type=float, default=20, help="nothing is begun after that (default 20)")
    parser.add_argument("--least", type=float, default=0, help="percent that must be noticed (default 0)")
    given = parser.parse_args()
    if unknown := set(given.modules) - TARGETS.keys():
        parser.error(f"not in tests/mutation/targets.py: {', '.join(sorted(unknown))}")
    until = time.monotonic() + 60 * given.minutes
    noticed = of = 0
    for module in given.modules or TARGETS:
        if time.monotonic() > until:
            print(f"{module}: no time left", flush=True)
            continue
        tests = [f"tests/unit/{file}" for file in TARGETS[module]]
        cpu_s, wall_s = alone(tests)
        results = list(
            tried(
                tests,
                some(module, given.each, given.seed),
                given.jobs,
                math.ceil(5 * cpu_s) + 5,
                10 * wall_s + 30,
                until,
            )
        )
        survived = sorted((mutant for mutant, seen in results if not seen), key=lambda mutant: mutant.line)
        noticed, of = noticed + len(results) - len(survived), of + len(results)
        print(f"{module}: {len(results) - len(survived)} of {len(results)} noticed", flush=True)
        for mutant in survived:
            print(f"  {mutant}", flush=True)
    print(f"together: {noticed} of {of} noticed ({100 * noticed / max(of, 1):.0f} %)", flush=True)
    return 1 if 100 * noticed < given.least * of else 0


if __name__ == "__main__":
    sys.exit(main())
