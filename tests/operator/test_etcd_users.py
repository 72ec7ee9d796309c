"""The operator makes users of a real etcd from Secrets, has it ask for passwords, and comes in itself."""

from __future__ import annotations

from base64 import b64encode
from pathlib import Path
from typing import Any

import pytest
from broker_operator.spec.model import BrokerSpec, Resource
from broker_operator.spec.names import BROKER
from broker_operator.workloads import pods
from broker_operator.world.connecting import Connections
from broker_operator.world.resource_cache import ResourceCache

from broker.cluster.keys import Keys
from broker.config.settings import EtcdSettings
from broker.metadata.etcd import EtcdMetadata
from broker.metadata.port import MetadataRefused
from tests.harness.servers import local_etcd
from tests.harness.waiting import eventually

from .bench import Refusing
from .builders import raw

PREFIX = "/stampede/shop/stomp"


def secret(name: str) -> dict[str, Any]:
    data = {"username": name, "password": f"of {name}"}
    return {"data": {key: b64encode(value.encode()).decode() for key, value in data.items()}}


def spec(address: str) -> dict[str, Any]:
    return {
        "endpoints": [address], "userSecretName": "operator", "rootSecretName": "root", "authEnabled": True,
        "owners": {"userSecretName": "owner"}, "edges": {"userSecretName": "edge"},
    }  # fmt: skip


async def test_owners_and_edges_and_itself_have_users_of_their_own(tmp_path: Path):
    (etcd,) = local_etcd(tmp_path)
    etcd.start()
    kube, world = Refusing(), ResourceCache(lambda id: None)
    connections = Connections(world, kube, lambda *_: None)
    try:
        for name in ("root", "operator", "owner"):
            kube.secrets[name] = secret(name)
        broker = world.put(raw(BROKER, etcd=spec(etcd.address)))
        assert isinstance(broker, Resource)
        await connections.ensure(broker, broker.spec(BrokerSpec))
        assert not connections._users, "one of the Secrets is not there yet"
        kube.secrets["edge"] = secret("edge")
        await connections.ensure(broker, broker.spec(BrokerSpec))
        await eventually(lambda: connections._users[broker.id].done)
        await eventually(lambda: world.clusters[broker.id].known)
        keys = Keys(PREFIX)
        file = tmp_path / "edge"
        file.write_text("of edge")
        edge = EtcdMetadata(
            EtcdSettings(endpoints=etcd.address, prefix=PREFIX, user="edge", password_file=str(file), timeout_s=20.0)
        )
        try:
            await edge.put(keys.member("edge", "edge-0"), b"{}")
            with pytest.raises(MetadataRefused, match="permission denied"):
                await edge.put(keys.slot(0), b"{}")
        finally:
            await edge.close()
        nobody = EtcdMetadata(EtcdSettings(endpoints=etcd.address, prefix=PREFIX, timeout_s=20.0))
        try:
            with pytest.raises(MetadataRefused, match="user name is empty"):
                await nobody.get(keys.slot(0))
        finally:
            await nobody.close()
    finally:
        await connections.close()
        etcd.stop()


def test_each_role_has_the_secrets_that_are_its_own():
    edges = {"userSecretName": "edge", "tlsSecretName": "edge-tls"}
    etcd = {**spec("etcd:2379"), "tlsSecretName": "shared", "edges": edges}
    tls = {"secretName": "all", "ownersSecretName": "owner-pair"}
    said = Resource(raw(BROKER, etcd=etcd, tls=tls)).spec(BrokerSpec)

    def secrets(role: str) -> dict[str, str]:
        volumes, _ = pods.volumes("stomp", said, "config", role)
        return {one["name"]: one["secret"]["secretName"] for one in volumes if "secret" in one}

    assert secrets("owners") == {"components": "owner-pair", "etcd": "shared", "etcd-user": "owner"}
    assert secrets("edges") == {"components": "all", "etcd": "edge-tls", "etcd-user": "edge"}
    assert secrets("operator") == {
        "components": "owner-pair",
        "etcd": "shared",
        "etcd-user": said.etcd.user_secret_name,
    }
    (user,) = pods.etcd_user(said, "edges")
    assert user["valueFrom"]["secretKeyRef"]["name"] == "edge"
