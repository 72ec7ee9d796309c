"""Management requests as an edge finds them: messages to one address, which are carried out and never queued.

Rule: pure; what they ask for is not looked at here.
"""

from __future__ import annotations

from broker.core.errors import Code, RefusedError
from broker.wire.escapes import unescape
from broker.wire.versions import Version


def split(message: bytes) -> tuple[dict[str, str], bytes]:
    """Headers and body of a message as it is relayed: escaped as STOMP 1.2 does, with a NUL behind it."""
    head, _, body = message.partition(b"\n\n")
    headers: dict[str, str] = {}
    for line in head.decode().split("\n"):
        name, _, value = line.partition(":")
        headers.setdefault(unescape(name, Version.V12), unescape(value, Version.V12))
    return headers, body[:-1]


def check(headers: dict[str, str], served: bool) -> None:
    """Raises RefusedError for a request that cannot be carried out at all."""
    if not served:
        raise RefusedError(Code.BAD_DESTINATION, "management messages are not served here: see /metrics and the API")
    if "transaction" in headers:
        raise RefusedError(Code.BAD_HEADER, "a management request cannot be part of a transaction: send it outside")
