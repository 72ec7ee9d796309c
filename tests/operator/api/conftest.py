"""A real API server: named by TEST_KUBECONFIG (tests/kube/up.sh starts one and prints it).

Every test run has a namespace of its own, so that runs do not meet. Without an API server the tests say why they skip.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from broker_operator.crds import crds
from broker_operator.kube.kube import Kube, KubeError, login
from broker_operator.spec import names

from tests.harness.servers import Server

from .world import NAMESPACE, World

KUBECONFIG = os.environ.get("TEST_KUBECONFIG", "")
_applied: set[str] = set()
CLOSING_S = 0.05


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """One namespace, and the kinds applied once: all of it stays together."""
    for item in items:
        if item.path.parent == Path(__file__).parent:
            item.add_marker(pytest.mark.xdist_group("operator-api"))


@pytest.fixture
async def kube(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Kube]:
    """The API server, with our kinds and the namespace of this run."""
    if not KUBECONFIG:
        pytest.skip("no Kubernetes: TEST_KUBECONFIG is not set (tests/kube/up.sh starts one)")
    monkeypatch.setenv("KUBECONFIG", KUBECONFIG)
    found = Kube(login())
    try:
        if not _applied:
            await _prepare(found)
            _applied.add(NAMESPACE)
        yield found
    finally:
        await found.close()
        # A connection whose handshake was cancelled (an operator that is stopped while it connects) closes its socket
        # in the loop's next rounds; without them the next test is told of it (unclosed transport).
        await asyncio.sleep(CLOSING_S)


@pytest.fixture
async def world(kube: Kube, etcd: Server) -> AsyncIterator[World]:
    found = World(kube, etcd.address)
    yield found
    await found.close()


async def _prepare(kube: Kube) -> None:
    for kind in names.PLURALS:
        path = f"/apis/apiextensions.k8s.io/v1/customresourcedefinitions/{names.PLURALS[kind]}.{names.GROUP}"
        params = {"fieldManager": "tests", "force": "true"}
        await kube._write("PATCH", path, crds.crd(kind), "application/apply-patch+yaml", params)
    await kube._write("POST", "/api/v1/namespaces", {"metadata": {"name": NAMESPACE}}, "application/json")
    for kind in names.PLURALS:
        for _ in range(150):
            with contextlib.suppress(KubeError):
                await kube.read_list(names.API_VERSION, kind, NAMESPACE)
                break
            await asyncio.sleep(0.2)


@pytest.fixture(scope="session", autouse=True)
def _tidy():
    """The namespace goes at the end, as far as somebody carries that out (an API server alone does not)."""
    yield
    if not _applied:
        return

    async def away() -> None:
        os.environ["KUBECONFIG"] = KUBECONFIG
        kube = Kube(login())
        with contextlib.suppress(KubeError):
            await kube._write("DELETE", f"/api/v1/namespaces/{NAMESPACE}", None, "application/json")
        await kube.close()

    asyncio.run(away())
