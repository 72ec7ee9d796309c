"""What tests of the operator share."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
from broker_operator.world.cluster import Cluster

from broker.config.settings import EtcdSettings
from tests.harness.metadata import MemoryMetadata, MemoryStore
from tests.harness.waiting import eventually


@pytest.fixture
async def cluster() -> AsyncIterator[Cluster]:
    """What the operator knows of one broker's cluster, with an etcd in memory."""
    found = Cluster(EtcdSettings(endpoints="127.0.0.1:1", prefix="/x"), lambda *_: None, MemoryMetadata(MemoryStore()))
    found.start()
    await eventually(lambda: found.known)
    yield found
    await found.stop()
