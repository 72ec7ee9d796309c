"""All bridges that this process runs, as settings and (in a cluster) who else is there say.

Rule: what runs is what is wanted, soon; a change of one ends and begins that one and no other. What runs one is loaded
with the first (the client of STOMP, 20 ms): most brokers have none.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any

from broker.config.bridges import BridgeSettings
from broker.core.metrics import Metric

if TYPE_CHECKING:
    from .ends import Inside
    from .runner import Runner

Tables = Mapping[str, Mapping[str, Any]]

_FAMILIES = (
    ("stomp_bridge_up", "gauge", "up", "1 while both ends of a bridge that this process runs are connected."),
    ("stomp_bridge_messages_total", "counter", "moved",
     "Messages that a bridge has moved: the target has confirmed them."),
    ("stomp_bridge_bytes_total", "counter", "nbytes", "Bytes of bodies that a bridge has moved."),
    ("stomp_bridge_in_flight", "gauge", "in_flight", "Messages sent to the target and not confirmed yet."),
    ("stomp_bridge_failures_total", "counter", "failures", "Times that a bridge lost an end, or could not connect."),
    ("stomp_bridge_refused_total", "counter", "refused",
     "Messages that the target refused; they went back to their source as failed."),
    ("stomp_bridge_round_total", "counter", "round", "Messages not sent on because they had crossed max_hops bridges."),
    ("stomp_bridge_exactly_once", "gauge", "once", "1 where a message comes once whatever fails; 0: at least once."),
)  # fmt: skip


class Bridges:
    """inside   connects to this broker. Runs all that are wanted, until others run some (run_if)."""

    def __init__(self, inside: Inside) -> None:
        self._mine: Callable[[str], bool] = lambda name: True
        self._inside = inside
        self._wanted: dict[str, BridgeSettings] = {}
        self._runners: dict[str, Runner] = {}
        self._again = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self._gone: set[str] = set()
        """Taken out of the settings: their subscriptions to topics end."""

    def run_if(self, mine: Callable[[str], bool]) -> None:
        """Others run some of them, and `mine` says which are this process's."""
        self._mine = mine

    def wanted(self) -> set[str]:
        """Names of those that a process should run."""
        return set(self._wanted)

    def start(self) -> None:
        self._task = asyncio.get_running_loop().create_task(self._keep(), name="bridges")

    async def stop(self) -> None:
        """Ends all of them, at once."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait({self._task})
        runners, self._runners = self._runners, {}
        await asyncio.gather(*[runner.stop() for runner in runners.values()])

    def configure(self, tables: Tables) -> None:
        """These are the bridges from now on."""
        wanted = {name: BridgeSettings(**table) for name, table in tables.items()}
        self._gone = (self._gone | self._wanted.keys()) - wanted.keys()
        self._wanted = {name: bridge for name, bridge in wanted.items() if bridge.enabled}
        self.look()

    def look(self) -> None:
        """What is wanted, or whose it is, may have changed."""
        self._again.set()

    async def _keep(self) -> None:
        while True:
            await self._again.wait()
            self._again.clear()
            over = [name for name, runner in self._runners.items() if not self._goes_on(name, runner)]
            await asyncio.gather(*[self._end(name) for name in over])
            # In a thread: the first bridge may come while clients are served.
            runner = await asyncio.to_thread(_load) if self._wanted else None
            for name, bridge in self._wanted.items():
                if runner is not None and name not in self._runners and self._mine(name):
                    self._runners[name] = runner(name, bridge, self._inside)

    def _goes_on(self, name: str, runner: Runner) -> bool:
        return self._wanted.get(name) == runner.bridge and self._mine(name)

    async def _end(self, name: str) -> None:
        runner = self._runners.pop(name)
        forget = name in self._gone or self._source_of(name) not in (None, _source(runner.bridge))
        self._gone.discard(name)
        await runner.stop(forget)

    def _source_of(self, name: str) -> tuple[str, str, str] | None:
        bridge = self._wanted.get(name)
        return None if bridge is None else _source(bridge)

    def rows(self) -> list[dict[str, Any]]:
        """Those that run here, for people."""
        return [
            {"name": name, "direction": runner.bridge.direction, "source": runner.bridge.source,
             "target": runner.bridge.to, "url": runner.bridge.url, "up": bool(runner.counters.up),
             "exactly_once": bool(runner.counters.once), "messages": runner.counters.moved,
             "in_flight": runner.counters.in_flight, "failures": runner.counters.failures, "why": runner.why}
            for name, runner in sorted(self._runners.items())
        ]  # fmt: skip

    def metrics(self) -> Iterable[Metric]:
        if self._runners:
            for family, kind, field, text in _FAMILIES:
                rows = [({"bridge": name}, getattr(each.counters, field)) for name, each in self._runners.items()]
                yield Metric(family, kind, text, rows)  # type: ignore[arg-type]


def _load() -> type[Runner]:
    from .runner import Runner

    return Runner


def _source(bridge: BridgeSettings) -> tuple[str, str, str]:
    """What a lasting subscription hangs on."""
    return bridge.source, bridge.direction, bridge.url if bridge.direction == "in" else bridge.virtual_host
