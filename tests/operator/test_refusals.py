"""What cannot be made is said in the resource: settings that no pod takes, what Kubernetes refuses, an etcd that is not
there. Nothing that runs is replaced by what would not start."""

from __future__ import annotations

from base64 import b64encode
from typing import Any

import pytest
from broker_operator.kube.kube import KubeError
from broker_operator.process import _secrets_of
from broker_operator.spec.conditions import REFUSED_AGAIN_S
from broker_operator.spec.model import Resource
from broker_operator.spec.names import ACCEPTOR, ADDRESS, BROKER, USER
from broker_operator.workloads.workloads import Unmade
from broker_operator.world.cluster import Cluster

from broker.config.settings import EtcdSettings
from tests.harness.secrets import self_signed

from .bench import Bench
from .builders import raw


@pytest.fixture
def bench():
    return Bench()


async def test_settings_that_owners_would_refuse_are_named_and_change_nothing(bench):
    await bench.workloads.broker(bench.put(BROKER))
    assert bench.statuses.condition("Accepted")[0] == "True"
    bench.server.writes.clear()
    await bench.workloads.broker(bench.put(BROKER, settings={"journal": {"segmentBytes": "1"}}))
    status, reason, message = bench.statuses.condition("Accepted")
    assert (status, reason) == ("False", "Invalid") and message.startswith("journal.segment_bytes (in spec.settings)")
    assert bench.server.writes == []


async def test_settings_that_edges_would_refuse_are_named(bench):
    bench.put(BROKER)
    listeners = [{"name": "stomp", "port": 61613, "connectionTtlMs": -3}]
    await bench.workloads.acceptor(bench.put(ACCEPTOR, brokerRef={"name": "stomp"}, listeners=listeners))
    status, reason, message = bench.statuses.condition("Accepted")
    assert (status, reason) == ("False", "Invalid") and "connection_ttl_ms" in message and "stomp" in message
    assert bench.server.writes == []


@pytest.mark.parametrize("status", [400, 403, 422])
async def test_what_kubernetes_refuses_is_said_and_tried_again_later(bench, status):
    bench.server.refuses = {"StatefulSet": status, "Deployment": status}
    assert await bench.workloads.broker(bench.put(BROKER)) == REFUSED_AGAIN_S
    assert bench.statuses.condition("Accepted") == ("False", "Refused", "StatefulSet is forbidden: exceeded quota")
    assert await bench.workloads.acceptor(bench.put(ACCEPTOR, brokerRef={"name": "stomp"})) == REFUSED_AGAIN_S
    assert bench.statuses.condition("Ready") == ("False", "Refused", "Deployment is forbidden: exceeded quota")


async def test_what_may_be_better_in_a_moment_is_nobodys_fault(bench):
    bench.server.refuses = {"StatefulSet": 503}
    with pytest.raises(KubeError):
        await bench.workloads.broker(bench.put(BROKER))
    assert bench.statuses.said == {}


async def test_a_server_that_fails_over_an_object_is_told_of_and_tried_again(bench):
    """Webhooks that refuse with 500 had left no trace but a line in the operator's log."""
    bench.server.refuses = {"StatefulSet": 500, "Deployment": 500}
    for perform, kind in ((bench.workloads.broker, BROKER), (bench.workloads.acceptor, ACCEPTOR)):
        with pytest.raises(Unmade):
            await perform(bench.put(kind, **({} if kind == BROKER else {"brokerRef": {"name": "stomp"}})))
        for type in ("Accepted", "Ready"):
            status, reason, message = bench.statuses.condition(type)
            assert (status, reason) == ("Unknown", "ServerFailed") and "exceeded quota" in message


async def test_a_secret_that_pods_wait_for_is_named(bench):
    broker = bench.put(BROKER, etcd={"endpoints": ["etcd:2379"], "tlsSecretName": "etcd-tls"})
    await bench.workloads.broker(broker)
    (workload,) = bench.server.live["StatefulSet"].values()
    workload["status"] = {"replicas": 3, "readyReplicas": 0}
    for name in ("stomp-components", "etcd-tls"):
        await bench.workloads.broker(broker)
        status, reason, message = bench.statuses.condition("OwnersReady")
        assert (status, reason) == ("False", "SecretMissing") and f"there is no Secret {name} " in message
        bench.server.secrets[name] = {"data": {}}
    await bench.workloads.broker(broker)
    assert bench.statuses.condition("OwnersReady") == ("False", "Waiting", "0 of 3")


async def test_an_autoscaler_that_would_count_nothing_is_refused(bench):
    bench.put(BROKER)
    for resources, reason in (({}, "Accepted"), ({"limits": {"cpu": "1"}}, "Accepted"), ({"limits": {}}, "Invalid")):
        spec = {"brokerRef": {"name": "stomp"}, "autoscaling": {}, "resources": resources}
        await bench.workloads.acceptor(bench.put(ACCEPTOR, **spec))
        assert bench.statuses.condition("Accepted")[1] == reason
    assert "spec.resources.requests.cpu" in bench.statuses.condition("Accepted")[2]


@pytest.mark.parametrize(
    ("size", "grown"), [("10Gi", []), ("10240Mi", []), ("11Gi", ["0", "2"]), ("1.5Ti", ["0", "1", "2"]), ("9Gi", [])]
)
async def test_claims_grow_and_never_shrink(bench, size, grown):
    await bench.workloads.broker(bench.put(BROKER))
    bench.server.claims = ["10Gi", "12Gi", "10240Mi"]
    bench.server.writes.clear()
    await bench.workloads.broker(bench.put(BROKER, owners={"storage": {"size": size}}))
    assert bench.server.writes == [f"data-stomp-owner-{n} {size}" for n in grown]


async def test_an_operator_that_has_just_started_keeps_what_stands(bench):
    """Ready had gone to False and back with every restart of the operator, and alerts with it."""
    body = raw(BROKER)
    ready = {
        "type": "Ready", "status": "True", "observedGeneration": 1, "reason": "Ready", "message": "",
        "lastTransitionTime": "2026-01-01T00:00:00Z",
    }  # fmt: skip
    body["status"] = {"conditions": [ready]}
    one = bench.cache.put(body)
    cluster = Cluster(EtcdSettings(endpoints="127.0.0.1:1", prefix="/x"), lambda part, names: None)
    bench.cache.clusters[one.id] = cluster
    await bench.workloads.broker(one)
    assert bench.statuses.said == {}
    cluster.why = "connection refused"
    await bench.workloads.broker(one)
    assert bench.statuses.condition("Ready")[0] == "False"
    await cluster.stop()


@pytest.mark.parametrize("kind", [ADDRESS, USER])
async def test_keys_wait_for_etcd_and_say_where_to_look(bench, kind):
    bench.put(BROKER)
    one = bench.put(kind, brokerRef={"name": "stomp"})
    await (bench.etcd_reconciler.address if kind == ADDRESS else bench.etcd_reconciler.user)(one)
    status, reason, message = bench.statuses.condition("Ready")
    assert (status, reason) == ("Unknown", "EtcdUnreachable") and "EtcdReachable" in message


def broker(bench: Any, name: str, born: int, **etcd: Any) -> Resource:
    body = raw(BROKER, name, created=f"2026-01-0{born}T00:00:00Z", etcd={"endpoints": ["etcd:2379"], **etcd})
    found = bench.cache.put(body)
    assert found is not None
    return found  # type: ignore[no-any-return]


async def test_the_younger_of_two_brokers_with_one_prefix_is_refused_and_makes_nothing(bench):
    """Together they would be one cluster, and each would take the other's users away."""
    old, young = broker(bench, "old", 1, prefix="/x"), broker(bench, "young", 2, prefix="/x/")
    assert bench.cache.rival(old) is None and bench.cache.rival(young) == old.id
    assert await bench.workloads.broker(young) == REFUSED_AGAIN_S
    status, reason, message = bench.statuses.condition("Accepted")
    assert (status, reason) == ("False", "PrefixTaken") and "old" in message
    assert bench.server.writes == []
    assert bench.cache.rival(broker(bench, "other", 3, prefix="/y")) is None
    bench.cache.drop(old.id)
    assert bench.cache.rival(young) is None


async def test_nothing_is_made_while_nobody_knows_whose_a_shared_etcd_is(bench):
    """Pods with another's prefix would join its cluster."""
    shared = broker(bench, "shared", 1, endpoints=["etcd.example.com:2379"])
    assert await bench.workloads.broker(shared) == REFUSED_AGAIN_S
    edge = bench.put(ACCEPTOR, brokerRef={"name": "shared"})
    assert await bench.workloads.acceptor(edge) == REFUSED_AGAIN_S
    assert bench.server.writes == []
    own = broker(bench, "own", 2, endpoints=["https://stomp-etcd-0.stomp-etcd.shop.svc:2379"])
    await bench.workloads.broker(own)
    assert bench.server.writes


@pytest.mark.parametrize(
    ("days", "said", "ready"),
    [(40, ("True", "Valid"), False), (29, ("False", "ExpiresSoon"), False), (-1, ("False", "Expired"), True)],
)
async def test_certificates_of_the_components_end_seen(bench, tmp_path, days, said, ready):
    """Nobody had looked at them: the day they ended, every owner and edge was alone."""
    certificate, _ = self_signed(tmp_path, days=100)
    bench.clock.by_ms = (100 - days) * 86_400_000
    data = {"tls.crt": b64encode(certificate.read_bytes()).decode(), "tls.key": "eA=="}
    bench.server.secrets = {"stomp-components": {"data": data}}
    broker = bench.put(BROKER)
    again = await bench.workloads.broker(broker)
    assert bench.statuses.condition("CertificatesValid")[:2] == said
    assert bench.statuses.said["certificatesNotAfter"]
    assert (bench.statuses.condition("Ready")[1] == "Expired") is ready
    assert again and bench.workloads.certificates.expiries.keys() == {broker.id}
    bench.workloads.gone(broker.id)
    assert not bench.workloads.certificates.expiries


@pytest.mark.parametrize("of", ["tls.ownersSecretName", "tls.edgesSecretName", "etcd.edges.tlsSecretName"])
async def test_a_certificate_that_one_role_has_for_itself_ends_seen(bench, tmp_path, of):
    """Only the shared one was looked at, which nobody has then; and whoever changed one was not heard."""
    certificate, _ = self_signed(tmp_path, days=100)
    data = {"tls.crt": b64encode(certificate.read_bytes()).decode(), "tls.key": "eA=="}
    bench.server.secrets = {"long": {"data": data}}
    (tmp_path / "soon").mkdir()
    soon, _ = self_signed(tmp_path / "soon", days=20)
    bench.server.secrets["soon"] = {"data": data | {"tls.crt": b64encode(soon.read_bytes()).decode()}}
    part, *inner, name = of.split(".")
    tls = {"ownersSecretName": "long", "edgesSecretName": "long"}
    etcd: dict[str, Any] = {"endpoints": ["etcd.shop:2379"]}
    {"tls": tls, "etcd": etcd}[part].update({inner[0]: {name: "soon"}} if inner else {name: "soon"})
    broker = bench.put(BROKER, tls=tls, etcd=etcd)
    await bench.workloads.broker(broker)
    status, reason, why = bench.statuses.condition("CertificatesValid")
    assert (status, reason) == ("False", "ExpiresSoon") and "soon" in why
    assert {"long", "soon"} <= _secrets_of(broker)


async def test_an_address_whose_diverts_lead_back_to_it_is_refused_with_the_way(bench):
    bench.put(BROKER)
    for name, to, born in (("orders", "audit", 1), ("audit", "orders", 2)):
        made = raw(
            ADDRESS, name, created=f"2026-01-0{born}T00:00:00Z", name=name, diverts=[{"name": to, "forward": [to]}]
        )
        young = bench.cache.put(made)
    assert await bench.etcd_reconciler.address(young) == REFUSED_AGAIN_S
    status, reason, message = bench.statuses.condition("Accepted")
    assert (status, reason) == ("False", "DivertCircle") and "audit → orders → audit" in message
