"""ConfigMaps that hold custom resources: how a Helm chart that brings the kinds brings resources of them as well.

A ConfigMap with the label `stampede.dev/resources: "true"` holds manifests of our kinds, one per key. They become
resources that belong to it: they go when it goes.

The right to write ConfigMaps is not the right to make users of a broker. So a ConfigMap counts when a Secret of the
same name in its namespace has its digest in the key `sha256` (see digest()); the chart makes both. Without that nothing
is applied, and nothing that was applied before goes.

Where a ConfigMap may be such a one, the operator is told (`--bundle-namespaces`); elsewhere nothing of it is applied.

An upgrade of a release brings new resources and a new operator. Were the old one to apply the resources, it would begin
to replace pods by its own template, and its successor would replace them again by another. So the chart says whose
ConfigMap it is and of which image that operator is (annotations): the old one waits for its successor, which applies it
before it looks at anything else.

What became of it stands in two annotations of the ConfigMap, which has no status: the digest of the data that was
applied as a whole, and what was refused. What is only tried again does not stand there, and another text of the same
refusal is not written: each of our writes is an event of the ConfigMap, upon which it is applied again.

Rule: a resource is applied when it is not there or its text in the ConfigMap has changed, so that what a person changed
meanwhile (`kubectl scale`) stays until then. Nothing but our own kinds in the ConfigMap's own namespace.
"""

from __future__ import annotations

import hashlib
import logging
from base64 import b64decode
from collections.abc import Iterable, Mapping
from hmac import compare_digest

import yaml

from broker.core.errors import BrokerError

from ..spec import names
from ..spec.model import Resource, Table, version_of
from ..spec.names import Id
from .applying import controller_of, id_of
from .events import NORMAL, WARNING, Events, Told
from .kube import Kube, KubeError

log = logging.getLogger("stampede.operator")

LABEL = f"{names.GROUP}/resources"
HASH = f"{names.GROUP}/bundle-hash"
"""Annotation of a resource: the text that it was last applied from."""

DONE = f"{names.GROUP}/resources-applied"
"""Annotation of a ConfigMap: digest of the data that was applied, with nothing refused."""
REFUSED = f"{names.GROUP}/resources-refused"
"""Annotation of a ConfigMap: what of it was refused, and why."""
LONGEST = 1000

DIGEST = "sha256"
"""Key of the Secret that vouches for a ConfigMap."""


class BadBundle(BrokerError):
    """A ConfigMap holds something that is no resource of ours."""


def digest(data: Mapping[str, str]) -> str:
    """Of a ConfigMap's data: SHA-256 over a line `key=<SHA-256 of the text>` for each key, in order of the keys. The
    chart computes the same (templates/resources.yaml)."""
    lines = (f"{key}={hashlib.sha256(text.encode()).hexdigest()}\n" for key, text in sorted(data.items()))
    return hashlib.sha256("".join(lines).encode()).hexdigest()


def resources_of(bundle: Table) -> list[Table]:
    """The resources that a ConfigMap holds, as they are to be applied. Raises BadBundle."""
    meta = bundle["metadata"]
    found = []
    for key, text in sorted((bundle.get("data") or {}).items()):
        try:
            documents = list(yaml.safe_load_all(text))
        except yaml.YAMLError as error:
            raise BadBundle(f"{key} of ConfigMap {meta['name']} is not YAML: {error}") from None
        found += [_resource(key, meta, document) for document in documents if document is not None]
    return found


def _resource(key: str, meta: Table, document: object) -> Table:
    where = f"{key} of ConfigMap {meta['name']}"
    if not isinstance(document, dict) or document.get("apiVersion") != names.API_VERSION:
        raise BadBundle(f"{where} must be of {names.API_VERSION}")
    given, kind, spec = document.get("metadata"), document.get("kind"), document.get("spec") or {}
    if kind not in names.PLURALS or not isinstance(given, dict) or not given.get("name") or not isinstance(spec, dict):
        raise BadBundle(f"{where} must have a kind of {', '.join(names.PLURALS)}, a metadata.name and a spec")
    digest = hashlib.sha256(f"{meta['uid']} {document!r}".encode()).hexdigest()[:16]
    return {
        "apiVersion": names.API_VERSION,
        "kind": kind,
        "metadata": {
            "name": given["name"],
            "namespace": meta["namespace"],
            "labels": {**(given.get("labels") or {}), "app.kubernetes.io/managed-by": names.FIELD_MANAGER},
            "annotations": {**(given.get("annotations") or {}), HASH: digest},
            "ownerReferences": [_reference(meta)],
        },
        "spec": spec,
    }


def _reference(meta: Table) -> Table:
    reference = {"apiVersion": "v1", "kind": "ConfigMap", "name": meta["name"], "uid": meta["uid"]}
    return {**reference, "controller": True, "blockOwnerDeletion": False}


def missing(wanted: Iterable[Table], there: dict[Id, Resource]) -> list[Table]:
    """Those that are not there, or whose text has changed since they were applied."""
    return [
        body
        for body in wanted
        if (found := there.get(id_of(body))) is None
        or found.annotations.get(HASH) != body["metadata"]["annotations"][HASH]
    ]


class Bundles:
    """resources: all custom resources that are known. namespaces: where bundles count; None: everywhere. me, image:
    NAMESPACE/LEASE and image of this operator."""

    def __init__(
        self,
        kube: Kube,
        events: Events,
        resources: dict[Id, Resource],
        namespaces: tuple[str, ...] | None = None,
        me: str = "",
        image: str = "",
    ) -> None:
        self._namespaces = namespaces
        self._me = me
        self._image = image
        self._applied: dict[Id, int] = {}
        """What we have applied, by its version then: our watch may not have told of it yet."""
        self._noted: dict[tuple[str, str], tuple[str, frozenset[str]]] = {}
        """What we have written of which data: digest, and what was refused without the texts."""
        self._kube = kube
        self._events = events
        self._resources = resources

    async def reconcile(self, bundle: Table) -> None:
        """Raises BadBundle, KubeError."""
        meta = bundle["metadata"]
        if "deletionTimestamp" in meta or await self._others(bundle):
            return
        again: KubeError | None = None
        said: dict[str, str] = {}
        await self._counts_here(bundle)
        try:
            await self._vouched(meta, bundle.get("data") or {})
            wanted = resources_of(bundle)
        except BadBundle as error:
            await self._tell(bundle, "", str(error))
            await self._note(bundle, {str(error): str(error)})
            raise
        for body in missing(wanted, self._resources):
            found = self._resources.get(id_of(body))
            if found is not None and controller_of(found.raw) != meta["uid"]:
                why = f"{found.id} was not made from this ConfigMap and is left alone: give one of the two another name"
                said[str(found.id)] = why
                await self._tell(bundle, str(found.id), why)
                continue
            try:
                self._applied[id_of(body)] = version_of(await self._kube.apply(body))
            except KubeError as error:
                await self._tell(bundle, str(id_of(body)), str(error))
                if error.refused:
                    said[f"{id_of(body)} {error.status}"] = str(error)
                # What the rules refuse stays refused until the text is changed.
                if not error.refused or (error.status == 403 and again is None):
                    again = error
        ids = {id_of(body) for body in wanted}
        for id, resource in list(self._resources.items()):
            if controller_of(resource.raw) == meta["uid"] and id not in ids and not resource.leaving:
                log.info("%s is not in ConfigMap %s any more", id, meta["name"])
                await self._kube.delete(resource.raw)
        if again is None or again.refused:
            await self._note(bundle, said)
        if again is not None:
            raise again

    def forget(self, namespace: str, name: str) -> None:
        """There is no such ConfigMap any more."""
        self._noted.pop((namespace, name), None)

    def outdated(self, resource: Resource) -> bool:
        """We have applied a newer text of it, of which we are about to hear."""
        if version_of(resource.raw) >= self._applied.get(resource.id, 0):
            self._applied.pop(resource.id, None)
            return False
        return True

    async def _others(self, bundle: Table) -> bool:
        """It is for another operator, or for our successor."""
        notes = bundle["metadata"].get("annotations") or {}
        if notes.get(names.OPERATOR, self._me) != self._me:
            return True
        image = notes.get(names.OPERATOR_IMAGE, self._image)
        if image == self._image:
            return False
        what = f"an operator of the image {image} is to apply it; the one that runs is of {self._image or 'no image'}"
        about = {**bundle, "apiVersion": "v1", "kind": "ConfigMap"}
        await self._events.tell(about, Told(NORMAL, "OperatorAwaited", what))
        return True

    async def _counts_here(self, bundle: Table) -> None:
        """Raises BadBundle."""
        meta = bundle["metadata"]
        if self._namespaces is None or meta["namespace"] in self._namespaces:
            return
        why = (
            f"resources in ConfigMaps count only in {', '.join(self._namespaces)}: apply them directly, or add "
            f"{meta['namespace']} to --bundle-namespaces of the operator (chart: operator.bundleNamespaces)"
        )
        await self._tell(bundle, "", why)
        raise BadBundle(why)

    async def _note(self, bundle: Table, refused: Mapping[str, str]) -> None:
        """The ConfigMap's author sees what became of it, and can wait for that. refused: what makes it another
        refusal → its text. Raises KubeError."""
        meta = bundle["metadata"]
        notes = meta.get("annotations") or {}
        of = digest(bundle.get("data") or {})
        wanted = {DONE: None if refused else of, REFUSED: "; ".join(refused.values())[:LONGEST] or None}
        place, noted = (meta["namespace"], meta["name"]), (of, frozenset(refused))
        stands = notes.get(DONE) == wanted[DONE] and bool(notes.get(REFUSED)) == bool(refused)
        if not stands or (self._noted.get(place) != noted and notes.get(REFUSED) != wanted[REFUSED]):
            await self._kube.merge("v1", "ConfigMap", *place, {"metadata": {"annotations": wanted}})
        self._noted[place] = noted

    async def _vouched(self, meta: Table, data: Table) -> None:
        """Raises BadBundle unless a user who may write Secrets stands up for this text; KubeError."""
        secret = await self._kube.get("v1", "Secret", meta["namespace"], meta["name"])
        wanted = digest(data)
        try:
            found = b64decode(((secret or {}).get("data") or {}).get(DIGEST, "")).decode().strip()
        except ValueError:
            found = ""
        if not compare_digest(found, wanted):
            raise BadBundle(
                f"nobody vouches for ConfigMap {meta['name']}: if you may, put {wanted} into the key {DIGEST} of a "
                f"Secret {meta['name']} in its namespace (the chart does that)"
            )

    async def _tell(self, bundle: Table, subject: str, text: str) -> None:
        """An Event, because a ConfigMap has no status."""
        log.error("ConfigMap %s/%s: %s", bundle["metadata"]["namespace"], bundle["metadata"]["name"], text)
        about = {**bundle, "apiVersion": "v1", "kind": "ConfigMap"}
        await self._events.tell(about, Told(WARNING, "Refused", text), subject)
