"""What somebody else has added where every entry counts: it is named, and a merge patch takes it out."""

from __future__ import annotations

from typing import Any

import pytest
from broker_operator.spec.surplus import surplus


def of(kind: str, wanted: Any, live: Any) -> tuple[Any, Any]:
    patch, found = surplus(kind, {"spec": wanted}, {"spec": live})
    return patch.get("spec"), found


def pods(*containers: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"template": {"spec": {"containers": list(containers), **more}}}


def test_a_label_in_a_selector_is_taken_out():
    """The worked example of the module: such a Service reaches nobody."""
    assert of("Service", {"selector": {"app": "edge"}}, {"selector": {"app": "edge", "tier": "gold"}}) == (
        {"selector": {"tier": None}}, {".spec.selector.tier": "gold"},
    )  # fmt: skip


def test_fields_that_are_not_ours_and_what_the_server_fills_in_stay():
    live = {"selector": {"app": "edge"}, "clusterIP": "10.0.0.1", "ports": [{"port": 1, "name": "a", "nodePort": 3}]}
    assert of("Service", {"selector": {"app": "edge"}, "ports": [{"name": "a", "port": 1}]}, live) == (None, {})
    assert of("ConfigMap", {}, {"anything": 1}) == (None, {})


@pytest.mark.parametrize("empty", [None, {}, [], False, ""])
def test_an_empty_addition_is_none(empty):
    assert of("Service", {}, {"externalIPs": empty}) == (None, {})
    assert of("Service", {}, {"externalIPs": ["1.2.3.4"]})[1] == {".spec.externalIPs": ["1.2.3.4"]}


def test_a_list_of_named_things_is_given_back_whole_without_what_was_added():
    ours = {"name": "edge", "image": "x", "securityContext": {"privileged": False}}
    live = {
        **ours, "terminationMessagePath": "/dev/log",
        "securityContext": {"privileged": False, "capabilities": {"add": ["ALL"]}},
    }  # fmt: skip
    patch, found = of("Deployment", pods(ours), pods(live, {"name": "miner"}, hostNetwork=True, dnsPolicy="Default"))
    assert patch == {
        "template": {"spec": {"containers": [{**ours, "terminationMessagePath": "/dev/log"}], "hostNetwork": None}}
    }
    assert found == {
        ".spec.template.spec.containers[edge].securityContext.capabilities": {"add": ["ALL"]},
        ".spec.template.spec.containers[miner]": {"name": "miner"},
        ".spec.template.spec.hostNetwork": True,
    }


def test_lists_inside_of_containers_are_known_by_their_own_keys():
    ours = {"name": "edge", "env": [{"name": "A"}], "volumeMounts": [{"mountPath": "/a"}]}
    live = {"name": "edge", "env": [{"name": "A"}, {"name": "B"}], "volumeMounts": [{"mountPath": "/a", "name": "n"}]}
    patch, found = of("StatefulSet", pods(ours), pods(live))
    assert list(found) == [".spec.template.spec.containers[edge].env[B]"]
    assert patch["template"]["spec"]["containers"] == [{**live, "env": [{"name": "A"}]}]


def test_only_an_added_bound_of_a_budget_is_surplus():
    assert of("PodDisruptionBudget", {"maxUnavailable": 1}, {"maxUnavailable": 1, "minAvailable": 2}) == (
        {"minAvailable": None}, {".spec.minAvailable": 2},
    )  # fmt: skip
    assert surplus("Service", {}, {}) == ({}, {})
