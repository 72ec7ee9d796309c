"""Finds one header in the bytes of a message, without reading the others.

Rule: what is found is what a subscriber would read: first of repeated names, unescaped. The bytes are those of
core/message.py: header lines in STOMP 1.2 escapes, an empty line, the body. Must not know what headers mean.
"""

from __future__ import annotations

from functools import lru_cache

from broker.core.message import Run

_ESCAPES = str.maketrans({"\\": "\\\\", "\n": "\\n", "\r": "\\r", ":": "\\c"})


def value(run: Run, index: int, name: str) -> str | None:
    """Value of header `name` of message `index`; None: it has no such header."""
    found = raw(run, index, key(name))
    if found is None:
        return None
    text = found.decode()
    return unescaped(text) if "\\" in text else text


@lru_cache(4096)
def key(name: str) -> bytes:
    """What raw() looks for."""
    return b"\n%b:" % escaped(name)


def escaped(text: str) -> bytes:
    """A name or value as header lines have it."""
    return text.translate(_ESCAPES).encode()


def raw(run: Run, index: int, key: bytes) -> bytes | None:
    """The bytes between the colon and the end of the line, escaped; None: there is no such header."""
    lines, record = run.lines, run.records[index]
    if lines:
        if lines[-1] != 10:
            return _find(lines + record, key)  # the cut goes through a line
        found = _find(lines, key)
        if found is not None or lines.endswith(b"\n\n") or lines == b"\n":
            return found
    return _find(record, key)


def _find(block: bytes, key: bytes) -> bytes | None:
    """Looks up to the empty line, if there is one."""
    if block.startswith(key[1:]):
        start = len(key) - 1
    else:
        end = block.find(b"\n\n") if block[:1] != b"\n" else 0
        at = block.find(key, 0, end + 1) if end >= 0 else block.find(key)
        if at < 0:
            return None
        start = at + len(key)
    return block[start : block.index(b"\n", start)]


def unescaped(text: str) -> str:
    """STOMP 1.2: \\\\n, \\\\r, \\\\c and the backslash itself."""
    parts = text.split("\\\\")
    return "\\".join([part.replace("\\n", "\n").replace("\\r", "\r").replace("\\c", ":") for part in parts])
