"""One request: admitted, read, carried out, encoded. What there is to ask for is a table of Routes.

Rule: a handler gets checked values and gives JSON, or raises Problem; nothing else leaves. Everything that is declared
of a route is what the OpenAPI document says of it (openapi.py).
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import msgspec

from broker.core.errors import RefusedError
from broker.seams.loop_watchdog import StepKindStats, portion
from broker.seams.read_turns import UNHURRIED, ReadTurns

from . import audit
from .access import SAFE, Gate, Who
from .params import Param, read
from .ports import Answer, Missing, Work
from .problems import Problem, bad_value, of_refusal

if TYPE_CHECKING:
    from aiohttp import web

_log = logging.getLogger("stampede.admin")

MAX_BODY = 1024 * 1024
"""Bytes of the body of a request."""
DRY_RUN = "dry_run"
DOTS = (".", "..")
"""What a URL cannot name."""


@dataclass(frozen=True, slots=True)
class Call:
    """What a handler gets."""

    who: Who
    path: dict[str, str]
    query: dict[str, Any]
    body: dict[str, Any]
    noted: dict[str, Any] = field(default_factory=dict)
    """What else the audit log says of it, by the handler: what was before, what is now. With DRY_RUN: nothing."""
    watched: bool = False
    """It is asked again and again for who looks on: nobody waits for it, or turns its pages."""

    def asks(self, question: dict[str, Any]) -> dict[str, Any]:
        """The question that the handler has, with what this call says of it."""
        return question | {UNHURRIED: True} if self.watched else question


Handler = Callable[[Call], Awaitable[Any]]


@dataclass(frozen=True, slots=True)
class ApiOp:
    """One operation of the API.    answer   name of its schema (openapi.SCHEMAS).    listed   a page of such.
    administrators   nobody else may."""

    method: str
    path: str
    name: str
    help: str
    handler: Handler
    answer: str
    query: tuple[Param, ...] = ()
    body: tuple[Param, ...] = ()
    listed: bool = False
    administrators: bool = False
    status: int = 200

    def check(self, who: Who) -> None:
        """Raises Problem."""
        if self.administrators and not who.administrator:
            raise Problem(
                403, "not-allowed", "Not allowed", f"user {who.name!r} is no administrator",
                "put the user into a group of admin.administrators",
            )  # fmt: skip


class Caller:
    """Carries out requests. steps: of its loop, measured."""

    def __init__(self, gate: Gate, steps: StepKindStats) -> None:
        self._gate = gate
        self._steps = steps
        self._turns = ReadTurns(steps.now)

    def serve(self, route: ApiOp) -> Callable[[web.Request], Awaitable[web.StreamResponse]]:
        """The handler of aiohttp for a route."""

        async def handle(request: web.Request) -> web.StreamResponse:
            who = Who("", request.remote or "", [], False)
            outcome = "given-up"
            noted: dict[str, Any] = {}
            try:
                who = await self._gate.admit(request)
                answer = await _carry_out(route, who, request, noted)
                outcome = "done"
            except Exception as error:
                problem = _problem_of(error, f"{request.method} {request.path[:200]}")
                outcome = problem.name
                answer = _refused(problem, request.path)
            finally:
                if request.method not in SAFE and DRY_RUN not in noted:
                    audit.note(who.name, who.peer, route.name, request.path[:1000], outcome, **noted)
            return answer

        return handle

    async def ask(self, op: ApiOp, who: Who, path: dict[str, str], query: dict[str, Any]) -> Any:
        """What a GET answers, or the document of its problem."""
        try:
            return await op.handler(Call(who, path, query, {}, watched=True))
        except Exception as error:
            return _problem_of(error, f"GET {op.path}").data(op.path)

    def stream(self, serve: Callable[[web.Request], Awaitable[web.StreamResponse]]) -> Callable[..., Any]:
        """The handler of aiohttp for what is told as it comes."""

        async def handle(request: web.Request) -> web.StreamResponse:
            try:
                return await serve(request)
            except Exception as error:
                return _refused(_problem_of(error, f"{request.method} {request.path[:200]}"), request.path)

        return handle

    async def work(self, work: Work, unhurried: bool = False) -> Answer:
        """Carries it out with turns of the loop in between. unhurried: it gives way to everything else."""
        steps = self._steps
        since = None if unhurried else steps.now()
        try:
            while True:
                if unhurried:
                    await self._turns.next()
                began = steps.begin()
                portion(work, steps.now, since)
                if steps.took(began):
                    steps.tell("/api/v1")
                if not unhurried:
                    await asyncio.sleep(0)
        except StopIteration as end:
            answer: Answer = end.value
            return answer


async def _carry_out(route: ApiOp, who: Who, request: web.Request, noted: dict[str, Any]) -> web.StreamResponse:
    route.check(who)
    call = Call(who, _path(request), _query(route, request), await _body(route, request), noted)
    return _json(route.status, await route.handler(call))


def _problem_of(error: Exception, asked: str) -> Problem:
    if isinstance(error, Problem):
        return error
    if isinstance(error, RefusedError):
        return of_refusal(error)
    _log.error("%s: internal error", asked, exc_info=error)
    return Problem(500, "internal", "Internal error", "this is a mistake of ours", "the log of the broker says more")


def _path(request: web.Request) -> dict[str, str]:
    for name, value in request.match_info.items():
        if value in DOTS:
            fix = "another name: clients and proxies take this one for a step in the path of the URL"
            raise bad_value(name, value, fix)
    return dict(request.match_info)


def _query(route: ApiOp, request: web.Request) -> dict[str, Any]:
    given = request.query
    doubled = next((name for name in given if len(given.getall(name)) > 1), None)
    if doubled is not None:
        raise Problem(
            400, "unknown-parameter", "Doubled parameter", f"{doubled[:100]!r} is there twice", "name it once"
        )
    return read(route.query, dict(given), "the query")


async def _body(route: ApiOp, request: web.Request) -> dict[str, Any]:
    if request.method in SAFE:
        return {}
    from aiohttp.web import HTTPRequestEntityTooLarge

    try:
        raw = await request.read()
    except HTTPRequestEntityTooLarge:
        raise Problem(
            413, "too-large", "Body too large", f"it has more than {MAX_BODY} bytes", "send less at a time"
        ) from None
    try:
        given = msgspec.json.decode(raw) if raw else {}
    except msgspec.DecodeError as error:
        raise Problem(400, "not-json", "Not JSON", f"the body cannot be read: {error}", "send a JSON object") from None
    if not isinstance(given, dict):
        raise Problem(400, "not-json", "Not an object", "the body is no JSON object", "send a JSON object")
    return read(route.body, given, "the body")


def headers(kind: str) -> dict[str, str]:
    """Of every answer: nobody keeps it, no page of others reads or frames it."""
    return {
        "Content-Type": kind,
        "Cache-Control": "no-store",
        "X-Content-Type-Options": "nosniff",
        "X-Frame-Options": "DENY",
        "Cross-Origin-Resource-Policy": "same-origin",
        "Referrer-Policy": "no-referrer",
    }


def _json(status: int, value: Any) -> web.StreamResponse:
    from aiohttp import web

    if isinstance(value, web.StreamResponse):
        return value
    return web.Response(status=status, body=msgspec.json.encode(value), headers=headers("application/json"))


def _refused(problem: Problem, path: str) -> web.Response:
    from aiohttp import web

    told = headers("application/problem+json")
    if problem.status == 401:
        told["WWW-Authenticate"] = 'Basic realm="stampede", charset="UTF-8"'
    return web.Response(status=problem.status, body=msgspec.json.encode(problem.data(path[:1000])), headers=told)


def named(missing: list[Missing]) -> list[dict[str, str]]:
    """As JSON."""
    return [{"owner": owner, "why": why} for owner, why in missing]
