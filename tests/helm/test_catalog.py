"""What catalogues are told of the chart is made of the chart, and their own linters take it where they can be had.

`go install github.com/operator-framework/api/cmd/operator-verify@latest` and `go install
github.com/artifacthub/hub/cmd/ah@latest` bring them; without them the tests that need them skip."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml
from broker_operator.spec.names import PLURALS

from deploy.catalog import artifacthub, kinds, olm
from tests.operator.strict import refusals

from .conftest import CHART

Table = dict[str, Any]


@pytest.fixture(scope="module")
def objects(helm: str) -> list[Table]:
    return olm.rendered(helm)


@pytest.fixture(scope="module")
def files(objects: list[Table]) -> dict[str, str]:
    return olm.bundle(objects)


@pytest.fixture
def csv(files: dict[str, str]) -> Table:
    found: Table = yaml.safe_load(files["manifests/stampede.clusterserviceversion.yaml"])
    return found


def test_the_annotations_of_the_chart_are_current():
    text = artifacthub.FILE.read_text()
    assert artifacthub.renewed(text) == text, "run `make catalog`"
    there = yaml.safe_load(text)["annotations"]
    assert all(isinstance(value, str) for value in there.values()), "Artifact Hub takes texts only"
    assert {one["kind"] for one in yaml.safe_load(there["artifacthub.io/crds"])} == set(PLURALS)
    images = [one["image"] for one in yaml.safe_load(there["artifacthub.io/images"])]
    assert len(images) == 4 and all(":" in image.rpartition("/")[2] for image in images)


def test_every_kind_has_an_example_that_applies():
    examples = kinds.examples()
    assert [one["kind"] for one in examples] == sorted(PLURALS, key=lambda kind: PLURALS[kind])
    for one in examples:
        assert refusals(one) == [], one["metadata"]["name"]
    assert [kinds.titled(kind) for kind in ("Address", "StompBroker")] == ["Address", "Stomp broker"]


def test_the_bundle_is_the_operator_of_the_chart(csv, files, objects):
    assert {path.partition("/")[0] for path in files} == {"manifests", "metadata", "bundle.Dockerfile"}
    owned = csv["spec"]["customresourcedefinitions"]["owned"]
    assert {one["kind"] for one in owned} == set(PLURALS)
    for one in owned:
        assert yaml.safe_load(files[f"manifests/{one['name']}.crd.yaml"])["metadata"]["name"] == one["name"]
    assert json.loads(csv["metadata"]["annotations"]["alm-examples"]) == kinds.examples()
    (permissions,) = csv["spec"]["install"]["spec"]["permissions"]
    rules = [rule for each in objects if each["kind"] == "Role" for rule in each["rules"]]
    assert permissions["rules"] == rules and any("leases" in rule["resources"] for rule in rules)
    assert not [each for each in objects if each["kind"].startswith("ClusterRole")], "they would be missing here"


def test_the_operator_in_the_bundle_learns_from_olm_where_to_look(csv, objects):
    (made,) = csv["spec"]["install"]["spec"]["deployments"]
    (ours,) = [each for each in objects if each["kind"] == "Deployment"]
    template = made["spec"]["template"]
    (container,), (before,) = template["spec"]["containers"], ours["spec"]["template"]["spec"]["containers"]
    env = {one["name"]: one for one in container["env"]}
    for name, field in olm._GIVEN.items():
        assert env.pop(name)["valueFrom"]["fieldRef"]["fieldPath"] == field
    assert list(env.values()) == [one for one in before["env"] if one["name"] in env]
    assert {**container, "env": 0} == {**before, "env": 0}, "restricted as in the chart"
    assert template["metadata"]["labels"] == made["spec"]["selector"]["matchLabels"]
    assert csv["metadata"]["annotations"]["containerImage"] == container["image"]


def written(folder: Path, files: dict[str, str]) -> Path:
    for path, text in files.items():
        file = folder / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    return folder


@pytest.mark.parametrize("linter", ["operator-verify", "ah"])
def test_their_own_linters_take_it(linter, files, tmp_path):
    found = shutil.which(linter)
    if found is None:
        pytest.skip(f"no {linter} here (go install): the catalogue's own check is not run")
    if linter == "ah":
        line = [found, "lint", "--kind", "helm", "--path", str(CHART)]
    else:
        line = [found, "manifests", str(written(tmp_path, files) / "manifests")]
    done = subprocess.run(line, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
