"""What cannot be made is said in the resource: settings that no pod takes, what Kubernetes refuses, an etcd that is not
there. Nothing that runs is replaced by what would not start."""

from __future__ import annotations

from base64 import b64encode
from typing import Any

import pytest
from broker_operator.etcd.etcd_reconciler import Keyed
from broker_operator.kube.applying import Applier
from broker_operator.kube.kube import KubeError
from broker_operator.spec.conditions import REFUSED_AGAIN_S
from broker_operator.spec.model import Resource
from broker_operator.spec.names import ACCEPTOR, ADDRESS, BROKER, USER
from broker_operator.workloads.owners import Versions
from broker_operator.workloads.workloads import Unmade, Workloads
from broker_operator.world.cluster import Cluster
from broker_operator.world.resource_cache import World

from broker.config.settings import EtcdSettings
from broker.seams.clock import SystemClock
from tests.harness.secrets import self_signed

from .builders import raw
from .test_applying import Server

Table = dict[str, Any]
KINDS = (
    "StatefulSet", "Deployment", "Service", "ConfigMap", "ServiceAccount", "PodDisruptionBudget", "NetworkPolicy",
    "HorizontalPodAutoscaler",
)  # fmt: skip


class Refusing(Server):
    """refuses: kind → HTTP status of an answer to its apply. claims: sizes of the owners' claims."""

    def __init__(self) -> None:
        super().__init__()
        self.live = {kind: {} for kind in KINDS}
        self.refuses: dict[str, int] = {}
        self.claims: list[str] = []
        self.secrets: dict[str, Table] = {}

    async def get(self, api_version: str, kind: str, namespace: str, name: str) -> Table | None:
        return self.secrets.get(name) if kind == "Secret" else await super().get(api_version, kind, namespace, name)

    async def apply(self, body: Table) -> Table:
        if status := self.refuses.get(body["kind"]):
            raise KubeError(status, f"{body['kind']} is forbidden: exceeded quota")
        return await super().apply(body) if body["kind"] in self.live else body

    async def read_list(self, api_version: str, kind: str, namespace: str, selector: str) -> Table:
        spec = [{"resources": {"requests": {"storage": size}}} for size in self.claims]
        return {"items": [{"metadata": {"name": f"data-stomp-owner-{n}"}, "spec": one} for n, one in enumerate(spec)]}

    async def merge(self, api_version: str, kind: str, namespace: str, name: str, patch: Table) -> Table:
        self.writes.append(f"{name} {patch['spec']['resources']['requests']['storage']}")
        return {}


class Statuses:
    """What was last said."""

    def __init__(self) -> None:
        self.said: Table = {}

    async def write(self, resource: Resource, status: Table | None) -> None:
        self.said = status or self.said

    def condition(self, type: str) -> tuple[str, str, str]:
        (found,) = [one for one in self.said["conditions"] if one["type"] == type]
        return found["status"], found["reason"], found["message"]


class Later(SystemClock):
    """A clock that is ahead."""

    by_ms = 0

    def wall_ms(self) -> int:
        return super().wall_ms() + self.by_ms


class Setting:
    def __init__(self) -> None:
        self.server = Refusing()
        self.statuses = Statuses()
        self.world = World(lambda id: None)
        clock = self.clock = Later()
        self.workloads = Workloads(
            self.world, self.server, self.statuses, None, Applier(self.server), self.server.live, Versions(), "", clock
        )
        self.keyed = Keyed(self.world, self.server, self.statuses, None, clock)

    def put(self, kind: str, **spec: Any) -> Resource:
        """The resource of this kind, there or changed."""
        one = raw(kind, **spec)
        one["metadata"]["uid"] = f"uid of the {kind}"
        found = self.world.put(one)
        assert found is not None
        return found


@pytest.fixture
def setting():
    return Setting()


async def test_settings_that_owners_would_refuse_are_named_and_change_nothing(setting):
    await setting.workloads.broker(setting.put(BROKER))
    assert setting.statuses.condition("Accepted")[0] == "True"
    setting.server.writes.clear()
    await setting.workloads.broker(setting.put(BROKER, settings={"journal": {"segmentBytes": "1"}}))
    status, reason, message = setting.statuses.condition("Accepted")
    assert (status, reason) == ("False", "Invalid") and message.startswith("journal.segment_bytes (in spec.settings)")
    assert setting.server.writes == []


async def test_settings_that_edges_would_refuse_are_named(setting):
    setting.put(BROKER)
    listeners = [{"name": "stomp", "port": 61613, "connectionTtlMs": -3}]
    await setting.workloads.acceptor(setting.put(ACCEPTOR, brokerRef={"name": "stomp"}, listeners=listeners))
    status, reason, message = setting.statuses.condition("Accepted")
    assert (status, reason) == ("False", "Invalid") and "connection_ttl_ms" in message and "stomp" in message
    assert setting.server.writes == []


@pytest.mark.parametrize("status", [400, 403, 422])
async def test_what_kubernetes_refuses_is_said_and_tried_again_later(setting, status):
    setting.server.refuses = {"StatefulSet": status, "Deployment": status}
    assert await setting.workloads.broker(setting.put(BROKER)) == REFUSED_AGAIN_S
    assert setting.statuses.condition("Accepted") == ("False", "Refused", "StatefulSet is forbidden: exceeded quota")
    assert await setting.workloads.acceptor(setting.put(ACCEPTOR, brokerRef={"name": "stomp"})) == REFUSED_AGAIN_S
    assert setting.statuses.condition("Ready") == ("False", "Refused", "Deployment is forbidden: exceeded quota")


async def test_what_may_be_better_in_a_moment_is_nobodys_fault(setting):
    setting.server.refuses = {"StatefulSet": 503}
    with pytest.raises(KubeError):
        await setting.workloads.broker(setting.put(BROKER))
    assert setting.statuses.said == {}


async def test_a_server_that_fails_over_an_object_is_told_of_and_tried_again(setting):
    """Webhooks that refuse with 500 had left no trace but a line in the operator's log."""
    setting.server.refuses = {"StatefulSet": 500, "Deployment": 500}
    for perform, kind in ((setting.workloads.broker, BROKER), (setting.workloads.acceptor, ACCEPTOR)):
        with pytest.raises(Unmade):
            await perform(setting.put(kind, **({} if kind == BROKER else {"brokerRef": {"name": "stomp"}})))
        for type in ("Accepted", "Ready"):
            status, reason, message = setting.statuses.condition(type)
            assert (status, reason) == ("Unknown", "ServerFailed") and "exceeded quota" in message


async def test_a_secret_that_pods_wait_for_is_named(setting):
    broker = setting.put(BROKER, etcd={"endpoints": ["etcd:2379"], "tlsSecretName": "etcd-tls"})
    await setting.workloads.broker(broker)
    (workload,) = setting.server.live["StatefulSet"].values()
    workload["status"] = {"replicas": 3, "readyReplicas": 0}
    for name in ("stomp-components", "etcd-tls"):
        await setting.workloads.broker(broker)
        status, reason, message = setting.statuses.condition("OwnersReady")
        assert (status, reason) == ("False", "SecretMissing") and f"there is no Secret {name} " in message
        setting.server.secrets[name] = {"data": {}}
    await setting.workloads.broker(broker)
    assert setting.statuses.condition("OwnersReady") == ("False", "Waiting", "0 of 3")


async def test_an_autoscaler_that_would_count_nothing_is_refused(setting):
    setting.put(BROKER)
    for resources, reason in (({}, "Accepted"), ({"limits": {"cpu": "1"}}, "Accepted"), ({"limits": {}}, "Invalid")):
        spec = {"brokerRef": {"name": "stomp"}, "autoscaling": {}, "resources": resources}
        await setting.workloads.acceptor(setting.put(ACCEPTOR, **spec))
        assert setting.statuses.condition("Accepted")[1] == reason
    assert "spec.resources.requests.cpu" in setting.statuses.condition("Accepted")[2]


@pytest.mark.parametrize(
    ("size", "grown"), [("10Gi", []), ("10240Mi", []), ("11Gi", ["0", "2"]), ("1.5Ti", ["0", "1", "2"]), ("9Gi", [])]
)
async def test_claims_grow_and_never_shrink(setting, size, grown):
    await setting.workloads.broker(setting.put(BROKER))
    setting.server.claims = ["10Gi", "12Gi", "10240Mi"]
    setting.server.writes.clear()
    await setting.workloads.broker(setting.put(BROKER, owners={"storage": {"size": size}}))
    assert setting.server.writes == [f"data-stomp-owner-{n} {size}" for n in grown]


async def test_an_operator_that_has_just_started_keeps_what_stands(setting):
    """Ready had gone to False and back with every restart of the operator, and alerts with it."""
    body = raw(BROKER)
    ready = {
        "type": "Ready", "status": "True", "observedGeneration": 1, "reason": "Ready", "message": "",
        "lastTransitionTime": "2026-01-01T00:00:00Z",
    }  # fmt: skip
    body["status"] = {"conditions": [ready]}
    one = setting.world.put(body)
    cluster = Cluster(EtcdSettings(endpoints="127.0.0.1:1", prefix="/x"), lambda part, names: None)
    setting.world.clusters[one.id] = cluster
    await setting.workloads.broker(one)
    assert setting.statuses.said == {}
    cluster.why = "connection refused"
    await setting.workloads.broker(one)
    assert setting.statuses.condition("Ready")[0] == "False"
    await cluster.stop()


@pytest.mark.parametrize("kind", [ADDRESS, USER])
async def test_keys_wait_for_etcd_and_say_where_to_look(setting, kind):
    setting.put(BROKER)
    one = setting.put(kind, brokerRef={"name": "stomp"})
    await (setting.keyed.address if kind == ADDRESS else setting.keyed.user)(one)
    status, reason, message = setting.statuses.condition("Ready")
    assert (status, reason) == ("Unknown", "EtcdUnreachable") and "EtcdReachable" in message


def broker(setting: Any, name: str, born: int, **etcd: Any) -> Resource:
    body = raw(BROKER, name, created=f"2026-01-0{born}T00:00:00Z", etcd={"endpoints": ["etcd:2379"], **etcd})
    found = setting.world.put(body)
    assert found is not None
    return found  # type: ignore[no-any-return]


async def test_the_younger_of_two_brokers_with_one_prefix_is_refused_and_makes_nothing(setting):
    """Together they would be one cluster, and each would take the other's users away."""
    old, young = broker(setting, "old", 1, prefix="/x"), broker(setting, "young", 2, prefix="/x/")
    assert setting.world.rival(old) is None and setting.world.rival(young) == old.id
    assert await setting.workloads.broker(young) == REFUSED_AGAIN_S
    status, reason, message = setting.statuses.condition("Accepted")
    assert (status, reason) == ("False", "PrefixTaken") and "old" in message
    assert setting.server.writes == []
    assert setting.world.rival(broker(setting, "other", 3, prefix="/y")) is None
    setting.world.drop(old.id)
    assert setting.world.rival(young) is None


async def test_nothing_is_made_while_nobody_knows_whose_a_shared_etcd_is(setting):
    """Pods with another's prefix would join its cluster."""
    shared = broker(setting, "shared", 1, endpoints=["etcd.example.com:2379"])
    assert await setting.workloads.broker(shared) == REFUSED_AGAIN_S
    edge = setting.put(ACCEPTOR, brokerRef={"name": "shared"})
    assert await setting.workloads.acceptor(edge) == REFUSED_AGAIN_S
    assert setting.server.writes == []
    own = broker(setting, "own", 2, endpoints=["https://stomp-etcd-0.stomp-etcd.shop.svc:2379"])
    await setting.workloads.broker(own)
    assert setting.server.writes


@pytest.mark.parametrize(
    ("days", "said", "ready"),
    [(40, ("True", "Valid"), False), (29, ("False", "ExpiresSoon"), False), (-1, ("False", "Expired"), True)],
)
async def test_certificates_of_the_components_end_seen(setting, tmp_path, days, said, ready):
    """Nobody had looked at them: the day they ended, every owner and edge was alone."""
    certificate, _ = self_signed(tmp_path, days=100)
    setting.clock.by_ms = (100 - days) * 86_400_000
    data = {"tls.crt": b64encode(certificate.read_bytes()).decode(), "tls.key": "eA=="}
    setting.server.secrets = {"stomp-components": {"data": data}}
    broker = setting.put(BROKER)
    again = await setting.workloads.broker(broker)
    assert setting.statuses.condition("CertificatesValid")[:2] == said
    assert setting.statuses.said["certificatesNotAfter"]
    assert (setting.statuses.condition("Ready")[1] == "Expired") is ready
    assert again and setting.workloads.expiries.keys() == {broker.id}
    setting.workloads.gone(broker.id)
    assert not setting.workloads.expiries


async def test_an_address_whose_diverts_lead_back_to_it_is_refused_with_the_way(setting):
    setting.put(BROKER)
    for name, to, born in (("orders", "audit", 1), ("audit", "orders", 2)):
        made = raw(
            ADDRESS, name, created=f"2026-01-0{born}T00:00:00Z", name=name, diverts=[{"name": to, "forward": [to]}]
        )
        young = setting.world.put(made)
    assert await setting.keyed.address(young) == REFUSED_AGAIN_S
    status, reason, message = setting.statuses.condition("Accepted")
    assert (status, reason) == ("False", "DivertCircle") and "audit → orders → audit" in message
