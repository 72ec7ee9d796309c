"""The Kubernetes client against an emulated API server: what it reads and writes, and what went wrong."""

from __future__ import annotations

import kmock
import kopf
import pytest
from broker_operator.kube.kube import Kube, KubeError
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


async def test_the_client_reads_writes_and_says_what_went_wrong(server):
    kube = Kube(connection(server))
    made = await kube.create(raw(USER, "ada"))
    found = await kube.get(API_VERSION, USER, "shop", "ada")
    assert found is not None and found["metadata"]["name"] == "ada"
    assert await kube.get(API_VERSION, USER, "shop", "nobody") is None
    listed = await kube.read_list(API_VERSION, USER, "shop")
    assert [item["metadata"]["name"] for item in listed["items"]] == ["ada"]
    await kube.delete(made)
    assert await kube.get(API_VERSION, USER, "shop", "ada") is None
    await kube.close()


async def test_no_answer_is_an_error_of_its_own():
    kube = Kube(kopf.ConnectionInfo(server="http://127.0.0.1:9"))
    with pytest.raises(KubeError) as failed:
        await kube.get(API_VERSION, USER, "shop", "ada")
    assert failed.value.status == 0
    await kube.close()
