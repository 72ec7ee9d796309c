"""Objects become what is wanted, also where less is wanted than before, and are written only then."""

from __future__ import annotations

from copy import deepcopy
from itertools import count
from typing import Any

import pytest
from broker_operator.kube.applying import Applier, Drift, Taken, id_of
from broker_operator.kube.kube import KubeError
from broker_operator.spec.names import Id

from .test_workloads import edge_objects

Table = dict[str, Any]


def without(live: Any, before: Any, now: Any) -> Any:
    """Server-side apply: what we said before and say no more goes."""
    if named(live, before):
        then, present = by_name(before), by_name(now or [])
        kept_list = [one for one in live if one["name"] not in then or one["name"] in present]
        return [without(one, then.get(one["name"]), present.get(one["name"])) for one in kept_list]
    if not isinstance(live, dict) or not isinstance(before, dict):
        return live
    kept = {}
    for key, value in live.items():
        said = now.get(key) if isinstance(now, dict) else None
        if key in before and said is None:
            continue
        kept[key] = without(value, before.get(key), said)
    return kept


def named(*lists: Any) -> bool:
    return all(isinstance(each, list) and each and all("name" in one for one in each) for each in lists)


def by_name(items: Any) -> dict[str, Any]:
    return {one["name"]: one for one in items}


def over(live: Any, body: Any) -> Any:
    if named(live, body):
        known, said = by_name(live), by_name(body)
        return [over(known.get(name), one) for name, one in said.items()] + [
            one for name, one in known.items() if name not in said
        ]
    if isinstance(live, dict) and isinstance(body, dict):
        return {**live, **{key: over(live.get(key), value) for key, value in body.items()}}
    return body


def patched(live: Any, patch: Any) -> Any:
    """RFC 7396."""
    if not isinstance(patch, dict):
        return patch
    kept = dict(live) if isinstance(live, dict) else {}
    for key, value in patch.items():
        if value is None:
            kept.pop(key, None)
        else:
            kept[key] = patched(kept.get(key), value)
    return kept


def version(item: Table) -> str:
    return str(item["metadata"]["resourceVersion"])


class Server:
    """The API server as far as one field manager sees it. atomic: a Service's selector is one value, as it is to a
    current Kubernetes; else each key has its owner."""

    def __init__(self) -> None:
        self.live: dict[str, dict[Id, Table]] = {}
        self.writes: list[str] = []
        self._said: dict[Id, Table] = {}
        self._versions = map(str, count(1))
        self.atomic = True

    def know(self, bodies: list[Table]) -> None:
        for body in bodies:
            self.live.setdefault(body["kind"], {})

    async def get(self, api_version: str, kind: str, namespace: str, name: str) -> Table | None:
        return self.live[kind].get(Id(kind, namespace, name))

    async def apply(self, body: Table) -> Table:
        id = id_of(body)
        live = self.live[id.kind].get(id)
        if live and body["metadata"].get("resourceVersion", live["metadata"]["resourceVersion"]) != version(live):
            raise KubeError(409, "it was changed meanwhile")
        self.writes.append(id.kind)
        item = over(without(self.live[id.kind].get(id, {}), self._said.get(id, {}), body), deepcopy(body))
        if id.kind == "Service" and self.atomic:
            item["spec"]["selector"] = deepcopy(body["spec"]["selector"])
        if id.kind == "Deployment":
            item["spec"].setdefault("replicas", 1)
        item["metadata"]["resourceVersion"] = next(self._versions)
        self.live[id.kind][id] = item
        self._said[id] = deepcopy(body)
        return item

    async def merge(self, api_version: str, kind: str, namespace: str, name: str, patch: Table) -> Table:
        id = Id(kind, namespace, name)
        assert patch["metadata"]["resourceVersion"] == version(self.live[kind][id])
        self.writes.append(f"~{kind}")
        item = patched(self.live[kind][id], patch)
        item["metadata"]["resourceVersion"] = next(self._versions)
        self.live[kind][id] = item
        return item

    async def delete(self, body: Table, *, alone: bool = False) -> None:
        self.writes.append(f"-{body['kind']}{' alone' if alone else ''}")
        del self.live[body["kind"]][id_of(body)]


@pytest.fixture
def server():
    return Server()


async def ensure(server: Server, applier: Applier, uid: str, **spec: Any) -> list[str]:
    """What was written."""
    bodies = edge_objects(**spec)
    for body in bodies:
        body["metadata"]["ownerReferences"][0]["uid"] = uid
    server.know(bodies)
    server.writes.clear()
    await drifts(applier, uid, bodies, server.live)
    return sorted(server.writes)


async def drifts(applier: Applier, uid: str, bodies: list[Table], live: dict[str, dict[Id, Table]]) -> list[Drift]:
    return [drift async for drift in applier.ensure(uid, bodies, live)]


def deployment(server: Server) -> Table:
    (found,) = server.live["Deployment"].values()
    return found


async def test_what_is_as_it_is_wanted_is_not_written(server):
    applier = Applier(server)
    assert await ensure(server, applier, "u")
    assert await ensure(server, applier, "u") == []
    assert await ensure(server, Applier(server), "u") == [], "nor by an operator that knows nothing yet"


@pytest.mark.parametrize("same_operator", [True, False])
async def test_what_is_wanted_no_more_goes(server, same_operator):
    applier = Applier(server)
    service = {"type": "LoadBalancer", "annotations": {"a": "b"}}
    template = {"spec": {"nodeSelector": {"disk": "fast"}}}
    await ensure(server, applier, "u", service=service, template=template)
    assert deployment(server)["spec"]["template"]["spec"]["nodeSelector"]
    wrote = await ensure(server, applier if same_operator else Applier(server), "u", service={"type": "LoadBalancer"})
    assert wrote == ["Deployment", "Service"]
    assert "nodeSelector" not in deployment(server)["spec"]["template"]["spec"]
    found = server.live["Service"][Id("Service", "shop", "edge")]
    assert "a" not in found["metadata"]["annotations"]


async def test_a_pool_that_is_handed_to_an_autoscaler_keeps_its_size(server):
    applier = Applier(server)
    await ensure(server, applier, "u", replicas=8)
    await ensure(server, applier, "u", autoscaling={})
    assert deployment(server)["spec"]["replicas"] == 8
    deployment(server)["spec"]["replicas"] = 5  # the autoscaler's
    assert await ensure(server, applier, "u", autoscaling={}) == []
    assert await ensure(server, applier, "u", autoscaling={}, image="stampede:1", drain={"delaySeconds": 9})
    assert deployment(server)["spec"]["replicas"] == 5
    await ensure(server, applier, "u", replicas=3)
    assert deployment(server)["spec"]["replicas"] == 3


async def test_what_somebody_else_changed_is_told(server):
    applier = Applier(server)
    await ensure(server, applier, "u")
    deployment(server)["spec"]["replicas"] = 7
    bodies = edge_objects()
    for body in bodies:
        body["metadata"]["ownerReferences"][0]["uid"] = "u"
    (drift,) = await drifts(applier, "u", bodies, server.live)
    assert drift.what == "spec.replicas was 7"


async def test_what_was_undone_is_told_although_another_object_fails(server):
    applier = Applier(server)
    await ensure(server, applier, "u")
    server.live["Service"][Id("Service", "shop", "edge")]["spec"]["type"] = "NodePort"
    bodies = sorted(edge_objects(), key=lambda body: body["kind"] != "Service")
    for body in bodies:
        body["metadata"]["ownerReferences"][0]["uid"] = "u"
    del server.live["Deployment"][Id("Deployment", "shop", "edge-edge")]
    apply = server.apply

    async def busy(body: Table) -> Table:
        if body["kind"] == "Deployment":
            raise KubeError(500, "busy")
        return await apply(body)

    server.apply = busy
    found = []
    with pytest.raises(KubeError):
        async for drift in applier.ensure("u", bodies, server.live):
            found.append(drift.what)
    assert found == ['spec.type was "NodePort"'] and applier.drifts == 1


async def test_an_object_that_is_known_as_it_was_before_our_last_write_is_no_drift(server):
    applier = Applier(server)
    await ensure(server, applier, "u", replicas=3)
    before = deepcopy(server.live)
    await ensure(server, applier, "u", replicas=4)
    now, server.live = server.live, before
    bodies = edge_objects(replicas=4)
    for body in bodies:
        body["metadata"]["ownerReferences"][0]["uid"] = "u"
    server.writes.clear()
    assert await drifts(applier, "u", bodies, server.live) == [] and server.writes == []
    server.live = now
    deployment(server)["spec"]["replicas"] = 7
    deployment(server)["metadata"]["resourceVersion"] = next(server._versions)
    assert [drift.what for drift in await drifts(applier, "u", bodies, server.live)] == ["spec.replicas was 7"]


async def test_the_size_that_an_autoscaler_gave_a_pool_meanwhile_is_not_taken_back(server):
    applier = Applier(server)
    await ensure(server, applier, "u", autoscaling={})
    known = deepcopy(server.live)
    deployment(server)["spec"]["replicas"] = 8
    deployment(server)["metadata"]["resourceVersion"] = next(server._versions)
    bodies = edge_objects(autoscaling={}, drain={"delaySeconds": 9})
    for body in bodies:
        body["metadata"]["ownerReferences"][0]["uid"] = "u"
    with pytest.raises(KubeError):
        await drifts(applier, "u", bodies, known)
    await drifts(applier, "u", bodies, server.live)
    assert deployment(server)["spec"]["replicas"] == 8


async def test_an_object_of_somebody_else_stays_his(server):
    await ensure(server, Applier(server), "u")
    with pytest.raises(Taken):
        await ensure(server, Applier(server), "other")


def privileged(pod: Table) -> None:
    pod["containers"][0]["securityContext"]["privileged"] = True


ADDED = {
    "a key of a selector": ("Service", "edge", lambda spec: spec["selector"].update(tier="gold")),
    "a port": ("Service", "edge", lambda spec: spec["ports"].append({"name": "ssh", "port": 22})),
    "a privilege": ("Deployment", "edge-edge", lambda spec: privileged(spec["template"]["spec"])),
    "a side-car": (
        "Deployment", "edge-edge", lambda spec: spec["template"]["spec"]["containers"].append({"name": "x"})
    ),
    "the host's network": ("Deployment", "edge-edge", lambda spec: spec["template"]["spec"].update(hostNetwork=True)),
    "a variable": (
        "Deployment", "edge-edge",
        lambda spec: spec["template"]["spec"]["containers"][0]["env"].append({"name": "LD_PRELOAD", "value": "/x.so"}),
    ),
}  # fmt: skip


@pytest.mark.parametrize("atomic", [True, False])
@pytest.mark.parametrize("same_operator", [True, False])
@pytest.mark.parametrize("what", ADDED)
async def test_what_somebody_added_where_every_entry_counts_is_taken_out_and_told(server, what, same_operator, atomic):
    """A key beside those of a Service's selector cuts everybody off; server-side apply would leave it for ever, or take
    it out and say nothing."""
    server.atomic = atomic
    kind, name, add = ADDED[what]
    applier = Applier(server)
    await ensure(server, applier, "u")
    id = Id(kind, "shop", name)
    before = deepcopy(server.live[kind][id]["spec"])
    add(server.live[kind][id]["spec"])
    server.live[kind][id]["metadata"]["resourceVersion"] = next(server._versions)
    bodies = edge_objects()
    for body in bodies:
        body["metadata"]["ownerReferences"][0]["uid"] = "u"
    (drift,) = await drifts(applier if same_operator else Applier(server), "u", bodies, server.live)
    assert drift.id == id and "was added" in drift.what
    assert server.live[kind][id]["spec"] == before
    assert await drifts(Applier(server), "u", bodies, server.live) == []


async def test_what_others_may_add_stays(server):
    applier = Applier(server)
    await ensure(server, applier, "u")
    found = deployment(server)
    found["spec"]["template"]["metadata"]["annotations"]["kubectl.kubernetes.io/restartedAt"] = "now"
    found["spec"]["template"]["spec"]["containers"][0]["terminationMessagePath"] = "/dev/x"
    found["spec"]["revisionHistoryLimit"] = 3
    found["metadata"]["labels"]["team"] = "x"
    assert await ensure(server, applier, "u") == []


async def test_where_all_configuration_is_made_immutable_it_is_made_anew_only_when_it_changes(server):
    applier, apply = Applier(server), server.apply

    async def by_policy(body: Table) -> Table:
        made = await apply(body)
        if made["kind"] == "ConfigMap":
            made["immutable"] = True
        return made

    server.apply = by_policy
    await ensure(server, applier, "u")
    assert await ensure(server, applier, "u") == []
    assert await ensure(server, Applier(server), "u") == []
    wrote = await ensure(server, applier, "u", settings={"edge": {"maxConnections": 77}})
    assert "-ConfigMap" in wrote and "ConfigMap" in wrote
    assert await ensure(server, applier, "u", settings={"edge": {"maxConnections": 77}}) == []
