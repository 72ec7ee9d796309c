"""The console: pages over the API, served by the same port. Static files, no build step, nothing from elsewhere.

Rule: the files are for everybody who reaches the port and hold no data; the API decides who may see what. The page may
load nothing but these files, and talk to nobody but this host (Content-Security-Policy).
"""

from __future__ import annotations

import re
from importlib.resources import files
from typing import TYPE_CHECKING

from broker.admin.api.calls import headers

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from aiohttp import web

    Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]

_KINDS = {"html": "text/html; charset=utf-8", "css": "text/css; charset=utf-8", "js": "text/javascript; charset=utf-8"}
_LOADED = (
    "console.css",
    "stomp.js",
    "try.js",
    "queue.js",
    "plots.js",
    "lists.js",
    "cluster.js",
    "editing.js",
    "console.js",
)
FILES = {
    "/console": "index.html",
    **{f"/console/{name}": name for name in _LOADED},
}
_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'{sockets}; form-action 'none'; "
    "base-uri 'none'; frame-ancestors 'none'"
)
_NAME = re.compile(r"[A-Za-z0-9.-]+|\[[0-9A-Fa-f:.]+\]")


def add_to(app: web.Application) -> None:
    """Before it starts."""
    for path, name in FILES.items():
        app.router.add_get(path, _serve(name))


def _serve(name: str) -> Handler:
    from aiohttp import web

    body = (files(__package__) / name).read_bytes()
    told = headers(_KINDS[name.rpartition(".")[2]])

    async def handle(request: web.Request) -> web.StreamResponse:
        return web.Response(body=body, headers={**told, "Content-Security-Policy": policy(request.host)})

    return handle


def policy(host: str) -> str:
    """What the page may load. host: the request's `Host`. The page Try connects to another port of the same host."""
    name = _NAME.match(host)
    whole = name is not None and host[name.end() : name.end() + 1] in ("", ":")
    sockets = f" ws://{name[0]}:* wss://{name[0]}:*" if name is not None and whole else ""
    return _POLICY.format(sockets=sockets)
