"""The deletion cost of an edge's pod is its number of connections, and the API server is not written to in between."""

from __future__ import annotations

import pytest
from broker_operator.kube.kube import KubeError
from broker_operator.kube.pod_deletion_cost import COST, EVERY_S, Costs
from broker_operator.spec.names import BROKER, Id

ONE, OTHER = Id(BROKER, "mq", "one"), Id(BROKER, "mq", "other")


class Server:
    def __init__(self):
        self.writes: list[tuple[str, str]] = []
        self.error = 0
        self.now = 1000.0

    def monotonic(self):
        return self.now

    async def merge(self, api_version, kind, namespace, name, patch):
        assert (api_version, kind, namespace) == ("v1", "Pod", "mq")
        if self.error:
            raise KubeError(self.error, "no")
        self.writes.append((name, patch["metadata"]["annotations"][COST]))


@pytest.fixture
def server():
    return Server()


@pytest.fixture
def costs(server):
    return Costs(server, server)


async def test_each_pod_has_its_number(costs, server):
    assert await costs.reconcile(ONE, {"a": 5, "b": 0}) is None
    assert sorted(server.writes) == [("a", "5"), ("b", "0")]


async def test_no_write_without_a_change(costs, server):
    for _ in range(3):
        await costs.reconcile(ONE, {"a": 5})
        server.now += 100
    assert server.writes == [("a", "5")]


async def test_a_change_waits_for_its_time(costs, server):
    await costs.reconcile(ONE, {"a": 5})
    server.now += 10
    assert await costs.reconcile(ONE, {"a": 9}) == pytest.approx(EVERY_S - 10)
    assert server.writes == [("a", "5")]
    server.now += EVERY_S
    assert await costs.reconcile(ONE, {"a": 9}) is None
    assert server.writes[-1] == ("a", "9")


async def test_numbers_may_change_while_some_are_written(costs, server):
    """They are those of a watch, which goes on."""
    connections, write = {"a": 5, "b": 6}, server.merge

    async def merge(*args):
        connections["c"] = 7
        await write(*args)

    server.merge = merge
    await costs.reconcile(ONE, connections)
    assert server.writes == [("a", "5"), ("b", "6")]
    await costs.reconcile(ONE, connections)
    assert server.writes[-1] == ("c", "7")


async def test_brokers_of_one_namespace_do_not_forget_each_other(costs, server):
    await costs.reconcile(ONE, {"a": 5})
    await costs.reconcile(OTHER, {"b": 5})
    await costs.reconcile(ONE, {"a": 5})
    assert len(server.writes) == 2


async def test_a_pod_that_is_gone_is_no_error(costs, server):
    server.error = 404
    assert await costs.reconcile(ONE, {"a": 5}) is None
    server.error = 500
    with pytest.raises(KubeError):
        await costs.reconcile(ONE, {"b": 5})
