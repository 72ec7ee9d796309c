"""Claims of a broker's owners: they grow with the spec, and come of the StorageClass that it names.

Rule: a claim that may hold a message is never deleted here. Where the spec says that claims go with the StompBroker,
Kubernetes takes them when that is gone: by their owner reference, so a StatefulSet that is deleted by hand takes none.
Kubernetes changes neither the class of a claim nor the template that a StatefulSet makes claims from: so the
StatefulSet is made anew around its pods, which go on, and a person who deletes a claim then gets one of the new class
(docs/runbooks/disks.md). Must not know what is on a disk.
"""

from __future__ import annotations

import logging
from collections.abc import Collection
from typing import Final

from ..kube.kube import Kube, KubeError
from ..spec import names
from ..spec.conditions import Condition
from ..spec.model import BrokerSpec, Resource, Storage, Table
from . import owners
from .owners import Scaling

log = logging.getLogger("stampede.operator")

PLACED: Final = "DisksPlaced"
"""The condition: claims of all owners are of the class that the spec says."""


class Disks:
    def __init__(self, kube: Kube) -> None:
        self._kube = kube

    async def settle(
        self, resource: Resource, spec: BrokerSpec, live: Table | None, step: Scaling, keeping: Collection[str] | None
    ) -> Condition | None:
        """Claims as the spec has them, as far as that takes nothing away; those of removed owners go if that is wanted:
        such an owner kept nothing. live: the StatefulSet; None: it is being made, and claims are only looked at.
        keeping: owners that have copies of slots, None: nobody knows (etcd is away, or was not read yet). What there is
        to say of classes, None = nothing. Raises KubeError, ConfigError."""
        storage, name = spec.owners.storage, resource.id.name
        if live is None:
            claims = await self._claims(resource) if storage.storage_class_name else []
            elsewhere = {claim["metadata"]["name"]: _class_of(claim) for claim in claims if _leaves(name, spec, claim)}
            return _placed(storage.storage_class_name, elsewhere) if claims else None
        gone = step.reason == "" and int(live.get("status", {}).get("replicas", 0)) <= spec.owners.replicas
        delete = storage.when_scaled == "Delete" and gone and keeping is not None
        size = owners.quantity(storage.size)
        elsewhere = {}
        failed: KubeError | None = None
        for claim in await self._claims(resource):
            claim_name = claim["metadata"]["name"]
            ordinal = _ordinal(name, claim)
            if ordinal is None:
                continue
            if ordinal >= spec.owners.replicas and delete and names.owner_pod(name, ordinal) not in (keeping or ()):
                log.info("claim %s of a removed owner is deleted", claim_name)
                await self._kube.delete(claim)
                continue
            if named := _leaves(name, spec, claim):
                elsewhere[claim_name] = _class_of(claim)
            small = owners.quantity(claim["spec"]["resources"]["requests"]["storage"]) < size
            try:
                await self._go_with(resource, claim, storage.when_deleted == "Delete")
                if small and _asks(live, storage):
                    await self._grow(claim, storage.size, leaves=named)
            except KubeError as error:
                if not (error.refused or error.status == 409):
                    raise
                failed = failed or error  # this claim takes no change; the others may
        if failed is not None:
            raise failed
        return _placed(storage.storage_class_name, elsewhere) if storage.storage_class_name else None

    async def _claims(self, resource: Resource) -> list[Table]:
        """Raises KubeError."""
        selector = ",".join(f"{key}={value}" for key, value in names.selector(resource.id.name, "owner").items())
        answer = await self._kube.read_list("v1", "PersistentVolumeClaim", resource.id.namespace, selector)
        return [claim | {"apiVersion": "v1", "kind": "PersistentVolumeClaim"} for claim in answer["items"]]

    async def _go_with(self, resource: Resource, claim: Table, goes: bool) -> None:
        """Whether it goes with the StompBroker. Raises KubeError."""
        meta = claim["metadata"]
        there = meta.get("ownerReferences") or []
        others = [one for one in there if one.get("uid") != resource.uid]
        if goes == (len(others) < len(there)):
            return
        ours = [{**resource.reference(), "controller": False}] if goes else []
        log.info("claim %s %s with %s", meta["name"], "goes" if goes else "does not go", resource.id)
        patch = {"metadata": {"ownerReferences": [*others, *ours], "resourceVersion": meta.get("resourceVersion")}}
        await self._kube.merge("v1", "PersistentVolumeClaim", meta["namespace"], meta["name"], patch)

    async def _grow(self, claim: Table, size: str, *, leaves: bool) -> None:
        """leaves: it is to be moved to another class; maybe because its own does not let it grow. Raises KubeError."""
        meta = claim["metadata"]
        try:
            patch = {"spec": {"resources": {"requests": {"storage": size}}}}
            await self._kube.merge("v1", "PersistentVolumeClaim", meta["namespace"], meta["name"], patch)
        except KubeError as error:
            if not (leaves and error.refused):
                raise
            log.info("claim %s does not grow where it is: %s", meta["name"], error)


def outgrown(spec: BrokerSpec, live: Table | None, step: Scaling) -> bool:
    """The StatefulSet makes claims of another class than the spec says. It is made anew at rest only: how many owners
    there are stands in it while some are being removed."""
    if live is None or live["metadata"].get("deletionTimestamp"):
        return False
    there = int(live["spec"].get("replicas", spec.owners.replicas))
    at_rest = not step.reason and step.replicas == spec.owners.replicas == there
    return at_rest and _template(live).get("storageClassName", "") != spec.owners.storage.storage_class_name


def _asks(live: Table, storage: Storage) -> bool:
    """The spec asks for more than claims are made with, or for another class. Else it was made by hand."""
    made = _template(live).get("resources", {}).get("requests", {}).get("storage")
    return bool(storage.storage_class_name) or not made or owners.quantity(made) < owners.quantity(storage.size)


def _template(live: Table) -> Table:
    claims = live["spec"].get("volumeClaimTemplates") or [{}]
    found: Table = claims[0].get("spec", {})
    return found


def _ordinal(broker: str, claim: Table) -> int | None:
    """Of the owner that it is of; None: of none."""
    return names.ordinal_of(broker, claim["metadata"]["name"].removeprefix(f"{names.DATA_CLAIM}-"))


def _class_of(claim: Table) -> str:
    found: str = claim["spec"].get("storageClassName", "")
    return found


def _leaves(broker: str, spec: BrokerSpec, claim: Table) -> bool:
    """It is of an owner that stays, and of another class than the spec says."""
    ordinal = _ordinal(broker, claim)
    wanted = spec.owners.storage.storage_class_name
    return ordinal is not None and ordinal < spec.owners.replicas and wanted not in ("", _class_of(claim))


def _placed(wanted: str, elsewhere: dict[str, str]) -> Condition:
    """elsewhere: claim → its class."""
    if not elsewhere:
        return Condition(PLACED, True, "Placed", f"of StorageClass {wanted}")
    named = ", ".join(f"{claim} ({there or 'none'})" for claim, there in sorted(elsewhere.items())[:5])
    why = f"of another StorageClass than {wanted}: {named}; move one owner after the other (docs/runbooks/disks.md)"
    return Condition(PLACED, False, "OtherStorageClass", why)
