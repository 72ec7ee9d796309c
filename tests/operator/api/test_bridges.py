"""On a real API server: bridges of a StompBroker come and go in etcd, and the status says what their Secret lacks."""

from __future__ import annotations

import pytest
from broker_operator.spec.names import API_VERSION, BROKER

from .world import NAMESPACE, World, operating

pytestmark = pytest.mark.timeout(400)
WEST = {
    "name": "west", "url": "stomp+ssl://west:61612", "source": "/queue/orders", "user": "bridge", "login": "from-east",
    "passcodeKey": "west.passcode",
}  # fmt: skip


async def test_bridges_follow_the_resource_and_passcodes_stay_in_their_secret(world: World):
    secret = f"{world.broker}-bridges"
    await world.make(BROKER, world.broker, bridges=[WEST], bridgesSecretName=secret)
    await world.pods.start("edge-0")

    async def kept() -> dict[str, object]:
        return {key: value for key, value in (await world.pods.config()).items() if key.startswith("bridges/")}

    async def has(**wanted: object) -> None:
        async def check() -> bool:
            return await kept() == {f"bridges/{name}": value for name, value in wanted.items()}

        await world.until(check)

    entry = {
        "url": "stomp+ssl://west:61612", "source": "/queue/orders", "user": "bridge", "login": "from-east",
        "passcode_file": "/etc/stampede-bridges/west.passcode",
    }  # fmt: skip
    async with operating(world):
        await has(west=entry)
        await world.becomes(BROKER, world.broker, "BridgesConfigured", "SecretMissing")
        meta = {"name": secret, "namespace": NAMESPACE}
        body = {"apiVersion": "v1", "kind": "Secret", "metadata": meta, "stringData": {"west.passcode": "hidden"}}
        world.made.append(await world.kube.create(body))
        await world.becomes(BROKER, world.broker, "BridgesConfigured", "Configured")
        await world.pods.metadata.put(world.pods.keys.bridge("west"), b'{"url": "stomp://mallory:1", "source": "a"}')
        await has(west=entry)
        assert "hidden" not in str(await world.pods.config())
        more = {"spec": {"bridges": [{**WEST, "enabled": False}]}}
        await world.kube.merge(API_VERSION, BROKER, NAMESPACE, world.broker, more)
        await has(west={**entry, "enabled": False})
        await world.kube.merge(API_VERSION, BROKER, NAMESPACE, world.broker, {"spec": {"bridges": []}})
        await has()
