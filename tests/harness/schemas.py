"""Answers of the API against its OpenAPI document: the few words of JSON schema that it uses.

Rule: strict. What the document does not say may not be answered.
"""

from __future__ import annotations

from typing import Any

_TYPES = {
    "string": str, "integer": int, "boolean": bool, "object": dict, "array": list, "null": type(None), "number": float,
}  # fmt: skip


class Checked:
    """`seen`: operations that have been answered as the document says."""

    def __init__(self, document: dict[str, Any]) -> None:
        self.document = document
        self.seen: set[str] = set()

    def answer(self, method: str, path: str, status: int, kind: str, body: Any) -> None:
        operation = self.operation(method, path)
        if operation is None:
            return
        responses = operation["responses"]
        told = responses.get(str(status)) or responses["default"]
        assert kind in told["content"], (kind, told)
        self.check(told["content"][kind]["schema"], body, f"{method} {path}")
        if str(status) in responses:
            self.seen.add(operation["operationId"])

    def operation(self, method: str, path: str) -> Any:
        """What the document says of a request; None: nothing."""
        words = f"/api/v1{path}".partition("?")[0].split("/")
        for pattern, methods in self.document["paths"].items():
            parts = pattern.split("/")
            if len(parts) == len(words) and all(p == w or p.startswith("{") for p, w in zip(parts, words, strict=True)):
                found = methods.get(method.lower())
                if found is not None:
                    return found
        return None

    def check(self, schema: dict[str, Any], value: Any, where: str) -> None:
        if "$ref" in schema:
            schema = self.document["components"]["schemas"][schema["$ref"].rpartition("/")[2]]
        kinds = schema.get("type", [])
        kinds = [kinds] if isinstance(kinds, str) else kinds
        if kinds:
            fits = any(isinstance(value, _TYPES[kind]) and (kind != "integer" or value is not True) for kind in kinds)
            assert fits, f"{where}: {value!r} is no {kinds}"
        if isinstance(value, dict) and "properties" in schema:
            missing = set(schema.get("required", ())) - set(value)
            assert not missing, f"{where} lacks {missing}"
            extra = set(value) - set(schema["properties"])
            assert not extra or schema.get("additionalProperties") is not False, f"{where} has {extra}"
            for name, part in value.items():
                self.check(schema["properties"].get(name, {}), part, f"{where}.{name}")
        if isinstance(value, list) and "items" in schema:
            for at, part in enumerate(value):
                self.check(schema["items"], part, f"{where}[{at}]")
