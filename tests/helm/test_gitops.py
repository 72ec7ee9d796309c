"""With gitOps the chart renders the same each time, without a cluster; what it needs beside that the operator makes."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml
from broker_operator.kube.made_secrets import wanted

from .conftest import CHART
from .test_chart import NO_CRDS, VALUES, documents

GIT = ("--set", "gitOps=true")
PLAIN = Path(__file__).parent / "values" / "defaults.yaml"


def strings(value: Any, key: str) -> set[str]:
    """What stands under that key, at any depth."""
    if isinstance(value, dict):
        found = {text for name, text in value.items() if name == key and isinstance(text, str)}
        return found.union(*(strings(each, key) for each in value.values()))
    if isinstance(value, list):
        return set().union(*(strings(each, key) for each in value))
    return set()


def told(objects: list[dict[str, Any]]) -> Any:
    (operator,) = [
        each for each in objects if (each["kind"], each["metadata"]["name"]) == ("Deployment", "shop-operator")
    ]
    env = {one["name"]: one.get("value") for one in operator["spec"]["template"]["spec"]["containers"][0]["env"]}
    return wanted(env.get("STAMPEDE_OPERATOR_SECRETS") or "")


@pytest.mark.parametrize("values", VALUES, ids=lambda path: path.stem)
def test_it_renders_the_same_each_time(render, values):
    first, second = (render.__wrapped__(values, True, *GIT) for _ in range(2))
    assert first.text, first.error
    assert first.text == second.text


def test_without_it_certificates_are_new_each_time(render):
    first, second = (render.__wrapped__(PLAIN, True, *NO_CRDS) for _ in range(2))
    assert first.text != second.text, "else this file proves nothing"
    made = told(documents(first.text))
    assert made.renewed and made.certificates and not made.passwords, "Helm makes them, and cannot see when they end"


@pytest.mark.parametrize("values", VALUES, ids=lambda path: path.stem)
def test_the_operator_is_told_to_make_just_what_the_chart_would(render, values):
    plain, git = (documents(render(values, True, *NO_CRDS, *more).text) for more in ((), GIT))
    before, after = (
        {each["metadata"]["name"]: each for each in some if each["kind"] == "Secret"} for some in (plain, git)
    )
    made, kept = told(git), told(plain)
    assert not made.renewed and (kept.certificates if kept else []) == made.certificates
    names = {one.secret for one in (*made.certificates, *made.passwords)} | ({made.authority} - {""})
    assert before.keys() - after.keys() == names and not after.keys() & names
    assert after.keys() == {"shop-resources"}
    for one in made.certificates:
        assert one.names and "" not in one.names
    assert [each for each in plain if each["kind"] not in ("Secret", "Deployment")] == [
        each for each in git if each["kind"] not in ("Secret", "Deployment")
    ]


def test_every_secret_that_a_pod_of_the_chart_needs_is_there_or_made(render):
    production = CHART.parents[1] / "deploy" / "values-production.yaml"
    objects = documents(render(production, True, *NO_CRDS, *GIT).text)
    made = told(objects)
    names = {one.secret for one in (*made.certificates, *made.passwords)}
    pods = [each for each in objects if each["kind"] in ("Deployment", "StatefulSet")]
    assert strings(pods, "secretName") and strings(pods, "secretName") <= names


def _kubectl(*arguments: str, text: str = "") -> str:
    command = ["kubectl", "--kubeconfig", os.environ["TEST_KUBECONFIG"], *arguments]
    done = subprocess.run(command, input=text, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def drift(said: Any, live: Any, path: str = "") -> list[str]:
    """Where the live object differs from what git says, as a GitOps controller compares."""
    if isinstance(said, dict) and isinstance(live, dict):
        return [place for key, value in said.items() for place in drift(value, live.get(key), f"{path}.{key}")]
    if isinstance(said, list) and isinstance(live, list) and len(said) == len(live):
        return [place for n, value in enumerate(said) for place in drift(value, live[n], f"{path}[{n}]")]
    return [] if said == live else [f"{path}: {json.dumps(said)} is {json.dumps(live)}"]


def test_drift_is_found():
    assert drift({"a": [{"b": 1}]}, {"a": [{"b": 1, "default": 2}]}) == []
    assert drift({"a": [{"b": "1000m"}]}, {"a": [{"b": "1"}]}) == ['.a[0].b: "1000m" is "1"']
    assert drift({"a": {}}, {}) == [".a: {} is null"]


@pytest.mark.skipif("TEST_KUBECONFIG" not in os.environ, reason="no API server here (TEST_KUBECONFIG)")
@pytest.mark.parametrize("values", ["defaults", "one-of-each", "values-production"])
def test_what_the_api_server_keeps_is_what_git_says(render, values):
    """No field that it writes in another way, and no empty one that it leaves out: that would be OutOfSync for ever."""
    (path,) = [each for each in VALUES if each.stem == values]
    modern = "autoscaling/v2\n" in _kubectl("api-versions")
    version = json.loads(_kubectl("version", "-o", "json"))["serverVersion"]["gitVersion"]
    off = [part for one in ("serviceMonitor", "rules") for part in ("--set", f"metrics.{one}.enabled=false")]
    rendered = render(path, modern, *NO_CRDS, *GIT, *off, "--kube-version", version)
    assert rendered.text, rendered.error
    kinds = set(_kubectl("api-resources", "-o", "name").split())
    found = []
    versions = _kubectl("api-versions").split()
    for each in documents(rendered.text):
        if each["apiVersion"] == "policy/v1" not in versions:
            each["apiVersion"] = "policy/v1beta1"  # Helm's own list of what there is says otherwise
        if each["kind"] == "Certificate" and "certificates.cert-manager.io" not in kinds:
            continue
        if "helm.sh/hook" in (each["metadata"].get("annotations") or {}):
            continue  # `helm test`
        namespace = ("-n", "default") if not each["kind"].startswith("Cluster") else ()
        each["metadata"].pop("namespace", None)
        told = _kubectl("create", "--dry-run=server", "-o", "yaml", "-f", "-", *namespace, text=yaml.safe_dump(each))
        found += [f"{each['kind']} {each['metadata']['name']}{place}" for place in drift(each, yaml.safe_load(told))]
    assert not found
