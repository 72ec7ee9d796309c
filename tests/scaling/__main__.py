"""`python -m tests.scaling`: one line for each size of cluster; `… costs`: what one more of each thing costs;
`… slots`: how evenly addresses are spread.

Rule: prints what tests.scaling.growth and tests.scaling.costs find (docs/scaling.md has it, and what follows of it); a
size is owners×edges.
"""

from __future__ import annotations

import argparse
import resource
import sys
import time
from collections import Counter

from broker.core.ids import SLOTS, slot_of

from . import costs
from .growth import Cluster, Seen

SIZES = "3x2,6x10,12x30,24x100,50x100,100x100"
IDLE_S = 4.0
WILDCARDS = 5
WAYS = ("edge → owner", "owner → edge", "owner → owner")


def per_second(seen: Seen, way: str) -> str:
    return f"{seen.messages[way] / seen.seconds:,.0f}"


def beyond(seen: Seen, idle: Seen, *ways: str) -> float:
    """Kilobytes that were sent besides what is sent at rest."""
    return sum(seen.nbytes[way] - idle.nbytes[way] * seen.seconds / idle.seconds for way in ways) / 1000


def measured(owners: int, edges: int) -> list[str]:
    began = time.perf_counter()
    with Cluster(owners, edges) as cluster:
        streams, store = cluster.streams(), cluster.store
        keys, watches = len(store.keys), store.watches
        idle = cluster.look(IDLE_S)
        edge = cluster.add_edge()
        wild = cluster.subscribe_wildcard(WILDCARDS)
        took, lost = cluster.lose_owner()
    return [
        str(owners), str(edges),
        f"{streams['edge → owner']:,}", f"{streams['owner → owner']:,}",
        per_second(idle, "edge → owner"), per_second(idle, "owner → owner"),
        f"{idle.used_ms['owner'] / idle.seconds / owners:.1f}", f"{idle.used_ms['edge'] / idle.seconds / edges:.1f}",
        f"{keys:,}", f"{watches:,}", f"{idle.store['requests'] / idle.seconds:,.0f}",
        f"{beyond(edge, idle, *WAYS):,.0f}", f"{beyond(wild, idle, 'edge → owner') / WILDCARDS:,.1f}",
        f"{took * 1000:,.0f}", f"{lost.store['writes']:,}", f"{lost.store['watch events']:,}",
        f"{beyond(lost, idle, 'edge → owner'):,.0f}",
        f"{time.perf_counter() - began:.0f}", f"{resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10:,}",
    ]  # fmt: skip


COLUMNS = (
    "owners", "edges", "streams edge → owner", "owner → owner", "idle messages/s edge → owner", "owner → owner",
    "idle ms/s an owner", "an edge", "etcd keys", "watches", "idle requests/s", "an edge comes: kB", "a wildcard: kB",
    "an owner dies: led again ms", "etcd writes", "watch events", "kB edge → owner",
    "simulated in s", "MB",
)  # fmt: skip


def even() -> int:
    """How many addresses the fullest slot has, of its share."""
    for count in (1_000, 10_000, 100_000):
        fullest = max(Counter(slot_of(f"orders.{n}") for n in range(count)).values())
        print(f"{count:,} addresses: {fullest * SLOTS / count:.2f} times its share")
    return 0


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.scaling", description=__doc__)
    parser.add_argument("--sizes", default=SIZES, help=f"owners×edges, separated by commas ({SIZES})")
    parser.add_argument("what", nargs="?", choices=("growth", "costs", "slots"), default="growth")
    args = parser.parse_args()
    if args.what == "costs":
        return costs.main()
    if args.what == "slots":
        return even()
    sizes = [tuple(map(int, size.split("x"))) for size in args.sizes.split(",")]
    print("| " + " | ".join(COLUMNS) + " |")
    print("| " + " | ".join("---:" for _ in COLUMNS) + " |")
    for owners, edges in sizes:
        print("| " + " | ".join(measured(owners, edges)) + " |", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
