"""Every rule of the custom resources is checked by a real API server, and says what to do."""

from __future__ import annotations

import re
from typing import Any

import pytest
from broker_operator.crds.crds import schema_of
from broker_operator.kube.kube import KubeError, path_of
from broker_operator.spec.names import ACCEPTOR, ADDRESS, API_VERSION, BACKUP, BROKER, PLURALS, RESTORE, USER

from tests.operator.builders import rules_of

from .world import NAMESPACE

Spec = dict[str, Any]
LISTENER = {"name": "stomp", "port": 61613}
TLS = {"secretName": "web"}
ETCD = {"endpoints": ["etcd:2379"]}
BRIDGE = {"name": "west", "url": "stomp://west:61613", "source": "/queue/orders", "user": "bridge"}
GOOD: dict[str, Spec] = {
    BROKER: {"etcd": ETCD},
    ACCEPTOR: {"listeners": [LISTENER]},
    ADDRESS: {"name": "orders"},
    USER: {},
    BACKUP: {"store": {"volume": {"claimName": "copies"}}},
    RESTORE: {"source": {"backupRef": {"name": "nightly"}}},
}
FINE: list[tuple[str, Spec]] = [
    (BROKER, {"owners": {"replicas": 1}, "replication": {"factor": 1, "minInSync": 1}}),
    (BROKER, {"redis": {"url": "redis://redis:6379"}, "settings": {"journal": {"segmentBytes": "128MiB"}}}),
    (BROKER, {"bridges": [BRIDGE, {**BRIDGE, "name": "news", "source": "/topic/news.#", "retryMaxS": 5}]}),
    (
        BROKER,
        {
            "bridges": [
                {
                    **BRIDGE,
                    "url": "wss://west:61612",
                    "login": "a",
                    "passcodeKey": "p",
                    "caKey": "ca.crt",
                    "certKey": "tls.crt",
                    "keyKey": "tls.key",
                    "virtualHost": "shop",
                }
            ],
            "bridgesSecretName": "stomp-bridges",
            "virtualHosts": [{"name": "shop"}],
        },
    ),
    (ACCEPTOR, {"autoscaling": {"maxReplicas": 4}, "service": {"type": "LoadBalancer"}}),
    (ACCEPTOR, {"listeners": [{**LISTENER, "tls": {**TLS, "clientAuth": "need", "clientCaSecretName": "ca"}}]}),
    (ADDRESS, {"settings": {"maxSizeBytes": "10MiB", "fullPolicy": "BLOCK", "rejectThresholdBytes": "20MiB"}}),
    (ADDRESS, {"queues": [{"name": "orders"}, {"name": "app.audit", "routing": "MULTICAST"}]}),
    (ADDRESS, {"name": None, "match": "orders.*.#", "settings": {"partitions": 4, "redeliveryMultiplier": 1.5}}),
    (USER, {"username": "ada lovelace", "groups": ["a", "b"], "generate": {"length": 40}}),
]


def listener(**more: Any) -> Spec:
    return {"listeners": [{**LISTENER, **more}]}


def bridge(**more: Any) -> Spec:
    return {"bridges": [{**BRIDGE, **more}], "bridgesSecretName": "stomp-bridges"}


def settings(**more: Any) -> Spec:
    return {"settings": more}


def queue(**more: Any) -> Spec:
    return {"queues": [{"name": "q", **more}]}


CREATED: list[tuple[str, Spec, str]] = [
    (BROKER, {"replication": {"factor": 2, "minInSync": 3}}, "minInSync is above factor"),
    (BROKER, {"addressOwners": [{"prefix": "a.#", "resources": ["x"]}]}, "a prefix has no wildcard"),
    (BROKER, {"addressOwners": [{"prefix": "a..b", "resources": ["x"]}]}, "the prefix has an empty word"),
    (ACCEPTOR, settings(edge={"permissionsRequired": True}), "set spec.permissionsRequired of the StompBroker"),
    (ACCEPTOR, settings(edge={"clientIds": ["*"]}), "set spec.clientIds of the StompBroker"),
    (ACCEPTOR, settings(edge={"audit": "all"}), "set spec.audit of the StompBroker"),
    (BROKER, {"clientIds": ["ada-*"]}, "each of clientIds has %u"),
    (BROKER, {"clientIds": ["*-%u-*"]}, "each of clientIds has %u"),
    (BROKER, {"virtualHosts": [{"name": "shop", "maxConnections": 0}]}, "maxConnections is 0"),
    (BROKER, {"quotas": [{"who": "user:ada", "maxLogins": 3}]}, "maxLogins of a user"),
    (BROKER, bridge(url="stomp://ada:secret@west:61613"), "url of a bridge holds a login"),
    (BROKER, bridge(login="ada"), "login and passcodeKey of a bridge belong together"),
    (BROKER, bridge(certKey="tls.crt", url="wss://west"), "certKey and keyKey of a bridge belong together"),
    (BROKER, bridge(caKey="ca.crt"), "its url has no TLS"),
    (BROKER, bridge(filter="a = 1", direction="in", broker="rabbitmq"), "RabbitMQ has no selectors"),
    (BROKER, bridge(source="/queue/a.*"), "source of a bridge is a wildcard"),
    (BROKER, bridge(retryMinS=60.5), "retryMaxS of a bridge is below retryMinS"),
    (BROKER, bridge(virtualHost="shop"), "virtualHost of a bridge is none of spec.virtualHosts"),
    (
        BROKER, {"bridges": [{**BRIDGE, "login": "ada", "passcodeKey": "west"}]},
        "say which one in spec.bridgesSecretName",
    ),
    (BROKER, {"owners": {"replicas": 2}}, "factor is above spec.owners.replicas"),
    (BROKER, {"owners": {"storage": {"size": "much"}}}, "not a quantity"),
    (BROKER, {"owners": {"storage": {"size": "0"}}}, "size is nothing"),
    (BROKER, {"etcd": {"endpoints": ["http://etcd:2379"]}}, "is host:port"),
    (BROKER, {"etcd": {**ETCD, "userSecretName": "u"}}, "userSecretName needs tlsSecretName"),
    (BROKER, {"etcd": {**ETCD, "rootSecretName": "r"}}, "rootSecretName needs tlsSecretName"),
    (BROKER, {"etcd": {**ETCD, "authEnabled": True}}, "authEnabled needs rootSecretName"),
    (BROKER, {"redis": {"url": "redis://:secret@redis"}}, "put it into passwordSecretName"),
    (BROKER, settings(cluster={"pingMs": 400}), "deadAfterMs must be more than twice pingMs"),
    (BROKER, settings(cluster={"promiseMs": 100}), "promiseMs must be more than twice pingMs"),
    (ACCEPTOR, {"listeners": [LISTENER, {"name": "b", "port": 61613}]}, "two listeners have one port"),
    (ACCEPTOR, {"replicas": 2, "autoscaling": {}}, "either spec.replicas or spec.autoscaling"),
    (ACCEPTOR, {"autoscaling": {"minReplicas": 5, "maxReplicas": 4}}, "minReplicas is above maxReplicas"),
    (ACCEPTOR, listener(port=61680), "are used by the broker itself"),
    (ACCEPTOR, {**listener(port=61681), "adminTls": {"secretName": "console"}}, "port 61681 is that of adminTls"),
    (ACCEPTOR, listener(connectionTtlMinMs=5000, connectionTtlMaxMs=4000), "connectionTtlMinMs is above"),
    (ACCEPTOR, listener(connectionTtlMs=10), "connectionTtlMs is not between"),
    (ACCEPTOR, listener(transport="stomp", wsEncoder="text"), "need transport websocket or both"),
    (ACCEPTOR, listener(anycastPrefix=["a"], multicastPrefix=["a"]), "share a prefix"),
    (ACCEPTOR, listener(maxProducerRate=0), "maxProducerRate is 0"),
    (ACCEPTOR, listener(tls={**TLS, "clientAuth": "need"}), "clientAuth needs clientCaSecretName"),
    (ACCEPTOR, listener(tls={**TLS, "crlSecretName": "x"}), "crlSecretName needs clientCaSecretName"),
    (ACCEPTOR, listener(tls={**TLS, "ciphers": ["A"], "minVersion": "TLSv1.3"}), "ciphers are those of TLS 1.2"),
    (ACCEPTOR, listener(proxyProtocol=True), "needs a balancer that speaks it"),
    (ACCEPTOR, listener(nodePort=30000), "nodePort needs spec.service.type"),
    (ACCEPTOR, {"service": {"externalTrafficPolicy": "Local"}}, "externalTrafficPolicy needs type"),
    (ACCEPTOR, {"service": {"type": "NodePort", "loadBalancerClass": "x"}}, "need type LoadBalancer"),
    (ACCEPTOR, {"gateway": {"kind": "TLSRoute", "parentRefs": [{"name": "g"}]}}, "a TLSRoute needs hostnames"),
    (ACCEPTOR, {"gateway": {"parentRefs": [{"name": "g"}], "hostnames": ["a"]}}, "cannot look at hostnames"),
    (ACCEPTOR, {"gateway": {"kind": "TLSRoute", "parentRefs": [{"name": "g"}], "hostnames": ["a"]}},
     "every listener needs tls"),
    (ACCEPTOR, {"drain": {"delaySeconds": 600, "timeoutSeconds": 3600}}, "takes more than an hour"),
    (ADDRESS, {"match": "orders.#"}, "give either spec.name (one address) or spec.match"),
    (ADDRESS, {"name": None}, "give either spec.name (one address) or spec.match"),
    (ADDRESS, {"name": "orders.#"}, "use spec.match for a pattern"),
    (ADDRESS, {"name": "$sys.orders"}, "begins with $"),
    (ADDRESS, {"name": None, "match": "ord*"}, "stand for whole words"),
    (ADDRESS, {"name": None, "match": "#.eu"}, "# comes last"),
    (ADDRESS, {"name": None, "match": "a..b"}, "has an empty word"),
    (ADDRESS, {"name": None, "match": "a.#", **queue()}, "spec.queues needs spec.name"),
    (ADDRESS, {"name": None, "match": "a.#", "diverts": [{"name": "d", "forward": ["x"]}]},
     "spec.diverts needs spec.name"),
    (ADDRESS, {"name": None, "match": "a.#", **settings(declared=True)}, "declared needs spec.name"),
    (ADDRESS, settings(maxDeliveryAttempts=0), "maxDeliveryAttempts is 0"),
    (ADDRESS, settings(redeliveryDelayMs=10, maxRedeliveryDelayMs=5), "maxRedeliveryDelayMs is below"),
    (ADDRESS, settings(minExpiryDelayMs=10, maxExpiryDelayMs=5), "minExpiryDelayMs is above"),
    (ADDRESS, settings(noExpiry=True, expiryDelayMs=5), "noExpiry is true"),
    (ADDRESS, settings(lastValueKey="k", lastValue=False), "lastValue is false"),
    (ADDRESS, settings(rejectThresholdBytes=5), "rejectThresholdBytes needs fullPolicy BLOCK"),
    (ADDRESS, settings(pageLimitBytes=5, fullPolicy="DROP", maxSizeBytes=1), "need fullPolicy PAGE"),
    (ADDRESS, settings(fullPolicy="DROP"), "fullPolicy has no effect"),
    (ADDRESS, settings(groupRebalancePause=True), "groupRebalancePause needs groupRebalance"),
    (ADDRESS, settings(maxConsumers=0), "maxConsumers is 0"),
    (ADDRESS, settings(defaultRouting="ANYCAST", routingTypes=["MULTICAST"]), "defaultRouting is not among"),
    (ADDRESS, settings(deadLetterAddress="orders"), "deadLetterAddress is the address itself"),
    (ADDRESS, settings(expiryAddress="orders"), "expiryAddress is the address itself"),
    (ADDRESS, {**queue(), **settings(routingTypes=["MULTICAST"])}, "a queue's routing is not among"),
    (ADDRESS, queue(routing="MULTICAST"), "name it CLIENT-ID.NAME"),
    (ADDRESS, queue(delayBeforeDispatchMs=5), "delayBeforeDispatchMs needs consumersBeforeDispatch"),
    (ADDRESS, queue(maxConsumers=0), "maxConsumers is 0"),
    (ADDRESS, {"diverts": [{"name": "d", "forward": ["orders"]}]}, "a divert forwards to its own address"),
    (USER, {"passwordSecretRef": {"name": "s"}, "generate": {}}, "either spec.passwordSecretRef or spec.generate"),
    (USER, {"username": " ada"}, "begins or ends with a space"),
    (USER, {"username": "a\u0001da"}, "has a control character"),
    (USER, {"groups": [""]}, "spec.groups has an empty text"),
    (BACKUP, {"schedule": "0 2 * *"}, "spec.schedule has five fields"),
    (BACKUP, {"store": {}}, "give either volume or bucket"),
    (RESTORE, {"source": {"store": {}, "folder": "a/b"}}, "give either volume or bucket"),
    (RESTORE, {"source": {}}, "give either source.backupRef or source.store"),
    (RESTORE, {"source": {"backupRef": {"name": "a"}, "folder": "a/b"}}, "source.folder goes with source.store"),
]  # fmt: skip
CHANGED: list[tuple[str, Spec, Spec, str]] = [
    (
        BROKER,
        {"owners": {"storage": {"size": "20Gi"}}},
        {"owners": {"storage": {"size": "10Gi"}}},
        "size may only grow",
    ),
    (
        BROKER,
        {"etcd": {**ETCD, "prefix": "/a"}},
        {"etcd": {**ETCD, "prefix": "/b"}},
        "spec.etcd.prefix cannot be changed",
    ),
    (BROKER, {}, {"etcd": {**ETCD, "prefix": "/b"}}, "spec.etcd.prefix cannot be set or taken out later"),
    (ACCEPTOR, {}, {"brokerRef": {"name": "other"}}, "spec.brokerRef cannot be changed"),
    (ADDRESS, {}, {"name": "other"}, "spec.name cannot be changed"),
    (ADDRESS, {"name": None, "match": "a"}, {"name": None, "match": "b"}, "spec.match cannot be changed"),
    (ADDRESS, settings(partitions=4), settings(partitions=3), "partitions may only grow"),
    (ADDRESS, settings(partitions=4), {}, "partitions may only grow"),
    (USER, {}, {"username": "other"}, "spec.username cannot be changed"),
    (BROKER, {}, {"restoreFrom": {"name": "monday"}}, "spec.restoreFrom cannot be set or changed later"),
    (BACKUP, {}, {"store": {"volume": {"claimName": "others"}}}, "spec.store cannot be changed"),
    (RESTORE, {}, {"source": {"backupRef": {"name": "other"}}}, "spec.source cannot be changed"),
]


def body(kind: str, name: str, spec: Spec) -> Spec:
    full = {key: value for key, value in {**GOOD[kind], **spec}.items() if value is not None}
    return {
        "apiVersion": API_VERSION, "kind": kind, "metadata": {"name": name, "namespace": NAMESPACE}, "spec": full,
    }  # fmt: skip


async def tried(kube, kind: str, name: str, spec: Spec) -> str:
    """What the API server says against it; "" = nothing. Nothing is stored."""
    path = path_of(API_VERSION, kind, NAMESPACE)
    try:
        await kube._ask("POST", path, body(kind, name, spec), params={"dryRun": "All"}, headers=JSON)
    except KubeError as error:
        assert error.status == 422, error
        return str(error)
    return ""


JSON = {"Content-Type": "application/json"}


def test_every_rule_has_a_case():
    said = [text for *_, text in CREATED] + [text for *_, text in CHANGED] + ["longer than 40 characters"]
    rules = {rule["message"] for kind in PLURALS for rule in rules_of(schema_of(kind))}
    assert [rule for rule in rules if not any(text in rule for text in said)] == []
    assert len(rules) >= 25
    assert len({rule["rule"] for kind in PLURALS for rule in rules_of(schema_of(kind))}) >= 25


async def test_what_makes_sense_is_taken(kube):
    for kind, spec in [*GOOD.items(), *FINE]:
        assert await tried(kube, kind, "x", spec) == "", (kind, spec)


@pytest.mark.parametrize("kind", list(GOOD))
async def test_what_makes_no_sense_is_refused(kube, kind):
    for one, spec, text in CREATED:
        if one == kind:
            assert text in await tried(kube, kind, "x", spec), spec


async def test_names_that_would_be_too_long_are_refused(kube):
    for kind in (BROKER, ACCEPTOR):
        assert "longer than 40 characters" in await tried(kube, kind, "x" * 41, {})


async def test_a_setting_that_does_not_exist_or_has_another_type_is_refused(kube):
    assert "maxRedeliverys" in await strict(kube, ADDRESS, settings(maxRedeliverys=3))
    assert "maxDeliveryAttempts" in await tried(kube, ADDRESS, "x", settings(maxDeliveryAttempts="many"))
    assert "fullPolicy" in await tried(kube, ADDRESS, "x", settings(fullPolicy="SOMETIMES"))
    assert "maxSizeBytes" in await tried(kube, ADDRESS, "x", settings(maxSizeBytes="much"))


async def strict(kube, kind: str, spec: Spec) -> str:
    path = path_of(API_VERSION, kind, NAMESPACE)
    params = {"dryRun": "All", "fieldValidation": "Strict"}
    with pytest.raises(KubeError) as refused:
        await kube._ask("POST", path, body(kind, "x", spec), params=params, headers=JSON)
    return str(refused.value)


async def test_what_cannot_change_is_refused(kube):
    for number, (kind, before, after, text) in enumerate(CHANGED):
        name = f"changed-{number}"
        made = await kube.create(body(kind, name, before))
        made["spec"] = body(kind, name, after)["spec"]
        with pytest.raises(KubeError, match=re.escape(text)):
            await kube.replace(made)


async def test_defaults_are_filled_in_and_scale_is_there(kube):
    made = await kube.create(body(ACCEPTOR, "scaled", {"replicas": 3}))
    assert made["spec"]["brokerRef"] == {"name": "stomp"} and made["spec"]["drain"]["delaySeconds"] == 5
    path = path_of(API_VERSION, ACCEPTOR, NAMESPACE, "scaled") + "/scale"
    scale = await kube._ask("GET", path)
    assert scale["spec"]["replicas"] == 3
    scale["spec"]["replicas"] = 5
    await kube._write("PUT", path, scale, "application/json")
    found = await kube.get(API_VERSION, ACCEPTOR, NAMESPACE, "scaled")
    assert found["spec"]["replicas"] == 5
    made = await kube.create(body(BROKER, "owners", {}))
    scale = await kube._ask("GET", path_of(API_VERSION, BROKER, NAMESPACE, "owners") + "/scale")
    assert scale["spec"]["replicas"] == 3 == made["spec"]["replication"]["factor"]
