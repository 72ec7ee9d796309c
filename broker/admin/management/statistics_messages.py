"""Classic's messages to `ActiveMQ.Statistics.…`, answered to reply-to with a map, as its STOMP clients read one
(`transformation:jms-map-json`).

  ActiveMQ.Statistics.Broker            of the whole broker, for administrators, who are in the default virtual host
  ActiveMQ.Statistics.DestinationNAME   of the queue NAME, for who may manage it

Rule: numbers of the API under Classic's names; what is not counted here is left out, never told as zero.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final

import msgspec

from broker.core.commands import Command, Publish
from broker.core.errors import Code, RefusedError
from broker.core.management import STATISTICS, ManagementRequest, name_of
from broker.core.virtual_host import VirtualHost

from ..api.access import Who
from ..api.problems import Problem
from ..desk import shown_messages
from ..desk.desk import Desk

BROKER: Final = STATISTICS + "Broker"
DESTINATION: Final = STATISTICS + "Destination"
Run = Callable[[Who, str, dict[str, str]], Awaitable[Any]]
"""Who, operation of the API, path → its answer. Raises Problem."""


class StatisticsMessages:
    """run: an operation of the API."""

    def __init__(self, run: Run, desk: Desk) -> None:
        self._run = run
        self._desk = desk

    async def carry(self, who: Who, request: ManagementRequest) -> None:
        """Raises RefusedError or Problem."""
        headers, to = request.headers, request.reply
        name = name_of(headers["destination"])
        if to is None:
            raise RefusedError(Code.MISSING_HEADER, f"{name[:100]} needs reply-to", "reply-to")
        if name == BROKER:
            if request.host.name:
                raise RefusedError(Code.NOT_ALLOWED, f"{BROKER} is about all virtual hosts: ask in the default one")
            found = await self._broker(who)
        elif name.startswith(DESTINATION) and name != DESTINATION:
            found = await self._queue(who, name.removeprefix(DESTINATION), request.host)
        else:
            raise RefusedError(Code.BAD_DESTINATION, f"'{name[:100]}' is neither {BROKER} nor {DESTINATION}NAME")
        body = as_map(found)
        told = {"destination": headers["reply-to"], "transformation": "jms-map-json", "type": "Advisory"}
        if "correlation-id" in headers:
            told["correlation-id"] = headers["correlation-id"]
        told["content-length"] = str(len(body))
        run = shown_messages.made(told, body, durable=False, priority=4)

        def publish(session: int, seq: int) -> Command:
            return Publish(to.slot, session, seq, to.address, to.routing, run, to.queue, to.create)

        with self._desk.errand() as errand:
            await errand.ask(publish)

    async def _broker(self, who: Who) -> dict[str, str | int]:
        of = await self._run(who, "overview", {})
        now, done = of["messaging"], of["messaging"]["since_start"]
        return {
            "brokerName": of["id"], "brokerId": of["id"], "size": now["messages"], "enqueueCount": done["accepted"],
            "dequeueCount": done["acked"], "dispatchCount": done["delivered"], "expiredCount": done["expired"],
            "inflightCount": now["delivering"], "memoryUsage": of["memory"]["queues"],
            "memoryLimit": of["memory"]["limit"], "storeUsage": now["disk"]["bytes"],
            "consumerCount": now["consumers"],
        }  # fmt: skip

    async def _queue(self, who: Who, name: str, host: VirtualHost) -> dict[str, str | int]:
        if ">" in name or "*" in name:
            raise RefusedError(Code.BAD_DESTINATION, f"'{name[:100]}' is a wildcard; ask for each queue by itself")
        try:
            parts = (await self._run(who, "queue", {"queue": host.inside(name)}))["parts"]
        except Problem as problem:
            if problem.status != 404:
                raise
            parts = []  # it is made when something is sent: there is nothing in it

        def sum_of(field: str) -> int:
            return sum([part[field] for part in parts])

        return {
            "destinationName": f"queue://{name}", "size": sum_of("messages"), "inflightCount": sum_of("delivering"),
            "consumerCount": sum_of("consumers"),
        }  # fmt: skip


def as_map(values: Mapping[str, str | int]) -> bytes:
    """As Classic writes a map of names and values: `{"map":{"entry":[{"string":"size","long":3}]}}`."""
    entries = [
        {"string": [name, value]} if isinstance(value, str) else {"string": name, "long": value}
        for name, value in values.items()
    ]
    return msgspec.json.encode({"map": {"entry": entries}})
