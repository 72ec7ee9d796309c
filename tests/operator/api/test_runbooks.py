"""Runbooks of the operator, tried: the fault is caused, the alert's own series says so, what kubectl prints says why,
and what the page says to do ends it. `kubectl logs` is left out: nothing runs pods here, what they would say is played.

Rule: commands are those of the page, as they stand there, but for the names of namespace and resource.
"""

from __future__ import annotations

import asyncio
import re
import shutil
import subprocess
import time
from base64 import b64encode
from pathlib import Path

import pytest
from broker_operator.copies import backups
from broker_operator.process import Operator
from broker_operator.serving import exposition
from broker_operator.spec import names
from broker_operator.spec.names import BACKUP, BROKER, RUN

from tests.abuse.certificates import authority, issued

from .test_backups import Nodes, account
from .world import NAMESPACE, Table, World, operating

pytestmark = pytest.mark.timeout(400)
PAGES = Path(__file__).parents[3] / "docs" / "runbooks"
DAY_S = 86400
STORE_SAYS_NO = "the store answers 403: AccessDenied"


def part(alert: str, title: str) -> str:
    """The text under `## title` of its page."""
    return (PAGES / f"{alert}.md").read_text().partition(f"## {title}\n")[2].partition("\n## ")[0]


async def typed(line: str, name: str) -> str:
    """A line of a page, by a shell."""
    line = line.replace("-n mq ", f"-n {NAMESPACE} ").replace("nightly", name)
    done = await asyncio.to_thread(subprocess.run, ["bash", "-c", line], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, (line, done.stderr)
    return done.stdout


async def looked(alert: str, name: str) -> str:
    """What its commands print."""
    lines = re.findall(r"^kubectl (?!-n mq logs).*$", part(alert, "Look"), re.MULTILINE)
    assert lines
    return "\n".join([await typed(line, name) for line in lines])


def series(operator: Operator, name: str, broker: str) -> float:
    """As Prometheus would see it; 0: it is not there."""
    found = re.findall(rf'^{name}{{.*resource_name="{broker}"}} (\S+)$', exposition(operator, True), re.MULTILINE)
    return float(found[0]) if found else 0.0


async def secret(world: World, name: str, **data: bytes) -> None:
    """There, with this in it."""
    encoded = {key.replace("_", "."): b64encode(value).decode() for key, value in data.items()}
    if await world.kube.get("v1", "Secret", NAMESPACE, name):
        await world.kube.merge("v1", "Secret", NAMESPACE, name, {"data": encoded})
        return
    meta = {"name": name, "namespace": NAMESPACE}
    body: Table = {"apiVersion": "v1", "kind": "Secret", "metadata": meta, "data": encoded}
    world.made.append(await world.kube.create(body))


class Played(Nodes):
    """What the pods of a backup say. well: the store takes what they write."""

    def __init__(self, world: World) -> None:
        self.world, self.label = world, world.broker
        self.done = []
        self.well = False

    async def _one(self, job: Table) -> None:
        (container,) = job["spec"]["template"]["spec"]["containers"]
        line = container["command"]
        if "cluster" in line:
            said = "{}" if "--complete" in line else f'{{"owners": 1, "takenMs": {int(time.time() * 1000)}}}'
            await self._ended(job, said, False)
        elif self.well:
            await self._ended(job, '{"bytes": 10, "messages": 1, "lost": 0}', False)
        else:
            await self._ended(job, f'{{"error": "{STORE_SAYS_NO}"}}', True)


@pytest.fixture(autouse=True)
def _kubectl():
    if shutil.which("kubectl") is None:
        pytest.skip("kubectl is not installed: the pages' commands cannot be typed")


async def test_a_backup_that_fails(world: World, monkeypatch):
    monkeypatch.setattr(backups, "LOOK_S", 0.3)
    alert, name, keys = "StampedeBackupFailed", world.broker, f"{world.broker}-keys"
    await account(world)
    await world.make(BROKER, name)
    async with operating(world) as operator:

        async def failed(status: int) -> None:
            await world.until(lambda: series(operator, "stampede_operator_backup_failed", name) == status)

        store = {"bucket": {"url": "s3://backups/x", "secretName": keys}}
        await world.make(BACKUP, name, {RUN: "1"}, store=store, schedule="0 2 1 1 *")
        await world.becomes(BACKUP, name, "Accepted", "SecretMissing")
        await failed(1)
        assert "SecretMissing" in (told := await looked(alert, name)) and keys in told
        table = (PAGES / "backup-and-restore.md").read_text()
        assert "`SecretMissing` | make what it names" in table
        played = Played(world)
        pods = asyncio.create_task(played.run())
        try:
            await secret(world, keys, accessKeyId=b"x", secretAccessKey=b"y")
            await world.becomes(BACKUP, name, "Succeeded", "Failed")
            await failed(1)
            assert STORE_SAYS_NO in await looked(alert, name)
            played.well = True
            (again,) = re.findall(r"at once: `(kubectl [^`]*)`", part(alert, "Do"))
            await typed(again, name)
            await world.becomes(BACKUP, name, "Succeeded", "Complete")
            await failed(0)
        finally:
            assert not pods.done() or pods.result() is None, "what the played pods raise is raised here"
            pods.cancel()
            of_it = f"{names.COPY_LABEL}={name}"
            for job in (await world.kube.read_list("batch/v1", "Job", NAMESPACE, of_it))["items"]:
                await world.kube.delete({**job, "apiVersion": "batch/v1", "kind": "Job"})


async def test_the_certificate_between_components_ends(world: World, tmp_path: Path):
    alert, name = "StampedeComponentCertificateEnds", world.broker
    if shutil.which("openssl") is None:
        pytest.skip("openssl is not installed: no certificates for this test")
    ca = authority(tmp_path, "ca")
    certificate, key = issued(tmp_path, "soon", ca, days=10)
    pair = {"ca_crt": ca[0].read_bytes(), "tls_crt": certificate.read_bytes(), "tls_key": key.read_bytes()}
    await secret(world, names.components_secret(name), **pair)
    await world.make(BROKER, name)
    async with operating(world) as operator:

        def days() -> float:
            return (series(operator, "stampede_operator_certificate_expiry_seconds", name) - time.time()) / DAY_S

        await world.becomes(BROKER, name, "CertificatesValid", "ExpiresSoon")
        assert 9 < days() < 30
        ends = time.strftime("%Y-%m-%d", time.gmtime(time.time() + days() * DAY_S))
        assert ends in await looked(alert, name)
        assert "See the alert end" in part(alert, "Do")
        certificate, key = issued(tmp_path, "renewed", ca, days=90)
        await secret(world, names.components_secret(name), tls_crt=certificate.read_bytes(), tls_key=key.read_bytes())
        await world.becomes(BROKER, name, "CertificatesValid", "Valid")
        assert days() > 80
