"""Escape sequences of header names and values, per version.

1.0 knows none (C11), 1.1 has `\\n \\c \\\\` (C06), 1.2 adds `\\r` (C07). Anything else behind a backslash is
fatal (C08). Rule: pure functions, and what they cost is a few looks at the text, however many sequences are in it;
CONNECT and CONNECTED frames, which are never escaped (C10), are the callers' affair.
"""

from __future__ import annotations

import re
from typing import Final

from broker.core.errors import Code, ProtocolViolation

from .versions import Version

_ENCODE: Final = {
    # 1.0 has no way to write a line end inside a value: a space keeps the frame whole.
    Version.V10: str.maketrans({"\n": " "}),
    Version.V11: str.maketrans({"\\": "\\\\", "\n": "\\n", ":": "\\c"}),
    Version.V12: str.maketrans({"\\": "\\\\", "\n": "\\n", ":": "\\c", "\r": "\\r"}),
}
_KNOWN: Final = {Version.V11: ("\\\\", "\\n", "\\c"), Version.V12: ("\\\\", "\\n", "\\c", "\\r")}
_SEQUENCE: Final = re.compile(r"\\.?", re.DOTALL)
_BACKSLASH: Final = chr(0xD800)
"""Stands for a backslash that was written as two until all others are gone: no text that came as UTF-8 has it."""


def escape(text: str, version: Version) -> str:
    """A header name or value as `version` writes it."""
    return text.translate(_ENCODE[version])


def unescape(text: str, version: Version) -> str:
    """What a header name or value of `version` means.

    Raises ProtocolViolation(BAD_ESCAPE)."""
    if version is Version.V10 or "\\" not in text:
        return text
    # Pairs of backslashes first. A run of them is decoded from its left end, as replace counts; what stands in front
    # of a run is no backslash, so pairs cannot be shifted. A backslash that is left over begins \n, \c or \r, or is
    # wrong (C08).
    plain = text.replace("\\\\", _BACKSLASH).replace("\\n", "\n").replace("\\c", ":")
    if version is Version.V12:
        plain = plain.replace("\\r", "\r")
    if "\\" in plain:
        # The complaint is made after the replacing, so the usual text costs four passes in C and no loop over
        # sequences.
        raise _undefined(text, version)
    return plain.replace(_BACKSLASH, "\\")


def _undefined(text: str, version: Version) -> ProtocolViolation:
    """Names the first sequence that the version does not have."""
    known = _KNOWN[version]
    wrong = next(found for found in _SEQUENCE.findall(text) if found not in known)
    return ProtocolViolation(
        Code.BAD_ESCAPE,
        f"'{wrong}' in '{text[:100]}' is not defined in STOMP {version.value}; "
        f"write a backslash as two, and use only {' '.join(known)}",
    )
