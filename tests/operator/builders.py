"""Custom resources as the API server would have them, for tests of pure functions."""

from __future__ import annotations

from itertools import count
from typing import Any

from broker_operator.spec.model import Resource
from broker_operator.spec.names import ACCEPTOR, ADDRESS, API_VERSION, BACKUP, BROKER, RESTORE, USER

_numbers = count(1)

SPECS: dict[str, dict[str, Any]] = {
    BROKER: {"image": "stampede:1", "etcd": {"endpoints": ["etcd:2379"]}},
    ACCEPTOR: {"listeners": [{"name": "stomp", "port": 61613}]},
    ADDRESS: {"name": "orders"},
    USER: {},
    BACKUP: {"store": {"volume": {"claimName": "backups"}}},
    RESTORE: {"source": {"backupRef": {"name": "nightly"}}},
}
NAMES = {BROKER: "stomp", ACCEPTOR: "edge", ADDRESS: "orders", USER: "ada", BACKUP: "nightly", RESTORE: "monday"}


def raw(kind: str, name: str = "", /, *, created: str = "2026-01-01T00:00:00Z", **spec: Any) -> dict[str, Any]:
    number = next(_numbers)
    return {
        "apiVersion": API_VERSION,
        "kind": kind,
        "metadata": {
            "name": name or NAMES[kind], "namespace": "shop", "uid": f"uid-{number:04}", "generation": 1,
            "resourceVersion": str(number), "creationTimestamp": created,
        },
        "spec": {**SPECS[kind], **spec},
    }  # fmt: skip


def resource(kind: str, name: str = "", /, **spec: Any) -> Resource:
    return Resource(raw(kind, name, **spec))


def rules_of(schema: Any) -> list[dict[str, Any]]:
    """All rules at any depth of a schema."""
    found: list[dict[str, Any]] = []
    if isinstance(schema, dict):
        for key, value in schema.items():
            found += value if key == "x-kubernetes-validations" else rules_of(value)
    elif isinstance(schema, list):
        for value in schema:
            found += rules_of(value)
    return found
