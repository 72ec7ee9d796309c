"""A consumer of a queue in the driver: takes messages for a batch, and acknowledges those of committed batches.

It runs in a thread of its own, so that heart-beats go on while Spark computes. A lost connection is opened again; what
was not acknowledged comes again then, by other names of delivery and the same names of messages.

Rule: acknowledges what `BatchLog` owes, nothing else; takes no message into two batches.
"""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Coroutine
from dataclasses import dataclass
from typing import Any, Final, TypeVar

from broker.client import Client, ClientError, ConnectFailed, Message, ServerError, Subscription, connect
from broker.core.strict_numbers import natural
from broker.seams.clock import SystemClock

from ..errors import PipelineError
from ..options import LOGIN_FAILED, NO_LOGIN, ConsumeOptions, context
from .batch_log import BatchLog

_T = TypeVar("_T")

BATCH_BYTES: Final = 64 << 20
"""Bodies of a batch: what the driver holds in memory."""
INLINE_BYTES: Final = 64 << 20
"""The largest body that is a value of a column."""
ACKS: Final = 500
"""Acknowledgements of one transaction."""
CALM_S: Final = 0.05
"""When nothing has come for so long, a batch that has rows ends."""
LONGEST_S: Final = 2.0
"""A batch that has rows ends."""
_PAUSE_S: Final = 0.2
_LONGEST_PAUSE_S: Final = 3.0
_PREFIXES: Final = ("/queue/", "queue://", "jms.queue.")
_FRAME: Final = frozenset((
    "subscription", "message-id", "ack", "destination", "redelivered", "delivery-count", "content-length",
    "message-slot",
))  # fmt: skip
"""Headers of a MESSAGE that its sender has not said."""


@dataclass
class Taken:
    """A message. id: `slot-number`, the same at each delivery."""

    id: str
    headers: dict[str, str]
    body: bytes | None
    size: int
    body_ref: str | None
    attempt: int
    address: str


class QueueConsumer:
    """`take` and `settle` are called by one thread; both return when they are done. Raises PipelineError."""

    def __init__(self, options: ConsumeOptions, ahead: BatchLog) -> None:
        self._options = options
        self._ahead = ahead
        self._clock = SystemClock()
        self._client: Client | None = None
        self._subscription: Subscription | None = None
        self._handles: dict[str, str] = {}
        """Message → what to acknowledge it by on this connection."""
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="stampede-consumer", daemon=True)
        self._thread.start()

    def take(self, most: int, wait_s: float) -> list[Taken]:
        """Up to `most` messages that are in no batch yet; waits up to `wait_s` for the first."""
        return self._do(self._take(most, wait_s))

    def settle(self) -> None:
        """Acknowledges what is owed and has come. What could not be, because the connection is over, comes again."""
        self._do(self._settle())

    def close(self) -> None:
        """In order: what this consumer holds goes back, and it is nobody's fault."""
        if self._thread.is_alive():
            self._do(self._close(in_order=True))
            self._loop.call_soon_threadsafe(self._loop.stop)
            self._thread.join()
            self._loop.close()

    def _do(self, work: Coroutine[Any, Any, _T]) -> _T:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result()

    # ── in the thread ──────────────────────────────────────────────────────────────────────────────

    async def _connected(self) -> Subscription:
        """Connects, again and again until patience ends."""
        if self._subscription is not None:
            return self._subscription
        options = self._options
        end = self._clock.monotonic() + options.patience_s
        pause = _PAUSE_S
        while True:
            try:
                self._client = await connect(options.url, tls=context(options), receipt_timeout=options.patience_s)
                # Windows of bytes would end a batch early, and what a batch holds is not acknowledged before the next.
                asked = {"message-slot": "true", "consumer-window-size": "-1"}
                if options.selector:
                    asked["selector"] = options.selector
                subscription = self._client.subscribe(
                    options.destination, "client-individual", prefetch=2 * options.max_rows, headers=asked
                )
                await subscription.__aenter__()
                self._subscription = subscription
                return subscription
            except ServerError as error:
                await self._close()
                advice = f": {NO_LOGIN}" if error.code == LOGIN_FAILED else ""
                raise PipelineError(f"{options.place}: {error}{advice}", error.code or 0) from None
            except (ClientError, OSError) as error:
                await self._close()
                if self._clock.monotonic() > end:
                    advice = "nobody answers there; check the option url" if isinstance(error, ConnectFailed) else ""
                    raise PipelineError(f"{options.place}: {error}" + (f": {advice}" if advice else "")) from None
            await asyncio.sleep(pause)
            pause = min(pause * 2, _LONGEST_PAUSE_S)

    async def _close(self, in_order: bool = False) -> None:
        """Nothing of this connection counts any more."""
        client, self._client, self._subscription = self._client, None, None
        self._handles.clear()
        if client is not None:
            try:
                await (client.close() if in_order else client.kill())
            except ClientError:
                pass  # it was over already

    async def _take(self, most: int, wait_s: float) -> list[Taken]:
        subscription = await self._connected()
        found: dict[str, Taken] = {}
        begun, nbytes = self._clock.monotonic(), 0
        try:
            while len(found) < most and nbytes < BATCH_BYTES:
                now = self._clock.monotonic()
                wait = min(CALM_S, begun + LONGEST_S - now) if found else begun + wait_s - now
                message = await subscription.get(max(wait, 0.0))
                if message is None:
                    break
                id = _name(message, self._options)
                self._handles[id] = message.headers.get("ack", message.id)
                if id in found or id in self._ahead.pending or id in self._ahead.owed:
                    message.discard()
                    begun = begun if found else now
                    continue
                found[id] = taken = await self._taken(id, message)
                nbytes += taken.size if taken.body is not None else 0
        except (ClientError, OSError):
            # What is in `found` was taken and comes again: it is pending by then, and in no second batch.
            await self._close()
        await self._settle()
        return list(found.values())

    async def _taken(self, id: str, message: Message) -> Taken:
        headers = message.headers
        body, ref, size = None, None, message.length or 0
        if not message.large:
            body = message.body
        elif self._options.bodies == "inline":
            if size > INLINE_BYTES:
                raise PipelineError(
                    f"message {id} has a body of {size} bytes, and a value of a column holds {INLINE_BYTES}: set the "
                    "option bodies to a folder"
                )
            body = await message.read()
        else:
            ref = os.path.join(self._options.bodies, f"{id}.body")
            os.makedirs(self._options.bodies, exist_ok=True)
            size = await message.save(f"{ref}.tmp")
            os.replace(f"{ref}.tmp", ref)
        if body is not None:
            size = len(body)
        attempt = natural(headers.get("delivery-count", "1"))
        sent = {name: value for name, value in headers.items() if name not in _FRAME}
        address = headers.get("destination", self._options.destination)
        for prefix in _PREFIXES:
            address = address.removeprefix(prefix)
        return Taken(id, sent, body, size, ref, 1 if attempt is None else attempt, address)

    async def _settle(self) -> None:
        """In transactions: a receipt of one says that all of its acknowledgements are in the log."""
        client = self._client
        due = [id for id in self._handles if id in self._ahead.owed]
        if client is None or not due:
            return
        try:
            for at in range(0, len(due), ACKS):
                some = due[at : at + ACKS]
                async with client.transaction() as transaction:
                    for id in some:
                        line = [("id", self._handles[id]), ("transaction", transaction.id)]
                        await client.request("ACK", line)
                for id in some:
                    del self._handles[id]
                self._ahead.acknowledged(some)
        except (ClientError, OSError):
            await self._close()


def _name(message: Message, options: ConsumeOptions) -> str:
    slot = message.headers.get("message-slot")
    if slot is None:
        raise PipelineError(
            f"{options.place}: this broker does not say which message is which (message-slot): mode=consume needs a "
            "Stampede of this release or later"
        )
    return f"{slot}-{message.id.rpartition('-')[2]}"
