"""The small pure parts: scaling, differences, conditions, bundles."""

from __future__ import annotations

import json
from base64 import b64encode
from typing import Any

import pytest
from broker_operator.kube import bundles
from broker_operator.kube.bundles import BadBundle, Bundles, digest, missing, resources_of
from broker_operator.kube.kube import KubeError
from broker_operator.spec.model import Resource
from broker_operator.spec.names import ADDRESS, API_VERSION, OPERATOR, OPERATOR_IMAGE


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


class Server:
    """An API server where somebody vouches for every bundle, and Events."""

    def __init__(self) -> None:
        self.applied: list[str] = []
        self.told: list[str] = []
        self.data: dict[str, str] = {}
        self.notes: list[dict[str, str | None]] = []
        self.refuses = 0
        self.why = "spec.name is missing"

    async def get(self, *_: str) -> dict[str, Any]:
        return {"data": {bundles.DIGEST: b64encode(digest(self.data).encode()).decode()}}

    async def apply(self, body: dict[str, Any]) -> dict[str, Any]:
        if self.refuses:
            raise KubeError(self.refuses, self.why)
        self.applied.append(body["metadata"]["name"])
        return {**body, "metadata": {**body["metadata"], "uid": "1", "resourceVersion": "7"}}

    async def merge(self, _: str, kind: str, namespace: str, name: str, patch: dict[str, Any]) -> None:
        assert (kind, namespace, name) == ("ConfigMap", "shop", "cm")
        self.notes.append(patch["metadata"]["annotations"])

    async def tell(self, _: object, told: Any, subject: str = "") -> None:
        self.told.append(told.reason)


@pytest.mark.parametrize(
    ("notes", "applied", "told"),
    [({}, ["a"], []), ({OPERATOR: "shop/op", OPERATOR_IMAGE: "stampede:1"}, ["a"], []),
     ({OPERATOR: "shop/op", OPERATOR_IMAGE: "stampede:2"}, [], ["OperatorAwaited"]),
     ({OPERATOR: "shop/other", OPERATOR_IMAGE: "stampede:1"}, [], []), (None, ["a"], [])],
)  # fmt: skip
async def test_a_bundle_is_applied_by_the_operator_that_it_is_for(notes, applied, told):
    server, found = Server(), bundle(a=GOOD)
    found["metadata"]["annotations"], server.data = notes, found["data"]
    await Bundles(server, server, {}, None, "shop/op", "stampede:1").reconcile(found)  # type: ignore[arg-type]
    assert (server.applied, server.told) == (applied, told)


async def test_what_was_applied_is_outdated_until_it_is_heard_of():
    """Its pods would be replaced for the old text, and again for the new one."""
    server, found = Server(), bundle(a=GOOD)
    server.data = found["data"]
    ours = Bundles(server, server, {})  # type: ignore[arg-type]
    (body,) = resources_of(found)

    def known(version: str) -> Resource:
        return Resource({**body, "metadata": {**body["metadata"], "resourceVersion": version}})

    assert not ours.outdated(known("6"))
    await ours.reconcile(found)
    assert ours.outdated(known("6"))
    assert not ours.outdated(known("7")) and not ours.outdated(known("6")), "heard of: whatever the server counts later"


async def test_what_became_of_a_bundle_stands_on_it():
    """Two releases with one name for a StompBroker: the second one was told so by an Event alone, which nobody can wait
    for, and `helm upgrade` had said deployed."""
    server, found = Server(), bundle(a=GOOD)
    server.data = found["data"]
    (body,) = resources_of(found)
    taken = Resource({**body, "metadata": {**body["metadata"], "ownerReferences": [], "resourceVersion": "3"}})
    another = {**taken.raw, "metadata": {**taken.raw["metadata"], "annotations": {}}}
    await Bundles(server, server, {taken.id: Resource(another)}).reconcile(found)  # type: ignore[arg-type]
    (notes,) = server.notes
    assert notes[bundles.DONE] is None and "was not made from this ConfigMap" in (notes[bundles.REFUSED] or "")
    found["metadata"]["annotations"] = notes
    await Bundles(server, server, {}).reconcile(found)  # type: ignore[arg-type]
    assert server.notes[1:] == [{bundles.DONE: digest(found["data"]), bundles.REFUSED: None}]
    found["metadata"]["annotations"] = server.notes[-1]
    await Bundles(server, server, {}).reconcile(found)  # type: ignore[arg-type]
    assert len(server.notes) == 2, "it says so already"
    server.refuses = 422
    await Bundles(server, server, {}).reconcile(found)  # type: ignore[arg-type]
    assert server.notes[2] == {bundles.DONE: None, bundles.REFUSED: "spec.name is missing"}
    server.data = {}
    with pytest.raises(BadBundle):
        await Bundles(server, server, {}).reconcile(found)  # type: ignore[arg-type]
    assert "nobody vouches" in (server.notes[3][bundles.REFUSED] or "")


async def test_a_refusal_that_says_something_else_each_time_is_written_once():
    """A webhook with the request's id in its text: what was written is an event of the ConfigMap, which was taken
    again, and refused with another text, and written again, for ever."""
    server, found = Server(), bundle(a=GOOD)
    server.data, server.refuses = found["data"], 422
    ours = Bundles(server, server, {})  # type: ignore[arg-type]
    for n in range(3):
        server.why = f"denied the request {n}"
        await ours.reconcile(found)
        found["metadata"]["annotations"] = server.notes[-1]
    assert server.notes == [{bundles.DONE: None, bundles.REFUSED: "denied the request 0"}]
    for status in (409, 500, 429):  # what is tried again says nothing new
        server.refuses = status
        with pytest.raises(KubeError):
            await ours.reconcile(found)
    assert len(server.notes) == 1
    found["metadata"]["annotations"], server.refuses = {}, 422
    await ours.reconcile(found)
    assert len(server.notes) == 2, "somebody took it away"
    found["metadata"]["annotations"] = server.notes[-1]
    found["data"] = server.data = bundle(a={**GOOD, "spec": {"name": "b"}})["data"]
    server.why = "another text is refused"
    await ours.reconcile(found)
    assert server.notes[2][bundles.REFUSED] == "another text is refused"
    found["metadata"]["annotations"] = server.notes[-1]
    server.refuses, server.why = 403, "no rights"
    with pytest.raises(KubeError):
        await ours.reconcile(found)
    assert len(server.notes) == 4, "another refusal; rights may come, so it is tried again"


async def test_what_is_only_to_be_tried_again_is_no_refusal_and_not_done():
    server, found = Server(), bundle(a=GOOD)
    server.data, server.refuses = found["data"], 500
    ours = Bundles(server, server, {})  # type: ignore[arg-type]
    with pytest.raises(KubeError):
        await ours.reconcile(found)
    assert server.notes == []
    server.refuses = 0
    await ours.reconcile(found)
    assert server.notes == [{bundles.DONE: digest(found["data"]), bundles.REFUSED: None}]
