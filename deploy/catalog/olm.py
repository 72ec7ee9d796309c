"""A bundle for the Operator Lifecycle Manager, of what the chart installs (`make catalog`).

    .venv/bin/python -m deploy.catalog.olm build/olm       HELM names another helm than that of the PATH

Rule: the operator's Deployment and rights are the chart's own, rendered; only what OLM gives in another way (the
namespaces to watch, where the operator is) is put in its place. What an administrator decides in the chart's values is
at its default.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import yaml

from .kinds import ROOT, Table, about, chart, definitions, examples, served, titled

PACKAGE = "stampede"
CHANNEL = "alpha"
MIN_KUBE = "1.25.0"
"""The rules of the kinds are in CEL; with an older one the chart is the way."""
ONLY_THE_OPERATOR = (
    "crds.install=false", "broker.enabled=false", "acceptor.enabled=false", "etcd.mode=external",
    "etcd.external.endpoints=unused:2379", "tls.components.mode=none",
)  # fmt: skip
DESCRIPTION = """\
A clustered message broker that speaks STOMP 1.0, 1.1 and 1.2, over TCP, TLS and WebSocket: no acknowledged message is
lost when one of three owners is. This operator runs brokers and their edges, keeps addresses, users, quotas and bridges
as they are in their resources, live, and makes backups and restores them.

A `StompBroker` needs an etcd of yours (`spec.etcd.endpoints`) and certificates for its components (Secret
`NAME-components` with `ca.crt`, `tls.crt`, `tls.key`; cert-manager can make it). The Helm chart brings both.
"""
CAPABILITIES = "Deep Insights"


def rendered(helm: str) -> list[Table]:
    """The chart's objects with nothing but the operator."""
    line = [helm, "template", PACKAGE, str(ROOT / "helm" / "stampede"), "--namespace", "operators"]
    line += ["--kube-version", "1.33.0", "--api-versions", "policy/v1", "--set", "users=null"]
    for each in ONLY_THE_OPERATOR:
        line += ["--set", each]
    done = subprocess.run(line, capture_output=True, text=True, check=True, timeout=60)
    return [each for each in yaml.safe_load_all(done.stdout) if each]


def bundle(objects: Sequence[Table]) -> dict[str, str]:
    """Path → text."""
    files = {"metadata/annotations.yaml": _text({"annotations": _labels()}), "bundle.Dockerfile": _dockerfile()}
    files[f"manifests/{PACKAGE}.clusterserviceversion.yaml"] = _text(service_version(objects))
    for one in definitions():
        files[f"manifests/{one['metadata']['name']}.crd.yaml"] = _text(one)
    return files


def service_version(objects: Sequence[Table]) -> Table:
    release = chart()["appVersion"]
    (deployment,) = [each for each in objects if each["kind"] == "Deployment"]
    return {
        "apiVersion": "operators.coreos.com/v1alpha1",
        "kind": "ClusterServiceVersion",
        "metadata": {
            "name": f"{PACKAGE}.v{release}",
            "namespace": "placeholder",
            "annotations": {
                "alm-examples": json.dumps(examples(), indent=2),
                "capabilities": CAPABILITIES,
                "categories": "Streaming & Messaging",
                "containerImage": deployment["spec"]["template"]["spec"]["containers"][0]["image"],
                "description": chart()["description"],
            },
        },
        "spec": {
            "displayName": "Stampede",
            "description": DESCRIPTION,
            "version": release,
            "maturity": CHANNEL,
            "minKubeVersion": MIN_KUBE,
            "keywords": chart()["keywords"],
            "provider": {"name": "Stampede"},
            "installModes": [
                {"type": each, "supported": True}
                for each in ("OwnNamespace", "SingleNamespace", "MultiNamespace", "AllNamespaces")
            ],
            "install": {"strategy": "deployment", "spec": _install(objects, deployment)},
            "customresourcedefinitions": {"owned": [_owned(one) for one in definitions()]},
        },
    }


def _install(objects: Sequence[Table], deployment: Table) -> Table:
    account = deployment["spec"]["template"]["spec"]["serviceAccountName"]
    # OLM binds them in the operator's namespace, where the lease is, and copies them to each that is watched.
    rules = [rule for each in objects if each["kind"] == "Role" for rule in each["rules"]]
    return {
        "permissions": [{"serviceAccountName": account, "rules": rules}],
        "deployments": [{"name": deployment["metadata"]["name"], "spec": _adapted(deployment["spec"])}],
    }


def _adapted(spec: Table) -> Table:
    """The Deployment as OLM wants it: where to look comes from annotations that it writes."""
    pod = spec["template"]
    labels = {key: value for key, value in pod["metadata"]["labels"].items() if key in spec["selector"]["matchLabels"]}
    (container,) = pod["spec"]["containers"]
    env = [_given(each) for each in container["env"]]
    body = {**pod["spec"], "containers": [{**container, "env": env}]}
    return {**spec, "template": {"metadata": {"labels": labels}, "spec": body}}


_GIVEN = {
    "STAMPEDE_OPERATOR_NAMESPACES": "metadata.annotations['olm.targetNamespaces']",
    "STAMPEDE_OPERATOR_BUNDLE_NAMESPACES": "metadata.namespace",
    "STAMPEDE_OPERATOR_LEASE_NAMESPACE": "metadata.namespace",
}


def _given(variable: Table) -> Table:
    field = _GIVEN.get(variable["name"])
    return {"name": variable["name"], "valueFrom": {"fieldRef": {"fieldPath": field}}} if field else variable


def _owned(definition: Table) -> Table:
    kind = definition["spec"]["names"]["kind"]
    return {
        "kind": kind,
        "name": definition["metadata"]["name"],
        "version": served(definition)["name"],
        "displayName": titled(kind),
        "description": about(definition),
    }


def _labels() -> dict[str, str]:
    """Of the bundle's image, and again in its folder."""
    prefix = "operators.operatorframework.io.bundle"
    return {
        f"{prefix}.mediatype.v1": "registry+v1",
        f"{prefix}.manifests.v1": "manifests/",
        f"{prefix}.metadata.v1": "metadata/",
        f"{prefix}.package.v1": PACKAGE,
        f"{prefix}.channels.v1": CHANNEL,
        f"{prefix}.channel.default.v1": CHANNEL,
    }


def _dockerfile() -> str:
    labels = "".join(f"LABEL {key}={value}\n" for key, value in _labels().items())
    return f"FROM scratch\n{labels}COPY manifests /manifests/\nCOPY metadata /metadata/\n"


def _text(value: Any) -> str:
    return yaml.safe_dump(value, sort_keys=False, width=120, allow_unicode=True)


def main(folder: str) -> None:
    for path, text in bundle(rendered(os.environ.get("HELM", "helm"))).items():
        file = Path(folder) / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    print(f"{folder}: a bundle of {PACKAGE} {chart()['appVersion']}", file=sys.stderr)


if __name__ == "__main__":
    main(sys.argv[1])
