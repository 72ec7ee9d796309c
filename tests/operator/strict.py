"""What an API server with `--validate=strict` would refuse of one of our resources, but for the rules in CEL."""

from __future__ import annotations

from typing import Any

import jsonschema
from broker_operator.crds import crds

QUANTITY = r"^[0-9.]+(m|k|Ki|M|Mi|G|Gi|T|Ti|MiB|GiB|KiB)?$"


def strict(schema: dict[str, Any]) -> dict[str, Any]:
    """The structural schema of a CRD as JSON Schema that refuses what it does not list."""
    if schema.get("x-kubernetes-preserve-unknown-fields"):
        return {}
    if schema.get("x-kubernetes-int-or-string"):
        return {"anyOf": [{"type": "integer"}, {"type": "string", "pattern": QUANTITY}]}
    found = {key: value for key, value in schema.items() if not key.startswith("x-")}
    if "properties" in found:
        found["properties"] = {key: strict(value) for key, value in found["properties"].items()}
        found.setdefault("additionalProperties", False)
    if isinstance(found.get("additionalProperties"), dict):
        found["additionalProperties"] = strict(found["additionalProperties"])
    if "items" in found:
        found["items"] = strict(found["items"])
    return found


def refusals(resource: dict[str, Any]) -> list[str]:
    """What is wrong with the spec of one of our resources."""
    schema = strict(crds.schema_of(resource["kind"])["properties"]["spec"])
    found = jsonschema.Draft7Validator(schema).iter_errors(resource.get("spec", {}))
    return [f"{'.'.join(map(str, each.absolute_path))}: {each.message}" for each in found]
