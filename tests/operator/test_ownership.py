"""Which of several operators has a StompBroker: who is first, who is named, who takes over from one that is gone."""

from __future__ import annotations

from typing import Any

import pytest
from broker_operator.kube.events import Events
from broker_operator.kube.kube import KubeError
from broker_operator.spec import names
from broker_operator.spec.names import ADDRESS, BROKER, Id
from broker_operator.world.ownership import GONE_S, Ownership
from broker_operator.world.resource_cache import ResourceCache

from .builders import raw

ME, OTHER = "mq/a-operator", "mq/b-operator"


class Clock:
    now = 0.0

    def monotonic(self) -> float:
        return self.now

    def wall_ms(self) -> int:
        return 0


class Server:
    """leases: name → resourceVersion."""

    def __init__(self, clock: Clock) -> None:
        self.clock = clock
        self.leases: dict[str, str] = {}
        self.refuses = 0
        self.written: list[str] = []
        self.told: list[str] = []

    async def get(self, api: str, kind: str, namespace: str, name: str) -> dict[str, Any] | None:
        if self.refuses:
            raise KubeError(self.refuses, "no")
        version = self.leases.get(f"{namespace}/{name}")
        return {"metadata": {"resourceVersion": version}} if version else None

    async def annotate(self, resource: dict[str, Any], key: str, value: str) -> dict[str, Any]:
        self.written.append(value)
        meta = resource["metadata"]
        version = str(int(meta["resourceVersion"]) + 1)
        return {**resource, "metadata": {**meta, "annotations": {key: value}, "resourceVersion": version}}

    async def create(self, body: dict[str, Any]) -> dict[str, Any]:
        self.told.append(body["reason"])
        return body


@pytest.fixture
def setting():
    clock = Clock()
    server = Server(clock)
    world = ResourceCache(lambda id: None)
    events = Events(server, clock)  # type: ignore[arg-type]
    return server, world, Ownership(server, world, events, clock, ME)  # type: ignore[arg-type]


def broker(world: ResourceCache, operator: str = "") -> Any:
    body = raw(BROKER)
    if operator:
        body["metadata"]["annotations"] = {names.OPERATOR: operator}
    found = world.put(body)
    assert found is not None
    return found


async def test_one_that_names_no_operator_is_taken_and_kept(setting):
    server, world, ownership = setting
    one = broker(world)
    address = world.put(raw(ADDRESS, brokerRef={"name": one.id.name}))
    assert not ownership.owned(one.id) and ownership.others(address), "nothing is made of it before it is ours"
    assert await ownership.claim(one)
    assert server.written == [ME] and ownership.owned(one.id) and not ownership.others(address)
    assert await ownership.claim(world.resources[one.id]) and server.written == [ME]


async def test_a_resource_without_its_broker_is_everybodys(setting):
    _, world, ownership = setting
    assert not ownership.others(world.put(raw(ADDRESS, brokerRef={"name": "nowhere"})))
    assert not ownership.owned(Id(BROKER, "shop", "nowhere"))


async def test_another_operators_is_left_alone_while_its_lease_is_renewed(setting):
    server, world, ownership = setting
    one = broker(world, OTHER)
    for version in range(1, 5):
        server.leases[OTHER] = str(version)
        assert not await ownership.claim(one)
        server.clock.now += GONE_S
    assert not server.written


@pytest.mark.parametrize("version", ["7", ""], ids=["a lease that stands still", "no lease"])
async def test_one_whose_operator_is_gone_is_taken_over_late(setting, version):
    server, world, ownership = setting
    one = broker(world, OTHER)
    server.leases[OTHER] = version
    for _ in range(3):
        assert not await ownership.claim(one)
        server.clock.now += GONE_S / 3
    assert await ownership.claim(one)
    assert server.written == [ME] and server.told == ["OperatorChanged"]


async def test_an_operator_whose_lease_may_not_be_read_lives(setting):
    server, world, ownership = setting
    one = broker(world, OTHER)
    server.refuses = 403
    for _ in range(3):
        assert not await ownership.claim(one)
        server.clock.now += GONE_S
    assert not server.written
