"""The header lines of a message as one piece of bytes, in which single headers are found.

Rule: what is found is what a subscriber would read: the first of repeated names. A head begins and ends with LF, so
that `LF name :` finds a header wherever it stands and nothing of the body is ever looked at. Must not know selectors.
"""

from __future__ import annotations

from functools import lru_cache

from broker.core.message import Run

_ESCAPES = str.maketrans({"\\": "\\\\", "\n": "\\n", "\r": "\\r", ":": "\\c"})


def head_of(run: Run, index: int) -> bytes:
    """Of message `index`: LF, its header lines."""
    lines = run.lines
    if not lines:
        record = run.records[index]
        # The empty line may be the first: then there is no header.
        return b"\n" + record[: record.find(b"\n\n") + 1] if record[0] != 10 else b"\n"
    if lines[-2:] == b"\n\n" or lines == b"\n":
        return b"\n" + lines
    record = run.records[index]
    if record[0] == 10 and lines[-1] == 10:
        return b"\n" + lines
    return b"\n%b%b" % (lines, record[: record.find(b"\n\n") + 1])


def shared(run: Run) -> bool:
    """Have all its messages the same headers."""
    lines = run.lines
    return lines.endswith(b"\n\n") or lines == b"\n"


def body_of(run: Run, index: int) -> bytes | None:
    """The body, without NUL; None: it lies in a file."""
    if run.blob is not None:
        return None
    record = run.records[index]
    if shared(run):
        return record[:-1]
    if record.startswith(b"\n") and (not run.lines or run.lines.endswith(b"\n")):
        return record[1:-1]
    return record[record.find(b"\n\n") + 2 : -1]


@lru_cache(4096)
def key(name: str) -> bytes:
    """What raw() looks for."""
    return b"\n%b:" % escaped(name)


def escaped(text: str) -> bytes:
    """A name or value as header lines have it."""
    return text.translate(_ESCAPES).encode()


def raw(head: bytes, key: bytes) -> bytes | None:
    """The bytes between the colon and the end of the line, escaped; None: there is no such header."""
    at = head.find(key)
    if at < 0:
        return None
    at += len(key)
    return head[at : head.index(b"\n", at)]


def text(raw: bytes) -> str:
    """What they mean: STOMP 1.2's escapes resolved."""
    value = raw.decode("utf-8", "replace")
    if "\\" not in value:
        return value
    parts = value.split("\\\\")
    return "\\".join([part.replace("\\n", "\n").replace("\\r", "\r").replace("\\c", ":") for part in parts])


def plain(value: str) -> bytes | None:
    """The only bytes that can mean this text; None: there may be several (a colon need not be escaped)."""
    if any(char in value for char in "\\\n\r:"):
        return None
    return value.encode("utf-8", "surrogatepass")
