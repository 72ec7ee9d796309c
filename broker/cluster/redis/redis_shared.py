"""What edges share by Redis and may forget: client-ids, right passcodes, rates, counts of quotas.

Rule: everything here has an answer without Redis as well, that of this edge alone.
"""

from __future__ import annotations

from broker.config.settings import RedisSettings
from broker.seams.clock import Clock

from ..tasks import Tasks
from .redis_counts import RedisCounts
from .redis_ids import RedisClientIds
from .redis_link import RedisAway, RedisLink
from .redis_tokens import RedisTokens

REMEMBER_S = 3600
"""A right passcode is taken on another edge's word for so long."""


class RedisLogins:
    """See edge.auth.SharedLogins. `login:<proof>`; a proof says nothing to who has no argon2 hash."""

    def __init__(self, link: RedisLink) -> None:
        self._link = link
        self._tasks = Tasks()

    async def known(self, proof: str) -> bool:
        try:
            return bool(await self._link.ask(lambda client: client.exists(self._key(proof))))
        except RedisAway:
            return False

    def remember(self, proof: str) -> None:
        self._tasks.spawn(self._remember(proof), "sharing of a login")

    async def _remember(self, proof: str) -> None:
        try:
            await self._link.ask(lambda client: client.set(self._key(proof), 1, ex=REMEMBER_S))
        except RedisAway:
            pass

    def _key(self, proof: str) -> str:
        return f"{self._link.prefix}login:{proof}"

    async def close(self) -> None:
        await self._tasks.close()


class RedisShared:
    """All of it. `policy`: edge.client_id_in_use; with `allow` nobody has to be asked and `client_ids` is None.

    boot   unique text of this start of the edge.    edge   its name."""

    def __init__(self, settings: RedisSettings, policy: str, boot: str, clock: Clock, edge: str) -> None:
        self._link = RedisLink(settings, clock)
        self.client_ids = None if policy == "allow" else RedisClientIds(self._link, policy, boot)
        self.logins = RedisLogins(self._link)
        self.tokens = RedisTokens(self._link)
        self.counts = RedisCounts(self._link, edge)

    async def start(self) -> None:
        """Redis may be away. Raises ConfigError for settings that cannot be used."""
        await self._link.start()
        if self.client_ids is not None:
            self.client_ids.start()

    async def close(self) -> None:
        if self.client_ids is not None:
            await self.client_ids.close()
        await self.logins.close()
        await self.tokens.close()
        await self.counts.close()
        await self._link.close()
