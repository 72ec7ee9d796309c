"""Where a message belongs: its traceparent header (W3C Trace Context).

Rule: read and never rewritten, so that a consumer is given what the producer wrote. What is malformed is none. Looked
for in runs with the flag TRACED only; must not know what is done with it.
"""

from __future__ import annotations

import re
from typing import Final, NamedTuple

from .message import Run

NAME: Final = b"traceparent:"
_VALUE: Final = re.compile(
    rb"traceparent:[ \t]*([0-9a-f]{2})-([0-9a-f]{32})-([0-9a-f]{16})-[0-9a-f]([0-9a-f])(-[^\n]*)?[ \t]*(?:\n|\Z)"
)
_SAMPLED: Final = frozenset(b"13579bdf")
MOST: Final = 128
"""Of one run: a span has no more links."""


class Context(NamedTuple):
    """Ids of a trace and of the span in it that made the message, in hex."""

    trace: str
    span: str


def said(text: bytes, end: int) -> tuple[bool, Context | None]:
    """(is there a traceparent, what it says if its trace is wanted). text: header lines, and more behind `end`."""
    if text.startswith(NAME):
        at = 0
    elif not (at := text.find(b"\ntraceparent:", 0, end) + 1):
        return False, None
    found = _VALUE.match(text, at)
    # Version ff is none; 00 has these four parts, a later one may have more. Whose lowest flag is 0 was not sampled.
    if found is None or found[1] == b"ff" or (found[1] == b"00" and found[5]) or found[4][0] not in _SAMPLED:
        return True, None
    if not found[2].strip(b"0") or not found[3].strip(b"0"):
        return True, None
    return True, Context(found[2].decode(), found[3].decode())


def contexts(run: Run, most: int = MOST) -> list[tuple[int, Context]]:
    """Those of its messages of which the trace is wanted, `most` at most: (place in the run, context)."""
    lines = run.lines
    there, context = said(lines, len(lines))
    if there:
        return [] if context is None else [(at, context) for at in range(min(len(run.records), most))]
    found: list[tuple[int, Context]] = []
    if lines.endswith(b"\n\n") or lines == b"\n":
        return found
    for at, record in enumerate(run.records):
        if record.startswith(b"\n"):
            continue
        _, context = said(record, record.find(b"\n\n") + 1)
        if context is not None:
            found.append((at, context))
            if len(found) >= most:
                break
    return found


def header(trace: str, span: str) -> bytes:
    """The line of a trace that is wanted."""
    return b"%b00-%b-%b-01\n" % (NAME, trace.encode(), span.encode())
