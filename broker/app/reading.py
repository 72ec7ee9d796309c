"""Who reads the log, and where its slots are: what the read API asks of the rest.

Rule: only wiring. Right is who may log in as a client; what he may read says `read` in edge.permissions.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from broker.admin.log_reads import LogReads
from broker.config.settings import Settings
from broker.core.ids import slots_of
from broker.edge.auth import Authenticator
from broker.edge.permissions import Rights
from broker.engine.matching import Matcher
from broker.journal.journal import Journal
from broker.owner.shard import Shard
from broker.seams.clock import Clock


class _Peer:
    """As much of a channel as a login needs."""

    id = 0

    def __init__(self, peer: str) -> None:
        self.peer = peer


class _Reader:
    def __init__(self, rights: Rights | None) -> None:
        self._rights = rights

    def may(self, address: str) -> bool:
        if self._rights is None:
            return True
        return bool(address) and self._rights.against("read", address) is None


class Logins:
    """Callable as log_reads.Login. `rights`: of a user now (Edge.rights)."""

    def __init__(self, auth: Authenticator, rights: Callable[[str], Rights | None]) -> None:
        self._auth = auth
        self._rights = rights

    async def __call__(self, login: str | None, passcode: str | None, peer: str) -> _Reader:
        principal = self._auth.try_now(login, passcode)
        if principal is None:
            channel: Any = _Peer(peer)
            principal = await self._auth.authenticate(login, passcode, channel)
        return _Reader(self._rights(principal.name))


class Here:
    """All slots are in this process (log_reads.Place)."""

    def __init__(self, shard: Shard, journal: Journal) -> None:
        self._shard = shard
        self._history = journal.history

    def slots_of(self, address: str) -> Iterable[int]:
        return slots_of(address, Matcher(self._shard.settings.engine)(address).partitions)

    def elsewhere(self, slot: int) -> str | None:
        return None

    def end(self, slot: int) -> int:
        return self._history.end(slot)

    def queues(self, slot: int) -> dict[int, tuple[str, str]]:
        engine = self._shard.engines.get(slot)
        return {queue.id: (queue.name, queue.address) for queue in engine.queues()} if engine is not None else {}


def local(
    settings: Settings, shard: Shard, journal: Journal, auth: Authenticator, rights: Callable[[str], Rights | None],
    clock: Clock,
) -> LogReads:  # fmt: skip
    """The read API of a standalone broker."""
    delimiter = settings.engine.wildcard_delimiter
    return LogReads(settings.log_reads, journal, Here(shard, journal), Logins(auth, rights), clock, delimiter)
