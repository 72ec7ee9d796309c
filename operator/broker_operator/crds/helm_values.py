"""The chart's values hold specs of our kinds: what their schemas refuse, Helm refuses before it has changed anything.

The operator applies these resources later, when `helm upgrade` has said that all is well; what it is refused then
stands in an Event. What CEL rules alone refuse (a field that does not go with another) still does.

Rule: generated; `stampede-operator crds` puts the definitions into values.schema.json, a test compares.
"""

from __future__ import annotations

import json
from typing import Any

from ..spec.names import ACCEPTOR, ADDRESS, BROKER, USER
from ..spec.schema import Schema
from .crds import schema_of

VALUES = "helm/stampede/values.schema.json"
"""Below the root of the project."""
_NAMES = {BROKER: "brokerSpec", ACCEPTOR: "acceptorSpec", ADDRESS: "addressSpec", USER: "userSpec"}
_KEPT = (
    "type", "enum", "pattern", "required", "minimum", "maximum", "minLength", "maxLength", "minItems", "maxItems",
    "maxProperties", "minProperties",
)  # fmt: skip


def with_specs(text: str) -> str:
    """The text of values.schema.json with these definitions as they are now."""
    schema: dict[str, Any] = json.loads(text)
    for kind, name in _NAMES.items():
        spec = _strict(schema_of(kind)["properties"]["spec"])
        spec.pop("required", None)  # the chart fills in what must be there
        spec["type"] = ["object", "null"]
        schema["definitions"][name] = spec
    return json.dumps(schema, indent=1) + "\n"


def _strict(schema: Schema) -> dict[str, Any]:
    """A structural schema as JSON Schema that refuses what it does not list."""
    if schema.get("x-kubernetes-preserve-unknown-fields"):
        return {}
    if schema.get("x-kubernetes-int-or-string"):
        return {"type": ["integer", "string"]}
    found = {key: schema[key] for key in _KEPT if key in schema}
    if "properties" in schema:
        found["properties"] = {key: _strict(value) for key, value in schema["properties"].items()}
        found["additionalProperties"] = False
    elif isinstance(schema.get("additionalProperties"), dict):
        found["additionalProperties"] = _strict(schema["additionalProperties"])
    if "items" in schema:
        found["items"] = _strict(schema["items"])
    return found
