"""Messages for tests of the admin API: sent over STOMP, counted over the API.

Rule: persistent, with a receipt each: what is asked behind it finds them.
"""

from __future__ import annotations

from broker.client import connect

from .api import Api


async def send(api: Api, queue: str, count: int, **headers: str) -> None:
    async with connect(api.url) as client:
        for n in range(count):
            await client.send(
                queue,
                f"{n}",
                {"destination-type": "ANYCAST", "n": str(n), "persistent": "true", **headers},
                receipt=True,
            )


async def depth(api: Api, queue: str) -> int:
    return sum([part["messages"] for part in (await api.get(f"/queues/{queue}"))["parts"]])


async def filled(api: Api) -> None:
    async with connect(api.url) as client:
        for queue, count in (("orders", 3), ("invoices", 1), ("mail", 2)):
            for n in range(count):
                await client.send(queue, f"{queue} {n}", {"destination-type": "ANYCAST"}, receipt=True)
