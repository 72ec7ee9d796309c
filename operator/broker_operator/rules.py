"""Rules that the API server checks itself (CEL), as values.

Rule: every message names the field and the fix, because it is all that `kubectl apply` prints. Must not know the kinds.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from .schema import Schema


class Rule(NamedTuple):
    """cel: must be true. message: what is wrong and what to do. field: path below the schema that it stands at."""

    cel: str
    message: str
    field: str = ""

    def as_json(self) -> dict[str, Any]:
        rule = {"rule": self.cel, "message": self.message, "reason": "FieldValueInvalid"}
        return {**rule, "fieldPath": self.field} if self.field else rule


def ruled(schema: Schema, *rules: Rule) -> Schema:
    """`schema` with these rules on it."""
    return {**schema, "x-kubernetes-validations": [rule.as_json() for rule in rules]}


def fixed(schema: Schema, name: str, instead: str) -> Schema:
    """A field that may not change."""
    return ruled(schema, Rule("self == oldSelf", f"{name} cannot be changed; {instead}"))
