"""On a real API server: one Address closes no broker; the StompBroker says that it is closed."""

from __future__ import annotations

import pytest
from broker_operator.names import ADDRESS, API_VERSION, BROKER

from .world import NAMESPACE, World, operating

pytestmark = pytest.mark.timeout(400)


async def test_the_first_permission_needs_the_word_of_its_broker(world: World):
    await world.make(BROKER, world.broker)
    await world.pods.start("edge-0")
    allowed = {"name": f"{world.broker}.orders", "permissions": {"send": ["shop"]}}
    async with operating(world):
        await world.make(ADDRESS, f"{world.broker}-orders", **allowed)
        await world.becomes(ADDRESS, f"{world.broker}-orders", "Accepted", "PermissionsNotRequired")
        assert await world.pods.config() == {}
        said = {"spec": {"permissionsRequired": True}}
        await world.kube.merge(API_VERSION, BROKER, NAMESPACE, world.broker, said)
        await world.becomes(ADDRESS, f"{world.broker}-orders", "Programmed", "Applied")
        assert f"permissions/{world.broker}.orders" in await world.pods.config()
