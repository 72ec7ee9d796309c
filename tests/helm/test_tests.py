"""`helm test` harms nobody: its programs, run against a real broker, leave it as they found it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import urllib.request
from base64 import b64encode
from pathlib import Path

from tests.harness.broker import HOST, Broker

from .test_chart import documents

PROGRAMS = Path(__file__).resolve().parents[2] / "helm" / "stampede" / "files" / "tests"


def subscriptions(broker: Broker) -> int:
    login = b64encode(b"admin:secret").decode()
    url = f"http://{HOST}:{broker.admin_port}/api/v1/subscriptions"
    request = urllib.request.Request(url, headers={"Authorization": f"Basic {login}"})
    with urllib.request.urlopen(request, timeout=60) as answer:
        return int(json.load(answer)["total"])


def test_a_durable_subscription_is_made_used_and_taken_away_and_no_pod_is_asked_for(tmp_path):
    broker = Broker(tmp_path, {"admin.administrators": "admin"})
    broker.add_user("admin", "secret")
    line = [sys.executable, "-m", "broker.app.cli", "user", "groups", "admin", "admin", "--data", str(broker.data)]
    subprocess.run(line, check=True, env=broker.environment(), capture_output=True)
    with broker:
        environment = {
            **broker.environment(), "STAMPEDE_URL": f"stomp://{HOST}:{broker.port}", "STAMPEDE_LOGIN": "admin",
            "STAMPEDE_PASSCODE": "secret", "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
        }  # fmt: skip
        done = subprocess.run(
            [sys.executable, "durable.py"], cwd=PROGRAMS, env=environment, capture_output=True, text=True, timeout=240
        )
        assert done.returncode == 0, done.stdout + done.stderr
        assert "received what was sent" in done.stdout
        assert subscriptions(broker) == 0, "nothing is left"


def test_no_pod_may_be_deleted_unless_that_is_asked_for(render, tmp_path):
    for given, verbs in (("false", []), ("true", [["list", "delete"]])):
        values = tmp_path / f"{given}.yaml"
        values.write_text(f"tests: {{replaceEdges: {given}}}\n")
        rendered = render(values)
        assert rendered.text, rendered.error
        [role] = [one for one in documents(rendered.text) if one["kind"] == "Role" and _is_test(one)]
        assert [rule["verbs"] for rule in role["rules"] if "pods" in rule["resources"]] == verbs
        [pod] = [one for one in documents(rendered.text) if one["metadata"]["name"].endswith("-test-durable")]
        variables = {one["name"]: one.get("value") for one in pod["spec"]["containers"][0]["env"]}
        assert variables["REPLACE_EDGES"] == given


def _is_test(one: dict) -> bool:
    return one["metadata"].get("annotations", {}).get("helm.sh/hook") == "test"
