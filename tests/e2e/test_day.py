"""docs/day-on-kubernetes.md, typed on a real node: every block, those for pods as well, in a release of its own.

Rule: the commands are those of the page; only the namespace and the node are others. What the page leaves to who reads
(another node for what is drained, a StorageClass that grows) is played here. Needs what test_install needs."""

from __future__ import annotations

import json
import os
import re
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e.kube import CHART, ROOT, Cluster, image_values

BLOCK = re.compile(r"^## (\d\d:\d\d)|^```(?:bash)?\n(.*?)^```", re.MULTILINE | re.DOTALL)
PLAYED = bool(os.environ.get("E2E_PLAY_EXPANSION"))
"""The StorageClass `standard` cannot grow (that of kind, too): it is let, and its driver's work is done here."""

pytestmark = pytest.mark.timeout(1800)
took: dict[str, float] = {}


@pytest.fixture(scope="module")
def day() -> Iterator[Cluster]:
    config = os.environ.get("E2E_KUBECONFIG")
    if not config:
        pytest.skip("no E2E_KUBECONFIG: nothing is typed on a real Kubernetes")
    found = Cluster(config, f"day-{os.getpid()}", os.environ.get("TEST_HELM", "helm"))
    found.environment["PATH"] = f"{Path(sys.executable).parent}:{found.environment['PATH']}"  # kubectl-stampede
    sets = [part for value in image_values() for part in ("--set", value)]
    found.helm("install", "stomp", str(CHART), "--create-namespace", *sets)
    found.kubectl("wait", "stompbroker/stomp", "--for=create", "--timeout=1m")
    found.kubectl("wait", "stompbroker/stomp", "--for=condition=Ready", "--timeout=3m")
    yield found
    print(json.dumps(took, indent=1))
    found.run("kubectl", "delete", "namespace", found.namespace, "--timeout=2m", check=False)


def blocks() -> list[tuple[str, str]]:
    """(time of the day, commands)."""
    found, hour = [], ""
    for match in BLOCK.finditer((ROOT / "docs" / "day-on-kubernetes.md").read_text()):
        hour = match[1] or hour
        if match[2]:
            found.append((hour, match[2]))
    return found


@pytest.mark.parametrize(("hour", "block"), blocks(), ids=[f"{n}-{hour}" for n, (hour, _) in enumerate(blocks())])
def test_a_block_of_the_page(day, hour, block):
    begin = time.monotonic()
    typed = block.replace("-n mq", f"-n {day.namespace}")
    if "size" in typed and PLAYED:
        day.run("kubectl", "patch", "storageclass", "standard", "-p", '{"allowVolumeExpansion": true}')
    if "capacity.storage" in typed and PLAYED:
        volumes_grow(day)
    if "kubectl drain" in typed:
        # Its successors need a place: the only node is one again as soon as the drain has chosen its pods.
        node = day.items("nodes")[0]["metadata"]["name"]
        drain = typed.replace("node-2", node).rstrip() + " --pod-selector app.kubernetes.io/instance=stomp --timeout=5m"
        typed = f"{drain} &\nsleep 2; kubectl uncordon {node}; wait $!\n"
    told = day.run("bash", "-c", "set -eo pipefail\n" + typed, timeout=900)
    assert "users list" not in block or ("admin" in told and "checkout" not in told)
    took[f"{hour} {block.strip().splitlines()[0][:60]}"] = round(time.monotonic() - begin, 1)


def volumes_grow(day: Cluster) -> None:
    """What the driver of a StorageClass would do: the volume, and the status of its claim."""
    for claim in day.items("pvc", "app.kubernetes.io/instance=stomp,app.kubernetes.io/component=owner"):
        capacity = {"capacity": {"storage": claim["spec"]["resources"]["requests"]["storage"]}}
        day.run("kubectl", "patch", "pv", claim["spec"]["volumeName"], "-p", json.dumps({"spec": capacity}))
        name = claim["metadata"]["name"]
        day.kubectl(
            "patch", "pvc", name, "--subresource=status", "--type=merge", "-p", json.dumps({"status": capacity})
        )
