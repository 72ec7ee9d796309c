"""Rules that the API server checks itself (CEL), as values.

Rule: every message names the field and the fix, because it is all that `kubectl apply` prints. Must not know the kinds.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from ..spec.schema import Schema


class Rule(NamedTuple):
    """cel: must be true. message: what is wrong, where, and what to do: Kubernetes 1.25 to 1.27 know neither
    `fieldPath` nor `reason` of a rule, and refuse them where validation is strict."""

    cel: str
    message: str

    def as_json(self) -> dict[str, Any]:
        return {"rule": self.cel, "message": self.message}


def ruled(schema: Schema, *rules: Rule) -> Schema:
    """`schema` with these rules on it, behind those that it has."""
    there = schema.get("x-kubernetes-validations", [])
    return {**schema, "x-kubernetes-validations": [*there, *(rule.as_json() for rule in rules)]}


def fixed(schema: Schema, name: str, instead: str) -> Schema:
    """A field that may not change."""
    return ruled(schema, Rule("self == oldSelf", f"{name} cannot be changed; {instead}"))
