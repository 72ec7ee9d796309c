"""The small pure parts: scaling, differences, conditions, bundles."""

from __future__ import annotations

import json

import pytest
from broker_operator.kube import bundles
from broker_operator.kube.bundles import BadBundle, missing, resources_of
from broker_operator.spec.conditions import Condition, new_status, paused, ready, rfc3339, seconds_of
from broker_operator.spec.difference import difference, merged
from broker_operator.spec.model import Resource, json_table
from broker_operator.spec.names import ADDRESS, API_VERSION, PAUSED, ordinal_of
from broker_operator.workloads.owners import Scaling, quantity, scaling

from broker.core.errors import ConfigError

from .builders import resource

NOW = 1_800_000_000.0


def owners(*ordinals: int) -> tuple[str, ...]:
    return tuple(f"b-owner-{n}" for n in ordinals)


def test_more_owners_come_at_once():
    assert scaling("b", 5, 3, 3, {}, frozenset(), True) == Scaling(5)


def test_owners_go_in_steps():
    full = dict.fromkeys(owners(0, 1, 2, 3, 4), 10)
    assert scaling("b", 3, 5, 5, full, frozenset(), True) == Scaling(5, owners(3, 4), (), 20, "Cordoned")
    cordoned = frozenset(owners(3, 4))
    assert scaling("b", 3, 5, 5, full, cordoned, True) == Scaling(5, (), (), 20, "Moving")
    # The StatefulSet takes the highest first, so one that keeps something holds back those below it.
    assert scaling("b", 3, 5, 5, {**full, "b-owner-3": 0}, cordoned, True).replicas == 5
    assert scaling("b", 3, 5, 5, {**full, "b-owner-4": 0}, cordoned, True) == Scaling(4, (), (), 10, "Moving")
    empty = {**full, "b-owner-3": 0, "b-owner-4": 0}
    assert scaling("b", 3, 5, 5, empty, cordoned, True) == Scaling(3, (), (), 0, "Removing")
    assert scaling("b", 3, 3, 3, empty, cordoned, True) == Scaling(3, uncordon=owners(3, 4))


def test_a_change_of_mind_lifts_no_cordon_of_an_administrator():
    # Between 3 and 5 the cordons of 3 and 4 are nobody's to lift but the administrator's, who may have drained by hand.
    assert scaling("b", 5, 5, 5, {}, frozenset(owners(1)), True) == Scaling(5)


def test_an_owner_that_is_still_ending_keeps_its_cordon():
    cordoned = frozenset(owners(1, 3, 4))
    assert scaling("b", 3, 3, 5, {}, cordoned, True) == Scaling(3)
    assert scaling("b", 3, 3, 4, {}, cordoned, True) == Scaling(3, uncordon=owners(4))
    assert scaling("b", 3, 3, 5, {}, cordoned, False) == Scaling(3), "nor does it come back"


def test_sizes_are_compared_as_numbers():
    assert quantity("1Gi") == quantity("1024Mi") == quantity("1073741824") == 1 << 30
    assert quantity("1G") == quantity("1000M") == quantity("1e9") < quantity("1Gi")
    assert quantity("1.5Ti") == 3 << 39 and quantity("2k") == 2000
    for text in ("", "Gi", "ten", "1Xi"):
        with pytest.raises(ConfigError, match="is not a size"):
            quantity(text)


def test_nobody_goes_while_nothing_is_known():
    assert scaling("b", 3, 5, 5, {}, frozenset(), False) == Scaling(5, reason="Unreachable")
    assert scaling("b", 5, 3, 3, {}, frozenset(), False) == Scaling(5)


def test_ordinals_are_those_of_this_broker():
    assert ordinal_of("b", "b-owner-12") == 12
    assert ordinal_of("b", "c-owner-1") is None and ordinal_of("b", "b-owner-x") is None


def test_only_what_is_wanted_is_compared():
    live = {"a": 1, "b": {"c": 2, "d": 3}, "list": [{"name": "x", "v": 1, "more": 2}, {"name": "y"}], "plain": [1, 2]}
    assert difference({"a": 1, "b": {"c": 2}, "list": [{"name": "x", "v": 1}], "plain": [1, 2]}, live) == {}
    assert difference({"a": 2, "b": {"e": 1}, "list": [{"name": "z"}], "plain": [2]}, live) == {
        ".a": 1, ".b.e": None, ".list[z]": None, ".plain": [1, 2],
    }  # fmt: skip
    assert difference({"gone": {}}, live) == {} == difference({"gone": []}, live)
    assert difference({"a": {"x": 1}}, live) == {".a": 1}
    assert difference([[1], [2]], [[1], [3]]) == {"[1][0]": 3}


def test_a_patch_is_laid_over():
    base = {"a": {"b": 1, "c": 2}, "list": [{"name": "x", "v": 1}], "plain": [1]}
    patch = {"a": {"b": None, "d": 3}, "list": [{"name": "x", "w": 2}, {"name": "y"}], "plain": [2]}
    assert merged(base, patch) == {
        "a": {"c": 2, "d": 3}, "list": [{"name": "x", "v": 1, "w": 2}, {"name": "y"}], "plain": [2],
    }  # fmt: skip


def test_a_status_is_written_only_when_it_says_something_new():
    one = resource(ADDRESS)
    wanted = (Condition("Accepted", True, "Accepted"), ready(Condition("Accepted", True, "Accepted")))
    status = new_status(one, wanted, {"address": "orders", "adopted": None}, NOW)
    assert status is not None and "adopted" not in status
    again = Resource({**one.raw, "status": status})
    assert new_status(again, wanted, {"address": "orders"}, NOW + 60) is None
    later = new_status(again, (Condition("Accepted", False, "Conflict"),), {"address": "orders"}, NOW + 60)
    assert later["conditions"][0]["lastTransitionTime"] == rfc3339(NOW + 60)
    assert later["conditions"][0]["observedGeneration"] == 1


def test_ready_says_what_the_first_missing_part_says():
    found = ready(Condition("A", True, "Fine"), Condition("B", None, "Unknown", "why"), Condition("C", False, "Bad"))
    assert found == Condition("Ready", None, "Unknown", "why")


@pytest.mark.parametrize(
    ("text", "left"),
    [("true", float("inf")), ("", None), ("false", None), (rfc3339(NOW + 60), 60), (rfc3339(NOW - 60), None),
     ("until tomorrow", float("inf"))],
)  # fmt: skip
def test_pauses(text, left):
    one = resource(ADDRESS)
    one.raw["metadata"]["annotations"] = {PAUSED: text}
    assert paused(one, NOW) == left


def test_what_somebody_wrote_into_etcd_is_a_table_or_nothing():
    assert json_table(b'{"a": 1}') == {"a": 1}
    assert json_table(b"[]") == {} == json_table(None) == json_table(b"x")


def test_times():
    assert seconds_of(rfc3339(NOW)) == NOW and seconds_of("never") is None and seconds_of("2026-01-01") is None


def bundle(**data: object) -> dict:
    texts = {key: value if isinstance(value, str) else json.dumps(value) for key, value in data.items()}
    return {"metadata": {"name": "cm", "namespace": "shop", "uid": "u"}, "data": texts}


GOOD = {"apiVersion": API_VERSION, "kind": ADDRESS, "metadata": {"name": "a"}, "spec": {"name": "a"}}


def test_a_bundle_is_resources_of_its_own_namespace_that_go_with_it():
    stray = {**GOOD, "metadata": {"name": "b", "namespace": "other", "labels": {"x": "y"}}}
    one, two = resources_of(bundle(a=GOOD, b=stray))
    assert one["metadata"]["namespace"] == two["metadata"]["namespace"] == "shop"
    assert one["metadata"]["ownerReferences"][0]["uid"] == "u" and two["metadata"]["labels"]["x"] == "y"
    there = {Resource({**one, "metadata": {**one["metadata"], "uid": "1"}}).id: Resource(one)}
    assert missing([one, two], there) == [two]
    (changed,) = resources_of(bundle(a={**GOOD, "spec": {"name": "b"}}))
    assert missing([changed], there) == [changed]


@pytest.mark.parametrize(
    ("text", "why"),
    [("a: [", "not YAML"), ({"kind": "Secret", "apiVersion": "v1"}, "must be of"),
     ({**GOOD, "kind": "Pod"}, "a kind of"),
     ({**GOOD, "metadata": {}}, "metadata.name"), ("text", "must be of")],
)  # fmt: skip
def test_nothing_but_our_kinds(text, why):
    with pytest.raises(BadBundle, match=why):
        resources_of(bundle(a=text))
    assert bundles.LABEL == "stampede.dev/resources"
