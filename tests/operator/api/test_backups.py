"""A StompBackup of a real cluster into a bucket, and a StompRestore into a new one. The API server is real; of a pod
the test runs the command itself, as a process, with the pod's variables."""

from __future__ import annotations

import asyncio
import os
import sys
from base64 import b64decode, b64encode
from pathlib import Path

import pytest
from broker_operator.copies import backups, restores
from broker_operator.kube.kube import path_of
from broker_operator.spec import names
from broker_operator.spec.names import API_VERSION, BACKUP, BROKER, RESTORE, RUN

from broker.client import connect
from tests.harness.cluster import HOST, PREFIX, Cluster, Process
from tests.harness.servers import Server, local_etcd, needs_etcdctl
from tests.pipeline.s3 import bucket, missing_of_server

from .world import NAMESPACE, Table, World, all_told, operating

pytestmark = pytest.mark.timeout(300)
MESSAGES = 60


class Nodes:
    """Runs the Jobs of one resource, one after the other, as the pods would. `disks`: claim → data folder."""

    def __init__(self, world: World, label: str, etcd: str, disks: dict[str, Path], folder: Path) -> None:
        self.world = world
        self.label = label
        self.etcd = etcd
        self.disks = disks
        self.folder = folder
        self.done: list[str] = []

    async def run(self) -> None:
        while True:
            selector = f"{names.COPY_LABEL}={self.label}"
            for job in (await self.world.kube.read_list("batch/v1", "Job", NAMESPACE, selector))["items"]:
                if job["metadata"]["uid"] not in self.done:
                    self.done.append(job["metadata"]["uid"])
                    await self._one(job)
            await asyncio.sleep(0.2)

    async def _one(self, job: Table) -> None:
        pod = job["spec"]["template"]["spec"]
        (container,) = pod["containers"]
        claims = [one["persistentVolumeClaim"]["claimName"] for one in pod["volumes"] if "persistentVolumeClaim" in one]
        words = self.folder / job["metadata"]["name"]
        line = [str(words) if word == names.LAST_WORDS else word for word in container["command"]]
        line = [str(self.disks[claims[0]]) if word == names.DATA_DIR else word for word in line]
        if "cluster" in line:
            line += ["--set", f"etcd.endpoints={self.etcd}", "--set", f"etcd.prefix={PREFIX}"]
        given = {one["name"]: await self._value(one) for one in container["env"] if one["name"].startswith("AWS_")}
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-m", "broker.app.cli", *line[1:], env={**os.environ, **given}
        )
        failed = await process.wait() != 0
        await self._ended(job, words.read_text(), failed)

    async def _value(self, variable: Table) -> str:
        if "value" in variable:
            return str(variable["value"])
        where = variable["valueFrom"]["secretKeyRef"]
        secret = await self.world.kube.get("v1", "Secret", NAMESPACE, where["name"])
        return b64decode(secret["data"][where["key"]]).decode()

    async def _ended(self, job: Table, message: str, failed: bool) -> None:
        """As kubelet and the controller of Jobs say it."""
        kube, name = self.world.kube, job["metadata"]["name"]
        template = job["spec"]["template"]
        # Without the other labels of its template: a controller of Jobs, where there is one, has a pod of its own.
        meta = {"name": name, "namespace": NAMESPACE, "labels": {"job-name": name}}
        spec = {**template["spec"], "volumes": [], "containers": [{"name": "x", "image": "x"}]}
        pod = await kube.create({"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": spec})
        self.world.made.append({**pod, "apiVersion": "v1", "kind": "Pod"})
        state = {"terminated": {"exitCode": int(failed), "message": message, "finishedAt": "2026-11-27T12:00:00Z"}}
        each = {"name": "x", "image": "x", "imageID": "", "ready": False, "restartCount": 0, "state": state}
        await status(kube, "v1", "Pod", name, {"phase": "Succeeded", "containerStatuses": [each]})
        at = "2026-11-27T12:00:00Z"
        one = {"type": "Failed" if failed else "Complete", "status": "True", "lastTransitionTime": at}
        await status(
            kube, "batch/v1", "Job", name, {"conditions": [one], "startTime": at, "succeeded": int(not failed)}
        )


async def status(kube, api_version: str, kind: str, name: str, value: Table) -> None:
    path = path_of(api_version, kind, NAMESPACE, name) + "/status"
    await kube._write("PATCH", path, {"status": value}, "application/merge-patch+json")


@pytest.fixture
def s3(tmp_path):
    if lacks := missing_of_server("obstore"):
        pytest.skip(f"no S3: {lacks}")
    with bucket("backups", tmp_path / "moto.log") as endpoint:
        yield endpoint


async def test_a_new_broker_from_a_backup(world: World, own_etcd: Server, tmp_path: Path, s3: str, monkeypatch):
    needs_etcdctl()
    for module, name, value in ((backups, "LOOK_S", 0.3), (restores, "LOOK_S", 0.3)):
        monkeypatch.setattr(module, name, value)
    cluster = Cluster(tmp_path / "old", own_etcd.port, edges=1)
    (etcd,) = local_etcd(tmp_path / "etcd")
    again = Cluster(tmp_path / "new", etcd.port, owners=0, edges=1)
    new = f"n-{world.broker}"
    again.owners = [Process(again, "owner", names.owner_pod(new, n)) for n in range(3)]
    # The operator copies pods of its broker: the played cluster's owners are called like them.
    cluster.owners = [Process(cluster, "owner", names.owner_pod(world.broker, n)) for n in range(3)]
    world.etcd = f"{HOST}:{cluster.etcd_port}"
    keys = {key: b64encode(value.encode()).decode() for key, value in (("accessKeyId", "x"), ("secretAccessKey", "y"))}
    secret = {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": f"{world.broker}-keys", "namespace": NAMESPACE},
    }
    try:
        await asyncio.to_thread(cluster.start)
        world.made.append(await world.kube.create({**secret, "data": keys}))
        await account(world)
        await world.make(BROKER, world.broker, etcd={"endpoints": [world.etcd], "prefix": PREFIX})
        async with operating(world) as operator:
            await send(cluster)
            store = {"bucket": {"url": "s3://backups/x", "endpoint": s3, "secretName": f"{world.broker}-keys"}}
            disks = {names.data_claim(world.broker, n): owner.data for n, owner in enumerate(cluster.owners)}
            async with asyncio.TaskGroup() as group:
                node = group.create_task(Nodes(world, world.broker, world.etcd, disks, tmp_path).run())
                await world.make(BACKUP, world.broker, {RUN: "1"}, store=store, schedule="0 2 1 1 *")
                await world.becomes(BACKUP, world.broker, "Succeeded", "Complete")
                node.cancel()
            found = (await world.get(BACKUP, world.broker))["status"]
            assert found["last"]["messages"] >= 3 * MESSAGES and found["last"]["bytes"] > 1000
            await world.until(lambda: has_next(world))
            assert await all_told(world, world.broker, "BackupComplete", 1)
            assert [one.failed for one in operator.backups.states.values()] == [False]
            for process in cluster.processes:
                await asyncio.to_thread(process.kill)
            await asyncio.to_thread(etcd.start)

            await world.make(BROKER, new, etcd={"endpoints": [f"{HOST}:{etcd.port}"], "prefix": PREFIX},
                             restoreFrom={"name": new})  # fmt: skip
            await world.until(lambda: is_held(world, new))
            disks = {names.data_claim(new, n): owner.data for n, owner in enumerate(again.owners)}
            async with asyncio.TaskGroup() as group:
                node = group.create_task(Nodes(world, new, f"{HOST}:{etcd.port}", disks, tmp_path).run())
                source = {"store": store, "folder": f"{NAMESPACE}/{world.broker}"}
                await restore(world, new, source)
                await world.becomes(RESTORE, new, "Complete", "Complete")
                node.cancel()
            await world.until(lambda: replicas(world, new, 3))
            await asyncio.to_thread(again.start)
            async with connect(f"stomp://{HOST}:{again.edges[0].port}") as client:
                for n in range(MESSAGES):
                    async with client.subscribe(f"q{n}") as messages:
                        assert (await messages.get(60)).body == b"%d" % n
    finally:
        await asyncio.to_thread(cluster.close)
        await asyncio.to_thread(again.close)
        await asyncio.to_thread(etcd.stop)


async def send(cluster: Cluster) -> None:
    async with connect(f"stomp://{HOST}:{cluster.edges[0].port}") as client:
        for n in range(MESSAGES):
            await client.send(f"q{n}", b"%d" % n, headers={"persistent": "true"}, receipt=True)


async def account(world: World) -> None:
    """Pods want one; nobody else here makes it."""
    if await world.kube.get("v1", "ServiceAccount", NAMESPACE, "default") is None:
        meta = {"name": "default", "namespace": NAMESPACE}
        await world.kube.create({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": meta})


async def restore(world: World, broker: str, source: Table) -> None:
    meta = {"name": broker, "namespace": NAMESPACE}
    spec = {"brokerRef": {"name": broker}, "source": source}
    body = {"apiVersion": API_VERSION, "kind": RESTORE, "metadata": meta, "spec": spec}
    world.made.append(await world.kube.create(body))


async def has_next(world: World) -> bool:
    return "nextAt" in (await world.get(BACKUP, world.broker))["status"]


async def is_held(world: World, broker: str) -> bool:
    held = (await world.condition(BROKER, broker, "OwnersReady"))[1] == "Restoring"
    return held and await replicas(world, broker, 0)


async def replicas(world: World, broker: str, count: int) -> bool:
    found = await world.get("StatefulSet", names.owner_name(broker), "apps/v1")
    return found is not None and found["spec"]["replicas"] == count
