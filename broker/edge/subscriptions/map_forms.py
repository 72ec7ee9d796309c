"""Maps of ActiveMQ Classic's clients (`transformation:jms-map-json`, `jms-map-xml`), in the form their reader asks for.

    {"map":{"entry":[{"string":"size","int":3}]}}
    <map><entry><string>size</string><int>3</int></entry></map>

Rule: a body is foreign: no DTD, no entities, MOST of it; what cannot be read comes as it was sent, and says so
(`transformation-error`), as at Classic. Bytes in, bytes out, for who asks alone. Must not know dialects.
"""

from __future__ import annotations

from math import isfinite
from typing import Any, Final
from xml.parsers import expat
from xml.sax.saxutils import escape

import msgspec

from broker.core.effects import Deliver
from broker.core.message import BLOB, Run
from broker.core.strict_numbers import integer
from broker.selector.values import number

from .front import Front
from .subscription import DeliverySink, SlotSubscription

XML, JSON = "jms-map-xml", "jms-map-json"
MOST: Final = 64 * 1024
"""Bytes of a map: reading it takes a few milliseconds."""
ROOM: Final = 16 * 1024
"""Bytes that may be under way to such a subscription: what comes at once is read in one step."""
ENCODINGS: Final = frozenset({"utf-8", "utf-16", "iso-8859-1", "us-ascii"})
"""Of XML: what its reader knows by itself. For any other name Python would look for a module, and keep the name for
ever."""
_HEADER: Final = b"transformation:"
_MARK: Final = b"transformation:jms-map-"
_NUMBERS: Final = frozenset({"byte", "short", "int", "long", "float", "double"})
_TYPES: Final = _NUMBERS | {"string", "boolean", "char"}
Entries = list[tuple[str, str, str]]
"""Name, type and value, as texts."""


class MapForms(Front):
    """form   XML or JSON."""

    __slots__ = ("_form",)

    def __init__(self, sink: DeliverySink, form: str) -> None:
        super().__init__(sink)
        self._form = form

    def deliver(self, sub: SlotSubscription, effect: Deliver) -> None:
        run = effect.run
        # A large body goes by in pieces: it stays as it is, and its header says which form that is.
        if not run.flags & BLOB and (_MARK in run.lines or any([_MARK in record for record in run.records])):
            records = [in_form(run.lines + record, self._form) for record in run.records]
            run = Run(run.ids, b"", records, run.nbytes, run.flags, attempts=run.attempts)
            effect = Deliver(effect.consumer, run, effect.cost)
        self._next.deliver(sub, effect)


def in_form(message: bytes, form: str) -> bytes:
    """Header lines, body and NUL, with a map in that form; anything else as it came."""
    head, found, body = message.partition(b"\n\n")
    lines = head.split(b"\n")
    said = next((line[len(_HEADER) :].decode() for line in lines if line.startswith(_HEADER)), "")
    if not found or said not in (XML, JSON) or said == form:
        return message
    body = body[:-1]
    try:
        if len(body) > MOST:
            raise ValueError(f"more than {MOST} bytes")
        made = to_json(from_xml(body)) if form == JSON else to_xml(from_json(body))
    except (ValueError, TypeError, KeyError, RecursionError) as why:
        return b"%b\ntransformation-error:%b\n\n%b\0" % (head, _line(str(why)), body)
    kept = [line for line in lines if not line.startswith((_HEADER, b"content-length:"))]
    kept += [_HEADER + form.encode(), b"content-length:%d" % len(made)]
    return b"%b\n\n%b\0" % (b"\n".join(kept), made)


def _line(text: str) -> bytes:
    """As a header's value."""
    return "".join([char if char.isalnum() or char in " .,'()" else " " for char in text[:200]]).strip().encode()


def from_json(body: bytes) -> Entries:
    """Raises ValueError, TypeError, KeyError or RecursionError."""
    entries = msgspec.json.decode(body)["map"]
    entries = entries["entry"] if entries else []
    return [_entry(each) for each in (entries if isinstance(entries, list) else [entries])]


def _entry(entry: dict[str, Any]) -> tuple[str, str, str]:
    kind = next((kind for kind in entry if kind != "string"), "string")
    name, value = entry["string"] if kind == "string" else (entry["string"], entry[kind])
    if kind not in _TYPES or not isinstance(name, str) or not isinstance(value, str | int | float):
        raise ValueError(f"an entry of type {kind[:50]}")
    return name, kind, str(value).lower() if isinstance(value, bool) else str(value)


def to_json(entries: Entries) -> bytes:
    def told(kind: str, value: str) -> Any:
        if kind == "boolean":
            return value == "true"
        if kind not in _NUMBERS:
            return value
        found = _finite(value) if kind in ("float", "double") else _long(value)
        if found is None:
            raise ValueError(f"{value[:50]} is no {kind}")
        return found

    made: list[dict[str, Any]] = [
        {"string": [name, value]} if kind == "string" else {"string": name, kind: told(kind, value)}
        for name, kind, value in entries
    ]
    return msgspec.json.encode({"map": {"entry": made}})


def _finite(text: str) -> float | None:
    found = number(text)
    return float(found) if found is not None and isfinite(found) else None


def _long(text: str) -> int | None:
    """What Java has room for: times in nanoseconds have 19 digits."""
    found = integer(text, 19)
    return found if found is not None and -(1 << 63) <= found < 1 << 63 else None


def to_xml(entries: Entries) -> bytes:
    made = [
        f"<entry><string>{escape(name)}</string><{kind}>{escape(value)}</{kind}></entry>"
        for name, kind, value in entries
    ]
    return f"<map>{''.join(made)}</map>".encode()


def from_xml(body: bytes) -> Entries:
    """Raises ValueError."""
    reader = _Reader()
    try:
        reader.parser.Parse(body, True)
    except expat.ExpatError as error:
        raise ValueError(expat.errors.messages.get(error.code, "not XML")) from None
    return reader.entries


class _Reader:
    """`map`, in it `entry`, in it a name and a value."""

    def __init__(self) -> None:
        self.entries: Entries = []
        self._path: list[str] = []
        self._texts: list[tuple[str, list[str]]] = []
        self.parser = parser = expat.ParserCreate()
        parser.buffer_text = True
        parser.StartElementHandler = self._start
        parser.EndElementHandler = self._end
        parser.CharacterDataHandler = self._text
        parser.StartDoctypeDeclHandler = _refuse
        parser.XmlDeclHandler = _declared

    def _start(self, tag: str, attributes: dict[str, str]) -> None:
        depth = len(self._path)
        if tag != ("map", "entry")[depth] if depth < 2 else depth > 2 or tag not in _TYPES:
            raise ValueError(f"{tag[:50]} has no place in a map")
        if depth == 2:
            self._texts.append((tag, []))
        self._path.append(tag)

    def _text(self, text: str) -> None:
        if len(self._path) == 3:
            self._texts[-1][1].append(text)

    def _end(self, tag: str) -> None:
        self._path.pop()
        if tag != "entry" or len(self._path) != 1:
            return
        texts, self._texts = self._texts, []
        if len(texts) != 2 or texts[0][0] != "string":
            raise ValueError("an entry is a name and a value")
        (_, name), (kind, value) = texts
        self.entries.append(("".join(name), kind, "".join(value)))


def _declared(_version: str, encoding: str | None, _standalone: int) -> None:
    if encoding is not None and encoding.lower() not in ENCODINGS:
        raise ValueError(f"encoding {encoding[:50]}")


def _refuse(*_: Any) -> None:
    raise ValueError("a DOCTYPE")
