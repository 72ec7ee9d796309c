"""On a real API server: one Address closes no broker; the StompBroker says that it is closed."""

from __future__ import annotations

import pytest
from broker_operator.kube.kube import KubeError
from broker_operator.spec.names import ADDRESS, API_VERSION, BROKER

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


async def test_nobody_gives_anothers_queue_away(world: World):
    """In the API server's eyes both teams may write Addresses; whose `orders` is, its StompBroker says."""
    owners = [{"prefix": f"{world.broker}", "resources": [f"{world.broker}-shop*"]}]
    await world.make(BROKER, world.broker, permissionsRequired=True, addressOwners=owners)
    await world.pods.start("edge-0")
    queue = f"{world.broker}.orders::audit"
    async with operating(world):
        mine = {"name": f"{world.broker}.orders", "permissions": {"consume": ["shop"]}}
        await world.make(ADDRESS, f"{world.broker}-shop", **mine)
        await world.becomes(ADDRESS, f"{world.broker}-shop", "Programmed", "Applied")
        before = await world.pods.config()
        theirs = {
            "queue": {"name": queue, "permissions": {"consume": ["thief"]}},
            "pattern": {"match": "#", "permissions": {"consume": ["thief"]}},
            "exact": {"name": f"{world.broker}.orders.eu", "permissions": {"consume": ["thief"]}},
            "divert": {
                "name": f"{world.broker}x", "diverts": [{"name": "in", "forward": [f"{world.broker}.orders"]}],
            },
        }  # fmt: skip
        for name, spec in theirs.items():
            await world.make(ADDRESS, f"{world.broker}-{name}", **spec)
        for name in theirs:
            await world.becomes(ADDRESS, f"{world.broker}-{name}", "Accepted", "NotOwner")
        assert await world.pods.config() == before
        more = [*owners, {"prefix": f"{world.broker}.orders", "resources": [f"{world.broker}-queue"]}]
        await world.kube.merge(API_VERSION, BROKER, NAMESPACE, world.broker, {"spec": {"addressOwners": more}})
        await world.becomes(ADDRESS, f"{world.broker}-queue", "Programmed", "Applied")
        assert (await world.pods.config())[f"permissions/{queue}"] == {"consume": "thief"}
        bad = {"spec": {"addressOwners": [{"prefix": "a.#", "resources": ["x"]}]}}
        with pytest.raises(KubeError, match="no wildcard"):
            await world.kube.merge(API_VERSION, BROKER, NAMESPACE, world.broker, bad)
