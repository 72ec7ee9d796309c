"""The console: pages over the API, served by the same port. Static files, no build step, nothing from elsewhere.

Rule: the files are for everybody who reaches the port and hold no data; the API decides who may see what. The page may
load nothing but these files (Content-Security-Policy).
"""

from __future__ import annotations

from importlib.resources import files
from typing import TYPE_CHECKING

from broker.admin.api.calls import headers

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from aiohttp import web

    Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]

_KINDS = {"html": "text/html; charset=utf-8", "css": "text/css; charset=utf-8", "js": "text/javascript; charset=utf-8"}
FILES = {"/console": "index.html", "/console/console.css": "console.css", "/console/console.js": "console.js"}
_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; form-action 'none'; "
    "base-uri 'none'; frame-ancestors 'none'"
)


def add_to(app: web.Application) -> None:
    """Before it starts."""
    for path, name in FILES.items():
        app.router.add_get(path, _serve(name))


def _serve(name: str) -> Handler:
    from aiohttp import web

    body = (files(__package__) / name).read_bytes()
    told = {**headers(_KINDS[name.rpartition(".")[2]]), "Content-Security-Policy": _POLICY}

    async def handle(_: web.Request) -> web.StreamResponse:
        return web.Response(body=body, headers=told)

    return handle
