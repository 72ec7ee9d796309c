"""Users of a standalone broker, changed through its API: the users file is written, and the broker heeds it at once.

Rule: one change at a time; on the disk before it counts, and counting before it is told. Passcodes are hashed in a
thread and kept nowhere.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Mapping, Sequence

from broker.core.errors import ConfigError
from broker.edge.users import add_user, load_users, remove_user, set_groups
from broker.seams.passcodes import SHORT, weakness


class LiveUsers:
    """heed   has a changed file taken note of: connections of who is gone end."""

    def __init__(self, path: str, heed: Callable[[], None]) -> None:
        self._path = path
        self._heed = heed
        self._turn = asyncio.Lock()

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
        async with self._turn:
            before = (await self.all()).get(name)
            if passcode is not None:
                if weakness(passcode):
                    raise ConfigError(f"The passcode can be guessed; take {SHORT} characters or more.")
                await asyncio.to_thread(add_user, self._path, name, passcode, groups or ())
            if groups is not None and (passcode is None or not groups):
                await asyncio.to_thread(set_groups, self._path, name, groups)
            if passcode is None and groups is None:
                raise ConfigError("Nothing would change: give a passcode, groups, or both.")
            self._heed()
            return before, (await self.all())[name]

    async def remove(self, name: str) -> None:
        """Raises ConfigError."""
        async with self._turn:
            users = await self.all()
            if list(users) == [name]:
                raise ConfigError(
                    f"{name} is the last user, and without any nobody could log in; add another one first."
                )
            await asyncio.to_thread(remove_user, self._path, name)
            self._heed()
