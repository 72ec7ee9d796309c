"""Users of a standalone broker, changed through its API: the users file is written, and the broker heeds it at once.

Rule: one change at a time; on the disk before it counts, and counting before it is told; it is made also when the
client that asked has gone meanwhile. A user who may change users is left. Passcodes are hashed in a thread and kept
nowhere.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable, Mapping, Sequence

from broker.core.errors import ConfigError
from broker.core.virtual_host import HOST
from broker.edge.access.users import add_user, checked_groups, load_users, remove_user, set_groups
from broker.seams.passcodes import SHORT, weakness

from .uncancelled import Uncancelled


class LiveUsers:
    """heed   has a changed file taken note of: connections of who is gone end."""

    def __init__(self, path: str, heed: Callable[[], Awaitable[None]], administrators: frozenset[str]) -> None:
        """administrators: their groups."""
        self._path = path
        self._heed = heed
        self._administrators = administrators
        self._whole = Uncancelled()

    async def all(self) -> Mapping[str, Sequence[str]]:
        """Names and groups. Raises ConfigError."""
        return await asyncio.to_thread(self._groups)

    def _groups(self) -> dict[str, tuple[str, ...]]:
        if not os.path.exists(self._path):
            return {}
        return {name: user.groups for name, user in sorted(load_users(self._path).items())}

    async def set(
        self, name: str, passcode: str | None, groups: Sequence[str] | None
    ) -> tuple[Sequence[str] | None, Sequence[str]]:
        """Groups before (None: there was no such user) and now. Raises ConfigError."""
        return await self._whole.run(self._set(name, passcode, groups))

    async def _set(
        self, name: str, passcode: str | None, groups: Sequence[str] | None
    ) -> tuple[Sequence[str] | None, Sequence[str]]:
        refuse_weak(passcode, groups)
        users = await self.all()
        before = users.get(name)
        if passcode is not None or before is not None:
            now = (before or ()) if groups is None else checked_groups(groups)
            somebody_left(self._administrators, {**users, name: now})
        if passcode is not None:
            await asyncio.to_thread(add_user, self._path, name, passcode, groups or ())
        if groups is not None and (passcode is None or not groups):
            await asyncio.to_thread(set_groups, self._path, name, groups)
        await self._heed()
        return before, (await self.all())[name]

    async def remove(self, name: str) -> None:
        """Raises ConfigError."""
        await self._whole.run(self._remove(name))

    async def _remove(self, name: str) -> None:
        users = await self.all()
        if list(users) == [name]:
            raise ConfigError(f"{name} is the last user, and without any nobody could log in; add another one first.")
        somebody_left(self._administrators, {user: groups for user, groups in users.items() if user != name})
        await asyncio.to_thread(remove_user, self._path, name)
        await self._heed()


def refuse_weak(passcode: str | None, groups: Sequence[str] | None) -> None:
    """Raises ConfigError where nothing would change, or the passcode can be guessed."""
    if passcode is None and groups is None:
        raise ConfigError("Nothing would change: give a passcode, groups, or both.")
    if passcode is not None and weakness(passcode):
        raise ConfigError(f"The passcode can be guessed; take {SHORT} characters or more.")


def somebody_left(administrators: frozenset[str], after: Mapping[str, Sequence[str]]) -> None:
    """Raises ConfigError where nobody would be left who may use the API."""
    if not administrators:
        raise ConfigError(
            "admin.administrators is empty, so no user may use the API: set it to a group, or use `stampede user`."
        )
    # Users of virtual hosts do not log in at the API.
    if not any(administrators.intersection(groups) for name, groups in after.items() if not name.startswith(HOST)):
        raise ConfigError(
            "No user would be in a group of admin.administrators "
            f"({', '.join(sorted(administrators))}), and nobody could use the API any more: first add a user who is in "
            "one of them (`groups`)."
        )
