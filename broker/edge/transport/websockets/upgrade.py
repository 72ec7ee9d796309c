"""The HTTP request that begins a WebSocket: which ones are let in, and what those that are refused are told.

Rule: a pure function of the request, the settings and our own address; answers name the setting to change.
Knows no sockets and no STOMP.
"""

from __future__ import annotations

import base64
import http
import ipaddress
from collections.abc import Sequence
from typing import NamedTuple
from urllib.parse import urlsplit

from websockets.http11 import Request
from websockets.typing import Subprotocol

from broker.config.settings import EdgeSettings

SUBPROTOCOLS = (Subprotocol("v12.stomp"), Subprotocol("v11.stomp"), Subprotocol("v10.stomp"))
"""Best first. Which one is echoed does not bind the STOMP version; CONNECT's accept-version does."""

INFO = (
    "This is a STOMP message broker; this port speaks STOMP 1.0, 1.1 and 1.2 over WebSocket.\n"
    "Open it with a WebSocket client (for instance @stomp/stompjs), not as a web page.\n"
)


DEFAULT_PORTS = (80, 443)
"""What browsers leave out of Host."""


class HttpRefusal(NamedTuple):
    """An HTTP answer instead of 101. `polite`: nobody did anything wrong (a browser looked in)."""

    status: http.HTTPStatus
    text: str
    polite: bool = False


def choose_subprotocol(protocol: object, offered: Sequence[Subprotocol]) -> Subprotocol | None:
    """The highest STOMP sub-protocol offered; none is fine (the client decides whether that suits it)."""
    return next((name for name in SUBPROTOCOLS if name in offered), None)


def refusal(request: Request, settings: EdgeSettings, local: tuple[str, int]) -> HttpRefusal | None:
    """Why `request` is not upgraded, or None. `local`: our own address and port of this connection.

    Malformed upgrades (bad key, version …) are refused later by the WebSocket protocol itself."""
    if not request.headers.get_all("Upgrade"):
        return HttpRefusal(http.HTTPStatus.UPGRADE_REQUIRED, INFO, polite=True)
    path = request.path.partition("?")[0]
    if settings.ws_path and path != settings.ws_path:
        return HttpRefusal(http.HTTPStatus.NOT_FOUND, "There is no WebSocket at this path (setting edge.ws_path).\n")
    origins = request.headers.get_all("Origin")
    if len(origins) > 1:
        return HttpRefusal(http.HTTPStatus.BAD_REQUEST, "More than one Origin header.\n")
    hosts = request.headers.get_all("Host")
    if origins and not origin_allowed(origins[0], hosts[0] if hosts else "", settings.ws_allowed_origins, local):
        return HttpRefusal(
            http.HTTPStatus.FORBIDDEN,
            "Pages of this origin may not connect; add it to edge.ws_allowed_origins.\n",
        )
    return None


def authorization(request: Request) -> tuple[str, HttpRefusal | None]:
    """What the request says of who it is, "": nothing; and why it is not upgraded."""
    said = request.headers.get_all("Authorization")
    scheme = said[0].partition(" ")[0].lower() if said else ""
    if len(said) > 1 or (said and scheme != "bearer" and basic(said[0]) is None):
        return "", HttpRefusal(
            http.HTTPStatus.UNAUTHORIZED,
            "Authorization must be one header, Basic with login:passcode or Bearer with a token (ws_http_auth).\n",
        )
    return (said[0] if said else ""), None


def basic(said: str) -> tuple[str, str] | None:
    """Login and passcode of `Basic …`; None: it is not that."""
    scheme, _, secret = said.partition(" ")
    if scheme.lower() != "basic":
        return None
    try:
        login, colon, passcode = base64.b64decode(secret.strip(), validate=True).decode().partition(":")
    except ValueError:
        return None
    return (login, passcode) if colon else None


def origin_allowed(origin: str, host: str, allowed: str, local: tuple[str, int]) -> bool:
    """Whether a page of `origin` may connect to the `host` it asked for.

    With a list, exactly its members. Without: pages of the same host name (any port: a broker serves no pages)
    and pages of this machine. One exception: a browser that talks straight to our loopback address under some
    other name was led there by DNS rebinding, and the page is a stranger's."""
    listed = {entry.strip().rstrip("/").lower() for entry in allowed.split(",")} - {""}
    if listed:
        return origin.lower() in listed
    origin_host, _ = _host_port(origin)
    if is_loopback(origin_host):
        return True
    name, port = _host_port("//" + host)
    ours = local[1] in DEFAULT_PORTS if port is None else port == local[1]
    rebound = is_loopback(local[0]) and ours and not is_loopback(name)
    return origin_host != "" and origin_host == name and not rebound


def is_loopback(host: str) -> bool:
    """localhost, 127.0.0.0/8 or ::1."""
    if host == "localhost" or host.endswith(".localhost"):
        return True
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return False
    mapped = getattr(address, "ipv4_mapped", None)
    return bool((mapped or address).is_loopback)


def _host_port(url: str) -> tuple[str, int | None]:
    """Lower-case host name and port of an URL; ("", None) when it has none (Origin: null)."""
    try:
        parts = urlsplit(url)
        return parts.hostname or "", parts.port
    except ValueError:
        return "", None
