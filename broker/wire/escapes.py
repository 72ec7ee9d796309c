"""Escape sequences of header names and values, per version.

1.0 knows none (C11), 1.1 has `\\n \\c \\\\` (C06), 1.2 adds `\\r` (C07). Anything else behind a backslash is
fatal (C08). Rule: pure functions; CONNECT and CONNECTED frames, which are never escaped (C10), are the
callers' affair.
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
_DECODE_11: Final = {"\\\\": "\\", "\\n": "\n", "\\c": ":"}
_DECODE_12: Final = {**_DECODE_11, "\\r": "\r"}
_SEQUENCE: Final = re.compile(r"\\.?", re.DOTALL)


def escape(text: str, version: Version) -> str:
    """A header name or value as `version` writes it."""
    return text.translate(_ENCODE[version])


def unescape(text: str, version: Version) -> str:
    """What a header name or value of `version` means.

    Raises ProtocolViolation(BAD_ESCAPE)."""
    if version is Version.V10 or "\\" not in text:
        return text
    table = _DECODE_12 if version is Version.V12 else _DECODE_11

    def decode(match: re.Match[str]) -> str:
        try:
            return table[match[0]]
        except KeyError:
            raise ProtocolViolation(
                Code.BAD_ESCAPE,
                f"'{match[0]}' in '{text[:100]}' is not defined in STOMP {version.value}; "
                f"write a backslash as two, and use only {' '.join(table)}",
            ) from None

    return _SEQUENCE.sub(decode, text)
