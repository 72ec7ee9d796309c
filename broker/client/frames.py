"""Headers and bodies as callers give them, made ready for the wire.

Rule: pure; raises ClientError that names the header.
"""

from __future__ import annotations

from collections.abc import Mapping

from .errors import ClientError

OWN_HEADERS = frozenset({"destination", "receipt", "transaction", "content-length"})
"""Written by the client itself from arguments of the call."""


def send_headers(destination: str, headers: Mapping[str, str] | None) -> list[tuple[str, str]]:
    """Header lines of a SEND."""
    lines = [("destination", destination)]
    if headers:
        if not OWN_HEADERS.isdisjoint(headers):
            names = ", ".join(sorted(OWN_HEADERS & set(headers)))
            raise ClientError(f"these headers are arguments of the call: {names}")
        lines.extend(headers.items())
    return lines


def refuse_nul(headers: list[tuple[str, str]]) -> None:
    """A NUL would end the frame, and what follows would be read as another one."""
    for name, value in headers:
        if "\0" in name or "\0" in value:
            raise ClientError(f"header {name!r:.50} holds a NUL, which ends a frame in STOMP")


def octets(body: bytes | str) -> bytes:
    """Text is sent as UTF-8."""
    return body.encode() if isinstance(body, str) else body
