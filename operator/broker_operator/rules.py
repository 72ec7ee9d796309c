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
    reason: str = "FieldValueInvalid"

    def as_json(self) -> dict[str, Any]:
        rule = {"rule": self.cel, "message": self.message, "reason": self.reason}
        return {**rule, "fieldPath": self.field} if self.field else rule


def ruled(schema: Schema, *rules: Rule) -> Schema:
    """`schema` with these rules on it."""
    return {**schema, "x-kubernetes-validations": [rule.as_json() for rule in rules]}


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


IMMUTABLE = "self == oldSelf"


def fixed(schema: Schema, name: str, instead: str) -> Schema:
    """A field that may not change."""
    return ruled(schema, Rule(IMMUTABLE, f"{name} cannot be changed; {instead}"))
