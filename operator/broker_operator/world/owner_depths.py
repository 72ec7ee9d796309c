"""What the owners of a broker say of its addresses: a line each, read as it comes.

They are asked at their admin port (`/api/busy`), which only reads and says no more than `/metrics` beside it: so the
operator needs no login, and has none; where the broker's numbers are for clients that show a token, it shows that one.

Rule: all owners and all slots, or no answer: a sum without one of them would be wrong, and would not look it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Container

import aiohttp
import msgspec

from broker.core.errors import BrokerError

from .address_traffic import Busy
from .cluster import Cluster

TIMEOUT = aiohttp.ClientTimeout(total=20, connect=3, sock_read=10)
LINE = 1 << 16
"""Bytes a line may have; names of addresses have up to 1,024 characters."""
MOST = 100_000
"""Lines one owner is listened to for."""


class NoAnswer(BrokerError):
    """Some owner gives none, or some slot has no leader; the text says which."""


class _Line(msgspec.Struct):
    address: str = ""
    waiting: int = 0
    delivering: int = 0
    scheduled: int = 0
    consumers: int = 0
    came: int = 0
    died: int = 0
    blocked: bool = False
    slot: int = -1
    bytes: int = 0
    end: bool = False


_decode = msgspec.json.Decoder(_Line).decode


class OwnerQueries:
    """Asks the owners of clusters."""

    def __init__(self) -> None:
        self._http: aiohttp.ClientSession | None = None

    async def ask(self, cluster: Cluster, names: Container[str], token: str = "") -> dict[str, Busy]:
        """Address → what goes on there. token: of spec.scrapers.tokenSecretName. Raises NoAnswer."""
        owners = {id: member for id, member in cluster.members.items() if member.kind == "owner"}
        leaders = {record.leader for record in cluster.records.values()}
        if not cluster.whole or not leaders <= owners.keys():
            raise NoAnswer("not every slot has a leader that lives")
        if self._http is None:
            self._http = aiohttp.ClientSession(timeout=TIMEOUT, read_bufsize=LINE)
        found: dict[str, Busy] = {}
        weights: dict[int, int] = {}
        shown = {"Authorization": f"Bearer {token}"} if token else {}
        await asyncio.gather(*[self._one(id, owners[id].admin, names, found, weights, shown) for id in sorted(leaders)])
        cluster.weights = weights
        return found

    async def close(self) -> None:
        if self._http is not None:
            await self._http.close()

    async def _one(
        self,
        owner: str,
        admin: str,
        names: Container[str],
        found: dict[str, Busy],
        weights: dict[int, int],
        shown: dict[str, str],
    ) -> None:
        assert self._http is not None
        if not admin:
            raise NoAnswer(f"{owner} has no admin port")
        line = _Line()
        try:
            async with self._http.get(f"http://{admin}/api/busy", headers=shown) as answer:
                if answer.status == 404:
                    raise NoAnswer(f"{owner} is of a release that does not tell it")
                if answer.status == 401:
                    raise NoAnswer(f"{owner} wants another token than that of spec.scrapers.tokenSecretName")
                answer.raise_for_status()
                for _ in range(MOST):
                    line = _decode(await answer.content.readline())
                    if line.end:
                        return
                    if line.slot >= 0:
                        weights[line.slot] = line.bytes
                    if line.address in names:
                        depth = line.waiting + line.delivering + line.scheduled
                        one = Busy(depth, line.consumers, line.came, line.died, line.blocked)
                        before = found.get(line.address)
                        found[line.address] = one if before is None else before.plus(one)
        except (aiohttp.ClientError, TimeoutError, ValueError, msgspec.MsgspecError) as error:
            raise NoAnswer(f"{owner} at {admin}: {type(error).__name__} {error}".rstrip()) from None
        raise NoAnswer(f"{owner} at {admin} names more than {MOST} addresses")
