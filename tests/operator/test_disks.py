"""Disks of another StorageClass: the StatefulSet is made anew around its pods, and what is of the old one is named."""

from __future__ import annotations

from typing import Any

import pytest
from broker_operator.kube.kube import KubeError
from broker_operator.spec.model import BrokerSpec
from broker_operator.spec.names import BROKER
from broker_operator.workloads.disks import Disks, outgrown
from broker_operator.workloads.owners import Scaling, at_least

from .bench import Bench
from .builders import resource

Table = dict[str, Any]


@pytest.fixture
def bench():
    return Bench()


def storage(**fields: Any) -> Table:
    return {"owners": {"storage": fields}}


def workload(bench: Bench) -> Table:
    (found,) = bench.server.live["StatefulSet"].values()
    return found


def template(bench: Bench) -> Table:
    found: Table = workload(bench)["spec"]["volumeClaimTemplates"][0]["spec"]
    return found


async def test_another_class_is_for_disks_that_are_made_from_then_on(bench):
    """`storageClassName` had been immutable, and a move by hand raced the StatefulSet, which made the old one again."""
    await bench.workloads.broker(bench.put(BROKER))
    bench.server.claims, bench.server.classes = ["10Gi"] * 3, ["slow"] * 3
    pods = workload(bench)["spec"]["template"]
    bench.server.writes.clear()
    moved = bench.put(BROKER, **storage(storageClassName="fast", size="20Gi"))
    await bench.workloads.broker(moved)
    assert "-StatefulSet alone" in bench.server.writes, "its pods go on"
    assert bench.server.writes[:3] == [f"data-stomp-owner-{n} 20Gi" for n in range(3)]
    status, reason, message = bench.statuses.condition("DisksPlaced")
    assert (status, reason) == ("False", "OtherStorageClass")
    assert "than fast: data-stomp-owner-0 (slow), " in message and "docs/runbooks/disks.md" in message
    # The event of its end has it made anew. What was said of the claims is true in between: it had been taken back.
    await bench.workloads.broker(moved)
    assert bench.statuses.condition("DisksPlaced")[1] == "OtherStorageClass"
    assert template(bench)["storageClassName"] == "fast" and workload(bench)["spec"]["template"] == pods
    assert template(bench)["resources"]["requests"]["storage"] == "20Gi"
    bench.server.writes.clear()
    bench.server.claims, bench.server.classes = ["20Gi"] * 3, ["slow", "fast", "slow"]
    await bench.workloads.broker(moved)
    assert bench.server.writes == []
    assert "owner-1" not in bench.statuses.condition("DisksPlaced")[2]
    bench.server.classes = ["fast"] * 3
    await bench.workloads.broker(moved)
    assert bench.statuses.condition("DisksPlaced")[:2] == ("True", "Placed")


async def test_what_was_said_of_claims_stands_while_a_write_is_refused(bench):
    """Claims are not looked at behind a refusal: that says nothing of where they are."""
    await bench.workloads.broker(bench.put(BROKER))
    bench.server.claims, bench.server.classes = ["10Gi"] * 3, ["slow"] * 3
    moved = bench.put(BROKER, **storage(storageClassName="fast"))
    await bench.workloads.broker(moved)
    told = bench.statuses.condition("DisksPlaced")
    moved.raw["status"] = bench.statuses.said
    bench.server.refuses = {"StatefulSet": 403}
    await bench.workloads.broker(moved)
    assert bench.statuses.condition("Accepted")[:2] == ("False", "Refused")
    assert bench.statuses.condition("DisksPlaced") == told
    # What was said of another spec says nothing of this one.
    again = bench.put(BROKER, **storage(storageClassName="faster"))
    again.raw["status"], again.raw["metadata"]["generation"] = bench.statuses.said, moved.generation + 1
    await bench.workloads.broker(again)
    assert not [one for one in bench.statuses.said["conditions"] if one["type"] == "DisksPlaced"]


async def test_disks_that_cannot_grow_where_they_are_can_be_moved(bench):
    """What Kubernetes says to a larger size is why they are moved: it had kept them where they are."""
    await bench.workloads.broker(bench.put(BROKER))
    bench.server.claims, bench.server.classes = ["10Gi"] * 3, ["slow"] * 3
    bench.server.refuses = {"PersistentVolumeClaim": 403}
    await bench.workloads.broker(bench.put(BROKER, **storage(size="20Gi")))
    assert bench.statuses.condition("Accepted")[:2] == ("False", "Refused")
    moved = bench.put(BROKER, **storage(storageClassName="fast", size="20Gi"))
    for _ in range(3):  # its end and its beginning have events
        await bench.workloads.broker(moved)
    assert bench.statuses.condition("Accepted")[:2] == ("True", "Accepted")
    assert template(bench) | {"accessModes": 0} == {
        "accessModes": 0, "storageClassName": "fast", "resources": {"requests": {"storage": "20Gi"}},
    }  # fmt: skip
    assert bench.statuses.condition("DisksPlaced")[1] == "OtherStorageClass"


async def test_who_names_no_class_hears_nothing_of_classes(bench):
    await bench.workloads.broker(bench.put(BROKER))
    bench.server.claims, bench.server.classes = ["10Gi"] * 3, ["slow"] * 3
    bench.server.writes.clear()
    await bench.workloads.broker(bench.put(BROKER))
    assert bench.server.writes == []
    assert not [one for one in bench.statuses.said["conditions"] if one["type"] == "DisksPlaced"]


@pytest.mark.parametrize(
    ("live", "step", "anew"),
    [
        ({}, Scaling(3), True),
        ({}, Scaling(3, reason="Moving"), False),
        ({}, Scaling(4), False),
        ({"spec": {"replicas": 5}}, Scaling(3), False),
        ({"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"}}, Scaling(3), False),
        ({"spec": {"volumeClaimTemplates": [{"spec": {"storageClassName": "fast"}}]}}, Scaling(3), False),
    ],
)
def test_it_is_made_anew_at_rest_only(live, step, anew):
    """How many owners there are stands in it: while some are being removed nothing else says so."""
    spec = resource(BROKER, **storage(storageClassName="fast")).spec(BrokerSpec)
    there = {"metadata": {}, "spec": {"replicas": 3, "volumeClaimTemplates": [{"spec": {}}]}, **live}
    assert outgrown(spec, there, step) is anew
    assert not outgrown(spec, None, step)


def test_owners_that_keep_something_come_back_whoever_deleted_the_stateful_set():
    """Fewer wanted at that moment: they would have been gone with what they kept, not emptied."""
    holding = {"stomp-owner-0": 80, "stomp-owner-4": 2, "stomp-owner-6": 0, "other-owner-9": 7, "stomp-owner-x": 1}
    assert at_least("stomp", 3, holding) == 5
    assert at_least("stomp", 7, holding) == 7
    assert at_least("stomp", 3, {}) == 3


@pytest.mark.parametrize(
    "keeping, gone",
    [(None, []), ({"stomp-owner-4"}, ["data-stomp-owner-3"]), (set(), ["data-stomp-owner-3", "data-stomp-owner-4"])],
)
async def test_the_claim_of_a_removed_owner_goes_only_when_it_is_known_to_keep_nothing(bench, keeping, gone):
    """A StatefulSet made anew with fewer owners, before etcd was read, would have taken copies of slots with it."""
    deleted: list[str] = []

    async def delete(claim: Table) -> None:
        deleted.append(claim["metadata"]["name"])

    bench.server.claims, bench.server.delete = ["10Gi"] * 5, delete
    broker = bench.put(BROKER, owners={"replicas": 3, "storage": {"whenScaled": "Delete"}})
    live = {"spec": {"replicas": 3}, "status": {"replicas": 0}}
    await Disks(bench.server).settle(broker, broker.spec(BrokerSpec), live, Scaling(3, reason=""), keeping)
    assert deleted == gone


async def test_claims_go_with_the_broker_where_that_is_wanted(bench):
    """`helm uninstall` left them in any case. By owner reference: a StatefulSet that somebody deletes takes none."""
    await bench.workloads.broker(bench.put(BROKER))
    bench.server.claims = ["10Gi"] * 3
    bench.server.owners = {"data-stomp-owner-1": [{"kind": "Other", "uid": "x"}]}
    bench.server.writes.clear()
    await bench.workloads.broker(bench.put(BROKER))
    assert bench.server.writes == [], "the default: they stay"
    thrown_away = bench.put(BROKER, **storage(whenDeleted="Delete"))
    await bench.workloads.broker(thrown_away)
    ours = [f"data-stomp-owner-{n} goes with {['Other', BROKER] if n == 1 else [BROKER]}" for n in range(3)]
    assert bench.server.writes == ours
    assert bench.server.owners["data-stomp-owner-0"][0]["uid"] == thrown_away.uid
    await bench.workloads.broker(thrown_away)
    assert len(bench.server.writes) == 3
    bench.server.writes.clear()
    await bench.workloads.broker(bench.put(BROKER, **storage(whenDeleted="Retain")))
    assert bench.server.writes == [f"data-stomp-owner-{n} goes with {['Other'] if n == 1 else []}" for n in range(3)]


async def test_a_claim_that_is_smaller_than_its_template_is_left_alone_while_nobody_asks_for_more(bench):
    """A volume that an administrator made by hand, of a class that cannot grow: the whole StompBroker was refused."""
    await bench.workloads.broker(bench.put(BROKER))
    bench.server.claims = ["5Gi"] * 3
    bench.server.refuses = {"PersistentVolumeClaim": 403}
    await bench.workloads.broker(bench.put(BROKER))
    assert bench.statuses.condition("Accepted")[:2] == ("True", "Accepted")
    await bench.workloads.broker(bench.put(BROKER, **storage(size="20Gi")))
    assert bench.statuses.condition("Accepted")[:2] == ("False", "Refused"), "now somebody does"


@pytest.mark.parametrize("status", [409, 403])
async def test_a_claim_that_takes_no_change_keeps_the_others_from_none(bench, status):
    """One that another client was just changing, and no claim behind it grew or went with the StompBroker."""
    merge = bench.server.merge

    async def merging(api_version: str, kind: str, namespace: str, name: str, patch: Table) -> Table:
        if name == "data-stomp-owner-0":
            raise KubeError(status, "no")
        return await merge(api_version, kind, namespace, name, patch)

    bench.server.claims, bench.server.merge = ["10Gi"] * 3, merging
    broker = bench.put(BROKER, **storage(size="20Gi", whenDeleted="Delete"))
    live = {"spec": {"replicas": 3}, "status": {"replicas": 3}}
    with pytest.raises(KubeError):
        await Disks(bench.server).settle(broker, broker.spec(BrokerSpec), live, Scaling(3), None)
    assert len(bench.server.writes) == 4
