"""Two whole brokers in one loop, and bridges between them.

Rule: real parts only; nothing here waits by the clock for longer than it must.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from broker.app.standalone import Standalone
from broker.bridge.bridges import Bridges
from broker.client import connect
from broker.config.load import load
from tests.harness.waiting import PATIENCE_S

QUICK = {"retry_min_s": 0.05, "retry_max_s": 0.1}


def port(broker: Standalone) -> int:
    return broker.listeners.ports["tcp"]


def url(broker: Standalone) -> str:
    return f"stomp://127.0.0.1:{port(broker)}"


@asynccontextmanager
async def broker(folder: Path, **settings: object) -> AsyncIterator[Standalone]:
    given = {
        "data": str(folder),
        "edge.port": "0",
        "edge.ws_port": "-1",
        "admin.port": "-1",
        "journal.min_free_bytes": "0",
    }
    found = Standalone(load(None, {}, {**given, **{name: str(value) for name, value in settings.items()}}))
    await found.start()
    try:
        yield found
    finally:
        await found.stop()


def bridged(broker: Standalone, **tables: dict[str, Any]) -> Bridges:
    """These are the bridges of the broker from now on."""
    broker.bridges.configure({name: {**QUICK, **table} for name, table in tables.items()})
    return broker.bridges


async def sent(broker: Standalone, destination: str, *bodies: bytes, **headers: str) -> None:
    async with connect(url(broker)) as client:
        for body in bodies:
            await client.send(destination, body, {"persistent": "true", **headers}, receipt=True)


async def received(broker: Standalone, destination: str, many: int) -> list[Any]:
    """So many, and none behind them."""
    async with connect(url(broker)) as client, client.subscribe(destination, prefetch=1000) as subscription:
        found = [await subscription.get(PATIENCE_S) for _ in range(many)]
        assert await subscription.get(0.1) is None
    return found
