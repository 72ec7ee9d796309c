"""Who may use the API: where the request came from, what page made it, who asks, and what of.

Without users only this machine may, and it may everything; with users: HTTP basic, every time (a right passcode costs
an HMAC), or the token of a machine (Bearer). Members of `admin.administrators` may everything; a user with `manage` of
an address sees and manages that.

Rule: nothing is answered before all of it is decided. What a stranger's web page could have sent (a name of its own for
our address, another origin, a form) is refused before the login is looked at.
"""

from __future__ import annotations

import base64
import binascii
import ipaddress
from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple
from urllib.parse import urlsplit

from broker.config.permissions import groups_of
from broker.config.settings import AdminSettings
from broker.core.errors import RefusedError
from broker.core.virtual_host import HOST

from .ports import LoginsPort, May, TokensPort
from .problems import Problem, of_refusal

if TYPE_CHECKING:
    from aiohttp import web

SAFE = ("GET", "HEAD")
EVERYBODY = "anonymous"


class Who(NamedTuple):
    """A user who may use the API.    may   None: every address."""

    name: str
    peer: str
    may: May | None
    administrator: bool


class Gate:
    """See the head of this file."""

    def __init__(self, settings: AdminSettings, logins: LoginsPort, tokens: TokensPort | None = None) -> None:
        self._administrators = groups_of(settings.administrators)
        self._names = {name.strip().lower() for name in settings.hosts.split(",")} - {""}
        self._logins = logins
        self._tokens = tokens

    async def admit(self, request: web.Request) -> Who:
        """Raises Problem."""
        self._check_page(request)
        peer = peer_of(request)
        logins = self._logins
        header = request.headers.get("Authorization", "")
        scheme, _, secret = header.partition(" ")
        if scheme.lower() == "bearer":
            return self._machine(secret.strip(), peer)
        if not logins.has_users:
            return self._anybody(peer)
        login, passcode = _basic(header)
        try:
            user = await logins.login(login, passcode, peer)
        except RefusedError as refused:
            raise of_refusal(refused) from None
        return self._known(user, logins.groups(user), peer)

    def _machine(self, secret: str, peer: str) -> Who:
        found = self._tokens.find(secret) if self._tokens is not None else None
        if found is None:
            raise Problem(
                401, "no-such-token", "Who is asking?", "the token is nobody's (any more), or another broker's",
                "make one with `stampede token create`",
            )  # fmt: skip
        name, groups = found
        return self._known(f"token {name}", groups, peer)

    def who(self, user: str, peer: str) -> Who:
        """A user of the broker who has logged in elsewhere. Raises Problem for one who may manage nothing."""
        return self._known(user, self._logins.groups(user), peer) if self._logins.has_users else self._anybody(peer)

    def _anybody(self, peer: str) -> Who:
        """There are no users."""
        if not is_loopback(peer):
            raise Problem(
                403, "no-users", "Only from this machine", "there are no users, so only this machine may",
                "add one with `stampede user add NAME --group admin`",
            )  # fmt: skip
        return Who(EVERYBODY, peer, None, True)

    def _known(self, user: str, groups: Sequence[str], peer: str) -> Who:
        # Who is of a virtual host manages what is in it, whatever his groups are called.
        if self._administrators & frozenset(groups) and not user.startswith(HOST):
            return Who(user, peer, None, True)
        may = self._logins.manages(groups)
        if not any(allowed for _, allowed in may):
            raise Problem(
                403, "not-allowed", "Not allowed", f"user {user!r} may manage nothing",
                f"put the user into one of the groups of admin.administrators ({', '.join(self._administrators)}), or "
                "give a group of the user's `manage` in edge.permissions",
            )  # fmt: skip
        return Who(user, peer, may, False)

    def _check_page(self, request: web.Request) -> None:
        host = request.headers.get("Host", "")
        name = _host(f"//{host}")
        if not (is_address(name) or name == "localhost" or name in self._names):
            raise Problem(
                421, "unknown-host", "Not the name of this port", f"the request asks for host {host[:200]!r}",
                "use the address of the port, or add the name to admin.hosts",
            )  # fmt: skip
        origin = request.headers.get("Origin")
        if origin is not None and urlsplit(origin).netloc.lower() != host.lower():
            raise _foreign(f"a page of {origin[:200]!r}")
        if request.headers.get("Sec-Fetch-Site", "none") not in ("same-origin", "none"):
            raise _foreign("a page of another site")
        if request.method not in SAFE and request.body_exists and request.content_type != "application/json":
            raise Problem(
                415, "not-json", "Not JSON", f"the body is {request.content_type[:100]!r}",
                "send Content-Type: application/json (a form of any web page could send other types)",
            )  # fmt: skip


def _foreign(whose: str) -> Problem:
    return Problem(
        403, "foreign-page", "Not for pages of others", f"{whose} has made this request",
        "open the console from this port itself",
    )  # fmt: skip


def _basic(header: str) -> tuple[str, str]:
    scheme, _, token = header.partition(" ")
    try:
        if scheme.lower() == "basic":
            login, colon, passcode = base64.b64decode(token, validate=True).decode().partition(":")
            if colon:
                return login, passcode
    except (binascii.Error, UnicodeDecodeError):
        pass
    raise Problem(401, "no-login", "Who is asking?", "the request has no login", "send login and passcode (HTTP basic)")


def peer_of(request: web.Request) -> str:
    """Address and port, as for STOMP."""
    transport = request.transport
    peer = transport.get_extra_info("peername") if transport is not None else None
    if not peer:
        return ""
    return f"[{peer[0]}]:{peer[1]}" if ":" in peer[0] else f"{peer[0]}:{peer[1]}"


def _host(url: str) -> str:
    try:
        return urlsplit(url).hostname or ""
    except ValueError:
        return ""


def is_address(name: str) -> bool:
    """Is it an IP address: no name that a stranger could own."""
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True


def is_loopback(peer: str) -> bool:
    """Is the peer on this machine."""
    host = _host(f"//{peer}")
    if not is_address(host):
        return False
    address = ipaddress.ip_address(host)
    mapped = getattr(address, "ipv4_mapped", None)
    return bool((mapped or address).is_loopback)
