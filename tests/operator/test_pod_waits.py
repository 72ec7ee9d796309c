"""Why pods do not run is said in words that stay the same while the kubelet tries again and again."""

from __future__ import annotations

from typing import Any

import pytest
from broker_operator.spec.names import ACCEPTOR, BROKER
from broker_operator.workloads import pod_waits
from broker_operator.workloads.pod_waits import of_claims, of_pods

from .bench import Bench

Table = dict[str, Any]


def pod(name: str, *containers: Table, init: Table | None = None, unscheduled: str = "") -> Table:
    status: Table = {"containerStatuses": list(containers), "initContainerStatuses": [init] if init else None}
    if unscheduled:
        said = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": unscheduled}
        status["conditions"] = [said]
    return {"metadata": {"name": name}, "status": status}


def waits(reason: str, message: str = "", image: str = "stampede:9", **more: Any) -> Table:
    return {"image": image, "state": {"waiting": {"reason": reason, "message": message}}, **more}


def crashed(message: str, **how: Any) -> Table:
    return waits("CrashLoopBackOff", message, lastState={"terminated": how})


@pytest.mark.parametrize(
    ("first", "later", "reason", "said"),
    [
        (
            waits("ErrImagePull", "rpc error: not found"),
            waits("ImagePullBackOff", 'Back-off pulling image "stampede:9"'),
            "ImageMissing",
            "has not got the image stampede:9",
        ),
        (
            crashed("back-off 10s restarting", exitCode=2, reason="Error"),
            crashed("back-off 5m0s restarting", exitCode=2, reason="Error"),
            "Crashing",
            "ends by itself (exit 2); kubectl logs --previous a-0",
        ),
        (crashed("", exitCode=137, reason="OOMKilled"), None, "Crashing", "(OOMKilled)"),
        (
            waits("CreateContainerConfigError", 'secret "x" not found'),
            None,
            "CreateContainerConfigError",
            'a-0: secret "x" not found',
        ),
    ],
)
def test_a_container_that_does_not_start(first, later, reason, said):
    found = of_pods([pod("a-0", first)])
    assert found is not None and found.reason == reason and said in found.message
    assert later is None or of_pods([pod("a-0", later)]) == found
    assert of_pods([pod("a-0", init=first)]) == found, "a first container counts as well"


def test_a_pod_that_is_about_to_start_says_nothing():
    for reason in ("ContainerCreating", "PodInitializing"):
        assert of_pods([pod("a-0", waits(reason)), pod("a-1", {"state": {"running": {}}})]) is None


def test_the_first_pod_by_name_is_told_of_and_what_it_says_is_bounded():
    two = [pod("b-1", waits("ErrImagePull")), pod("b-0", unscheduled="no room\n" * 100)]
    found = of_pods(two)
    assert found is not None and found.reason == "Unschedulable" and found.message.startswith("b-0 has no node: no ")
    assert len(found.message) < 350 and "\n" not in found.message


def claim(name: str, phase: str = "Pending", **spec: Any) -> Table:
    return {"metadata": {"name": name}, "spec": spec, "status": {"phase": phase}}


def test_a_claim_without_a_volume_names_its_class():
    assert of_claims([claim("data-0", "Bound", storageClassName="fast")]) is None
    named = of_claims([claim("data-1", storageClassName="fast"), claim("data-0", "Bound")])
    assert named is not None and named.reason == "NoVolume" and "data-1" in named.message
    assert "StorageClass fast" in named.message and "kubectl get storageclass" in named.message
    default = of_claims([claim("data-0")])
    assert default is not None and "no default one" in default.message


@pytest.fixture
def bench():
    return Bench()


async def test_a_broker_whose_class_or_image_is_not_there_says_so(bench):
    """It had said `0 of 3` for ever."""
    broker = bench.put(BROKER, owners={"storage": {"storageClassName": "fast"}})
    await bench.workloads.broker(broker)
    (workload,) = bench.server.live["StatefulSet"].values()
    workload["status"] = {"replicas": 3, "readyReplicas": 0}
    bench.server.secrets["stomp-components"] = {"data": {}}
    bench.server.claims, bench.server.classes, bench.server.phases = ["10Gi"], ["fast"], ["Pending"]
    bench.server.pods = [pod("stomp-owner-0", unscheduled="pod has unbound immediate PersistentVolumeClaims")]
    assert await bench.workloads.broker(broker) == pod_waits.LOOK_AGAIN_S
    status, reason, message = bench.statuses.condition("OwnersReady")
    assert (status, reason) == ("False", "NoVolume") and "0 of 3; claim data-stomp-owner-0" in message
    bench.server.phases = ["Bound"]
    bench.server.pods = [pod("stomp-owner-0", waits("ErrImagePull"))]
    await bench.workloads.broker(broker)
    assert bench.statuses.condition("OwnersReady")[1] == "ImageMissing"
    workload["status"]["readyReplicas"] = 3
    assert await bench.workloads.broker(broker) > pod_waits.LOOK_AGAIN_S
    assert bench.statuses.condition("OwnersReady")[:2] == ("True", "Ready")


async def test_edges_whose_image_is_not_there_say_so(bench):
    bench.put(BROKER)
    edge = bench.put(ACCEPTOR, brokerRef={"name": "stomp"}, replicas=2)
    await bench.workloads.acceptor(edge)
    bench.server.pods = [pod("edge-edge-1", waits("ImagePullBackOff"))]
    assert await bench.workloads.acceptor(edge) == pod_waits.LOOK_AGAIN_S
    status, reason, message = bench.statuses.condition("Available")
    assert (status, reason) == ("False", "ImageMissing") and message.startswith("0 of 2; edge-edge-1")
    assert bench.statuses.condition("Ready")[1] == "ImageMissing"
