"""Roles and users of etcd as a StompBroker wants them: owners, edges and the operator reach only their part of it.

Rule: done in the background and tried again until etcd has taken it; a broker that waits for a connection need not wait
for this, it is let in when it may be. Which keys these are is broker/cluster/etcd_roles.py.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from typing import Final, NamedTuple

from broker.cluster.etcd_roles import grants, role_name
from broker.cluster.keys import Keys
from broker.config.settings import EtcdSettings
from broker.core.errors import BrokerError
from broker.metadata.etcd_auth import EtcdAuth

log = logging.getLogger("stampede.operator")

AGAIN_S: Final = 5.0


class Login(NamedTuple):
    """A user, of one of etcd_roles.ROLES."""

    role: str
    name: str
    password: str


class EtcdUsers:
    """settings: root's. enable: with this password of root etcd asks everybody for one; "": it is left as it is."""

    def __init__(self, settings: EtcdSettings, logins: Sequence[Login], enable: str) -> None:
        """Raises ConfigError."""
        self._keys = Keys(settings.prefix)
        self._auth = EtcdAuth(settings)
        self._logins = logins
        self._enable = enable
        self.done = False
        self._task = asyncio.create_task(self._run(), name=f"users of etcd for {settings.prefix}")

    async def close(self) -> None:
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)
        await self._auth.close()

    async def _run(self) -> None:
        told = ""
        while not self.done:
            try:
                await self._make()
                self.done = True
            except BrokerError as error:
                if str(error) != told:
                    told = str(error)
                    log.warning("users of etcd for %s are not made, it is tried again: %s", self._keys.root, told)
                await asyncio.sleep(AGAIN_S)
        log.info("users of etcd for %s have their roles", self._keys.root)

    async def _make(self) -> None:
        for login in self._logins:
            name = role_name(self._keys, login.role)
            await self._auth.role(name, grants(self._keys, login.role))
            await self._auth.user(login.name, login.password, name)
        if self._enable:
            await self._auth.enable(self._enable)
