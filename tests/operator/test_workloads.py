"""What owners and edges are made of: a configuration that the broker takes, pods that a restricted namespace takes."""

from __future__ import annotations

from typing import Any

import pytest
from broker_operator.crds import crd_broker
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


def test_network_policies_can_be_turned_off():
    for objects in (broker_objects(networkPolicy=False), edge_objects(networkPolicy=False)):
        assert not [one for one in objects if one["kind"] == "NetworkPolicy"]
    policy = made("NetworkPolicy", edge_objects())["spec"]["ingress"]
    assert [port["port"] for rule in policy for port in rule["ports"]] == [61613, names.ADMIN_PORT]


@pytest.mark.parametrize("objects", [broker_objects, edge_objects], ids=["owners", "edges"])
def test_admin_ports_are_for_scrapers_by_label_and_for_our_own_pods(objects):
    """They were open to every pod of every namespace."""

    def allowed(rules: list[dict[str, Any]]) -> list[dict[str, Any]]:
        (found,) = [rule for rule in rules if {"port": names.ADMIN_PORT, "protocol": "TCP"} in rule["ports"]]
        assert len(found["ports"]) == 1
        return found["from"]

    broker, operator, scrapers = allowed(made("NetworkPolicy", objects())["spec"]["ingress"])
    assert broker == {"podSelector": {"matchLabels": {"app.kubernetes.io/instance": "stomp"}}}
    assert operator["podSelector"]["matchLabels"] == {
        "app.kubernetes.io/name": "stampede", "app.kubernetes.io/component": "operator"
    }  # fmt: skip
    assert scrapers == {
        "namespaceSelector": {}, "podSelector": {"matchLabels": {"app.kubernetes.io/name": "prometheus"}}
    }  # fmt: skip
    said = {"podLabels": {"app": "scraper"}, "namespaceLabels": {"team": "watch"}}
    shared = {"scrapers": said}
    other = objects(**shared) if objects is broker_objects else objects(shared)
    assert allowed(made("NetworkPolicy", other)["spec"]["ingress"])[2] == {
        "namespaceSelector": {"matchLabels": {"team": "watch"}}, "podSelector": {"matchLabels": {"app": "scraper"}}
    }  # fmt: skip


@pytest.mark.parametrize("objects", [broker_objects, edge_objects], ids=["owners", "edges"])
def test_numbers_are_for_who_shows_the_token_of_a_secret(objects, tmp_path):
    shared = {"scrapers": {"tokenSecretName": "metrics"}}
    found = objects(**shared) if objects is broker_objects else objects(shared)
    file = settings_of(found, tmp_path).admin.token_file
    (pods,) = [one["spec"]["template"]["spec"] for one in found if one["kind"] in ("StatefulSet", "Deployment")]
    (mount,) = [one for one in pods["containers"][0]["volumeMounts"] if file.startswith(one["mountPath"] + "/")]
    (volume,) = [one for one in pods["volumes"] if one["name"] == mount["name"]]
    assert volume["secret"]["secretName"] == "metrics" and file.endswith("/password")
    assert not settings_of(objects(), tmp_path).admin.token_file


def test_audit_lines_go_to_stdout_and_to_no_file_that_a_resource_names(tmp_path):
    assert settings_of(broker_objects(settings={"log": {"auditFile": "-"}}), tmp_path).log.audit_file == "-"
    said = crd_broker.spec()["properties"]["settings"]["properties"]["log"]["properties"]
    assert said["auditFile"]["enum"] == ["", "-"] and "auditFileBytes" not in said


def test_readers_of_the_log_get_a_port_with_a_certificate_for_pods_of_the_broker_only(tmp_path):
    assert settings_of(broker_objects(), tmp_path).log_reads.port == -1
    objects = broker_objects(settings={"logReads": {"port": 61690, "maxStreams": 3}})
    reads = settings_of(objects, tmp_path).log_reads
    assert (reads.port, reads.max_streams, reads.host) == (61690, 3, "0.0.0.0")
    assert reads.cert_file.startswith(names.COMPONENTS_DIR) and reads.key_file.startswith(names.COMPONENTS_DIR)
    rules = made("NetworkPolicy", objects)["spec"]["ingress"]
    (rule,) = [rule for rule in rules if {"port": 61690, "protocol": "TCP"} in rule["ports"]]
    assert rule["from"] == [{"podSelector": {"matchLabels": {"app.kubernetes.io/instance": "stomp"}}}]
