"""What a pool of edges is made of: listeners, who may come in, autoscalers and routes."""

from __future__ import annotations

from typing import Any

from broker_operator.spec import names
from broker_operator.spec.model import AcceptorSpec, BrokerSpec
from broker_operator.spec.names import ACCEPTOR, BROKER
from broker_operator.workloads import edges
from broker_operator.workloads.owners import Versions

from broker.config.load import load

from .builders import resource


def made(kind: str, objects: list[dict[str, Any]]) -> dict[str, Any]:
    (found,) = (one for one in objects if one["kind"] == kind)
    return found


def edge_objects(shared: dict | None = None, api: Versions | None = None, **spec: Any) -> list[dict[str, Any]]:
    acceptor, broker = resource(ACCEPTOR, **spec), resource(BROKER, **(shared or {}))
    return edges.objects(
        acceptor, acceptor.spec(AcceptorSpec), "stomp", broker.spec(BrokerSpec), "stampede:1", api or Versions()
    )


def settings_of(objects: list[dict[str, Any]], tmp_path: Any, env: dict[str, str] | None = None) -> Any:
    path = tmp_path / "stampede.yaml"
    path.write_text(made("ConfigMap", objects)["data"][names.CONFIG_FILE])
    return load(str(path), env or {}, {})


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


def test_the_admin_port_has_tls_where_a_secret_is_named(tmp_path):
    plain = {"name": "plain", "port": 61613}
    objects = edge_objects(listeners=[plain], adminTls={"secretName": "console", "hosts": ["mq.example.org", "mq"]})
    admin = settings_of(objects, tmp_path).admin
    assert (admin.port, admin.tls_port, admin.hosts) == (61680, 61681, "mq.example.org,mq")
    pod = made("Deployment", objects)["spec"]["template"]["spec"]
    mounts = {mount["name"]: mount["mountPath"] for mount in pod["containers"][0]["volumeMounts"]}
    secrets = {one["name"]: one["secret"]["secretName"] for one in pod["volumes"] if "secret" in one}
    (volume,) = [name for name, secret in secrets.items() if secret == "console"]
    assert {admin.tls_cert_file, admin.tls_key_file} == {f"{mounts[volume]}/tls.crt", f"{mounts[volume]}/tls.key"}
    ports = {port["name"]: port["containerPort"] for port in pod["containers"][0]["ports"]}
    assert ports["admin-tls"] == 61681
    (service,) = [one for one in objects if one["kind"] == "Service" and one["metadata"]["name"].endswith("-admin")]
    assert {port["name"]: port["port"] for port in service["spec"]["ports"]} == {"admin": 61680, "admin-tls": 61681}
    everybody, _ = made("NetworkPolicy", objects)["spec"]["ingress"]
    assert 61681 in [port["port"] for port in everybody["ports"]] and "from" not in everybody
    without = edge_objects(listeners=[plain])
    assert settings_of(without, tmp_path).admin.tls_port == -1 and "admin-tls" not in str(without)


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
