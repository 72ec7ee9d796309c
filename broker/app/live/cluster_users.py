"""Users of a cluster, changed through the API of an edge: entries in etcd, as `stampede cluster users` writes them.

Rule: where an edge has a users file of its own, that one counts for it, and is not changed from here. A user who may
change users is left. Passcodes are hashed in a thread and kept nowhere.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence

from broker.cluster.config import UserEntry
from broker.cluster.config_writer import ConfigWriter, Table
from broker.core.errors import ConfigError
from broker.edge.access.users import check_name, checked_groups, load_users
from broker.seams.passcodes import hash_passcode

from .live_users import refuse_weak, somebody_left


class ClusterUsers:
    """users: as they are in use.    path: of the users file of this edge; "": it has none."""

    def __init__(
        self, users: Callable[[], Mapping[str, UserEntry]], writer: ConfigWriter, administrators: frozenset[str],
        path: str = "",
    ) -> None:  # fmt: skip
        self._users = users
        self._writer = writer
        self._administrators = administrators
        self._path = path

    async def all(self) -> Mapping[str, Sequence[str]]:
        """Names and groups. Raises ConfigError."""
        if self._path:
            of_file = await asyncio.to_thread(load_users, self._path)
            return {name: user.groups for name, user in sorted(of_file.items())}
        return {name: entry.groups for name, entry in sorted(self._users().items())}

    async def set(
        self, name: str, passcode: str | None, groups: Sequence[str] | None
    ) -> tuple[Sequence[str] | None, Sequence[str]]:
        """Groups before (None: there was no such user) and now. Raises ConfigError, BrokerError."""
        self._own()
        check_name(name)
        refuse_weak(passcode, groups)
        known = await self.all()
        before = known.get(name)
        if passcode is None and before is None:
            raise ConfigError(f"There is no user {name!r}; give a passcode to add one.")
        wanted = tuple(checked_groups(groups)) if groups is not None else tuple(before or ())
        hashed = await asyncio.to_thread(hash_passcode, passcode) if passcode is not None else None

        def changed(stored: Table | None) -> Table:
            kept = {key: value for key, value in (stored or {}).items() if key != "previous" or hashed is None}
            if hashed is None and "hash" not in kept:
                raise ConfigError(f"There is no user {name!r} any more; give a passcode to add one.")
            # Groups that were not asked about are those of now: another edge may just have taken one away.
            now = list(wanted) if groups is not None else kept.get("groups", [])
            return {**kept, **({"hash": hashed} if hashed is not None else {}), "groups": now}

        await self._writer.edit(
            self._writer.keys.user(name), changed, "users", lambda users: self._left({**_groups(users), name: wanted})
        )
        return before, wanted

    async def remove(self, name: str) -> None:
        """Raises ConfigError, BrokerError."""
        self._own()
        known = dict(await self.all())
        known.pop(name, None)
        if not known:
            raise ConfigError(f"{name} is the last user, and without any nobody could log in; add another one first.")
        await self._writer.edit(
            self._writer.keys.user(name), lambda _: None, "users",
            lambda users: self._left({user: groups for user, groups in _groups(users).items() if user != name}),
        )  # fmt: skip

    def _left(self, users: Mapping[str, Sequence[str]]) -> None:
        """Raises ConfigError where nobody would be left who may use the API: by what etcd has, not by what we know."""
        somebody_left(self._administrators, users)

    def _own(self) -> None:
        if self._path:
            raise ConfigError(
                f"This edge has its users from {self._path}, which is for `stampede user`; take it away, and those of "
                "the cluster count after a restart."
            )


def _groups(users: Mapping[str, Table]) -> dict[str, Sequence[str]]:
    """Of entries in etcd; one that cannot be read is in no group."""
    found = {name: table.get("groups", []) for name, table in users.items()}
    return {name: groups if isinstance(groups, list) else [] for name, groups in found.items()}
