"""A metadata store to be held to the contract: the real etcd, or the one in memory, behind one face.

Rule: what a test can do here means the same for both.
"""

from __future__ import annotations

import asyncio
import itertools
import time

from broker.config.settings import EtcdSettings
from broker.metadata.compat import etcd3
from broker.metadata.etcd import EtcdMetadata
from broker.metadata.port import Metadata
from tests.harness.metadata import MemoryMetadata, MemoryStore
from tests.harness.servers import Server

TIMEOUT_S = 1.0
numbers = itertools.count()


class World:
    """`prefix`: where this test's keys are; a server may be shared."""

    def __init__(self) -> None:
        self.prefix = f"/test/{time.time_ns()}-{next(numbers)}/"
        self.clients: list[Metadata] = []

    def client(self) -> Metadata:
        client = self.make()
        self.clients.append(client)
        return client

    def make(self) -> Metadata:
        raise NotImplementedError

    def compact(self, revision: int) -> None:
        raise NotImplementedError

    async def close(self) -> None:
        for client in self.clients:
            await client.close()


class MemoryWorld(World):
    def __init__(self) -> None:
        super().__init__()
        self.store = MemoryStore()

    def make(self) -> Metadata:
        return MemoryMetadata(self.store, timeout_s=TIMEOUT_S)

    def compact(self, revision: int) -> None:
        self.store.compact(revision)

    async def down(self) -> None:
        self.store.stop()

    async def up(self) -> None:
        self.store.start()


class EtcdWorld(World):
    def __init__(self, server: Server) -> None:
        super().__init__()
        self.server = server

    def make(self) -> Metadata:
        return EtcdMetadata(EtcdSettings(endpoints=self.server.address, timeout_s=TIMEOUT_S))

    def compact(self, revision: int) -> None:
        with etcd3().client(host=self.server.host, port=self.server.port, timeout=5) as client:
            client.compact(revision)

    async def down(self) -> None:
        await asyncio.to_thread(self.server.kill)

    async def up(self) -> None:
        await asyncio.to_thread(self.server.start)
