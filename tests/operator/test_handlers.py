"""kopf's part and the Kubernetes client, against an emulated API server: what is told, and that nothing is written."""

from __future__ import annotations

import asyncio

import kmock
import kopf
import pytest
from broker_operator.kube import handlers
from broker_operator.kube.kube import Kube
from broker_operator.spec.names import API_VERSION, PLURALS, USER

from .builders import raw


@pytest.fixture
async def server():
    found = kmock.KubernetesEmulator()
    async with found, kmock.Server(found):
        for kind, plural in PLURALS.items():
            found.resources[f"{API_VERSION}/{plural}"] = {
                "kind": kind, "singular": kind.lower(), "namespaced": True,
                "verbs": ["get", "list", "watch", "patch", "create", "delete"], "subresources": ["status"],
            }  # fmt: skip
        # kopf asks for these before it watches anything.
        for name, kind in (
            ("v1/namespaces", "Namespace"),
            ("v1/events", "Event"),
            ("apiextensions.k8s.io/v1/customresourcedefinitions", "CustomResourceDefinition"),
        ):
            found.resources[name] = {
                "kind": kind, "singular": kind.lower(), "namespaced": kind == "Event",
                "verbs": ["get", "list", "watch", "patch", "create"], "subresources": [],
            }  # fmt: skip
        yield found


def connection(server) -> kopf.ConnectionInfo:
    return kopf.ConnectionInfo(server=str(server.url).rstrip("/"))


async def test_kopf_tells_of_resources_and_writes_nothing(server):
    told: asyncio.Queue[tuple[str, str]] = asyncio.Queue()
    stop = asyncio.Event()
    registry = handlers.registry(
        lambda type, item: told.put_nowait((type, item["metadata"]["name"])), lambda: connection(server)
    )
    kube = Kube(connection(server))
    await kube.create(raw(USER, "ada"))
    running = asyncio.create_task(
        kopf.operator(
            registry=registry, settings=handlers.settings(), standalone=True, stop_flag=stop, namespaces=["shop"]
        )
    )  # fmt: skip
    try:
        assert await asyncio.wait_for(told.get(), 30) == ("", "ada")
        await kube.create(raw(USER, "bob"))
        while (await asyncio.wait_for(told.get(), 30))[1] != "bob":  # the emulator tells of the first one twice
            pass
        assert kube.writes == {USER: 2}
        assert len(server[kmock.method.PATCH]) == 0
    finally:
        stop.set()
        await asyncio.wait([running], timeout=1)
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
        await kube.close()
