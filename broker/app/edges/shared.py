"""The same from an edge process: what must be agreed on is asked of the parent.

Rule: asked at CONNECT with a client-id, at SUBSCRIBE with a durable name, and for slices of a rate; never per message.
Every question is answered: when the parent has ended, so does this process.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Any

from broker.core.errors import BrokerError, Code, RefusedError
from broker.core.management import ManagementRequest
from broker.edge.destinations.directory import Done, Holder, in_use
from broker.edge.quotas.meters import Granted

from .talk import Talk


class TalkNames:
    """edge.directory.SharedNames."""

    def __init__(self, talk: Talk) -> None:
        self._talk = talk

    async def claim(self, name: str, address: str) -> str | None:
        has: str | None = await self._talk.ask("claim_name", (name, address))
        return has

    async def find(self, name: str) -> str | None:
        address: str | None = await self._talk.ask("find_name", (name,))
        return address

    async def release(self, name: str, address: str) -> None:
        await self._talk.ask("release_name", (name, address))


class TalkClientIds:
    """edge.directory.ClientIds. policy: refuse or takeover."""

    def __init__(self, talk: Talk, policy: str) -> None:
        self._talk = talk
        self._policy = policy
        self._holders: dict[str, Holder] = {}

    def claim(self, client_id: str, holder: Holder, done: Done) -> None:
        other = self._holders.get(client_id)
        if other is not None and self._policy == "refuse":
            done(in_use(client_id))
            return
        # Ours from now on, so that a second claim in this process finds it while the parent is asked.
        self._holders[client_id] = holder
        if other is not None:
            other.taken_over()

        def answered(granted: bool | None) -> None:
            if granted:
                done(None)
                return
            if self._holders.get(client_id) is holder:
                del self._holders[client_id]
            done(in_use(client_id) if granted is False else RefusedError(Code.INTERNAL))

        _then(self._talk.ask("claim_id", (client_id, holder.id)), answered)

    def release(self, client_id: str, holder: Holder) -> None:
        if self._holders.get(client_id) is holder:
            del self._holders[client_id]
            self._talk.tell("release_id", (client_id, holder.id))

    def lost(self, client_id: str, connection: int) -> None:
        """Another process has it now."""
        holder = self._holders.get(client_id)
        if holder is not None and holder.id == connection:
            del self._holders[client_id]
            holder.taken_over()


class TalkTokens:
    """edge.rates.Tokens."""

    def __init__(self, talk: Talk) -> None:
        self._talk = talk

    def lease(self, name: str, rate: int, most: int, want: int, granted: Granted) -> None:
        _then(self._talk.ask("lease", (name, rate, most, want)), granted)


def manage(talk: Talk, requests: Sequence[ManagementRequest], done: Done) -> None:
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
