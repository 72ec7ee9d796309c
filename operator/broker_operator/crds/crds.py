"""The CustomResourceDefinitions, and the files that are made of them.

Rule: generated; `stampede-operator crds` writes the files and a test compares. Must not know a cluster.
"""

from __future__ import annotations

from types import ModuleType
from typing import Any

import yaml

from ..spec.names import ACCEPTOR, ADDRESS, BACKUP, BROKER, GROUP, PLURALS, RESTORE, USER, VERSION
from ..spec.schema import Schema
from . import crd_acceptor, crd_address, crd_backup, crd_broker, crd_restore, crd_user
from .rules import Rule, ruled

_NAME_MOST = 40
_KINDS: dict[str, tuple[ModuleType, str]] = {
    BROKER: (crd_broker, "sb"),
    ACCEPTOR: (crd_acceptor, "sacc"),
    ADDRESS: (crd_address, "addr"),
    USER: (crd_user, "su"),
    BACKUP: (crd_backup, "sbk"),
    RESTORE: (crd_restore, "srs"),
}
_SCALE = {
    BROKER: (".spec.owners.replicas", ".status.owners.replicas", ".status.owners.selector"),
    ACCEPTOR: (".spec.replicas", ".status.replicas", ".status.selector"),
}
_ABOUT = {
    BROKER: "StompBroker is a cluster: the owners that keep messages, and what all its processes share.",
    ACCEPTOR: "StompAcceptor is a pool of edges: the ports that clients connect to.",
    ADDRESS: "Address is an address with its queues and diverts, or settings of all addresses that match a pattern.",
    USER: "StompUser is somebody who may log in.",
    BACKUP: "StompBackup copies all owners of a broker, by the clock, into a volume or a bucket.",
    RESTORE: "StompRestore fills the disks of a new broker from a backup, before its owners start.",
}
_REASON = "^[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?$"
_CONDITION: Schema = {
    "type": "object",
    "required": ["type", "status", "lastTransitionTime", "reason", "message"],
    "properties": {
        "type": {"type": "string", "maxLength": 316},
        "status": {"type": "string", "enum": ["True", "False", "Unknown"]},
        "observedGeneration": {"type": "integer", "format": "int64", "minimum": 0},
        "lastTransitionTime": {"type": "string", "format": "date-time"},
        "reason": {"type": "string", "minLength": 1, "maxLength": 1024, "pattern": _REASON},
        "message": {"type": "string", "maxLength": 32768},
    },
}  # fmt: skip


def schema_of(kind: str) -> Schema:
    """openAPIV3Schema of one kind."""
    module, _ = _KINDS[kind]
    status: Schema = {
        "type": "object",
        "description": "What was seen. Written by the operator.",
        "properties": {
            "observedGeneration": {"type": "integer", "format": "int64"},
            "conditions": {
                "type": "array",
                "items": _CONDITION,
                "x-kubernetes-list-type": "map",
                "x-kubernetes-list-map-keys": ["type"],
            },
            **module.status(),
        },
    }
    root: Schema = {
        "type": "object",
        "description": _ABOUT[kind],
        "required": ["spec"],
        "properties": {
            "apiVersion": {"type": "string"},
            "kind": {"type": "string"},
            "metadata": {"type": "object"},
            "spec": module.spec(),
            "status": status,
        },
    }
    if kind in (ADDRESS, USER):
        return root
    rule = Rule(
        f"size(self.metadata.name) <= {_NAME_MOST} && !self.metadata.name.contains('.')",
        f"metadata.name is longer than {_NAME_MOST} characters or has a dot; names of its objects are made of it.",
    )
    return ruled(root, rule)


def crd(kind: str) -> dict[str, Any]:
    module, short = _KINDS[kind]
    plural = PLURALS[kind]
    subresources: dict[str, Any] = {"status": {}}
    if kind in _SCALE:
        spec, status, selector = _SCALE[kind]
        subresources["scale"] = {"specReplicasPath": spec, "statusReplicasPath": status, "labelSelectorPath": selector}
    columns = [
        {"name": name, "type": type, "jsonPath": path, **({"priority": priority} if priority else {})}
        for name, type, path, priority in module.COLUMNS
    ]
    columns.append({"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp"})
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{plural}.{GROUP}"},
        "spec": {
            "group": GROUP,
            "scope": "Namespaced",
            "names": {
                "kind": kind,
                "listKind": f"{kind}List",
                "plural": plural,
                "singular": kind.lower(),
                "shortNames": [short],
                "categories": ["stomp"],
            },
            "versions": [
                {
                    "name": VERSION,
                    "served": True,
                    "storage": True,
                    "schema": {"openAPIV3Schema": schema_of(kind)},
                    "subresources": subresources,
                    "additionalPrinterColumns": columns,
                }
            ],
        },
    }


HEAD = "# Made by `make crds` from the settings of the broker; do not edit.\n"


class _Dumper(yaml.SafeDumper):
    def ignore_aliases(self, data: Any) -> bool:
        return True


def as_yaml(value: Any) -> str:
    return yaml.dump(value, Dumper=_Dumper, sort_keys=False, width=120, allow_unicode=True)


def manifest(kind: str) -> str:
    """The file in deploy/crds."""
    return HEAD + as_yaml(crd(kind))


def template(kind: str) -> str:
    """The file in the chart: installed when `crds.install`, kept at uninstall when `crds.keep`. A kind that another
    release has brought (or left behind) stays that one's: Helm would refuse the whole installation else."""
    body = crd(kind)
    keep = (
        "  {{- if .Values.crds.keep }}\n  annotations:\n    helm.sh/resource-policy: keep\n  {{- end }}\n"
    )  # fmt: skip
    text = as_yaml(body)
    assert "{{" not in text
    name = f"  name: {body['metadata']['name']}\n"
    head, _, tail = text.partition(name)
    ours = f'include "stampede.bringsCrd" (dict "root" . "crd" "{body["metadata"]["name"]}")'
    return f"{HEAD}{{{{- if {ours} }}}}\n{head}{name}{keep}{tail}{{{{- end }}}}\n"


def files() -> dict[str, str]:
    """Path below the root of the project → text."""
    made: dict[str, str] = {}
    for kind, plural in PLURALS.items():
        made[f"deploy/crds/{plural}.{GROUP}.yaml"] = manifest(kind)
        made[f"helm/stampede/templates/crds/{plural}.yaml"] = template(kind)
    return made
