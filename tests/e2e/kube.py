"""kubectl and helm, as a user types them.

Rule: one call is one command; what fails says which."""

from __future__ import annotations

import base64
import json
import os
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
CHART = ROOT / "helm" / "stampede"


def image_values() -> list[str]:
    """Of the chart, for E2E_IMAGE and E2E_ETCD_IMAGE."""
    repository, _, tag = os.environ.get("E2E_IMAGE", "stampede:dev").rpartition(":")
    values = [f"image.repository={repository}", f"image.tag={tag}"]
    if etcd := os.environ.get("E2E_ETCD_IMAGE"):
        name, _, version = etcd.rpartition(":")
        values += [f"etcd.bundled.image.repository={name}", f"etcd.bundled.image.tag={version}"]
    return values


class Cluster:
    """`config`: path of a kubeconfig. Everything happens in `namespace`."""

    def __init__(self, config: str, namespace: str, helm: str) -> None:
        self.namespace = namespace
        self.helm_command = helm
        self.environment = {**os.environ, "KUBECONFIG": config}

    def run(self, *command: str, stdin: str | None = None, check: bool = True, timeout: float = 300) -> str:
        done = subprocess.run(
            command, env=self.environment, input=stdin, capture_output=True, text=True, timeout=timeout, check=False
        )
        if check and done.returncode:
            raise AssertionError(f"{' '.join(command)}\n{done.stdout}\n{done.stderr}")
        return done.stdout

    def kubectl(self, *arguments: str, **more: Any) -> str:
        return self.run("kubectl", "-n", self.namespace, *arguments, **more)

    def helm(self, *arguments: str, **more: Any) -> str:
        return self.run(self.helm_command, "-n", self.namespace, *arguments, **more)

    def apply(self, kind: str, name: str, spec: dict[str, Any]) -> None:
        body = {"apiVersion": "stampede.dev/v1beta1", "kind": kind, "metadata": {"name": name}, "spec": spec}
        self.kubectl("apply", "-f", "-", stdin=json.dumps(body))

    def get(self, kind: str, name: str) -> dict[str, Any] | None:
        found = self.kubectl("get", kind, name, "-o", "json", "--ignore-not-found")
        return json.loads(found) if found.strip() else None

    def items(self, kinds: str, selector: str = "") -> list[dict[str, Any]]:
        more = ("-l", selector) if selector else ()
        found: list[dict[str, Any]] = json.loads(self.kubectl("get", kinds, *more, "-o", "json"))["items"]
        return found

    def condition(self, kind: str, name: str, type: str) -> dict[str, Any]:
        """The condition, or {}."""
        found = self.get(kind, name) or {}
        conditions = found.get("status", {}).get("conditions", [])
        return next((each for each in conditions if each["type"] == type), {})

    def wait_for(self, kind: str, name: str, type: str, seconds: float, status: str = "True") -> float:
        """Seconds until the condition was `status`."""
        return until(
            lambda: self.condition(kind, name, type).get("status") == status,
            seconds,
            lambda: f"{kind}/{name} {type} is not {status}: {self.condition(kind, name, type)}",
        )

    def secret(self, name: str, key: str) -> str:
        found = self.get("secret", name)
        assert found is not None, f"there is no secret {name}"
        return base64.b64decode(found["data"][key]).decode()

    def ip(self, service: str) -> str:
        found = self.get("service", service)
        assert found is not None, f"there is no service {service}"
        address: str = found["spec"]["clusterIP"]
        return address


def until(true: Callable[[], Any], seconds: float, complaint: Callable[[], str], every: float = 0.2) -> float:
    """Seconds it took."""
    begin = time.monotonic()
    while not true():
        if time.monotonic() - begin > seconds:
            raise AssertionError(f"not within {seconds} s: {complaint()}")
        time.sleep(every)
    return time.monotonic() - begin
