"""`helm upgrade` changes no field that Kubernetes refuses to change, whatever values come after whatever other values.

Offline all pairs of value sets are compared. With a Kubernetes API (TEST_KUBECONFIG; tests/kube/up.sh starts one) a
release is really installed and upgraded, because only there does the chart see what is live."""

from __future__ import annotations

import itertools
import os
import shutil
import subprocess
from base64 import b64decode
from collections.abc import Iterator
from typing import Any

import pytest

from broker.seams.entropy import token

from .conftest import CHART
from .test_chart import NO_CRDS, VALUES, documents

Table = dict[str, Any]

MUTABLE = {
    "StatefulSet": (
        "replicas",
        "template",
        "updateStrategy",
        "minReadySeconds",
        "persistentVolumeClaimRetentionPolicy",
    ),
    "PersistentVolumeClaim": (),
}
"""Of the spec; every other field of it is immutable."""


def immutable(item: Table) -> Table:
    """What the API server refuses to change in this object."""
    kind, spec = item["kind"], item.get("spec") or {}
    if kind in MUTABLE:
        return {field: value for field, value in spec.items() if field not in MUTABLE[kind]}
    if kind == "Deployment":
        return {"selector": spec["selector"]}
    if kind == "Service":
        return {"clusterIP": spec.get("clusterIP"), "ipFamilies": spec.get("ipFamilies")}
    if kind == "Job":
        return {"template": spec["template"], "selector": spec.get("selector")}
    if kind in ("RoleBinding", "ClusterRoleBinding"):
        return {"roleRef": item["roleRef"]}
    if kind == "Secret":
        return {"type": item.get("type"), "immutable": item.get("immutable")}
    if kind == "ConfigMap":
        return {"immutable": item.get("immutable")}
    return {}


def shape(text: str) -> dict[tuple[str, str, str], Table]:
    """(kind, namespace, name) → what may not change; without tests, which Helm deletes before it makes them."""
    found = {}
    for each in documents(text):
        meta = each["metadata"]
        if "helm.sh/hook" in (meta.get("annotations") or {}):
            continue
        fields = immutable(each)
        for claim in fields.get("volumeClaimTemplates", ()):
            # The chart looks up the live ones (below), which `helm template` cannot.
            claim["spec"].pop("storageClassName", None)
            claim["spec"]["resources"] = {}
        found[each["kind"], meta.get("namespace", ""), meta["name"]] = fields
    return found


@pytest.mark.timeout(300)
def test_no_pair_of_values_differs_in_an_immutable_field(render):
    shapes = {}
    for values in VALUES:
        if values.stem == "names":
            continue  # another name is another broker: an upgrade to it is refused (below)
        rendered = render(values, True, *NO_CRDS)
        assert rendered.text, rendered.error
        shapes[values.stem] = shape(rendered.text)
    compared = 0
    for (before, old), (after, new) in itertools.combinations(shapes.items(), 2):
        for key in old.keys() & new.keys():
            assert old[key] == new[key], f"{key}: from {before} to {after}"
            compared += bool(old[key])
    assert compared > 500, "hardly anything was compared"


def names_of(data: str) -> str:
    """Of the certificate in a key of a Secret, as openssl says them."""
    line = ["openssl", "x509", "-noout", "-ext", "subjectAltName"]
    return subprocess.run(line, input=b64decode(data), capture_output=True, check=True).stdout.decode()


class Release:
    """A release in a namespace of its own, without pods: an API server is enough."""

    def __init__(self, helm: str, namespace: str) -> None:
        self.helm = helm
        self.namespace = namespace

    def run(self, *command: str) -> tuple[int, str]:
        env = {**os.environ, "KUBECONFIG": os.environ["TEST_KUBECONFIG"]}
        done = subprocess.run(command, env=env, capture_output=True, text=True, timeout=120, check=False)
        return done.returncode, done.stdout + done.stderr

    def upgrade(self, *values: str) -> tuple[int, str]:
        """Everything is as in the last upgrade but for these values."""
        sets = [part for value in values for part in ("--set", value)]
        options = ("--namespace", self.namespace, "--install", "--reuse-values", "--set", "crds.install=false")
        return self.run(self.helm, "upgrade", "shop", str(CHART), *options, *sets)

    def get(self, kind: str, name: str, path: str) -> str:
        status, text = self.run("kubectl", "-n", self.namespace, "get", kind, name, "-o", f"jsonpath={path}")
        assert not status, text
        return text


@pytest.fixture
def release(helm: str) -> Iterator[Release]:
    if not os.environ.get("TEST_KUBECONFIG"):
        pytest.skip("no Kubernetes: TEST_KUBECONFIG is not set (tests/kube/up.sh starts one)")
    if shutil.which("kubectl") is None:
        pytest.skip("no kubectl: what an upgrade leaves cannot be looked at (Debian: apt install kubernetes-client)")
    found = Release(helm, f"u-{token(4)}")
    status, text = found.run("kubectl", "create", "namespace", found.namespace)
    assert not status, text
    yield found
    found.run(helm, "uninstall", "shop", "--namespace", found.namespace)
    found.run("kubectl", "delete", "namespace", found.namespace, "--wait=false")


@pytest.mark.timeout(300)
def test_a_live_release_takes_other_values(release):
    status, text = release.upgrade("etcd.bundled.replicas=3", "image.tag=v1")
    assert not status, text
    secret = release.get("secret", "shop-components", "{.data.tls\\.crt}")
    for values in (
        ("image.tag=v2", "operator.replicas=2", "operator.resources.limits.memory=256Mi"),
        ("broker.spec.owners.replicas=5", "broker.spec.owners.storage.size=20Gi", "commonLabels.team=x"),
        ("tls.clients.mode=selfSigned", "acceptor.spec.replicas=3", "redis.mode=bundled", "scaler.enabled=true"),
        ("etcd.bundled.storage.size=8Gi", "etcd.bundled.storage.storageClassName=fast"),
        ("priorityClassName=system-cluster-critical", "redis.mode=none", "etcd.bundled.resources.limits.memory=1Gi"),
        ("tls.clients.mode=none", "names.acceptor=front", "operator.namespaces={*}"),
    ):
        status, text = release.upgrade(*values)
        assert not status, f"{values}: {text}"
    claim = "{.spec.volumeClaimTemplates[0].spec.resources.requests.storage}"
    assert release.get("statefulset", "shop-etcd", claim) == "2Gi", "the claims are as they were made"
    assert release.get("secret", "shop-components", "{.data.tls\\.crt}") == secret, "certificates are made once"
    for value, why in (
        ("etcd.bundled.replicas=1", "installed with 3 members"),
        ("names.broker=mq", "set names.broker to shop"),
    ):
        status, text = release.upgrade(value)
        assert status, f"{value}: pods and volumes would have been left behind"
        assert why in text
    # docs/runbooks/etcd-members.md: what was filled by hand is taken when the old StatefulSet is gone.
    status, text = release.run("kubectl", "-n", release.namespace, "delete", "statefulset", "shop-etcd")
    assert not status, text
    status, text = release.upgrade("etcd.bundled.replicas=5")
    assert not status, text
    assert release.get("statefulset", "shop-etcd", "{.spec.replicas}") == "5"
    assert release.get("secret", "shop-components", "{.data.tls\\.crt}") == secret, "with names for five members"


def test_the_certificate_of_the_clients_follows_its_names(release):
    """`dnsNames` given after the installation had been ignored; nothing else makes it anew."""
    made = ("tls.clients.mode=selfSigned",)
    assert release.upgrade(*made)[0] == 0
    read = ("secret", "shop-stomp-tls", r"{.data.tls\.crt}")
    authority = release.get("secret", "shop-ca", r"{.data.tls\.crt}")
    first = release.get(*read)
    assert release.upgrade(*made, "operator.logLevel=DEBUG")[0] == 0
    assert release.get(*read) == first
    assert release.upgrade(*made, "tls.clients.dnsNames={mq.example.org}")[0] == 0
    second = release.get(*read)
    assert second != first and release.get("secret", "shop-ca", r"{.data.tls\.crt}") == authority
    assert "DNS:mq.example.org" in names_of(second)
