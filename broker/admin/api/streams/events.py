"""What is looked at, told as it changes (server-sent events): GETs of the API, asked here and not by each browser.

    GET /api/v1/events?watch=/overview&watch=/queues?sort=-messages

    event: 0                      the first of them
    data: {"items": …}            as its GET answers; only when it is another than before

Rule: what several watch is asked once for all of them, if they may see the same; between two looks at it there are
EVERY_S, and RESTS times as long as it has taken. A stream keeps the newest answer of each thing it watches and nothing
else, however slow its reader; who may something else than before hears no more of it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final, NamedTuple
from urllib.parse import parse_qsl, unquote, urlsplit

import msgspec

from ..access import Gate, Who
from ..params import read
from ..problems import Problem, bad_value

if TYPE_CHECKING:
    from aiohttp import web

    from ..calls import ApiOp

EVERY_S: Final = 2.0
RESTS: Final = 10
MOST_STREAMS: Final = 64
MOST_WATCHED: Final = 6
"""By one stream."""
MOST_BYTES: Final = 1024 * 1024
"""Of one answer."""
PATIENCE_S: Final = 30.0
"""A reader that takes nothing for so long has gone; and so often one that hears nothing is told that we live."""
UNWATCHED: Final = frozenset({"events", "openapi"})

Key = tuple[str, Any]
AskOp = Callable[["ApiOp", Who, dict[str, str], dict[str, Any]], Awaitable[Any]]


class EventStream:
    """One reader.    watched   what it wants to know, in its order."""

    __slots__ = ("heard", "news", "waiting", "watched", "who")

    def __init__(self, who: Who, watched: Sequence[str]) -> None:
        self.who = who
        self.watched = watched
        self.heard: dict[str, bytes] = {}
        self.news: dict[int, bytes] = {}
        """Not told yet: the newest of each. The bytes are shared between streams."""
        self.waiting = asyncio.Event()

    def tell(self, path: str, answer: bytes) -> bool:
        """Whatever is not what it heard last. True: it is to be written."""
        if self.heard.get(path) == answer:
            return False
        self.heard[path] = answer
        for nth, watched in enumerate(self.watched):
            if watched == path:
                self.news[nth] = answer
        self.waiting.set()
        return True


class Events:
    """ops: the GETs there are.    ask   carries one out, and turns what it raises into a problem."""

    def __init__(self, gate: Gate, ops: Callable[[], Sequence[ApiOp]], ask: AskOp) -> None:
        self._gate = gate
        self._ops = ops
        self._ask = ask
        self._streams: set[EventStream] = set()
        self._looking: asyncio.Task[None] | None = None
        self._known: dict[Key, LastAnswer] = {}
        self._fresh = asyncio.Event()
        """A watcher has come that knows nothing yet."""

    async def serve(self, request: web.Request) -> web.StreamResponse:
        """Raises Problem; ends when the reader does, or may not any more."""
        from aiohttp import web

        from ..calls import headers

        who = await self._gate.admit(request)
        watched = self._watched(who, request)
        if len(self._streams) >= MOST_STREAMS:
            raise Problem(
                503, "too-many-streams", "Too many streams", f"{MOST_STREAMS} are open, which is the most",
                "close pages of the console, or ask with GET",
            )  # fmt: skip
        answer = web.StreamResponse(headers=headers("text/event-stream"))
        stream = EventStream(who, watched)
        self._streams.add(stream)
        self._look_on()
        try:
            await answer.prepare(request)
            while await self._tell(stream, answer, request):
                pass
        except (ConnectionError, TimeoutError, Problem):
            pass  # gone, or not admitted any more
        finally:
            self._streams.discard(stream)
            transport = request.transport
            if transport is not None and transport.get_write_buffer_size():
                transport.abort()  # else socket and bytes stay as long as its reader likes
        return answer

    async def close(self, _app: Any = None) -> None:
        """All streams end."""
        for stream in self._streams:
            stream.watched = ()
            stream.waiting.set()
        if self._looking is not None:
            self._looking.cancel()

    async def _tell(self, stream: EventStream, answer: web.StreamResponse, request: web.Request) -> bool:
        """Whatever is new; False: that was all."""
        with suppress(TimeoutError):
            async with asyncio.timeout(PATIENCE_S):
                await stream.waiting.wait()
        stream.waiting.clear()
        if not stream.watched:
            return False
        if _key("", await self._gate.admit(request)) != _key("", stream.who):
            return False
        news, stream.news = stream.news, {}
        told = b"".join(b"event: %d\ndata: %b\n\n" % (nth, news[nth]) for nth in sorted(news)) or b": alive\n\n"
        async with asyncio.timeout(PATIENCE_S):
            await answer.write(told)
        return True

    def _watched(self, who: Who, request: web.Request) -> list[str]:
        watched = request.query.getall("watch", [])
        unknown = next((name for name in request.query if name != "watch"), None)
        if unknown is not None:
            raise Problem(400, "unknown-parameter", "Unknown parameter", f"the query has {unknown[:100]!r}", "watch")
        if not 0 < len(watched) <= MOST_WATCHED:
            raise bad_value("watch", f"{len(watched)} times there", f"1 to {MOST_WATCHED} paths of GETs of this API")
        for path in watched:
            if len(path) > 4096:
                raise bad_value("watch", path, "a path of at most 4096 characters")
            op, _, _ = self._meant(path)
            op.check(who)
        return watched

    def _meant(self, path: str) -> tuple[ApiOp, dict[str, str], dict[str, Any]]:
        """Raises Problem for what is no GET of this API."""
        parts = urlsplit(path)
        words = parts.path.split("/")
        for op in self._ops():
            pattern = op.path.split("/")
            if op.method != "GET" or op.name in UNWATCHED or len(pattern) != len(words):
                continue
            if all(a == b or (a.startswith("{") and b) for a, b in zip(pattern, words, strict=True)):
                named = {a[1:-1]: unquote(b) for a, b in zip(pattern, words, strict=True) if a.startswith("{")}
                query = dict(parse_qsl(parts.query, keep_blank_values=True))
                return op, named, read(op.query, query, "the query")
        raise bad_value("watch", path, "a path of a GET of this API, like /queues?sort=-messages")

    # ── looking ────────────────────────────────────────────────────────────────────────────────────

    def _look_on(self) -> None:
        self._fresh.set()
        if self._looking is None or self._looking.done():
            self._looking = asyncio.get_running_loop().create_task(self._look())

    async def _look(self) -> None:
        """As long as there is a watcher."""
        loop = asyncio.get_running_loop()
        while self._streams:
            self._fresh.clear()
            asked = {_key(path, stream.who): stream.who for stream in self._streams for path in stream.watched}
            for gone in self._known.keys() - asked.keys():
                del self._known[gone]
            for key, who in asked.items():
                known = self._known.get(key)
                if known is None or known.due <= loop.time():
                    began = loop.time()
                    answer = await self._answer(key[0], who)
                    known = self._known[key] = LastAnswer(
                        max(EVERY_S, RESTS * (loop.time() - began)) + loop.time(), answer
                    )
                for stream in list(self._streams):
                    its = key[0] in stream.watched and _key(key[0], stream.who) == key
                    if its and stream.tell(key[0], known.answer):
                        await asyncio.sleep(0)  # to write to many at once would be a step of a millisecond
            due = min((known.due for known in self._known.values()), default=0.0)
            with suppress(TimeoutError):
                async with asyncio.timeout_at(max(due, loop.time() + 0.05)):
                    await self._fresh.wait()
        self._known.clear()

    async def _answer(self, path: str, who: Who) -> bytes:
        op, named, query = self._meant(path)
        answer = msgspec.json.encode(await self._ask(op, who, named, query))
        if len(answer) > MOST_BYTES:
            problem = Problem(
                413, "too-large", "Too large", f"the answer has more than {MOST_BYTES} bytes", "ask for fewer (limit)"
            )
            answer = msgspec.json.encode(problem.data(path))
        return answer


class LastAnswer(NamedTuple):
    """What was answered, and when it is asked again."""

    due: float
    answer: bytes


def _key(path: str, who: Who) -> Key:
    """Who may see the same shares it."""
    return path, (who.administrator, None if who.may is None else tuple(map(tuple, who.may)))
