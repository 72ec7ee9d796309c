"""The chart: what it renders is what was looked at, is valid Kubernetes, and is safe by default; what makes no sense is
refused with its name.

`TEST_GOLDEN=write pytest tests/helm` renews golden/; look at the difference before committing it."""

from __future__ import annotations

import base64
import os
import re
from pathlib import Path

import kubernetes_validate
import pytest
import yaml
from broker_operator.kube.bundles import DIGEST, digest

from tests.operator.strict import refusals

from .conftest import CHART

HERE = Path(__file__).parent
VALUES = [*sorted((HERE / "values").glob("*.yaml")), HERE.parents[1] / "deploy" / "values-production.yaml"]
REFUSED = sorted((HERE / "refused").glob("*.yaml"))
OTHERS = {"ServiceMonitor", "PodMonitor", "PrometheusRule", "Certificate", "CustomResourceDefinition"}
"""Kinds that Kubernetes itself has no schema for, or that have tests of their own."""
BUNDLE = ("ConfigMap", "shop-resources")
NO_CRDS = ("--set", "crds.install=false")


def documents(text):
    return [each for each in yaml.safe_load_all(text) if each]


def masked(text):
    """Certificates and passwords are made anew each time."""
    return re.sub(r"^(  [\w.]+): [A-Za-z0-9+/=]{24,}$", r"\1: (made)", text, flags=re.MULTILINE)


def resources(text):
    """The custom resources within the ConfigMap of the release."""
    (found,) = [each for each in documents(text) if (each["kind"], each["metadata"]["name"]) == BUNDLE]
    (vouching,) = [
        each for each in documents(text) if (each["kind"], each["metadata"]["name"]) == ("Secret", BUNDLE[1])
    ]
    assert base64.b64decode(vouching["data"][DIGEST]).decode() == digest(found.get("data") or {})
    return {key: yaml.safe_load(each) for key, each in (found.get("data") or {}).items()}


@pytest.mark.parametrize("values", VALUES, ids=lambda path: path.stem)
def test_it_renders_what_was_looked_at(render, values):
    rendered = render(values, True, *NO_CRDS)
    assert rendered.text, rendered.error
    golden = HERE / "golden" / values.name
    if os.environ.get("TEST_GOLDEN") == "write":
        golden.write_text(masked(rendered.text))
    # Objects, not bytes: where a Helm puts its blank lines is its own affair.
    assert documents(masked(rendered.text)) == documents(golden.read_text())


@pytest.mark.parametrize("values", VALUES, ids=lambda path: path.stem)
@pytest.mark.parametrize("modern", [True, False], ids=["1.33", "old"])
def test_every_object_is_valid(render, values, modern):
    rendered = render(values, modern, *NO_CRDS)
    assert rendered.text, rendered.error
    for each in documents(rendered.text):
        if each["kind"] in OTHERS or each["apiVersion"] == "policy/v1beta1":
            continue
        kubernetes_validate.validate(each, "1.33", strict=True)


@pytest.mark.parametrize("values", REFUSED, ids=lambda path: path.stem)
def test_what_makes_no_sense_is_refused_by_name(render, values):
    expected = values.read_text().splitlines()[0].removeprefix("# ")
    rendered = render(values)
    assert not rendered.text
    assert any(re.search(each, rendered.error) for each in wordings(expected)), rendered.error


@pytest.mark.parametrize("values", VALUES, ids=lambda path: path.stem)
def test_pods_are_restricted(render, values):
    """Pod security standard `restricted`, and a read-only root."""
    for each in documents(render(values, True, *NO_CRDS).text):
        if each["kind"] not in ("Deployment", "StatefulSet"):
            continue
        pod = each["spec"]["template"]["spec"]
        assert pod["securityContext"]["runAsNonRoot"] is True
        assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
        assert pod["enableServiceLinks"] is False
        if "operator" not in each["metadata"]["name"]:
            assert pod["automountServiceAccountToken"] is False
        for container in pod["containers"]:
            context = container["securityContext"]
            assert context["readOnlyRootFilesystem"] is True
            assert context["allowPrivilegeEscalation"] is False
            assert context["capabilities"] == {"drop": ["ALL"]}
            assert container["resources"]["limits"]["memory"]
            assert "livenessProbe" in container
            assert "readinessProbe" in container


def test_what_an_uninstallation_takes_with_it(render, tmp_path):
    for told in (True, False):
        values = tmp_path / f"{told}.yaml"
        values.write_text(f"uninstall: {{deleteClaims: {str(told).lower()}}}\ncrds: {{keep: false}}\n")
        made = {(each["kind"], each["metadata"]["name"]): each for each in documents(render(values, True).text)}
        broker = yaml.safe_load(made["ConfigMap", "shop-resources"]["data"]["broker.yaml"])
        etcd = made["StatefulSet", "shop-etcd"]["spec"]
        assert (broker["spec"]["owners"].get("storage") == {"whenDeleted": "Delete"}) is told
        assert (etcd.get("persistentVolumeClaimRetentionPolicy", {}).get("whenDeleted") == "Delete") is told
        kinds = [each for (kind, _), each in made.items() if kind == "CustomResourceDefinition"]
        assert kinds and not any("annotations" in each["metadata"] for each in kinds)


def test_the_values_of_a_release_before_it_are_enough(render):
    """`--reuse-values`, as runbooks have it: what this chart added to its values is in none of them."""
    made = render(HERE / "values" / "defaults.yaml", True, *NO_CRDS, "--set", "uninstall=null")
    assert "name: shop-resources" in made.text and "whenDeleted" not in made.text, made.error


def test_the_archive_is_restricted_too_and_sees_no_key(render):
    (job,) = [each for each in documents(render(HERE / "values" / "archive.yaml", True, *NO_CRDS).text)
              if each["kind"] == "CronJob"]  # fmt: skip
    pod = job["spec"]["jobTemplate"]["spec"]["template"]["spec"]
    assert pod["securityContext"]["runAsNonRoot"] is True and pod["automountServiceAccountToken"] is False
    (container,) = pod["containers"]
    assert container["securityContext"]["readOnlyRootFilesystem"] and container["resources"]["limits"]["memory"]
    secrets = [volume["secret"] for volume in pod["volumes"] if "secret" in volume]
    assert [secret["items"] for secret in secrets] == [[{"key": "ca.crt", "path": "ca.crt"}]]
    command = " ".join(container["args"])
    assert "passcode" not in command.lower() and job["spec"]["concurrencyPolicy"] == "Forbid"


def test_executors_of_the_archive_are_restricted_and_open_to_each_other_only(render):
    made = documents(render(HERE / "values" / "archive-on-executors.yaml", True, *NO_CRDS).text)
    named = {(each["kind"], each["metadata"]["name"]): each for each in made}
    pod = yaml.safe_load(named["ConfigMap", "shop-archive-executor"]["data"]["pod.yaml"])
    kubernetes_validate.validate(
        pod | {"metadata": {"name": "x"}} | {"spec": with_images(pod["spec"])}, "1.33", strict=True
    )
    assert pod["spec"]["securityContext"]["runAsNonRoot"] is True and not pod["spec"]["automountServiceAccountToken"]
    assert pod["spec"]["containers"][0]["securityContext"]["readOnlyRootFilesystem"] is True
    assert pod["metadata"]["labels"]["app.kubernetes.io/instance"] == "shop", "the owners' policy lets them read"
    assert [each for each in pod["spec"]["volumes"] if "secret" in each] == []
    labels = {}
    for name in ("shop-archive", "shop-archive-executor"):
        spec = named["NetworkPolicy", name]["spec"]
        (entry,) = spec["ingress"]
        who = [each["podSelector"]["matchLabels"]["app.kubernetes.io/component"] for each in entry["from"]]
        labels[spec["podSelector"]["matchLabels"]["app.kubernetes.io/component"]] = who
    assert labels == {"archive": ["archive-executor"], "archive-executor": ["archive-executor", "archive"]}
    job = named["CronJob", "shop-archive"]["spec"]["jobTemplate"]["spec"]["template"]["spec"]
    assert job["serviceAccountName"] == "shop-archive" and job["automountServiceAccountToken"] is True
    (rule,) = named["Role", "shop-archive"]["rules"]
    assert rule["apiGroups"] == [""] and "secrets" not in rule["resources"] and "*" not in str(rule)


def with_images(spec):
    """As Spark completes it."""
    return spec | {"containers": [each | {"image": "x"} for each in spec["containers"]]}


@pytest.mark.parametrize(
    ("version", "api"), [("1.20.2", "batch/v1beta1"), ("1.21.0", "batch/v1"), ("1.37.2", "batch/v1")]
)
def test_the_archive_of_the_oldest_kubernetes_that_the_chart_takes(render, version, api):
    rendered = render(HERE / "values" / "archive.yaml", False, *NO_CRDS, "--kube-version", version)
    (job,) = [each for each in documents(rendered.text) if each["kind"] == "CronJob"]
    assert job["apiVersion"] == api


def test_selectors_hold_nothing_that_an_upgrade_changes(render):
    for each in documents(render(HERE / "values" / "production.yaml", True, *NO_CRDS).text):
        if each["kind"] in ("Deployment", "StatefulSet"):
            labels = each["spec"]["selector"]["matchLabels"]
            assert set(labels) == {
                "app.kubernetes.io/name", "app.kubernetes.io/instance", "app.kubernetes.io/component"
            }  # fmt: skip


def test_no_cluster_wide_rights_unless_asked_for(render):
    kinds = {each["kind"] for each in documents(render(HERE / "values" / "defaults.yaml", True, *NO_CRDS).text)}
    assert not kinds & {"ClusterRole", "ClusterRoleBinding"}
    kinds = {each["kind"] for each in documents(render(HERE / "values" / "everywhere.yaml", True, *NO_CRDS).text)}
    assert {"ClusterRole", "ClusterRoleBinding"} <= kinds


def test_kubernetes_own_roles_get_our_kinds_when_asked_for(render):
    """Who may edit a namespace may not make logins, nor say which pods run: that is for its admins."""
    rendered = render(HERE / "values" / "defaults.yaml", True, *NO_CRDS, "--set", "rbac.aggregate=true")
    assert rendered.text, rendered.error
    rights = {"view": set(), "edit": set(), "admin": set()}
    for each in documents(rendered.text):
        for role, found in rights.items():
            if (each["metadata"].get("labels") or {}).get(f"rbac.authorization.k8s.io/aggregate-to-{role}") == "true":
                found |= {
                    (kind, verb) for rule in each["rules"] for kind in rule["resources"] for verb in rule["verbs"]
                }
    seen = ("stompbrokers", "stompacceptors", "addresses", "stompbackups", "stomprestores")
    assert rights["view"] == {(kind, verb) for kind in seen for verb in ("get", "list", "watch")}
    assert ("addresses", "patch") in rights["edit"]
    assert not [each for each in rights["edit"] if each[0] == "stompusers" or each == ("stompacceptors", "patch")]
    assert {("stompusers", "create"), ("stompacceptors", "patch"), ("addresses", "delete")} <= rights["admin"]


def test_the_operator_has_no_right_to_everything(render):
    for each in documents(render(HERE / "values" / "everywhere.yaml", True, *NO_CRDS).text):
        for rule in each.get("rules") or ():
            assert "*" not in rule["verbs"] + rule["resources"] + rule["apiGroups"], each["metadata"]["name"]


def test_the_decision_record_says_what_the_operator_may(render):
    """Its table against the Roles: who reviews an installation reads the one and gets the other."""
    record = (HERE.parents[1] / "docs" / "adr" / "0006-kubernetes.md").read_text()
    table = record.partition("| group | resources | verbs |\n|---|---|---|\n")[2].partition("\n\n")[0]
    said = set()
    for line in table.splitlines():
        group, kinds, verbs = (re.sub(r" \(.*\)", "", cell).split(", ") for cell in line.strip("| ").split(" | "))
        said |= {(group[0].strip('"'), kind, verb) for kind in kinds for verb in verbs}
    may = {
        (group, kind, verb)
        for each in documents(render(HERE / "values" / "defaults.yaml", True, *NO_CRDS).text)
        if each["kind"] == "Role" and each["metadata"]["name"].startswith("shop-operator")
        for rule in each["rules"] for group in rule["apiGroups"]
        for kind in rule["resources"] for verb in rule["verbs"]
    }  # fmt: skip
    assert said == may


def test_the_operator_may_delete_what_it_deletes(render):
    """A user who is taken out of the values is deleted by the operator: else they could still log in."""
    rendered = documents(render(HERE / "values" / "defaults.yaml", True, *NO_CRDS).text)
    (role,) = [each for each in rendered if each["kind"] == "Role" and each["metadata"]["name"] == "shop-operator"]
    may = {resource for rule in role["rules"] if "delete" in rule["verbs"] for resource in rule["resources"]}
    assert may >= {"stompbrokers", "stompacceptors", "addresses", "stompusers", "deployments", "persistentvolumeclaims"}


def test_the_scaler_reads_the_etcd_of_the_broker(render):
    said = ("prefix=/elsewhere", "endpoints={mine:2379}", "tlsSecretName=my-tls", "userSecretName=my-user")
    sets = [part for one in ("scaler.enabled=true", *(f"broker.spec.etcd.{each}" for each in said))
            for part in ("--set", one)]  # fmt: skip
    rendered = render(HERE / "values" / "defaults.yaml", True, *NO_CRDS, *sets)
    assert rendered.text, rendered.error
    (scaler,) = [each for each in documents(rendered.text)
                 if (each["kind"], each["metadata"]["name"]) == ("Deployment", "shop-scaler")]  # fmt: skip
    pod = scaler["spec"]["template"]["spec"]
    env = {each["name"]: each for each in pod["containers"][0]["env"]}
    assert env["STAMPEDE_ETCD__PREFIX"]["value"] == "/elsewhere"
    assert env["STAMPEDE_ETCD__ENDPOINTS"]["value"] == "mine:2379"
    assert env["STAMPEDE_ETCD__USER"]["valueFrom"]["secretKeyRef"]["name"] == "my-user"
    assert {each["secret"]["secretName"] for each in pod["volumes"] if "secret" in each} == {"my-tls", "my-user"}


@pytest.mark.parametrize("values", ["defaults", "cert-manager"])
def test_owners_and_edges_have_certificates_of_their_own_with_their_role(render, values):
    rendered = documents(render(HERE / "values" / f"{values}.yaml", True, *NO_CRDS).text)
    spec = resources(render(HERE / "values" / f"{values}.yaml", True, *NO_CRDS).text)["broker.yaml"]["spec"]
    secrets = {spec["tls"][name] for name in ("secretName", "ownersSecretName", "edgesSecretName")}
    assert len(secrets) == 3
    assert spec["etcd"]["owners"]["tlsSecretName"] == spec["tls"]["ownersSecretName"]
    assert spec["etcd"]["edges"]["tlsSecretName"] == spec["tls"]["edgesSecretName"]
    made = {each["metadata"]["name"]: each for each in rendered if each["kind"] in ("Secret", "Certificate")}
    assert secrets <= made.keys()
    if values == "cert-manager":
        for role in ("owner", "edge"):
            names = made[spec["tls"][f"{role}sSecretName"]]["spec"]["dnsNames"]
            assert [name for name in names if name.endswith(".stampede.internal")] == [f"{role}.stampede.internal"]


def test_in_production_no_port_is_in_clear_text(render):
    """Its address is public (a LoadBalancer)."""
    production = HERE.parents[1] / "deploy" / "values-production.yaml"
    spec = resources(render(production, True, *NO_CRDS).text)["acceptor.yaml"]["spec"]
    assert spec["service"]["type"] == "LoadBalancer"
    assert [one["name"] for one in spec["listeners"] if not one.get("tls")] == []
    assert [one["name"] for one in spec["listeners"]] == ["stomp-tls"]
    assert spec["settings"]["edge"]["clearText"] == "refuse"
    urls = [env["value"] for each in documents(render(production, True, *NO_CRDS).text) if each["kind"] == "Pod"
            for env in each["spec"]["containers"][0]["env"] if env["name"] == "STAMPEDE_URL"]  # fmt: skip
    assert urls and all(url.startswith("stomp+ssl://") for url in urls)


@pytest.mark.parametrize("version", ["1.20.2", "1.26.9", "1.27.0", "1.37.2"])
def test_etcd_keeps_no_node_from_being_drained(render, version):
    """One alone has no budget at all, and its pod goes. Of three one goes, ready or not; a second one that is not ready
    stays, which AlwaysAllow would let go, and the majority with it."""
    three = ("--set", "etcd.bundled.replicas=3", "--kube-version", version)
    found = [
        [each["spec"] for each in documents(render(HERE / "values" / "defaults.yaml", True, *NO_CRDS, *more).text)
         if each["kind"] == "PodDisruptionBudget" and each["metadata"]["name"] == "shop-etcd"]
        for more in (("--kube-version", version), three)
    ]  # fmt: skip
    assert found[0] == [] and len(found[1]) == 1
    assert found[1][0]["maxUnavailable"] == 1 and "minAvailable" not in found[1][0]
    assert "unhealthyPodEvictionPolicy" not in found[1][0]


@pytest.mark.parametrize("name", ["shop-operator", "shop-etcd"])
def test_metrics_are_for_scrapers_by_label(render, name):
    more = ("--set", "networkPolicy.scrapers.namespaceLabels.team=watch")
    for given, namespaces in (((), {}), (more, {"matchLabels": {"team": "watch"}})):
        rendered = documents(render(HERE / "values" / "defaults.yaml", True, *NO_CRDS, *given).text)
        (policy,) = [each for each in rendered if each["kind"] == "NetworkPolicy" and each["metadata"]["name"] == name]
        for rule in policy["spec"]["ingress"]:
            assert rule.get("from"), "it is open to everybody"
        assert policy["spec"]["ingress"][-1]["from"] == [{
            "namespaceSelector": namespaces, "podSelector": {"matchLabels": {"app.kubernetes.io/name": "prometheus"}}
        }]  # fmt: skip


def test_whoever_reads_metrics_in_production_shows_a_token_that_the_monitors_show(render):
    production = HERE.parents[1] / "deploy" / "values-production.yaml"
    text = render(production, True, *NO_CRDS).text
    assert resources(text)["broker.yaml"]["spec"]["scrapers"]["tokenSecretName"] == "shop-metrics"
    found = {(each["kind"], each["metadata"]["name"]): each for each in documents(text)}
    assert "password" in found["Secret", "shop-metrics"]["data"]
    endpoints = [each["spec"]["endpoints"] for (kind, _), each in found.items() if kind == "ServiceMonitor"]
    shown = {"type": "Bearer", "credentials": {"name": "shop-metrics", "key": "password"}}
    assert [[one["authorization"] for one in some] for some in endpoints] == [[shown], [shown]]
    both = render(production, True, *NO_CRDS, "--set", "metrics.token.secretName=other")
    assert "leave metrics.token.secretName empty" in both.error


def test_in_production_etcd_lets_nobody_in_without_a_user_and_each_role_has_its_own(render):
    production = HERE.parents[1] / "deploy" / "values-production.yaml"
    etcd = resources(render(production, True, *NO_CRDS).text)["broker.yaml"]["spec"]["etcd"]
    assert etcd["authEnabled"] is True
    users = [
        etcd["rootSecretName"],
        etcd["userSecretName"],
        *(etcd[role]["userSecretName"] for role in ("owners", "edges")),
    ]
    made = {each["metadata"]["name"]: each.get("data") for each in documents(render(production, True, *NO_CRDS).text)
            if each["kind"] == "Secret"}  # fmt: skip
    names = [base64.b64decode(made[user]["username"]).decode() for user in users]
    assert names == ["root", "operator", "owner", "edge"]
    assert len({made[user]["password"] for user in users}) == 4
    assert (
        "rootSecretName"
        not in resources(render(HERE / "values" / "defaults.yaml", True, *NO_CRDS).text)["broker.yaml"]["spec"]["etcd"]
    )


def test_a_user_of_whom_nothing_is_said_can_be_tested_with(render):
    """`users: {aa: }` in a values file is null."""
    rendered = render(HERE / "values" / "defaults.yaml", True, *NO_CRDS, "--set", "users.aa=null")
    assert rendered.text, rendered.error
    pods = [each for each in documents(rendered.text) if each["kind"] == "Pod"]
    env = {each["name"]: each for each in pods[0]["spec"]["containers"][0]["env"]}
    assert env["STAMPEDE_LOGIN"]["value"] == "aa"
    assert env["STAMPEDE_PASSCODE"]["valueFrom"]["secretKeyRef"] == {"name": "aa-stomp", "key": "password"}


def wordings(expected):
    """How Helm says it: until 3.17, and since it has another JSON Schema library (3.18, 4)."""
    yield re.escape(expected)
    name, _, about = expected.partition(": Does not match")
    if about:
        yield rf"'/{name.replace('.', '/')}'.* does not match pattern"
    name, _, about = expected.partition(" must be one of the following")
    if about or name != expected:
        yield rf"'/{name.replace('.', '/')}'.* must be one of"
    if found := re.fullmatch(r"Additional property (\w+) is not allowed", expected):
        yield rf"additional properties '{found[1]}' not allowed"
    if re.fullmatch(r"[\w.]+", expected):
        yield rf"'/{expected.replace('.', '/')}'"


def private(secret):
    """What only this Secret may hold, as it stands there and as it would stand in a text."""
    for name, value in (secret.get("data") or {}).items():
        if name != "username" and not name.endswith(".crt"):
            lines = base64.b64decode(value).decode().splitlines()
            yield value
            yield lines[len(lines) // 2]  # of a key the middle: its first and last lines are everybody's


@pytest.mark.parametrize("values", VALUES, ids=lambda path: path.stem)
def test_secrets_are_in_no_other_object(render, values):
    found = documents(render(values, True, *NO_CRDS).text)
    for each in found:
        if each["kind"] == "Secret":
            others = "".join(str(other) for other in found if other is not each)
            assert "stringData" not in each
            for value in private(each):
                assert len(value) >= 16
                assert value not in others, f"of {each['metadata']['name']}"


def test_the_resources_of_a_release(render):
    found = resources(render(HERE / "values" / "defaults.yaml", True, *NO_CRDS).text)
    assert {each["kind"] for each in found.values()} == {"StompBroker", "StompAcceptor", "StompUser"}
    broker = found["broker.yaml"]["spec"]
    assert broker["etcd"]["endpoints"] == ["shop-etcd-0.shop-etcd.mq.svc:2379"]
    assert broker["tls"]["secretName"] == broker["etcd"]["tlsSecretName"] == "shop-components"
    assert found["acceptor.yaml"]["spec"]["brokerRef"] == {"name": "shop"}


@pytest.mark.parametrize("values", VALUES, ids=lambda path: path.stem)
def test_the_resources_of_a_release_apply(render, values):
    """What stands in the bundle is looked at by nobody before the operator applies it."""
    rendered = render(values, True, *NO_CRDS)
    if BUNDLE[1] in rendered.text:
        for resource in resources(rendered.text).values():
            assert refusals(resource) == [], resource["metadata"]["name"]


def test_fewer_owners_keep_fewer_copies(render):
    spec = resources(render(HERE / "values" / "two-owners.yaml", True, *NO_CRDS).text)["broker.yaml"]["spec"]
    assert spec["replication"] == {"factor": 2, "minInSync": 2}


def test_what_the_user_says_wins(render):
    found = resources(render(HERE / "values" / "users-and-addresses.yaml", True, *NO_CRDS).text)
    assert found["user-worker.yaml"]["spec"]["passwordSecretRef"] == {"name": "worker-login"}
    assert found["address-all.yaml"]["spec"]["settings"] == {"maxDeliveryAttempts": 5}
    spec = resources(render(HERE / "values" / "production.yaml", True, *NO_CRDS).text)["acceptor.yaml"]["spec"]
    assert "replicas" not in spec
    assert [each["name"] for each in spec["listeners"]] == ["stomp", "stomp-ws", "stomp-tls"]


def test_crds_can_be_left_to_somebody_else(render):
    values = HERE / "values" / "defaults.yaml"
    with_them = {each["kind"] for each in documents(render(values).text)}
    without = {each["kind"] for each in documents(render(values, True, *NO_CRDS).text)}
    assert with_them - without == {"CustomResourceDefinition"}
    kept = [each for each in documents(render(values).text) if each["kind"] == "CustomResourceDefinition"]
    assert all(each["metadata"]["annotations"]["helm.sh/resource-policy"] == "keep" for each in kept)


def test_dashboards_ask_for_metrics_that_exist(render):
    """Names in dashboards and alerts against those in the code."""
    broker = Path(__file__).resolve().parents[2] / "broker"
    code = "".join(path.read_text() for path in broker.rglob("*.py"))
    text = render(HERE / "values" / "production.yaml", True, *NO_CRDS).text
    for name in sorted(set(re.findall(r"\bstomp_[a-z_]+", text))):
        messages = re.fullmatch(r"stomp_messages_(\w+)_total", name)
        assert (f'"{messages[1]}"' if messages else name.removesuffix("_bucket")) in code, name


def test_what_is_told_after_an_install_names_ports_that_are_there():
    """`helm template` makes no notes: with tls.clients.only there is no 61613."""
    lines = (CHART / "templates/NOTES.txt").read_text().splitlines()
    assert [line for line in lines if "61613" in line and "tls.clients.only" not in line] == []
