"""The same from an edge process: what must be agreed on is asked of the parent.

Rule: asked at CONNECT with a client-id, at SUBSCRIBE with a durable name, and for slices of a rate; never per message.
Every question is answered: when the parent has ended, so does this process.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Any

from broker.core.client_id_holders import ALLOW
from broker.core.errors import BrokerError, Code, RefusedError
from broker.core.management import ManagementRequest
from broker.edge.destinations.directory import Done
from broker.edge.quotas.meters import Granted

from .control_stream import ControlStream
from .registry import ProcessClientIds


class ParentNames:
    """edge.directory.SharedNames."""

    def __init__(self, talk: ControlStream) -> None:
        self._talk = talk

    async def claim(self, name: str, address: str) -> str | None:
        has: str | None = await self._talk.ask("claim_name", (name, address))
        return has

    async def find(self, name: str) -> str | None:
        address: str | None = await self._talk.ask("find_name", (name,))
        return address

    async def release(self, name: str, address: str) -> None:
        await self._talk.ask("release_name", (name, address))


def client_ids(talk: ControlStream, policy: str) -> ProcessClientIds | None:
    """Those of an edge process; None: nobody has to be asked (edge.client_id_in_use is allow)."""
    if policy == ALLOW:
        return None
    return ProcessClientIds(
        policy,
        lambda client_id, connection, told: _then(talk.ask("claim_id", (client_id, connection)), told),
        lambda client_id, connection: talk.tell("release_id", (client_id, connection)),
    )


class ParentTokens:
    """edge.rates.Tokens."""

    def __init__(self, talk: ControlStream) -> None:
        self._talk = talk

    def lease(self, name: str, rate: int, most: int, want: int, granted: Granted) -> None:
        _then(self._talk.ask("lease", (name, rate, most, want)), granted)


def manage(talk: ControlStream, requests: Sequence[ManagementRequest], done: Done) -> None:
    """core.management.Manage: the parent carries them out."""

    def answered(answer: asyncio.Future[Any]) -> None:
        if not answer.cancelled():
            error = answer.exception()
            done(error if error is None or isinstance(error, RefusedError) else RefusedError(Code.INTERNAL))

    talk.ask("manage", requests).add_done_callback(answered)


def _then(answer: asyncio.Future[Any], told: Callable[[Any], None]) -> None:
    """Tells the answer; None: there is none."""

    def done(answered: asyncio.Future[Any]) -> None:
        if not answered.cancelled():
            told(None if isinstance(answered.exception(), BrokerError) else answered.result())

    answer.add_done_callback(done)
