"""Parameters of the API: what there is, how it is read, and how it is told in the OpenAPI document.

Rule: strict. An unknown name or a value that cannot be meant is a Problem that names it and what could stand there.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import msgspec

from broker.core.pages import MOST
from broker.core.strict_numbers import integer

from .problems import Problem, bad_value

LONGEST = 4096
"""Characters of a parameter."""
_SETTINGS = 100
"""Of one entry, and characters in the name of one."""


@dataclass(frozen=True, slots=True)
class Param:
    """kind   text, number, flag; in a body also texts or messages (lists), or
    table (an object of plain values).    choices   of a text; empty: any.
    least, most   of a number."""

    name: str
    help: str
    kind: str = "text"
    default: Any = None
    choices: tuple[str, ...] = ()
    least: int = 0
    most: int = 1 << 53
    required: bool = False

    def read(self, value: Any) -> Any:
        """From a query (a text) or a body (a value of JSON). Raises Problem."""
        if self.kind == "number":
            return self._number(value)
        if self.kind == "flag":
            if value in (True, "true", "1", ""):
                return True
            if value in (False, "false", "0"):
                return False
            raise bad_value(self.name, str(value), "true or false")
        if self.kind == "texts":
            if not isinstance(value, list) or not all(isinstance(item, str | int) for item in value):
                raise bad_value(self.name, str(value), "a list of texts")
            return [str(item) for item in value]
        if self.kind == "messages":
            if not isinstance(value, list) or not all(isinstance(item, dict) for item in value):
                raise bad_value(self.name, str(value), "a list of messages")
            return value
        if self.kind == "table":
            if (
                not isinstance(value, dict)
                or not 0 < len(value) <= _SETTINGS
                or any(isinstance(each, dict | list) for each in value.values())
            ):
                raise bad_value(
                    self.name, str(value)[:200], f"an object of at most {_SETTINGS} settings, with a text, a number, "
                    "true, false or null each",
                )  # fmt: skip
            for name, each in value.items():
                if len(name) > _SETTINGS or len(str(each)) > LONGEST:
                    raise bad_value(
                        f"{self.name}.{name[:100]}", str(each)[:200], f"a text of at most {LONGEST} characters"
                    )
            return value
        limit = LONGEST if self.name != "body" else 1 << 20
        if not isinstance(value, str) or len(value) > limit:
            raise bad_value(self.name, str(value), f"a text of at most {limit} characters")
        if self.choices and value not in self.choices:
            raise bad_value(self.name, value, f"one of {', '.join(self.choices)}")
        return value

    def _number(self, value: Any) -> int:
        text = str(value)
        number = None if isinstance(value, bool) else integer(text)
        if number is None or not self.least <= number <= self.most:
            raise bad_value(self.name, text, f"a number from {self.least} to {self.most}")
        return number

    def schema(self) -> dict[str, Any]:
        """JSON schema."""
        if self.kind == "number":
            told: dict[str, Any] = {"type": "integer", "minimum": self.least, "maximum": self.most}
        elif self.kind == "flag":
            told = {"type": "boolean"}
        elif self.kind == "texts":
            told = {"type": "array", "items": {"type": "string"}}
        elif self.kind == "messages":
            told = {"type": "array", "items": {"$ref": "#/components/schemas/Message"}}
        elif self.kind == "table":
            told = {"type": "object"}
        else:
            told = {"type": "string"}
        if self.choices:
            told["enum"] = list(self.choices)
        if self.default is not None:
            told["default"] = self.default
        return told


def listing(sorts: tuple[str, ...]) -> tuple[Param, ...]:
    """The parameters of a list."""
    both = tuple(name for sort in sorts for name in (sort, f"-{sort}"))
    return (
        Param("limit", "entries of a page", "number", 50, least=1, most=MOST),
        Param("sort", "what to sort by; with `-` in front: descending", default=sorts[0], choices=both),
        Param("page", "`next` of the page before"),
    )


def read(params: Iterable[Param], given: Mapping[str, Any], where: str) -> dict[str, Any]:
    """The values of all parameters that were given or have a default. Raises Problem."""
    known = {param.name: param for param in params}
    for name in given:
        if name not in known:
            fix = f"known are {', '.join(known)}" if known else "there are none here"
            raise Problem(400, "unknown-parameter", "Unknown parameter", f"{where} has {name[:100]!r}", fix)
    values: dict[str, Any] = {}
    for name, param in known.items():
        if name in given:
            values[name] = param.read(given[name])
        elif param.default is not None:
            values[name] = param.default
        elif param.required:
            raise Problem(
                400, "missing-parameter", "Missing parameter", f"{where} has no {name!r}", f"add it: {param.help}",
                parameter=name,
            )  # fmt: skip
    return values


def question(kind: str, values: Mapping[str, Any]) -> dict[str, Any]:
    """The question (owner/shard/views.py) that the parameters of a list ask. Raises Problem for a page token of another
    list."""
    asked = {name: value for name, value in values.items() if name != "page"}
    asked["kind"] = kind
    sort = asked["sort"]
    asked["descending"] = sort.startswith("-")
    asked["sort"] = sort.removeprefix("-")
    token = values.get("page")
    if token:
        asked["after"] = _after(token, _mark(asked))
    return asked


def token(asked: Mapping[str, Any], at: Any) -> str:
    """Says where the page after the entry at that place begins."""
    return base64.urlsafe_b64encode(msgspec.json.encode([_mark(asked), at])).decode().rstrip("=")


def _mark(asked: Mapping[str, Any]) -> list[Any]:
    """What a token belongs to: the same list in the same order."""
    return [asked["kind"], asked["sort"], asked["descending"]]


def _after(text: str, mark: list[Any]) -> Any:
    stale = Problem(
        400, "stale-page", "Not a page of this list", "page is of another list or another order, or is cut short",
        "leave `page` out to begin anew, or keep kind, filters and sort as they were", parameter="page",
    )  # fmt: skip
    try:
        found = msgspec.json.decode(base64.urlsafe_b64decode(text + "=" * (-len(text) % 4)))
    except (binascii.Error, ValueError):
        raise stale from None
    match found:
        case [list(of), [value, list(name)]] if of == mark and isinstance(value, str | int):
            return [value, name]
    raise stale
