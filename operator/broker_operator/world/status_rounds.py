"""Rounds of questions to all owners, and the statuses that are written for what they answer.

Rule: one round at a time, and its statuses one by one at an even pace until the next one. Nothing is written here:
whose turn it is gets looked at.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterator

from broker.seams.clock import Clock

from ..spec.conditions import rfc3339
from ..spec.model import Resource
from ..spec.names import ADDRESS, Id
from .address_traffic import IDLE, PIECE, RATE, Traffic
from .owner_depths import NoAnswer, OwnerQueries
from .resource_cache import ResourceCache

log = logging.getLogger("stampede.operator")

ROUND_S = 10.0


class Rounds:
    """look_at(id): the status of this Address is to be written anew."""

    def __init__(self, cache: ResourceCache, traffic: Traffic, look_at: Callable[[Id], None], clock: Clock) -> None:
        self._cache = cache
        self._traffic = traffic
        self._look_at = look_at
        self._clock = clock
        self._owners = OwnerQueries()
        self._why: dict[Id, str] = {}

    async def follow(self) -> None:
        """Round by round, for ever."""
        try:
            while True:
                until = self._clock.monotonic() + ROUND_S
                try:
                    await self.round()
                    # An owner that says nothing takes its time, and statuses of other brokers are not for that less.
                    until = self._clock.monotonic() + ROUND_S
                    await self._let(until)
                except (RuntimeError, OSError) as error:  # a round is never worth the loop
                    log.warning("a round of questions to owners: %r", error)
                await asyncio.sleep(max(until - self._clock.monotonic(), 0.1))
        finally:
            await self._owners.close()

    async def round(self) -> None:
        """Asks all owners of all brokers once."""
        for broker in list(self._cache.clusters):
            cluster = self._cache.clusters.get(broker)
            mine = {name: id for id, name in self._named(broker)}
            if cluster is None or not cluster.known:
                continue
            try:
                busy = await self._owners.ask(cluster, mine, self._cache.metrics_tokens.get(broker, ""))
            except NoAnswer as error:
                self._say(broker, str(error))
                continue
            self._say(broker, "")
            now = self._clock.monotonic()
            for seen, (name, id) in enumerate(mine.items(), 1):
                if (resource := self._cache.resources.get(id)) is not None:
                    self._traffic.observe(id, resource.uid, resource.status, busy.get(name, IDLE), now)
                if not seen % PIECE:
                    await asyncio.sleep(0)
        self._traffic.forget(id for id in self._cache.resources if id.kind == ADDRESS)

    async def _let(self, until: float) -> None:
        """Lets the statuses go that are due, at the pace there is until then."""
        now = self._clock.monotonic()
        due: list[Id] = []
        addresses = [(id, one.status) for id, one in list(self._cache.resources.items()) if _counts(one)]
        for found in self._traffic.due(addresses, int(ROUND_S * RATE), now):
            due = found or due
            await asyncio.sleep(0)
        for id in due:
            resource = self._cache.resources.get(id)
            if resource is None:
                continue
            now = self._clock.monotonic()
            if now >= until:
                return
            self._traffic.let(id, resource.status, now, rfc3339(self._clock.wall_ms() / 1000))
            self._look_at(id)
            await asyncio.sleep(1 / RATE)

    def _named(self, broker: Id) -> Iterator[tuple[Id, str]]:
        for one in self._cache.of_broker(broker):
            if _counts(one):
                yield one.id, one.raw["spec"]["name"]

    def _say(self, broker: Id, why: str) -> None:
        if self._why.get(broker, "") != why:
            self._why[broker] = why
            log.info("traffic of %s: %s", broker, why or "all owners answer")


def _counts(resource: Resource) -> bool:
    """It is about one address, which it has: others say nothing of traffic."""
    if resource.id.kind != ADDRESS or resource.leaving:
        return False
    name = resource.raw.get("spec", {}).get("name", "")
    accepted = any(
        one["type"] == "Accepted" and one["status"] == "True" for one in resource.status.get("conditions", [])
    )
    return bool(name) and "::" not in name and accepted
