"""What waits at an address in the whole cluster: asks every owner's admin port, and adds up.

Rule: all owners or no number. A sum without one of them would scale consumers down while their messages wait.
Must not know who wants the number.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from broker.core.errors import BrokerError, ConfigError
from broker.core.slots import Member

from .scrape_token import bearer

if TYPE_CHECKING:
    from aiohttp import ClientSession


class NoNumber(BrokerError):
    """Some owner gave no answer; the text names it."""


class ClusterDepths:
    """`owners`: the live ones by id, kept current by the membership."""

    def __init__(self, owners: Mapping[str, Member], timeout_s: float, token_file: str = "") -> None:
        """token_file: admin.token_file of the owners."""
        self._owners = owners
        self._token_file = token_file
        self._timeout_s = timeout_s
        self._http: ClientSession | None = None

    async def queues(self, match: str) -> list[dict[str, Any]]:
        """One entry per queue and slot that has it (engine/state/depth.py). Raises NoNumber."""
        owners = list(self._owners.values())
        if not owners:
            raise NoNumber("no owner is known")
        answers = await asyncio.gather(*[self._ask(owner, match) for owner in owners])
        return [entry for answer in answers for entry in answer]

    async def _ask(self, owner: Member, match: str) -> list[dict[str, Any]]:
        import aiohttp

        if not owner.admin:
            raise NoNumber(f"{owner.id} has no admin port (admin.port)")
        if self._http is None:
            self._http = aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(self._timeout_s))
        try:
            headers = await asyncio.to_thread(bearer, self._token_file)
            async with self._http.get(
                f"http://{owner.admin}/api/depth", params={"match": match}, headers=headers
            ) as response:
                response.raise_for_status()
                queues: list[dict[str, Any]] = (await response.json())["queues"]
        except (aiohttp.ClientError, ConfigError, TimeoutError, KeyError, ValueError) as error:
            raise NoNumber(f"{owner.id} at {owner.admin}: {type(error).__name__} {error}".rstrip()) from None
        return queues

    async def close(self) -> None:
        if self._http is not None:
            await self._http.close()
