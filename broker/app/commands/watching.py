"""`stampede top`: totals and the first queues of a list, looked at again and again.

Rule: two small requests a look; what is drawn fits the terminal. Must not know what the numbers mean.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence

import click

from broker.seams.clock import SystemClock

from .admin_client import AdminApi, dump, say_missing, show

_RATES = ("accepted", "delivered", "acked")


def watch(
    api: AdminApi, every: float, sort: str, count: int, rows: int, columns: Sequence[str], output: str
) -> None:  # fmt: skip
    """Until Ctrl-C, or `count` looks."""
    clock, pause = SystemClock(), threading.Event()
    before: tuple[float, dict[str, int]] | None = None
    looks = 0
    while True:
        told = api.get("/overview")
        if output != "table":
            say_missing(told)  # what is drawn is cleared by the next look: it has a line of its own
        now, done = clock.monotonic(), told["messaging"]["since_start"]
        page = list(api.rows("/queues", rows, sort=sort))
        rates = {name: 0.0 for name in _RATES}
        if before is not None:
            passed = max(now - before[0], 0.001)
            rates = {name: (done[name] - before[1][name]) / passed for name in _RATES}
        before = now, done
        if output == "table":
            click.clear()
            messaging, clients = told["messaging"], told["clients"]
            click.echo(
                f"{told['id']} {told['version']}   {clients['connections']} connections   "
                f"{messaging['queues']} queues   {messaging['messages']} messages"
            )
            click.echo("   ".join(f"{name} {rate:.0f}/s" for name, rate in rates.items()))
            click.echo("".join(f"{each['owner']} is missing: {each['why']}\n" for each in told.get("missing", ())))
            show(page, columns, output)
        else:
            dump({"rates": rates, "queues": page}, output)
        looks += 1
        if looks == count:
            return
        try:
            pause.wait(every)
        except KeyboardInterrupt:
            return
