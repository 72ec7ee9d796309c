"""The small pure parts: scaling, differences, conditions, bundles."""

from __future__ import annotations

import json

import pytest
from broker_operator.kube import bundles
from broker_operator.kube.bundles import BadBundle, missing, resources_of
from broker_operator.spec.model import Resource
from broker_operator.spec.names import ADDRESS, API_VERSION


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
