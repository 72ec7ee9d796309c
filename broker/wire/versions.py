"""The protocol versions and how the two sides agree on one.

Rule: values and arithmetic on them only.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Final


class Version(StrEnum):
    """A STOMP version; the value is its spelling on the wire. Spellings sort like the versions."""

    V10 = "1.0"
    V11 = "1.1"
    V12 = "1.2"


SUPPORTED: Final = (Version.V10, Version.V11, Version.V12)
"""Lowest first."""
_HIGHEST_FIRST: Final = [(version.value, version) for version in reversed(SUPPORTED)]


def negotiate(accept_version: str | None) -> Version | None:
    """The highest version both sides speak; None when there is none. No header means 1.0 (C23, C24)."""
    if accept_version is None:
        return Version.V10
    # Blanks around the commas are not in the specification, but in clients; a token nobody knows is passed over, as
    # 1.1 asks for future versions.
    offered = {token.strip() for token in accept_version.split(",")}
    return next((version for spelt, version in _HIGHEST_FIRST if spelt in offered), None)
