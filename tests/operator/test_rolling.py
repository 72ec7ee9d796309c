"""Which owner gets a new template next: one at a time, and none while a slot waits for another."""

from __future__ import annotations

from typing import Any

import pytest
from broker_operator.spec.conditions import rfc3339
from broker_operator.spec.names import TEMPLATE_HASH
from broker_operator.workloads.rolling import PATIENCE_S, STARTS_S, Roll, begun, partition, step, under_way

NOW = 1_800_000_000.0


def stateful_set(at: int = 3, new: str = "r2", replicas: int = 3, generation: int = 5) -> dict[str, Any]:
    return {
        "metadata": {"generation": generation},
        "spec": {"replicas": replicas, "updateStrategy": {"rollingUpdate": {"partition": at}}},
        "status": {"observedGeneration": 5, "currentRevision": "r1", "updateRevision": new},
    }


def pod(ordinal: int, revision: str = "r1", ready: bool = True, runs: bool = True, ago: float = 5.0) -> dict[str, Any]:
    return {
        "metadata": {
            "name": f"b-owner-{ordinal}", "labels": {"controller-revision-hash": revision},
            "creationTimestamp": rfc3339(NOW - ago),
        },
        "status": {
            "conditions": [
                {"type": "Ready", "status": str(ready), "lastTransitionTime": rfc3339(NOW - ago)},
            ],
            "containerStatuses": [{"state": {"running": {}} if runs else {"waiting": {"reason": "ImagePullBackOff"}}}],
        },
    }  # fmt: skip


def next_of(*pods: dict[str, Any], at: int = 3, unsettled: str = "", began: float = NOW - 10, **more: Any) -> Roll:
    return step("b", stateful_set(at, **more), pods, unsettled, began, NOW)


def test_at_rest_no_pod_is_touched():
    live = stateful_set()
    assert under_way(live, False) and partition(live) == 3
    live["status"]["currentRevision"] = "r2"
    later = {**live, "metadata": {"generation": 6}}
    assert under_way(later, True) and not under_way(later, False), "Kubernetes has not looked"
    assert not under_way(live, True) and not under_way({"spec": {}, "metadata": {}}, True)
    assert partition({"spec": {"updateStrategy": {"type": "RollingUpdate"}}}) == 0, "that of an operator before this"


def test_a_roll_is_said_to_be_one_from_the_moment_its_template_is_applied():
    """`kubectl wait --for=condition=RollingOut=False` behind `kubectl patch` returned before it had begun."""
    old, new = stateful_set(), stateful_set()
    old["metadata"]["annotations"], new["metadata"]["annotations"] = {TEMPLATE_HASH: "a"}, {TEMPLATE_HASH: "b"}
    assert begun(old, old) is None
    roll = begun(old, new)
    assert roll is not None and roll.partition == 3 and roll.waits


def test_the_highest_goes_first_and_the_next_when_it_is_back_and_slots_are_in_sync():
    assert next_of(pod(0), pod(1), pod(2)) == Roll(2)
    away = Roll(2, "b-owner-2 is not ready")
    assert next_of(pod(0), pod(1), at=2) == away
    assert next_of(pod(0), pod(1), pod(2, "r2", ready=False), at=2) == away
    back = (pod(0), pod(1), pod(2, "r2"))
    assert next_of(*back, at=2, unsettled="3 of 256 slots") == Roll(2, "3 of 256 slots")
    assert next_of(*back, at=2) == Roll(1)
    assert next_of(pod(0), pod(1, "r2"), pod(2, "r2"), at=1) == Roll(0)
    assert next_of(*(pod(n, "r2") for n in range(3)), at=0) == Roll(0)


def test_nobody_goes_while_another_is_away():
    """Kubernetes 1.37 took owner-0 that waited for owner-1, which was just being replaced: no slot was left."""
    waits = Roll(3, "b-owner-0 is not ready")
    assert next_of(pod(0, ready=False), pod(1), pod(2)) == waits
    assert next_of(pod(1), pod(2)) == waits, "its node is drained: it is being made"
    assert next_of(pod(0, ready=False, runs=False), pod(1), pod(2)) == waits, "it starts"
    ending = pod(0)
    ending["metadata"]["deletionTimestamp"] = rfc3339(NOW)
    assert next_of(ending, pod(1), pod(2)) == waits


def test_the_next_one_may_be_the_one_that_is_away():
    assert next_of(pod(0), pod(1), pod(2, ready=False)) == Roll(3, "b-owner-2 is not ready")
    assert next_of(pod(0), pod(1)) == Roll(2), "it is not there: what is made of it is of the new template"


def test_one_that_is_not_there_comes_as_it_was_while_another_is_away():
    """An unproven template for the top one, while a lower one is away: should it fail, two are."""
    waits = Roll(3, "b-owner-0 is not ready")
    assert next_of(pod(0, ready=False), pod(1)) == waits
    assert next_of(pod(1)) == waits, "neither is there"
    assert next_of(pod(0, ready=False), pod(1), began=NOW - PATIENCE_S) == Roll(2), "nobody waits for ever"
    low = pod(0, ready=False, runs=False, ago=STARTS_S)
    assert next_of(low, pod(1)) == Roll(2), "that one is broken, and may wait for the template"


def test_one_that_went_for_the_new_template_comes_back_with_it():
    """Those above it are not ready meanwhile: a copy of their slots is away. The old template again would be a second
    restart."""
    assert next_of(pod(0, ready=False), pod(1), at=2) == Roll(2, "b-owner-2 is not ready")
    above = pod(2, "r2", ready=False)
    ending = pod(1)
    ending["metadata"]["deletionTimestamp"] = rfc3339(NOW)
    assert next_of(pod(0), ending, above, at=1) == Roll(1, "b-owner-1 is not ready")
    assert next_of(pod(0), above, at=1) == Roll(1, "b-owner-1 is not ready")
    assert next_of(pod(0), pod(1), above, at=1) == Roll(2, "b-owner-2 is not ready"), "it has not gone yet"


def test_one_that_went_comes_back_with_the_new_template_when_another_goes_meanwhile():
    """owner-2, of the new template already, is evicted while owner-1 is replaced: the partition went up above that."""
    waits, ending = "b-owner-2 is not ready", pod(1)
    ending["metadata"]["deletionTimestamp"] = rfc3339(NOW)
    assert next_of(pod(0), at=1) == Roll(1, waits)
    assert next_of(pod(0), ending, at=1) == Roll(1, waits)
    assert next_of(pod(0), pod(1), at=1) == Roll(2, waits), "it serves, and may not go while another is away"
    assert next_of(pod(0), pod(2, "r2"), at=1, replicas=4) == Roll(1, "b-owner-3 is not ready")
    assert next_of(pod(0), pod(1), at=0) == Roll(2, waits), "no partition: an operator before this one"
    dead = [pod(n, ready=False, ago=PATIENCE_S) for n in range(2)]
    assert next_of(*dead, at=0) == Roll(0, waits), "all were broken, and go on going at once"
    assert next_of(pod(0), dead[1], at=0) == Roll(1, waits), "but not one that serves again"


@pytest.mark.parametrize("runs", [True, False])
def test_a_broken_one_goes_at_once_and_is_not_waited_for(runs: bool):
    """A bad template, and the better one that mends it."""
    ago = PATIENCE_S if runs else STARTS_S
    bad = pod(2, "bad", ready=False, runs=runs, ago=ago)
    assert next_of(pod(0), pod(1), bad, unsettled="256 of 256 slots") == Roll(2)
    low = pod(0, ready=False, runs=runs, ago=ago)
    assert next_of(low, pod(1), pod(2), unsettled="256 of 256 slots") == Roll(2)
    assert next_of(low, pod(1), pod(2, "r2", ready=False), at=2) == Roll(2, "b-owner-2 is not ready")
    assert next_of(*(pod(n, ready=False, runs=runs, ago=ago) for n in range(3)), unsettled="x") == Roll(0)
    assert next_of(*(pod(n, ready=False, runs=runs, ago=ago - 1) for n in range(3))).partition == 3


def test_nobody_waits_for_ever():
    """Perhaps the new template is what brings slots into sync."""
    back = (pod(0, ago=9e5), pod(1, ago=9e5), pod(2, "r2", ago=PATIENCE_S - 1))
    long_ago = NOW - 2 * PATIENCE_S
    assert next_of(*back, at=2, unsettled="3 of 256 slots", began=long_ago).waits
    back[2]["status"]["conditions"][0]["lastTransitionTime"] = rfc3339(NOW - PATIENCE_S)
    assert next_of(*back, at=2, unsettled="3 of 256 slots", began=long_ago) == Roll(1)
    assert next_of(pod(0), pod(1), pod(2), unsettled="x", began=NOW - PATIENCE_S) == Roll(2)
    assert next_of(pod(0, ready=False), pod(1), pod(2), began=NOW - PATIENCE_S) == Roll(2)


def test_a_template_that_kubernetes_has_not_seen_waits_where_the_last_one_was():
    assert next_of(pod(0), pod(1), pod(2, "r2"), at=2, generation=6).partition == 2


def test_more_owners_than_there_were():
    assert next_of(*(pod(n) for n in range(5)), at=5, replicas=5) == Roll(4)
    assert next_of(pod(0), at=1, replicas=1) == Roll(0)
    assert next_of(at=0, replicas=0) == Roll(0)
