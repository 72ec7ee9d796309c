"""What an edge has to change settings, users and tokens of its cluster with, beside another member that uses whatever
is in etcd. Shared by the tests of app/live."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any

from broker.app.live.cluster_live import ClusterLive
from broker.app.live.cluster_tokens import ClusterTokens
from broker.app.live.cluster_users import ClusterUsers
from broker.cluster.config import ConfigWatch
from broker.cluster.config_writer import ConfigWriter
from broker.cluster.keys import Keys
from broker.config.settings import EdgeSettings, EngineSettings, Settings
from broker.core.slots import Member
from broker.metadata.port import Put
from tests.harness.metadata import MemoryMetadata, MemoryStore

KEYS = Keys("/test")
FILE = Settings(
    edge=EdgeSettings(permissions={"file.#": {"send": "ops"}}),
    engine=EngineSettings(
        addresses={"orders": {"partitions": 2}}, queues={"bills": {"selector": "n > 1", "ring_size": 5}}
    ),
)


class Members:
    """Who is in the cluster (Membership)."""

    def __init__(self) -> None:
        self.me = Member("edge-0", "edge", "", "")
        self.edges = {"edge-0": self.me}
        self.owners = {"owner-0": Member("owner-0", "owner", "", "")}


class LiveEdge:
    """What an edge has of all this, and another member that uses whatever there is."""

    def __init__(self, path: str = "") -> None:
        self.store = MemoryStore()
        self.metadata = MemoryMetadata(self.store, timeout_s=0.3)
        self.settings = FILE
        self.config = ConfigWatch(
            self.metadata, KEYS, FILE.engine, permissions=FILE.edge.permissions,
            on_engine_settings=self._engine, on_permissions=self._permissions, on_applied=self._applied,
        )  # fmt: skip
        self.members = Members()
        self.writer = ConfigWriter(self.metadata, KEYS, self.config, self.members)  # type: ignore[arg-type]
        self.users = ClusterUsers(lambda: self.config.users, self.writer, frozenset({"admins"}), path)
        self.live = ClusterLive(FILE, lambda: self.settings, self.config, self.writer, self.users)
        self.tokens = ClusterTokens(self.config, self.writer)
        self.stuck: set[str] = set()

    def _engine(self, engine: EngineSettings) -> None:
        self.settings = replace(self.settings, engine=engine)

    def _permissions(self, permissions: Any) -> None:
        self.settings = replace(self.settings, edge=replace(self.settings.edge, permissions=dict(permissions)))

    def _applied(self, revision: int) -> None:
        for name in {"edge-0", "owner-0"} - self.stuck:
            self.store.commit([], [Put(KEYS.applied_by(name), b'{"revision": %d}' % revision)])

    def stored(self, key: str) -> Any:
        item = self.store.keys.get(key)
        return json.loads(item.value) if item is not None else None

    async def put(self, key: str, value: Any) -> None:
        """By somebody else; known here when it returns."""
        revision = self.store.commit([], [Put(key, json.dumps(value).encode())])
        if key.startswith(KEYS.config):
            await self.config.reached(revision)

    def row(self, table: str, name: str) -> dict[str, Any]:
        return next(row for row in self.live.entries() if (row["table"], row["name"]) == (table, name))


@asynccontextmanager
async def running(path: str = "") -> AsyncIterator[LiveEdge]:
    edge = LiveEdge(path)
    await edge.config.start()
    try:
        yield edge
    finally:
        await edge.config.stop()
