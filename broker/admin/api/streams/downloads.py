"""The whole body of one message, as it was sent: read from the disk piece by piece as fast as the client reads it.

    GET /api/v1/queues/QUEUE/messages/ID/body

Rule: takes nothing, and holds one piece in memory. AT_ONCE at a time; a client that reads nothing for PATIENCE_S has
gone.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable
from typing import TYPE_CHECKING, Final

from broker.core.message import Run
from broker.link.owner_port import BodyReader
from broker.selector.heads import body_of

from ..access import Gate
from ..browsing import Browsing
from ..problems import Problem

if TYPE_CHECKING:
    from aiohttp import web

log = logging.getLogger("stampede.admin")

PIECE: Final = 128 * 1024
AT_ONCE: Final = 16
PATIENCE_S: Final = 30.0

OpenBody = Callable[[int, Run], tuple[BodyReader, int]]
"""Of a large message of that slot: what reads its body, and how long it is."""


class BodyDownloads:
    """See the head of this file."""

    def __init__(self, gate: Gate, browsing: Browsing, open_body: OpenBody) -> None:
        self._gate = gate
        self._browsing = browsing
        self._open = open_body
        self._under_way = 0

    async def serve(self, request: web.Request) -> web.StreamResponse:
        """Raises Problem."""
        from aiohttp import web

        from ..calls import headers

        who = await self._gate.admit(request)
        queue, id = request.match_info["queue"], request.match_info["id"]
        if self._under_way >= AT_ONCE:
            raise Problem(
                503, "too-many-downloads", "Too many downloads", f"{AT_ONCE} are under way, which is the most",
                "try again when one has ended",
            )  # fmt: skip
        self._under_way += 1
        try:
            slot, run = await self._browsing.one(who, queue, id)
            told = {**headers("application/octet-stream"), "Content-Disposition": f'attachment; filename="{id}.body"'}
            answer = web.StreamResponse(headers=told)
            body = body_of(run, 0) if run.blob is None else None
            if body is not None:
                answer.content_length = len(body)
                await _pass_on(_one(body), answer, request)
            else:
                reader, answer.content_length = self._open(slot, run)
                try:
                    await _pass_on(_pieces(reader), answer, request)
                finally:
                    reader.close()
            return answer
        finally:
            self._under_way -= 1


async def _pass_on(pieces: AsyncIterator[bytes], answer: web.StreamResponse, request: web.Request) -> None:
    """All of it. What cannot be read ends the connection: the length that was promised says that it is not whole."""
    first = await anext(pieces, b"")  # before anything is promised
    try:
        await _write(first, answer, request)
        async for piece in pieces:
            await _write(piece, answer, request)
    except (TimeoutError, Problem) as why:
        # An answer that says why would be taken for a part of the body.
        log.warning("%s: the download was given up: %s", request.path[:200], str(why) or "nobody takes it")
        if request.transport is not None:
            request.transport.abort()


async def _write(piece: bytes, answer: web.StreamResponse, request: web.Request) -> None:
    async with asyncio.timeout(PATIENCE_S):
        if not answer.prepared:
            await answer.prepare(request)
        await answer.write(piece)


async def _one(body: bytes) -> AsyncIterator[bytes]:
    yield body


async def _pieces(reader: BodyReader) -> AsyncIterator[bytes]:
    """Raises Problem for what cannot be read."""
    while True:
        piece = await _next(reader)
        if not piece:
            return
        yield piece


async def _next(reader: BodyReader) -> bytes:
    came: asyncio.Future[tuple[bytes | None, str]] = asyncio.get_running_loop().create_future()

    def done(piece: bytes | None, why: str) -> None:
        if not came.done():
            came.set_result((piece, why))

    reader.read(PIECE, done)
    piece, why = await came
    if piece is None:
        raise Problem(
            503, "body-unreadable", "The body cannot be read", f"its large body: {why}",
            "ask again; if its file is damaged, docs/operations.md says what helps",
        )  # fmt: skip
    return piece
