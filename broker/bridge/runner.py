"""One bridge for as long as it is wanted: connects both ends, moves messages, and begins again when one fails.

The target is connected first: what the source hands out to a bridge that cannot pass it on would count as a failed
attempt.

Rule: never ends by itself. Every failure is told once, and waited for longer each time in a row.
"""

from __future__ import annotations

import asyncio
import logging

from broker.client import ClientError
from broker.config.bridges import BridgeSettings

from .ends import End, Inside, here, there
from .kinds import is_topic
from .pump import BridgeCounters, Pump, TargetRefused, client_id

log = logging.getLogger("stampede.bridge")

REFUSALS = 5
"""In a row, of one message, by a broker that does not say whose fault it is: then it is the message's."""
CALM_S = 60.0
"""A connection that lasted so long makes earlier failures forgotten."""
GOODBYE_S = 2.0
TOLD_S = 60.0
"""The same failure is told so often."""


class Runner:
    """why   what it failed of last; empty: nothing since it is up."""

    def __init__(self, name: str, bridge: BridgeSettings, inside: Inside) -> None:
        self.name = name
        self.bridge = bridge
        self.counters = BridgeCounters()
        self.why = ""
        self._inside = inside
        self._pump: Pump | None = None
        self._stopping = False
        self._forget = asyncio.Event()
        self._refused = ("", 0)
        self._task = asyncio.get_running_loop().create_task(self._run(), name=f"bridge {name}")

    async def stop(self, forget: bool = False) -> None:
        """Returns when it has ended; what is under way is answered first, if that is soon. forget: its subscription to
        a topic ends as well."""
        self._stopping = True
        if forget:
            self._forget.set()
        if self._pump is not None:
            self._pump.stop()
            await asyncio.wait({self._task}, timeout=3 * GOODBYE_S)
        self._task.cancel()
        await asyncio.wait({self._task})

    async def _run(self) -> None:
        loop, failures, told, told_at = asyncio.get_running_loop(), 0, "", 0.0
        while not self._stopping:
            began = loop.time()
            try:
                await self._once(careful=failures > 0)
                continue
            except (ClientError, OSError) as error:
                self._note(error)
            except Exception as error:
                log.exception("bridge %s: internal error", self.name)
                self._note(error)
            failures = 1 if loop.time() - began > CALM_S else failures + 1
            wait = min(self.bridge.retry_max_s, self.bridge.retry_min_s * 2 ** min(failures - 1, 20))
            if self.why != told or loop.time() - told_at > TOLD_S:
                told, told_at = self.why, loop.time()
                log.warning("bridge %s: %s; again in %.1f s", self.name, self.why, wait)
            await asyncio.sleep(wait)

    def _note(self, error: Exception) -> None:
        self.counters.fails()
        self.why = str(error) or type(error).__name__
        name = error.name if isinstance(error, TargetRefused) else ""
        before, times = self._refused
        self._refused = (name, times + 1 if name == before else 1) if name else ("", 0)

    async def _once(self, careful: bool) -> None:
        bridge = self.bridge
        id = client_id(self.name) if is_topic(bridge.source) else ""
        out = bridge.direction == "out"
        target = await there(bridge, "") if out else await here(self.name, bridge, self._inside, "")
        try:
            source = await here(self.name, bridge, self._inside, id) if out else await there(bridge, id)
            try:
                await self._move(source, target, careful)
            finally:
                # In order, so that the source does not count what it gets back as failed attempts.
                await _goodbye(source)
        finally:
            await _goodbye(target)

    async def _move(self, source: End, target: End, careful: bool) -> None:
        name, times = self._refused
        pump = Pump(
            self.name, self.bridge, source, target, self.counters, careful, name if times >= REFUSALS else ""
        )  # fmt: skip
        self._pump = pump
        if self._stopping:
            pump.stop()
        log.info(
            "bridge %s: from %s at %s to %s at %s, %s", self.name, self.bridge.source, source.where, self.bridge.to,
            target.where, "exactly once" if self.counters.once else "at least once",
        )  # fmt: skip
        self.why = ""
        try:
            await pump.run(self._forget)
        finally:
            self._pump = None


async def _goodbye(end: End) -> None:
    try:
        async with asyncio.timeout(GOODBYE_S):
            await end.client.close()
    except (ClientError, OSError, TimeoutError):
        await end.client.kill()
