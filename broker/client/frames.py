"""Headers and bodies as callers give them, made ready for the wire.

Rule: pure; raises ClientError that names the header.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from broker.wire.versions import Version
from broker.wire.writer import encode_frame

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


def sends(
    runs: Iterable[tuple[list[tuple[str, str]], Iterable[bytes]]], version: Version, most: int
) -> Iterator[list[bytes]]:
    """SEND frames, in lists of about `most` bytes. A run is header lines and the bodies that are sent with them: its
    lines are checked and written once."""
    frames: list[bytes] = []
    nbytes = 0
    for lines, bodies in runs:
        refuse_nul(lines)
        head = encode_frame("SEND", lines, b"", version)[:-2] + b"content-length:"
        for body in bodies:
            frames.append(b"%b%d\n\n%b\0" % (head, len(body), body))
            nbytes += len(body)
            if nbytes >= most:
                yield frames
                frames, nbytes = [], 0
        nbytes += len(head)
    if frames:
        yield frames
