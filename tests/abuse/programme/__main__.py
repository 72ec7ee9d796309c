"""`make abuse ARGS="--seconds 20"`: a polite client beside each abuser, a line each, as docs/reliability.md shows them.

Exit status 1 when one waits longer than the bound: p99 10 ms on a quiet machine of two cores.
"""

from __future__ import annotations

import argparse
import asyncio
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from tests.harness import Broker

from .abusers import ALL
from .polite import Polite

BOUND_S = 0.010


def beside(name: str, seconds: float, rate: int, settings: dict[str, object]) -> tuple[Polite, int]:
    """The polite client beside this abuser ("": nobody), and the most memory the broker had, in bytes."""
    with tempfile.TemporaryDirectory() as folder, Broker(Path(folder), settings) as server:
        server.metrics()  # the admin port is up
        polite = Polite(server.port, rate)
        line = [sys.executable, "-m", "tests.abuse.programme.abusers", name, str(server.port)]
        abuser = subprocess.Popen([*line, str(server.admin_port), str(seconds + 30)]) if name else None
        try:
            time.sleep(1)
            asyncio.run(polite.run(seconds))
        finally:
            if abuser is not None:
                abuser.kill()
                abuser.wait()
        peak = re.search(r"VmHWM:\s+(\d+) kB", Path(f"/proc/{server.pid}/status").read_text())
        server.kill()
    return polite, int(peak[1]) * 1024 if peak else 0


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=15, help="beside each (default 15)")
    parser.add_argument("--rate", type=int, default=200, help="messages a second of the polite client (default 200)")
    parser.add_argument("--only", default="", help=f"comma list of {', '.join(ALL)}")
    parser.add_argument("--set", action="append", default=[], help="name=value for the broker")
    given = parser.parse_args()
    only = [name for name in given.only.split(",") if name] or list(ALL)
    settings: dict[str, object] = dict(pair.partition("=")[::2] for pair in given.set)
    bad = False
    print("| beside | p50 ms | p99 ms | longest ms | broker's memory MB |\n| --- | ---: | ---: | ---: | ---: |")
    for name in ("", *only):
        polite, peak = beside(name, given.seconds, given.rate, settings)
        p50, p99, worst = (1000 * polite.percentile(part) for part in (0.5, 0.99, 1.0))
        bad |= p99 > 1000 * BOUND_S
        print(f"| {name or 'nobody'} | {p50:.1f} | {p99:.1f} | {worst:.1f} | {peak / 1e6:.0f} |", flush=True)
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
