"""Client-ids over all edges: `id:<client-id>` → `<edge boot>/<session>`, which expires when nobody refreshes it.

edge.client_id_in_use says what a second claim means: refused, or it takes the id over and the edge of the first one is
told (`taken` channel; what a lost notice misses, the next refresh sees). While Redis is away an edge knows its own
connections only; when it is back the first refresh decides, and of two holders one ends.

Rule: an edge that dies keeps its ids for KEEP_S at most. Must not know sessions, only holders.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from broker.core.client_id_holders import REFUSE, ClientIdHolder, ClientIdHolders, in_use
from broker.core.errors import Code, RefusedError
from broker.core.strict_numbers import natural

from ..tasks import Tasks, heed
from .redis_link import RETRY_S, RedisAway, RedisLink

KEEP_S = 15.0
REFRESH_S = 5.0
CHUNK = 1000
"""Ids refreshed in one pipeline: about 30 ms of Redis' time for 1,000, so nobody waits long behind them."""

# Frees the key if it is still ours.
_RELEASE = "if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end return 0"

Done = Callable[[RefusedError | None], None]


class RedisClientIds:
    """`policy`: refuse or takeover. `boot`: unique text of this start of the edge."""

    def __init__(self, link: RedisLink, policy: str, boot: str) -> None:
        self._link = link
        self._policy = policy
        self._boot = boot
        self._holders = ClientIdHolders(policy)
        self._tasks = Tasks()

    def start(self) -> None:
        """Begins to refresh and to listen."""
        self._tasks.spawn(self._refresh_for_ever(), "refresh of client-ids")
        self._tasks.spawn(self._listen_for_ever(), "notices about client-ids")

    async def close(self) -> None:
        """What it holds is free at once."""
        await self._tasks.close()
        for client_id, holder in self._holders.all():
            self._holders.drop(client_id, holder)
            await self._free(client_id, self._value(holder))

    # ── the directory's questions ──────────────────────────────────────────────────────────────────

    def claim(self, client_id: str, holder: ClientIdHolder, done: Done) -> None:
        """See edge.directory.ClientIds."""
        # Ours from now on, so that a second claim on this edge while Redis is asked finds it.
        if not self._holders.claim(client_id, holder):
            done(in_use(client_id))
            return
        self._tasks.spawn(self._claim(client_id, holder, done), "claim of a client-id")

    def release(self, client_id: str, holder: ClientIdHolder) -> None:
        """See edge.directory.ClientIds."""
        if self._holders.drop(client_id, holder):
            self._tasks.spawn(self._free(client_id, self._value(holder)), "release of a client-id")

    async def _claim(self, client_id: str, holder: ClientIdHolder, done: Done) -> None:
        refused: RefusedError | None = None
        try:
            other = await self._register(client_id, self._value(holder))
        except RedisAway:
            other = None
        except BaseException:
            done(RefusedError(Code.INTERNAL))
            raise
        if other is not None and self._policy == REFUSE:
            refused = in_use(client_id)
            self._holders.drop(client_id, holder)
        done(refused)

    async def _register(self, client_id: str, value: str) -> str | None:
        """Writes the key, unless another edge has it and the policy is to refuse. Returns who that is (was)."""
        key, keep = self._key(client_id), int(KEEP_S * 1000)
        refuse = self._policy == REFUSE

        async def write(client: Any) -> str | None:
            old: str | None = await client.set(key, value, px=keep, get=True, nx=refuse)
            if old is not None and self._ours(old):
                # Of a connection that is over (one that is not was found in _holders): its release was lost.
                await client.set(key, value, px=keep)
                return None
            return old

        old = await self._link.ask(write)
        if old is not None and not refuse:
            await self._link.ask(lambda client: client.publish(self._channel, f"{old} {client_id}"))
        return old

    async def _free(self, client_id: str, value: str) -> None:
        try:
            await self._link.ask(lambda client: client.eval(_RELEASE, 1, self._key(client_id), value))
        except RedisAway:
            pass  # it expires

    # ── in the background ──────────────────────────────────────────────────────────────────────────

    async def _refresh_for_ever(self) -> None:
        while True:
            await asyncio.sleep(REFRESH_S)
            held = self._holders.all()
            try:
                for at in range(0, len(held), CHUNK):
                    await self._refresh(held[at : at + CHUNK])
            except RedisAway:
                continue

    async def _refresh(self, held: list[tuple[str, ClientIdHolder]]) -> None:
        """Keeps ours, writes what Redis has lost, ends what another edge has by now."""
        values = await self._link.ask(lambda client: client.mget([self._key(client_id) for client_id, _ in held]))
        lost: list[tuple[str, ClientIdHolder]] = []

        async def write(client: Any) -> None:
            async with client.pipeline(transaction=False) as pipe:
                for (client_id, holder), value in zip(held, values, strict=True):
                    mine = self._value(holder)
                    if value is None:
                        pipe.set(self._key(client_id), mine, nx=True, px=int(KEEP_S * 1000))
                    elif value == mine:
                        pipe.pexpire(self._key(client_id), int(KEEP_S * 1000))
                    else:
                        lost.append((client_id, holder))
                await pipe.execute()

        await self._link.ask(write)
        for client_id, holder in lost:
            self._holders.lose(client_id, holder.id)

    async def _listen_for_ever(self) -> None:
        while True:
            notices = self._link.listen()
            try:
                await notices.subscribe(self._channel)
                heed()
                while True:
                    # No time-out: silence is the rule here, and the refresh sees what is missed.
                    notice = await notices.get_message(timeout=None)
                    if notice is not None:
                        self._heard(notice["data"])
            except Exception:
                await asyncio.sleep(RETRY_S)
            finally:
                await notices.aclose()

    def _heard(self, notice: str) -> None:
        value, _, client_id = notice.partition(" ")
        connection = natural(value.removeprefix(f"{self._boot}/"))
        if connection is not None:
            self._holders.lose(client_id, connection)

    @property
    def _channel(self) -> str:
        return self._link.prefix + "taken"

    def _ours(self, value: str) -> bool:
        return value.startswith(self._boot + "/")

    def _key(self, client_id: str) -> str:
        return f"{self._link.prefix}id:{client_id}"

    def _value(self, holder: ClientIdHolder) -> str:
        return f"{self._boot}/{holder.id}"
