"""What the chart tells the operator to make with gitOps is there soon, once, and again when somebody deletes it."""

from __future__ import annotations

from typing import Any

import pytest
from broker_operator.kube.made_secrets import RELEASE, Certificate, Password, Wanted
from broker_operator.process import Options

from .world import NAMESPACE, World, operating

pytestmark = pytest.mark.timeout(400)


async def test_certificates_and_passwords_are_made_and_outlive_the_operator(world: World):
    name = f"git-{world.broker}"[:40]
    wanted = Wanted(
        name, f"{name}-ca", "Stampede", 3650, [Certificate(f"{name}-tls", ["a.svc", "*.a.svc"])],
        [Password(f"{name}-etcd-root", "root")],
    )  # fmt: skip
    options = Options((NAMESPACE,), "stampede:1", lease=f"{NAMESPACE}/{name}", secrets=wanted)

    async def there() -> dict[str, Any]:
        answer = await world.kube.read_list("v1", "Secret", NAMESPACE, f"{RELEASE}={name}")
        return {one["metadata"]["name"]: one["data"] for one in answer["items"]}

    async def all_there() -> bool:
        return len(await there()) == 3

    async with operating(world, options):
        await world.until(all_there)
        before = await there()
        assert before.keys() == {f"{name}-ca", f"{name}-tls", f"{name}-etcd-root"}
        assert before[f"{name}-tls"]["ca.crt"] == before[f"{name}-ca"]["tls.crt"]
        gone = await world.kube.get("v1", "Secret", NAMESPACE, f"{name}-tls")
        assert gone is not None
        await world.kube.delete({**gone, "apiVersion": "v1", "kind": "Secret"})
        await world.until(all_there)
    async with operating(world, options) as operator:

        async def looked() -> bool:
            return ("Made", "ok") in operator.queue.done

        await world.until(looked)
        after = await there()
        assert after[f"{name}-ca"] == before[f"{name}-ca"]
        assert after[f"{name}-etcd-root"] == before[f"{name}-etcd-root"]
        assert operator.kube.writes["Secret"] == 0, "a restart writes nothing"
