"""Where to connect to: URLs of the client taken apart.

Rule: pure; raises ClientError with the part that is wrong. Never shows the passcode (repr leaves it out).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from urllib.parse import unquote, urlsplit

from .errors import ClientError

DEFAULT_PORTS = {"stomp": 61613, "stomp+ssl": 61612, "ws": 80, "wss": 443}


@dataclass(frozen=True, slots=True)
class Target:
    """One server. `path`: of a WebSocket URL; of stomp:// it names the virtual host."""

    scheme: str
    host: str
    port: int
    path: str
    login: str | None
    passcode: str | None = field(repr=False)

    @property
    def secure(self) -> bool:
        return self.scheme in ("stomp+ssl", "wss")

    @property
    def websocket(self) -> bool:
        return self.scheme in ("ws", "wss")

    @property
    def vhost(self) -> str:
        """Value of the `host` header when the caller names none."""
        if not self.websocket and len(self.path) > 1:
            return unquote(self.path[1:])
        return self.host

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{self.scheme}://{host}:{self.port}{self.path}"


def parse(url: str) -> Target:
    """`scheme://[login[:passcode]@]host[:port][/path]`, scheme one of stomp, stomp+ssl, ws, wss.

    Raises ClientError naming what is wrong."""
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError as error:
        raise ClientError(f"bad URL: {error}") from None
    if parts.scheme not in DEFAULT_PORTS:
        raise ClientError(f"bad URL: scheme '{parts.scheme}' is none of {', '.join(DEFAULT_PORTS)}")
    if not parts.hostname:
        raise ClientError("bad URL: no host; write stomp://host:port")
    path = parts.path + (f"?{parts.query}" if parts.query else "")
    return Target(
        parts.scheme,
        parts.hostname,
        DEFAULT_PORTS[parts.scheme] if port is None else port,
        path,
        None if parts.username is None else unquote(parts.username),
        None if parts.password is None else unquote(parts.password),
    )
