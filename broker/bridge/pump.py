"""Moves messages from one open connection to another, as long as both are.

    source: MESSAGE ──▶ SEND with a receipt ──▶ target
    source: ACK ◀────── RECEIPT ◀────────────── target

What is taken and not acknowledged is bounded in messages and bytes. When one end fails, the source keeps what has no
ACK and gives it again; a target that knows ids then drops what it has.

Rule: ACK only behind RECEIPT. Whatever goes wrong is raised, once; the pump is not used again.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from functools import partial

from broker.client import ClientError, ConnectionLost, Message, ServerError, Subscription
from broker.config.bridges import BridgeSettings
from broker.seams.clock import SystemClock

from .carrying import headers_for, hops_of, unique_id
from .ends import RECEIPT_S, End
from .kinds import WhoseFault, blame, is_topic, selector

WINDOW_BYTES = 8 * 1024 * 1024
"""Of bodies that are on their way."""
LAST_S = 2.0
"""So long a bridge that ends waits for receipts that are due."""
_NOW = SystemClock().wall_ms


class TargetRefused(ClientError):
    """The target does not take this message. name: of it, at the source."""

    def __init__(self, text: str, name: str) -> None:
        super().__init__(text)
        self.name = name


@dataclass(slots=True)
class BridgeCounters:
    """Of one bridge, over all its connections."""

    up: int = 0
    moved: int = 0
    nbytes: int = 0
    refused: int = 0
    round: int = 0
    failures: int = 0
    in_flight: int = 0
    once: int = 0

    def fails(self) -> None:
        """An end was lost, or could not be reached."""
        self.failures += 1


_Answered = tuple[Message, int, BaseException | None]


class Pump:
    """One life of it. careful: begin with one message at a time, so that an ERROR tells which one it is about."""

    def __init__(
        self, name: str, bridge: BridgeSettings, source: End, target: End, counters: BridgeCounters, careful: bool,
        suspect: str,
    ) -> None:  # fmt: skip
        """suspect: a message that was refused so often that it is taken to be its fault."""
        self._name = name
        self._bridge = bridge
        self._source = source
        self._target = target
        self._counters = counters
        self._limit = 1 if careful else bridge.window
        self._suspect = suspect
        self._open = 0
        self._open_bytes = 0
        self._answers: asyncio.Queue[_Answered | None] = asyncio.Queue()
        self._room = asyncio.Event()
        self._taking: asyncio.Task[None] | None = None
        self._stopping = False
        kinds = source.kind, target.kind
        probe = {"message-id": "1-1", "message-slot": "1", "persistent": "true"}
        counters.once = int(kinds[1].drops_known and kinds[0].for_good(probe) != "")

    def stop(self) -> None:
        """Takes no more; ends when what is under way has been answered, or soon."""
        self._stopping = True
        if self._taking is not None:
            self._taking.cancel()

    async def run(self, forget: asyncio.Event) -> None:
        """Until stop(). forget: set by then, if a lasting subscription is to end. Raises ClientError."""
        bridge, kind = self._bridge, self._source.kind
        lasting = is_topic(bridge.source)
        headers = kind.window(bridge.window)
        if lasting:
            headers |= kind.lasting(client_id(self._name))
        if kind.selects:
            headers["selector"] = selector(bridge.filter, bridge.max_hops)
        elif bridge.filter:
            raise ClientError(f"{self._source.where} is a {kind.name}, which has no selectors: take `filter` away")
        subscription = self._source.client.subscribe(
            bridge.source, "client-individual", id=client_id(self._name), headers=headers
        )
        # Not UNSUBSCRIBE but DISCONNECT ends it: what comes back then is nobody's failed attempt.
        await subscription.__aenter__()
        self._counters.up = 1
        try:
            await self._both(subscription)
        finally:
            self._counters.up = self._counters.in_flight = 0
        if lasting and forget.is_set():
            await subscription.unsubscribe(kind.ended(client_id(self._name)))

    async def _both(self, subscription: Subscription) -> None:
        try:
            async with asyncio.TaskGroup() as group:
                self._taking = group.create_task(self._receive(subscription))
                self._taking.add_done_callback(lambda _: self._answers.put_nowait(None))
                if self._stopping:
                    self._taking.cancel()
                group.create_task(self._settle())
        except ExceptionGroup as several:
            raise several.exceptions[0] from None

    # ── from the source ────────────────────────────────────────────────────────────────────────────

    async def _receive(self, subscription: Subscription) -> None:
        async for message in subscription:
            if hops_of(message.headers) >= self._bridge.max_hops:
                await self._gone_round(message)
                continue
            while self._open >= self._limit or self._open_bytes >= WINDOW_BYTES:
                self._room.clear()
                await self._room.wait()
            await self._send(message)
        raise ConnectionLost(f"{self._source.where} has ended the subscription")

    async def _gone_round(self, message: Message) -> None:
        """A source without selectors gives it all the same. Of a topic nobody misses it; in a queue it must stay."""
        if not is_topic(self._bridge.source):
            raise ClientError(
                f"a message in {self._bridge.source} has crossed {hops_of(message.headers)} bridges, and max_hops is "
                f"{self._bridge.max_hops}: two bridges lead in a circle; take one away, or raise max_hops"
            )
        self._counters.round += 1
        await message.ack()

    async def _send(self, message: Message) -> None:
        bridge, target = self._bridge, self._target
        name = self._source.kind.for_good(message.headers)
        size = message.length or 0
        body = message.length or 0 if message.large else message.body
        unique = unique_id(self._name, bridge.source, name, body) if name and target.kind.drops_known else ""
        headers = headers_for(message.headers, self._source.kind, target.kind, unique, _NOW)
        self._open += 1
        self._open_bytes += size
        self._counters.in_flight = self._open
        if message.large:
            try:
                await target.client.send_file(bridge.to, message.stream(), message.length, headers)
            except ClientError as error:
                self._answers.put_nowait((message, size, error))
            else:
                self._answers.put_nowait((message, size, None))
            return
        answer = await target.client.send_for_receipt(bridge.to, message.body, headers)
        answer.add_done_callback(partial(self._answered, message, size))

    def _answered(self, message: Message, size: int, answer: asyncio.Future[None]) -> None:
        error = None if answer.cancelled() else answer.exception()
        self._answers.put_nowait((message, size, error))

    # ── from the target ────────────────────────────────────────────────────────────────────────────

    async def _settle(self) -> None:
        """Acknowledges what has its receipt."""
        while not (self._stopping and not self._open):
            try:
                async with asyncio.timeout(LAST_S if self._stopping else RECEIPT_S if self._open else None):
                    found = await self._answers.get()
            except TimeoutError:
                if self._stopping:
                    return
                raise ConnectionLost(f"{self._target.where} gave no receipt within {RECEIPT_S:g} s") from None
            if found is None:
                continue
            message, size, error = found
            if error is not None:
                await self._failed(message, error)
            await message.ack()
            self._open -= 1
            self._open_bytes -= size
            self._limit = min(self._limit * 2, self._bridge.window)
            self._room.set()
            counters = self._counters
            counters.in_flight = self._open
            counters.moved += 1
            counters.nbytes += size

    async def _failed(self, message: Message, error: BaseException) -> None:
        """Always raises. An ERROR that names no frame is about the only one under way, if there is only one."""
        told = error if isinstance(error, ServerError) or self._open > 1 else self._target.client.error()
        if not isinstance(told, ServerError):
            raise error
        name = self._source.kind.named(message.headers) or message.headers.get("correlation-id", "")
        whose = blame(told.code)
        if whose is WhoseFault.MESSAGE or (whose is WhoseFault.UNKNOWN and name and name == self._suspect):
            self._counters.refused += 1
            await message.nack(receipt=True)
            raise TargetRefused(
                f"{self._target.where} has refused a message, which goes back to its source: {told}", ""
            )
        raise TargetRefused(
            f"{self._target.where} has refused a message: {told}", name if whose is WhoseFault.UNKNOWN else ""
        )


def client_id(name: str) -> str:
    """What a bridge calls itself and its subscription."""
    return f"bridge.{name}"
