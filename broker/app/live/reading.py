"""Who reads the log, and where its slots are: what the read API asks of the rest.

Rule: only wiring. Right is who may log in as a client; what he may read says `read` in edge.permissions.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from broker.admin.log.log_reads import LogReads
from broker.cluster.config import UserEntry
from broker.cluster.membership import Membership
from broker.cluster.slots import SlotTable
from broker.config.settings import EngineSettings, Settings
from broker.core.errors import Code, RefusedError
from broker.core.ids import slots_of
from broker.core.virtual_host import HOST
from broker.edge.access.auth import Authenticator, TableAuthenticator, is_loopback, refusal
from broker.edge.access.users import User
from broker.edge.rights.permissions import Rights, of_settings
from broker.engine.address.address_settings import Matcher
from broker.engine.engine import Engine
from broker.journal.journal import Journal
from broker.owner.replication.following.follower import Followers
from broker.owner.replication.leader import Leaders
from broker.owner.shard.shard import Shard
from broker.seams.clock import Clock, SystemClock


class _Peer:
    """As much of a channel as a login needs."""

    id = 0

    def __init__(self, peer: str) -> None:
        self.peer = peer


def peer_as_channel(peer: str) -> Any:
    """Who logs in from there, by something else than STOMP."""
    return _Peer(peer)


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
        self.auth = auth
        self._rights = rights

    async def __call__(self, login: str | None, passcode: str | None, peer: str) -> _Reader:
        if login is not None and login.startswith(HOST):
            raise RefusedError(Code.LOGIN_FAILED, refusal(login))  # users of virtual hosts are clients alone
        principal = self.auth.try_now(login, passcode)
        if principal is None:
            principal = await self.auth.authenticate(login, passcode, peer_as_channel(peer))
        return _Reader(self._rights(principal.name))


class Here:
    """All slots are in this process (log_reads.Place)."""

    def __init__(self, shard: Shard, journal: Journal) -> None:
        self._shard = shard
        self._history = journal.history
        self._matched: tuple[EngineSettings, Matcher] | None = None

    def _match(self) -> Matcher:
        """Of the settings as they are now: read once, not once a name."""
        settings = self._shard.settings.engine
        if self._matched is None or self._matched[0] is not settings:
            self._matched = settings, Matcher(settings)
        return self._matched[1]

    def slots_of(self, address: str) -> Iterable[int]:
        return slots_of(address, self._match()(address).partitions)

    def records_deliveries(self, address: str) -> bool:
        return self._match().anywhere("record_deliveries", address)

    def knows(self, address: str) -> bool:
        match = self._match()
        if address in self._shard.settings.engine.addresses:
            return True
        if any(address in match.values(name) for name in ("dead_letter_address", "expiry_address")):
            return True
        found = (self._shard.engines.get(slot) for slot in self.slots_of(address))
        return any(engine is not None and address in engine.shown.addresses for engine in found)

    def elsewhere(self, slot: int) -> str | None:
        return None

    def behind(self, slot: int) -> str | None:
        return None

    def end(self, slot: int) -> int:
        return self._history.end(slot)

    def endpoint(self) -> str:
        return ""

    def endpoints(self) -> list[str]:
        return []

    def queue(self, slot: int, number: int) -> tuple[str, str] | None:
        engine = self._shard.engines.get(slot)
        return _called(engine, number) if engine is not None else None

    def queue_numbers(self, slot: int) -> list[int]:
        engine = self._shard.engines.get(slot)
        return list(engine.shown.queues) if engine is not None else []


def _called(engine: Engine, number: int) -> tuple[str, str] | None:
    """Name and address of a queue."""
    queue = engine.shown.queues.get(number)
    return (queue.name, queue.address) if queue is not None else None


class Replicated:
    """Slots that this owner leads are here, and those that it follows in sync, as far as their leaders say that they
    count (log_reads.Place)."""

    def __init__(
        self, shard: Shard, journal: Journal, leaders: Leaders, followers: Followers, table: SlotTable
    ) -> None:
        self._here = Here(shard, journal)
        self._leaders = leaders
        self._followers = followers
        self._table = table
        self.membership: Membership | None = None
        """Once it has joined; nothing is read before."""

    def slots_of(self, address: str) -> Iterable[int]:
        return self._here.slots_of(address)

    def records_deliveries(self, address: str) -> bool:
        return self._here.records_deliveries(address)

    def knows(self, address: str) -> bool:
        return self._here.knows(address)

    def elsewhere(self, slot: int) -> str | None:
        if self.membership is None:
            return ""
        if self._leaders.leads(slot):
            return None
        record = self._table.records.get(slot)
        leader = self.membership.owners.get(record.leader) if record is not None else None
        return leader.reads if leader is not None and leader.id != self.membership.me.id else ""

    def behind(self, slot: int) -> str | None:
        record = self._table.records.get(slot)
        if self.membership is None or record is None or not self._followers.known(slot):
            return None
        if self.membership.me.id not in record.isr:
            return "the replica here is not in sync"
        if self._followers.counted(slot) is None:
            return "its leader has not said yet how much of it counts"
        return ""

    def end(self, slot: int) -> int:
        counted = self._leaders.counted(slot) if self._leaders.leads(slot) else self._followers.counted(slot) or 0
        return min(self._here.end(slot), counted + 1)

    def endpoint(self) -> str:
        return self.membership.me.reads if self.membership is not None else ""

    def endpoints(self) -> list[str]:
        owners = self.membership.owners.values() if self.membership is not None else ()
        return sorted(owner.reads for owner in owners if owner.reads)

    def queue(self, slot: int, number: int) -> tuple[str, str] | None:
        followed = self._followers.engine(slot)
        return self._here.queue(slot, number) or (_called(followed, number) if followed is not None else None)

    def queue_numbers(self, slot: int) -> list[int]:
        followed = self._followers.engine(slot)
        return self._here.queue_numbers(slot) or (list(followed.shown.queues) if followed is not None else [])


class OwnerReads:
    """The read API of an owner: users and permissions are the cluster's, as edges have them.

    Nobody gets in before the owner has joined and knows them; without users, only where nobody but this machine can
    reach the port."""

    def __init__(
        self, settings: Settings, shard: Shard, journal: Journal, leaders: Leaders, followers: Followers,
        table: SlotTable,
    ) -> None:  # fmt: skip
        self._settings = settings
        self._clock = SystemClock()
        self._users: dict[str, User] = {}
        delimiter = settings.engine.wildcard_delimiter
        # As edges have them: the store is heard of when it has an entry, and those of the config file count before.
        self._permissions = of_settings(settings)
        self._place = Replicated(shard, journal, leaders, followers, table)
        self._auth = TableAuthenticator({}, self._clock)
        self._logins = Logins(self._auth, self._rights)
        self.service = LogReads(
            settings.log_reads, journal, self._place, self._logins, self._clock, delimiter, settings.etcd.prefix
        )

    async def start(self) -> int:
        """The port it listens on. Raises ConfigError."""
        await self.service.start(self._host)
        return self.service.port

    @property
    def _host(self) -> str:
        return self._settings.log_reads.host or self._settings.cluster.host

    def joined(self, membership: Membership) -> None:
        """Users, permissions and members are known."""
        self._auth.close()
        private = not self._users and is_loopback(self._host)
        self._auth = self._logins.auth = TableAuthenticator(self._users, self._clock, open_when_empty=private)
        self._place.membership = membership

    def on_users(self, entries: Mapping[str, UserEntry]) -> None:
        self._users = {name: User(name, entry.hash, entry.groups, entry.previous) for name, entry in entries.items()}
        self._auth.replace(self._users)

    def on_permissions(self, table: Mapping[str, Mapping[str, Any]]) -> None:
        self._permissions.replace(table)

    def _rights(self, user: str) -> Rights | None:
        return self._permissions.rights(self._auth.groups(user))

    async def stop(self) -> None:
        await self.service.stop()
        self._auth.close()


def local(
    settings: Settings, shard: Shard, journal: Journal, auth: Authenticator, rights: Callable[[str], Rights | None],
    clock: Clock,
) -> LogReads:  # fmt: skip
    """The read API of a standalone broker."""
    delimiter = settings.engine.wildcard_delimiter
    return LogReads(settings.log_reads, journal, Here(shard, journal), Logins(auth, rights), clock, delimiter)
