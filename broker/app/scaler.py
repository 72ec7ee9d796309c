"""`stampede scaler`: tells KEDA, and clients that ask over HTTP, what waits in the whole cluster.

Rule: only wiring and life cycle. Registers nowhere and keeps nothing: any number of them may run.
"""

from __future__ import annotations

import asyncio
import logging
from typing import Any

from broker import __version__
from broker.admin.depths import ClusterDepths
from broker.admin.scaler import Scaler
from broker.admin.server import AdminServer
from broker.cluster.keys import Keys, last_part
from broker.cluster.watched import Watched
from broker.config.settings import Settings
from broker.core.slots import Member
from broker.metadata.etcd import EtcdMetadata
from broker.metadata.port import Change

log = logging.getLogger("stampede.scaler")


class ScalerProcess:
    """One scaler in this process and loop."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.failed: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        self.owners: dict[str, Member] = {}
        self.port = 0
        keys = Keys(settings.etcd.prefix)
        self._metadata = EtcdMetadata(settings.etcd)
        self._watched = Watched(self._metadata, keys.owners, self._apply)
        self._depths = ClusterDepths(self.owners, settings.scaler.timeout_s, settings.admin.token_file)
        self._scaler = Scaler(settings.scaler, self._depths.queues)
        self.admin = AdminServer(settings.admin, [], self._readiness)

    async def start(self) -> None:
        """Follows who is alive, and listens, or leaves nothing behind. Raises BrokerError."""
        try:
            await self._watched.start()
            self.port = await self._scaler.start()
        except BaseException:
            await self._close()
            raise

    async def start_admin(self) -> None:
        await self.admin.start()

    def hang_up(self) -> None:
        """SIGHUP: there is nothing to read again."""

    async def stop(self) -> None:
        await self.admin.stop()
        await self._close()

    async def _close(self) -> None:
        await self._scaler.stop()
        await self._depths.close()
        await self._watched.stop()
        await self._metadata.close()

    def _apply(self, changes: list[Change]) -> None:
        for change in changes:
            name = last_part(change.key)
            if change.value is None:
                self.owners.pop(name, None)
                continue
            try:
                self.owners[name] = Member.decode(change.value)
            except ValueError as error:
                log.error("owner %s is not counted: %s", name, error)

    def _readiness(self) -> tuple[bool, dict[str, Any]]:
        return bool(self.owners), {"owners": len(self.owners)}

    def watched(self) -> tuple[()]:
        """It has no clients."""
        return ()

    def engines(self) -> tuple[()]:
        return ()

    def banner(self) -> list[str]:
        settings = self.settings
        return [
            f"Stampede {__version__} scaler",
            f"  KEDA                   {settings.scaler.host} port {self.port}",
            f"  cluster                {settings.etcd.prefix} in etcd at {settings.etcd.endpoints}",
        ]
