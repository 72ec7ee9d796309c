"""What owners and edges are made of: a configuration that the broker takes, pods that a restricted namespace takes."""

from __future__ import annotations

from typing import Any

import pytest
import yaml
from broker_operator.spec import names
from broker_operator.spec.model import AcceptorSpec, BrokerSpec
from broker_operator.spec.names import ACCEPTOR, BROKER
from broker_operator.workloads import edges, owners
from broker_operator.workloads.owners import Versions

from broker.config.load import load

from .builders import resource


def made(kind: str, objects: list[dict[str, Any]]) -> dict[str, Any]:
    (found,) = (one for one in objects if one["kind"] == kind)
    return found


def broker_objects(live: dict | None = None, replicas: int = 3, **spec: Any) -> list[dict[str, Any]]:
    broker = resource(BROKER, **spec)
    return owners.objects(broker, broker.spec(BrokerSpec), "stampede:1", replicas, live, Versions())


def edge_objects(shared: dict | None = None, api: Versions | None = None, **spec: Any) -> list[dict[str, Any]]:
    acceptor, broker = resource(ACCEPTOR, **spec), resource(BROKER, **(shared or {}))
    return edges.objects(
        acceptor, acceptor.spec(AcceptorSpec), "stomp", broker.spec(BrokerSpec), "stampede:1", api or Versions()
    )


def settings_of(objects: list[dict[str, Any]], tmp_path: Any, env: dict[str, str] | None = None) -> Any:
    path = tmp_path / "stampede.yaml"
    path.write_text(made("ConfigMap", objects)["data"][names.CONFIG_FILE])
    return load(str(path), env or {}, {})


def test_owners_get_settings_that_the_broker_takes(tmp_path):
    objects = broker_objects(
        etcd={"endpoints": ["a:1", "b:2"], "tlsSecretName": "etcd-tls", "userSecretName": "etcd-user"},
        redis={"url": "redis://r:6379", "passwordSecretName": "r"},
        replication={"factor": 3, "minInSync": 2},
        settings={"journal": {"segmentBytes": "128MiB"}, "cluster": {"leaseS": 8}, "log": {"level": "DEBUG"}},
    )
    settings = settings_of(objects, tmp_path)
    assert settings.etcd.endpoints == "a:1,b:2" and settings.etcd.prefix == "/stampede/shop/stomp"
    assert settings.etcd.ca_file and settings.etcd.password_file and settings.redis.password_file
    assert settings.journal.segment_bytes == 128 << 20 and settings.cluster.lease_s == 8
    assert settings.cluster.ca_file and settings.cluster.host == "0.0.0.0" and settings.log.level == "DEBUG"
    container = made("StatefulSet", objects)["spec"]["template"]["spec"]["containers"][0]
    places = {mount["mountPath"] for mount in container["volumeMounts"]}
    for file in (settings.etcd.ca_file, settings.etcd.password_file, settings.cluster.ca_file, settings.data + "/x"):
        assert file.rpartition("/")[0] in places
    assert {one["name"] for one in container["env"]} >= {"STAMPEDE_ETCD__USER", "STAMPEDE_CLUSTER__ADVERTISE"}


def test_edges_get_their_listeners_and_nobody_gets_in_without_users(tmp_path):
    listeners = [
        {"name": "plain", "port": 61613, "transport": "stomp", "connectionTtlMs": 30000,
         "anycastPrefix": ["/q/", "q:"]},
        {"name": "web", "port": 8443, "transport": "websocket", "wsCompression": True, "proxyProtocol": True,
         "tls": {"secretName": "web", "clientCaSecretName": "ca", "clientAuth": "need", "minVersion": "TLSv1.3"}},
    ]  # fmt: skip
    objects = edge_objects(listeners=listeners, drain={"delaySeconds": 3, "timeoutSeconds": 40})
    settings = settings_of(objects, tmp_path)
    assert settings.edge.host == "0.0.0.0" and settings.edge.port == settings.edge.ws_port == -1
    assert settings.edge.drain_timeout_s == 40
    plain, web = settings.acceptors["plain"], settings.acceptors["web"]
    assert plain["connection_ttl_ms"] == 30000 and plain["anycast_prefix"] == "/q/,q:" and not plain.get("tls")
    assert web["tls"] and web["tls_client_auth"] == "need" and web["tls_min_version"] == "TLSv1.3"
    assert web["transport"] == "websocket" and web["ws_compression"] and web["proxy_protocol"]
    pod = made("Deployment", objects)["spec"]["template"]["spec"]
    places = {mount["mountPath"] for mount in pod["containers"][0]["volumeMounts"]}
    for file in (web["tls_cert_file"], web["tls_key_file"], web["tls_client_ca_file"]):
        assert file.rpartition("/")[0] in places
    assert pod["terminationGracePeriodSeconds"] == 3 + 40 + edges.SPARE_S
    services = [one for one in objects if one["kind"] == "Service" and one["metadata"]["name"] == "edge"]
    assert [(port["name"], port["port"]) for port in services[0]["spec"]["ports"]] == [("plain", 61613), ("web", 8443)]


@pytest.mark.parametrize("objects", [broker_objects(), edge_objects()], ids=["owners", "edges"])
def test_pods_are_restricted_and_named_as_the_decision_record_says(objects):
    workload = next(one for one in objects if one["kind"] in ("StatefulSet", "Deployment"))
    template = workload["spec"]["template"]
    pod, (container,) = template["spec"], template["spec"]["containers"]
    assert (
        pod["securityContext"]["runAsNonRoot"] and pod["securityContext"]["seccompProfile"]["type"] == "RuntimeDefault"
    )
    assert container["securityContext"] == {
        "allowPrivilegeEscalation": False, "readOnlyRootFilesystem": True, "capabilities": {"drop": ["ALL"]},
    }  # fmt: skip
    assert not pod["automountServiceAccountToken"]
    assert container["startupProbe"]["httpGet"] == {"path": "/healthz", "port": "admin"}
    assert container["readinessProbe"]["httpGet"]["path"] == "/readyz"
    assert workload["spec"]["selector"]["matchLabels"].items() <= template["metadata"]["labels"].items()
    assert {one["topologyKey"] for one in pod["topologySpreadConstraints"]} == {
        "topology.kubernetes.io/zone", "kubernetes.io/hostname",
    }  # fmt: skip
    for one in objects:
        assert one["metadata"]["ownerReferences"][0]["controller"]
        assert not one["metadata"]["ownerReferences"][0]["blockOwnerDeletion"]
        assert one["metadata"]["labels"]["app.kubernetes.io/managed-by"] == "stampede-operator"


def test_another_setting_rolls_the_pods_and_nothing_else_does():
    def template(**spec: Any) -> dict[str, Any]:
        return made("StatefulSet", broker_objects(**spec))["spec"]["template"]

    assert template() == template() == template(owners={"replicas": 5})
    assert template(settings={"journal": {"sync": False}}) != template()


def test_immutable_fields_of_a_live_stateful_set_stay():
    live = made("StatefulSet", broker_objects())
    live["spec"]["volumeClaimTemplates"][0]["status"] = {"phase": "Pending"}
    live["spec"]["podManagementPolicy"] = "OrderedReady"
    wanted = made("StatefulSet", broker_objects(live, owners={"storage": {"size": "20Gi"}}))
    assert wanted["spec"]["podManagementPolicy"] == "OrderedReady"
    claim = wanted["spec"]["volumeClaimTemplates"][0]
    assert claim["spec"]["resources"]["requests"]["storage"] == "10Gi" and "status" not in claim


def test_a_template_is_laid_over_ours_but_never_over_the_labels_that_select():
    patch = {
        "metadata": {"labels": {"team": "x", "app.kubernetes.io/component": "y"}, "annotations": {"a": "b"}},
        "spec": {
            "nodeSelector": {"disk": "fast"},
            "containers": [{"name": "owner", "env": [{"name": "X", "value": "1"}]}, {"name": "side", "image": "s"}],
        },
    }
    template = made("StatefulSet", broker_objects(owners={"template": patch}))["spec"]["template"]
    assert template["metadata"]["labels"]["team"] == "x"
    assert template["metadata"]["labels"]["app.kubernetes.io/component"] == "owner"
    assert template["metadata"]["annotations"].keys() == {"a", names.CONFIG_HASH}
    assert template["spec"]["nodeSelector"] == {"disk": "fast"}
    owner, side = template["spec"]["containers"]
    assert side["name"] == "side" and owner["image"] == "stampede:1"
    assert {one["name"] for one in owner["env"]} > {"POD_NAME", "X"}


def test_the_number_of_pods_is_the_autoscalers_when_there_is_one():
    assert made("Deployment", edge_objects())["spec"]["replicas"] == 2
    assert made("Deployment", edge_objects(replicas=0))["spec"]["replicas"] == 0
    objects = edge_objects(autoscaling={"minReplicas": 3, "targetCPUPercent": 50, "targetConnectionsPerPod": 500})
    assert "replicas" not in made("Deployment", objects)["spec"]
    scaler = made("HorizontalPodAutoscaler", objects)["spec"]
    assert scaler["minReplicas"] == 3 and len(scaler["metrics"]) == 2
    assert scaler["metrics"][0]["resource"]["target"]["averageUtilization"] == 50


def test_routes_need_the_gateway_api():
    gateway = {"kind": "TLSRoute", "parentRefs": [{"name": "gw"}], "hostnames": ["mq.example.com"]}
    assert not [one for one in edge_objects(gateway=gateway) if "Route" in one["kind"]]
    api = Versions(tls_routes="gateway.networking.k8s.io/v1alpha2")
    route = made("TLSRoute", edge_objects(api=api, gateway=gateway))
    assert route["metadata"]["name"] == "edge-stomp" and route["spec"]["hostnames"] == ["mq.example.com"]
    assert route["spec"]["rules"] == [{"backendRefs": [{"name": "edge", "port": 61613}]}]


def test_what_is_said_of_the_service_is_in_the_service():
    service = {"type": "LoadBalancer", "annotations": {"a": "b"}, "loadBalancerSourceRanges": ["10.0.0.0/8"]}
    listeners = [{"name": "stomp", "port": 61613, "servicePort": 443, "nodePort": 30443}]
    objects = edge_objects(service=service, listeners=listeners)
    found = next(one for one in objects if one["kind"] == "Service" and one["metadata"]["name"] == "edge")
    assert found["metadata"]["annotations"] == {"a": "b"}
    assert found["spec"]["externalTrafficPolicy"] == "Local"
    assert found["spec"]["ports"][0] == {
        "name": "stomp", "port": 443, "targetPort": "stomp", "protocol": "TCP", "nodePort": 30443,
    }  # fmt: skip


def test_network_policies_can_be_turned_off():
    for objects in (broker_objects(networkPolicy=False), edge_objects(networkPolicy=False)):
        assert not [one for one in objects if one["kind"] == "NetworkPolicy"]
    policy = made("NetworkPolicy", edge_objects())["spec"]["ingress"]
    assert [port["port"] for rule in policy for port in rule["ports"]] == [61613, names.ADMIN_PORT]


def test_readers_of_the_log_get_a_port_with_a_certificate_for_pods_of_the_broker_only(tmp_path):
    assert settings_of(broker_objects(), tmp_path).log_reads.port == -1
    objects = broker_objects(settings={"logReads": {"port": 61690, "maxStreams": 3}})
    reads = settings_of(objects, tmp_path).log_reads
    assert (reads.port, reads.max_streams, reads.host) == (61690, 3, "0.0.0.0")
    assert reads.cert_file.startswith(names.COMPONENTS_DIR) and reads.key_file.startswith(names.COMPONENTS_DIR)
    rules = made("NetworkPolicy", objects)["spec"]["ingress"]
    (rule,) = [rule for rule in rules if {"port": 61690, "protocol": "TCP"} in rule["ports"]]
    assert rule["from"] == [{"podSelector": {"matchLabels": {"app.kubernetes.io/instance": "stomp"}}}]


def test_the_configuration_file_is_one_that_people_can_read():
    text = made("ConfigMap", edge_objects())["data"][names.CONFIG_FILE]
    assert yaml.safe_load(text)["acceptors"]["stomp"]["port"] == 61613
