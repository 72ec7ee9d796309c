"""From `helm install` to `helm uninstall` on a real Kubernetes: install, Address, helm test, edges and owners scaled
under traffic, foreign edits repaired, everything gone at the end. Steps in order; what they took is printed.

Needs E2E_KUBECONFIG, and an image of this source that the nodes have or can pull: E2E_IMAGE
(name:tag); E2E_ETCD_IMAGE if the chart's etcd cannot be pulled; E2E_PIPELINE_IMAGE (of pipeline/Dockerfile) if an
archive is to be written. `make e2e` runs it.

For figures: E2E_NEXT_IMAGE, another tag to upgrade to; E2E_RATE (messages a second, offered by the clock), E2E_LANES
(producers), E2E_WINDOW (unconfirmed SENDs of each) and E2E_IDLE (connections)."""

from __future__ import annotations

import json
import os
import re
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e.kube import CHART, Cluster, image_values, until
from tests.e2e.traffic import Traffic

RELEASE = "mq"
BROKER, ACCEPTOR = "mq", "mq-stomp"
IDLE, TRANSACTIONS = int(os.environ.get("E2E_IDLE", "500")), 8
RATE, LANES = int(os.environ.get("E2E_RATE", "200")), int(os.environ.get("E2E_LANES", "4"))
WINDOW = int(os.environ.get("E2E_WINDOW", "200"))
PIPELINE = os.environ.get("E2E_PIPELINE_IMAGE", "")
# Once a year: a test starts it.
ARCHIVE = ("archive.enabled=true", "archive.schedule=0 0 1 1 *", "archive.credentialsSecretName=archivist-stomp",
           "users.archivist.groups={auditors}", "broker.spec.settings.logReads.port=61690")  # fmt: skip

pytestmark = pytest.mark.timeout(1800)
figures: dict[str, object] = {}


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    config = os.environ.get("E2E_KUBECONFIG")
    if not config:
        pytest.skip("no E2E_KUBECONFIG: nothing is installed on a real Kubernetes")
    found = Cluster(config, f"e2e-{os.getpid()}", os.environ.get("TEST_HELM", "helm"))
    found.run("kubectl", "create", "namespace", found.namespace)
    yield found
    print(json.dumps(figures, indent=1))
    found.run("kubectl", "delete", "namespace", found.namespace, "--wait=false", check=False)


@pytest.fixture(scope="module")
def installed(cluster: Cluster) -> str:
    """Address of the clients' Service; the first message has gone through it."""
    values = [*image_values(), "tests.replaceEdges=true"]
    if PIPELINE:
        name, _, version = PIPELINE.rpartition(":")
        values += [f"archive.image.repository={name}", f"archive.image.tag={version}", *ARCHIVE]
    begin = time.monotonic()
    cluster.helm("install", RELEASE, str(CHART), *[part for value in values for part in ("--set", value)])
    figures["helm install took s"] = round(time.monotonic() - begin, 1)
    until(lambda: cluster.get("service", ACCEPTOR), 90, lambda: "the operator made no Service")
    host = f"{cluster.ip(ACCEPTOR)}:61613"
    until(lambda: cluster.get("secret", "admin-stomp"), 90, lambda: "no Secret of the user")
    probe = Traffic(host, "admin", cluster.secret("admin-stomp", "password"), "/queue/e2e.first", rate=5, lanes=1)
    probe.start()
    until(lambda: probe.got, 180, lambda: f"no message came through {host}: {state(cluster)}")
    figures["helm install to first message s"] = round(time.monotonic() - begin, 1)
    probe.stop()
    return host


def state(cluster: Cluster) -> str:
    return cluster.kubectl("get", "pods,stompbrokers,stompacceptors,stompusers", "-o", "wide", check=False)


@pytest.fixture(scope="module")
def traffic(cluster: Cluster, installed: str) -> Iterator[Traffic]:
    found = Traffic(
        installed, "admin", cluster.secret("admin-stomp", "password"), "/queue/e2e.load", RATE, LANES, WINDOW
    )
    found.start(IDLE, TRANSACTIONS)
    yield found
    found.stop()


def test_the_first_message_within_ninety_seconds(installed):
    assert figures["helm install to first message s"] <= 90


def test_everything_becomes_ready(cluster, installed):
    cluster.wait_for("stompbroker", BROKER, "Ready", 120)
    cluster.wait_for("stompacceptor", ACCEPTOR, "Ready", 120)


def test_an_address_is_programmed_without_restarts(cluster, installed):
    before = restarts(cluster)
    begin = time.monotonic()
    cluster.apply("Address", "e2e", {"brokerRef": {"name": BROKER}, "name": "e2e", "settings": {"ringSize": 10}})
    cluster.wait_for("address", "e2e", "Programmed", 30)
    figures["Address applied to Programmed s (with kubectl)"] = round(time.monotonic() - begin, 2)
    assert restarts(cluster) == before


def restarts(cluster: Cluster) -> dict[str, int]:
    pods = cluster.items("pods", "app.kubernetes.io/managed-by=stampede-operator")
    return {
        each["metadata"]["name"]: sum(c["restartCount"] for c in each["status"].get("containerStatuses", []))
        for each in pods
    }


def test_an_invalid_address_is_refused_at_admission(cluster, installed):
    with pytest.raises(AssertionError, match=r"spec\.name"):
        cluster.apply("Address", "bad", {"brokerRef": {"name": BROKER}})


def test_helm_test(cluster, installed):
    begin = time.monotonic()
    try:
        cluster.helm("test", RELEASE, "--timeout", "6m", timeout=400)
    except AssertionError as error:
        tests = "app.kubernetes.io/component=test"
        raise AssertionError(f"{error}\n{cluster.kubectl('logs', '-l', tests, '--tail=20', check=False)}") from None
    figures["helm test took s"] = round(time.monotonic() - begin, 1)


def test_the_plug_in_shows_what_is_in_it_to_the_charts_user(cluster, installed):
    """Its login is the Secret of `admin`, who may look only as a member of an administrators' group."""
    plug_in = Path(sys.executable).with_name("kubectl-stampede")
    shown = cluster.run(str(plug_in), "-n", cluster.namespace, "top", "--count", "1", timeout=60)
    assert "connections" in shown


def test_the_archive_is_written(cluster, installed):
    if not PIPELINE:
        pytest.skip("no E2E_PIPELINE_IMAGE: no archive is written")
    job = f"job/{RELEASE}-archive-now"
    begin = time.monotonic()
    cluster.kubectl("create", *job.split("/"), f"--from=cronjob/{RELEASE}-archive")
    until(
        lambda: cluster.get("job", f"{RELEASE}-archive-now")["status"].get("succeeded"),
        600, lambda: f"no archive: {cluster.kubectl('describe', job, check=False)}",
    )  # fmt: skip
    figures["archive job s"] = round(time.monotonic() - begin, 1)
    said = cluster.kubectl("logs", job)
    assert re.search(r"^[1-9]\d* rows archived$", said, re.MULTILINE), said
    cluster.kubectl("delete", job)


def test_a_foreign_edit_is_repaired(cluster, installed):
    service = cluster.get("service", ACCEPTOR)
    assert service is not None
    wanted = service["spec"]["selector"]
    cluster.kubectl("patch", "service", ACCEPTOR, "-p", '{"spec":{"selector":{"app.kubernetes.io/component":"other"}}}')
    took = until(lambda: cluster.get("service", ACCEPTOR)["spec"]["selector"] == wanted, 15, lambda: "not repaired")
    figures["foreign edit repaired s"] = round(took, 2)
    assert took <= 5
    told = [each for each in cluster.items("events") if each["reason"] == "DriftRepaired"]
    assert any("spec.selector.app.kubernetes.io/component" in each["message"] for each in told)
    cluster.kubectl("delete", "poddisruptionbudget", f"{BROKER}-owner")
    took = until(lambda: cluster.get("poddisruptionbudget", f"{BROKER}-owner"), 15, lambda: "not made again")
    assert took <= 5


def test_edges_scale_under_traffic(cluster, traffic):
    until(lambda: len(traffic.got) > 100, 60, lambda: f"no traffic: {state(cluster)}")
    cluster.kubectl("scale", "stompacceptor", ACCEPTOR, "--replicas=4")
    until(lambda: ready(cluster, "edge") == 4, 120, lambda: state(cluster))
    time.sleep(10)
    begin = time.monotonic()
    cluster.kubectl("scale", "stompacceptor", ACCEPTOR, "--replicas=2")
    until(lambda: len(pods(cluster, "edge")) == 2, 180, lambda: state(cluster))
    figures["edges 4 to 2, two told to end after s"] = round(time.monotonic() - begin, 1)
    settled(traffic)
    figures["transactions committed, torn"] = (traffic.committed, traffic.torn)
    assert traffic.torn == 0, "a connection was cut inside a transaction"


def test_owners_scale_under_traffic(cluster, traffic):
    begin = time.monotonic()
    cluster.kubectl("patch", "stompbroker", BROKER, "--type=merge", "-p", '{"spec":{"owners":{"replicas":4}}}')
    until(lambda: ready(cluster, "owner") == 4, 180, lambda: state(cluster))
    figures["owners 3 to 4 ready s"] = round(time.monotonic() - begin, 1)
    time.sleep(10)
    begin = time.monotonic()
    cluster.kubectl("patch", "stompbroker", BROKER, "--type=merge", "-p", '{"spec":{"owners":{"replicas":3}}}')
    until(lambda: len(pods(cluster, "owner")) == 3, 300, lambda: progress(cluster))
    figures["owners 4 to 3 s"] = round(time.monotonic() - begin, 1)
    settled(traffic)


def test_the_archive_is_written_by_executors(cluster, traffic):
    """Spark on Kubernetes: what came since the first job, by a pod of Spark's own, into the volume of the first."""
    if not PIPELINE:
        pytest.skip("no E2E_PIPELINE_IMAGE: no archive is written")
    values = ["executors.count=1", "executors.memory=512m", f"volume.existingClaim={RELEASE}-archive",
              r"store.sparkConf.spark\.kubernetes\.executor\.request\.cores=100m"]  # fmt: skip
    sets = [part for value in values for part in ("--set", f"archive.{value}")]
    cluster.helm("upgrade", RELEASE, str(CHART), "--reuse-values", *sets)
    job, seen = f"job/{RELEASE}-archive-more", set()
    begin = time.monotonic()
    cluster.kubectl("create", *job.split("/"), f"--from=cronjob/{RELEASE}-archive")

    def succeeded() -> bool:
        seen.update(each["metadata"]["name"] for each in cluster.items("pods", "spark-role=executor"))
        return bool(cluster.get("job", f"{RELEASE}-archive-more")["status"].get("succeeded"))

    until(succeeded, 600, lambda: f"no archive: {cluster.kubectl('logs', job, check=False)}\n{state(cluster)}")
    figures["archive job with an executor s"] = round(time.monotonic() - begin, 1)
    said = cluster.kubectl("logs", job)
    assert re.search(r"^[1-9]\d* rows archived$", said, re.MULTILINE) and seen, said
    cluster.kubectl("delete", job)
    until(lambda: not cluster.items("pods", "spark-role=executor"), 60, lambda: state(cluster))


def test_the_status_counts_connections(cluster, traffic):
    def counted() -> bool:
        status = (cluster.get("stompacceptor", ACCEPTOR) or {}).get("status", {})
        figures["connections in the status, least and most of a pod"] = (
            status.get("connections", 0), status.get("connectionsPerPod")
        )  # fmt: skip
        # The number is coarse on purpose: edges tell of changes by a tenth.
        return bool(status.get("connections", 0) >= 0.8 * IDLE)

    until(counted, 120, lambda: state(cluster))


def test_a_node_with_one_of_each_is_drained(cluster, traffic):
    """An owner, an edge and the operator are evicted at once, as `kubectl drain` evicts what is on a node."""
    traffic.reset()
    operators = cluster.items("pods", "app.kubernetes.io/component=operator")
    going = [pods(cluster, "owner")[0], pods(cluster, "edge")[0], operators[0]]
    begin = time.monotonic()
    for pod in going:
        until(lambda pod=pod: evicted(cluster, pod["metadata"]["name"]), 60, lambda: state(cluster))
    gone = {pod["metadata"]["uid"] for pod in going}

    def replaced() -> bool:
        there = [*pods(cluster, "owner"), *pods(cluster, "edge")]
        alike = ready(cluster, "owner") == 3 and ready(cluster, "edge") == 2
        return alike and not gone & {pod["metadata"]["uid"] for pod in there}

    until(replaced, 180, lambda: state(cluster))
    figures["drain: one owner, one edge, the operator are others after s"] = round(time.monotonic() - begin, 1)
    cluster.wait_for("stompbroker", BROKER, "Ready", 120)
    settled(traffic)
    figures["drain: longest wait s"], figures["drain: waits above 0.8 s"] = (
        round(traffic.longest_s, 2),
        dict(traffic.slow),
    )


def evicted(cluster: Cluster, name: str) -> bool:
    """False: a budget does not let it go yet."""
    body = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": name, "namespace": cluster.namespace}}
    path = f"/api/v1/namespaces/{cluster.namespace}/pods/{name}/eviction"
    return "Success" in cluster.kubectl("create", "--raw", path, "-f", "-", stdin=json.dumps(body), check=False)


def test_an_upgrade_under_traffic(cluster, traffic):
    """Other values for all that rolls: operator, owners and edges, and a listener more, and E2E_NEXT_IMAGE."""
    figures["scaling: longest wait s"] = round(traffic.longest_s, 2)
    until(lambda: len(traffic.sent) > 100, 60, lambda: f"no traffic: {state(cluster)}")
    traffic.reset()
    figures["before the upgrade: confirmed a second"] = confirmed_a_second(traffic, 15)
    figures["before the upgrade: longest wait s"] = round(traffic.longest_s, 2)
    traffic.reset()
    before, begin = len(traffic.sent), time.monotonic()
    values = [
        "operator.resources.limits.memory=200Mi",
        "broker.spec.owners.resources.requests.memory=64Mi",
        "acceptor.spec.resources.requests.memory=64Mi",
        "tls.clients.mode=selfSigned",
    ]
    if image := os.environ.get("E2E_NEXT_IMAGE"):
        values.append(f"image.tag={image.rpartition(':')[2]}")
    sets = [part for value in values for part in ("--set", value)]
    cluster.helm("upgrade", RELEASE, str(CHART), "--reuse-values", *sets)
    until(lambda: rolled(cluster, "deployment", f"{ACCEPTOR}-edge"), 300, lambda: state(cluster))
    until(lambda: rolled(cluster, "statefulset", f"{BROKER}-owner"), 600, lambda: state(cluster))
    figures["helm upgrade until all owners and edges are new s"] = round(time.monotonic() - begin, 1)
    cluster.wait_for("stompbroker", BROKER, "Ready", 120)
    settled(traffic)
    figures["upgrade: longest wait s"] = round(traffic.longest_s, 2)
    figures["upgrade: confirmed a second"] = round((len(traffic.sent) - before) / (time.monotonic() - begin))
    figures["upgrade: most that a message was offered late s"] = round(traffic.behind_s, 2)
    figures["upgrade: longest way to a connection s"] = round(traffic.connecting_s, 2)
    figures["upgrade: why there was none"] = dict(traffic.refusals.most_common(10))
    figures["upgrade: waits above 0.8 s"], figures["upgrade: producers cut"] = dict(traffic.slow), traffic.cuts[:]
    figures["upgrade: came again unmarked"] = traffic.unmarked


def confirmed_a_second(traffic: Traffic, seconds: float) -> int:
    before = len(traffic.sent)
    time.sleep(seconds)
    return round((len(traffic.sent) - before) / seconds)


def rolled(cluster: Cluster, kind: str, name: str) -> bool:
    """Every pod is of the new template and ready."""
    found = cluster.get(kind, name)
    assert found is not None, f"{kind}/{name} is gone"
    container, status = found["spec"]["template"]["spec"]["containers"][0], found["status"]
    new = container.get("resources", {}).get("requests", {}).get("memory") == "64Mi"
    seen = status.get("observedGeneration") == found["metadata"]["generation"]
    numbers = {status.get(each, 0) for each in ("replicas", "updatedReplicas", "readyReplicas")}
    return new and seen and numbers == {found["spec"]["replicas"]}


def progress(cluster: Cluster) -> str:
    return f"{cluster.condition('stompbroker', BROKER, 'ScalingDown')}\n{state(cluster)}"


def pods(cluster: Cluster, component: str) -> list[dict]:
    found = cluster.items("pods", f"app.kubernetes.io/component={component},app.kubernetes.io/instance={BROKER}")
    return [each for each in found if not each["metadata"].get("deletionTimestamp")]


def ready(cluster: Cluster, component: str) -> int:
    return sum(
        any(c["type"] == "Ready" and c["status"] == "True" for c in each["status"].get("conditions", []))
        for each in pods(cluster, component)
    )


def settled(traffic: Traffic) -> None:
    """Traffic goes on, and what was confirmed has come."""
    before = len(traffic.sent)
    until(lambda: len(traffic.sent) > before + 50, 60, lambda: "producers stand still")
    confirmed = set(traffic.sent)
    until(lambda: not confirmed - set(traffic.got), 60, lambda: f"lost {sorted(confirmed - set(traffic.got))[:10]}")


def test_nothing_was_lost(traffic):
    traffic.stop()
    figures["confirmed, lost, received twice"] = (
        len(traffic.sent), len(traffic.missing), sum(1 for count in traffic.got.values() if count > 1)
    )  # fmt: skip
    figures["longest wait for a receipt since then s"] = round(traffic.longest_s, 2)
    figures["producers that had to connect again"] = traffic.reconnects
    assert not traffic.missing
    assert not traffic.unmarked


def test_the_operator_is_small_and_quiet(cluster, installed):
    (pod,) = [each for each in cluster.items("pods", "app.kubernetes.io/component=operator")][:1]
    name = pod["metadata"]["name"]
    rss = cluster.kubectl("exec", name, "--", "sh", "-c", "grep VmRSS /proc/1/status")
    figures["operator RSS MB"] = round(int(rss.split()[1]) / 1024, 1)
    assert figures["operator RSS MB"] <= 80


def test_uninstall_leaves_nothing(cluster, installed):
    begin = time.monotonic()
    cluster.helm("uninstall", RELEASE)
    kinds = "pods,services,deployments,statefulsets,configmaps,horizontalpodautoscalers"
    until(
        lambda: (
            not cluster.items(kinds, "app.kubernetes.io/name=stampede")
            and not cluster.items("stompbrokers,stompacceptors,stompusers")
        ),
        60,
        lambda: cluster.kubectl("get", kinds, "--show-labels"),
    )
    figures["helm uninstall until all is gone s"] = round(time.monotonic() - begin, 1)
    cluster.kubectl("delete", "address", "e2e", "--ignore-not-found", timeout=30)


def test_the_namespace_goes(cluster, installed):
    begin = time.monotonic()
    cluster.run("kubectl", "delete", "namespace", cluster.namespace, "--timeout=60s")
    figures["namespace deletion s"] = round(time.monotonic() - begin, 1)
