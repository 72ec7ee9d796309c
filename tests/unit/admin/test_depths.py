"""What waits at an address in the whole cluster: all owners, or no number."""

from __future__ import annotations

from contextlib import asynccontextmanager

import pytest

from broker.admin.depths import ClusterDepths, NoNumber
from broker.config.settings import AdminSettings
from broker.core.slots import Member


def entry(queue, waiting=0, delivering=0, scheduled=0):
    return {"address": "orders", "queue": queue, "waiting": waiting, "delivering": delivering, "scheduled": scheduled}


@asynccontextmanager
async def owner(name, queues):
    """An admin port that answers with `queues`, or fails when it is None."""
    from broker.admin.server import AdminServer

    def depths(match):
        if queues is None:
            raise RuntimeError("broken")
        return [each for each in queues if each["address"] == match]

    server = AdminServer(AdminSettings(port=0), [], lambda: (True, {}), depths)
    await server.start()
    try:
        yield Member(name, "owner", "", "boot", admin=f"127.0.0.1:{server.port}")
    finally:
        await server.stop()


async def test_every_owner_is_asked():
    async with owner("one", [entry("a", 3)]) as one, owner("two", [entry("a", 4), entry("b", 1)]) as two:
        depths = ClusterDepths({"one": one, "two": two}, 1.0)
        assert sum(each["waiting"] for each in await depths.queues("orders")) == 8
        assert await depths.queues("nothing") == []
        await depths.close()


@pytest.mark.filterwarnings("ignore")
async def test_one_owner_missing_is_no_number():
    async with owner("one", [entry("a", 3)]) as one, owner("two", None) as two:
        depths = ClusterDepths({"one": one, "two": two}, 1.0)
        with pytest.raises(NoNumber, match="two"):
            await depths.queues("orders")
        with pytest.raises(NoNumber, match="three has no admin port"):
            await ClusterDepths({"three": Member("three", "owner", "", "boot")}, 1.0).queues("orders")
        with pytest.raises(NoNumber, match="no owner"):
            await ClusterDepths({}, 1.0).queues("orders")
        await depths.close()
