"""One STOMP connection of a client: frames out, frames in, receipts, heart-beats.

Two tasks serve it, whatever is open: one reads, parses and hands out; one sends what has gathered since its last
send as one piece. Back-pressure: callers wait while much is unsent; reading stops while much is unread.

Rule: a frame goes out whole or not at all; a call that waits is woken when the connection ends, with the reason.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterable, Coroutine, Iterable, Mapping
from pathlib import Path
from types import TracebackType
from typing import Self

from broker.config.settings import WireSettings
from broker.core.strict_numbers import natural
from broker.wire.connection import Connection, Role
from broker.wire.events import BodyData, BodyEnd, BodyStart, Event, Frame, Violation
from broker.wire.versions import Version
from broker.wire.writer import encode_frame

from .beats import Beats
from .body import BodyStream
from .errors import ClientError, ClientTimeout, ConnectionLost, ServerError, again
from .frames import octets, refuse_nul, send_headers, sends
from .message import Message, TransactionName
from .outbox import UNSENT_BYTES, Outbox
from .receipts import Receipts
from .source import Source, open_source
from .subscription import AckMode, Subscription
from .transaction import Pipeline, Transaction
from .transport import Transport

HARD_FACTOR = 16
"""While a call waits for a receipt, reading goes on up to this many times the receive buffer: the receipt
stands behind the messages on the wire, and its owner may be the one who should take them."""
LAST_WORDS_S = 1.0
"""How long a connection that cannot be written to is still read from."""


class Client:
    """Made by broker.client.connect. Not for several threads; any number of tasks may use it at once.

    version   agreed upon.    server, session   headers of CONNECTED ("" when it had none).
    receipt_timeout   seconds that any call here waits for its answer.
    """

    def __init__(
        self, transport: Transport, *, receipt_timeout: float, buffer_bytes: int, large_body_bytes: int
    ) -> None:
        self.version = Version.V10
        self.server = ""
        self.session = ""
        self.receipt_timeout = receipt_timeout
        self._transport = transport
        self._wire = Connection(Role.CLIENT, WireSettings(large_body_bytes=large_body_bytes))
        self._loop = asyncio.get_running_loop()
        self._buffer_bytes = buffer_bytes
        self._held = 0
        self._may_read = asyncio.Event()
        self._waiting = 0
        self._out = Outbox(transport, self._loop.time)
        self._receipts = Receipts()
        self._subscriptions: dict[str, Subscription] = {}
        self._stream: BodyStream | None = None
        self._connected: asyncio.Future[Frame] = self._loop.create_future()
        self._number = 0
        self._error: ClientError | None = None
        self._shown = False
        self._leaving = False
        self._last_received = self._loop.time()
        self._may_read.set()
        self._tasks: list[asyncio.Task[None]] = []
        self._reader = self._start(self._read())
        self._start(self._send())

    # ------------------------------------------------------------------ what applications call

    async def send(
        self,
        destination: str,
        body: bytes | str = b"",
        headers: Mapping[str, str] | None = None,
        *,
        receipt: bool = False,
        transaction: TransactionName | None = None,
    ) -> None:
        """Sends one message. receipt: wait until the server has taken it (for a persistent one: stored it); without,
        the call returns when the frame is on its way, and a refusal shows at the next call.

        Raises ServerError, ConnectionLost, ClientTimeout."""
        lines = send_headers(destination, headers)
        if transaction is not None:
            lines.append(("transaction", transaction.id))
        await self.request("SEND", lines, octets(body), receipt=receipt)

    async def send_file(
        self,
        destination: str,
        source: str | Path | AsyncIterable[bytes],
        length: int | None = None,
        headers: Mapping[str, str] | None = None,
        *,
        receipt: bool = True,
    ) -> None:
        """Sends a body of any size from a file or an asynchronous stream; it is never whole in memory.

        length: of a stream, in bytes; when it is not given the stream goes to a temporary file first, because the
        length stands before the body. Other frames of this connection wait meanwhile. If the stream raises or does
        not match its length, the connection is closed: half a frame cannot be taken back."""
        lines = send_headers(destination, headers)
        refuse_nul(lines)
        opened = await open_source(source, length)
        lines.append(("content-length", str(opened.length)))
        try:
            await self._room()
            answer = None
            if receipt:
                receipt_line, answer = self._receipts.expect()
                lines.append(receipt_line)
            await self._stream_out(lines, opened, answer)
        finally:
            opened.close()
        if answer is not None:
            await self._answer(answer, f"RECEIPT of SEND to {destination}")

    def subscribe(
        self,
        destination: str,
        ack: AckMode = "auto",
        *,
        prefetch: int | None = None,
        id: str | None = None,
        browse: bool = False,
        headers: Mapping[str, str] | None = None,
    ) -> Subscription:
        """`async with c.subscribe(...) as sub: async for m in sub: ...`

        prefetch: most messages the server hands out before they are acknowledged (client ack modes).
        browse: see what is in a queue and take nothing; the iteration ends behind the last message.
        headers: e.g. {"selector": "price > 5", "durable-subscription-name": "a"}."""
        if id is None:
            id = self._next("s")
        return Subscription(self, id, destination, ack, prefetch, browse, headers)

    def transaction(self) -> Transaction:
        """`async with c.transaction() as tx: await tx.send(...)`"""
        return Transaction(self, self._next("t"))

    def pipeline(self, window: int = 100) -> Pipeline:
        """`async with c.pipeline(window=100) as p: await p.send(...)`: many confirmed sends at full speed."""
        return Pipeline(self, window)

    async def close(self) -> None:
        """DISCONNECT, wait for its receipt, close; subscriptions end.

        Raises what had ended the connection before, unless a call has raised it already: sends without receipts
        must not get lost unseen. ClientTimeout when the server does not answer (it is closed all the same)."""
        if self._leaving:
            return
        self._leaving = True
        for subscription in self._subscriptions.values():
            subscription.end(None)
            subscription.drop()
        shown = self._shown
        try:
            if self._error is None:
                await self.request("DISCONNECT", [], receipt=True)
            elif not shown:
                raise self.error()
        except ConnectionLost:
            # An ERROR that came meanwhile says more than that there is no receipt.
            if not shown:
                raise self.error() from None
        finally:
            await self._shut()

    async def kill(self) -> None:
        """Ends the connection without DISCONNECT; what the server has not answered may be lost."""
        self._leaving = True
        self._lost("the client was closed")
        await self._shut()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            await self.close()
        except ClientError:
            if kind is None:
                raise

    # ------------------------------------------------------------------ what the parts of this package call

    async def login(self, headers: list[tuple[str, str]], heartbeat: tuple[int, int]) -> None:
        """CONNECT and wait for CONNECTED. Raises ServerError, ConnectionLost, ClientError."""
        await self.request("CONNECT", headers)
        answer = (await self._connected).headers
        self.server, self.session = answer.get("server", ""), answer.get("session", "")
        beats = Beats(heartbeat, answer.get("heart-beat"))
        if beats.tick:
            self._start(self._beat(beats))

    async def request(
        self, command: str, headers: list[tuple[str, str]], body: bytes = b"", *, receipt: bool = False
    ) -> None:
        """Sends a frame and, if asked to, waits for its receipt."""
        refuse_nul(headers)
        await self._room()
        if not receipt:
            self._out.append(self._frame(command, headers, body))
            return
        receipt_line, answer = self._receipts.expect()
        self._out.append(self._frame(command, [*headers, receipt_line], body))
        await self._answer(answer, f"RECEIPT of {command}")

    async def send_runs(self, runs: Iterable[tuple[list[tuple[str, str]], Iterable[bytes]]]) -> None:
        """Sends many messages without receipts: (all header lines but content-length, bodies), in this order."""
        for frames in sends(runs, self.version, UNSENT_BYTES):
            await self._room()
            self._out.append(b"".join(frames))

    async def send_for_receipt(
        self, destination: str, body: bytes | str, headers: Mapping[str, str] | None
    ) -> asyncio.Future[None]:
        """Sends a message; the future is done when its receipt comes."""
        lines = send_headers(destination, headers)
        refuse_nul(lines)
        await self._room()
        receipt_line, answer = self._receipts.expect()
        self._out.append(self._frame("SEND", [*lines, receipt_line], octets(body)))
        return answer

    def error(self) -> ClientError:
        """Why the connection is over, to be raised."""
        self._shown = True
        return again(self._error or ConnectionLost("the connection is closed"))

    async def wait_for(self, event: asyncio.Event, what: str) -> None:
        """Waits for something that hangs on receipts: reading goes on meanwhile. Raises ClientTimeout."""
        self._waiting += 1
        self._resume_reading()
        try:
            async with asyncio.timeout(self.receipt_timeout):
                await event.wait()
        except TimeoutError:
            raise self._late(what) from None
        finally:
            self._waiting -= 1

    def attach(self, subscription: Subscription) -> None:
        """Messages for this subscription may come from now on."""
        if subscription.id in self._subscriptions:
            raise ClientError(f"subscription id {subscription.id!r} is in use on this connection")
        self._subscriptions[subscription.id] = subscription

    def detach(self, subscription: Subscription) -> None:
        """None will come any more."""
        self._subscriptions.pop(subscription.id, None)

    def account(self, nbytes: int) -> None:
        """The memory held for unread messages has grown, or shrunk (< 0)."""
        self._held += nbytes
        if self._held <= self._buffer_bytes:
            self._resume_reading()

    # ------------------------------------------------------------------ out

    def _next(self, prefix: str) -> str:
        self._number += 1
        return f"{prefix}{self._number}"

    async def _room(self) -> None:
        """Until another frame may be begun."""
        await self._out.room()
        if self._error is not None:
            raise self.error()

    def _frame(self, command: str, headers: list[tuple[str, str]], body: bytes = b"") -> bytes:
        return encode_frame(command, headers, body, self.version)

    async def _send(self) -> None:
        try:
            await self._out.run()
        except OSError as error:
            # The server may have said why in an ERROR that is still to be read.
            self._resume_reading()
            await asyncio.wait([self._reader], timeout=LAST_WORDS_S)
            self._lost(f"sending failed: {error.strerror or error}")

    async def _stream_out(
        self, headers: list[tuple[str, str]], source: Source, answer: asyncio.Future[None] | None
    ) -> None:
        try:
            # A frame without a body ends with its NUL, which stands behind the body here.
            await self._out.stream(self._frame("SEND", headers)[:-1], source)
        except BaseException as error:
            self._lost(f"a body could not be finished ({error!r}), so the connection was closed")
            if answer is not None:
                answer.exception()  # what is raised here says more
            raise
        if self._error is not None and answer is None:
            raise self.error()

    async def _beat(self, beats: Beats) -> None:
        while True:
            await asyncio.sleep(beats.tick)
            now = self._loop.time()
            if beats.due(now, self._out.last_sent) and self._out.quiet:
                self._out.append(b"\n")
            # While we do not read on purpose, silence says nothing.
            if self._may_read.is_set() and beats.overdue(now, self._last_received):
                self._lost(f"nothing came from the server for {now - self._last_received:.1f} s (heart-beat)")
                return

    # ------------------------------------------------------------------ in

    async def _read(self) -> None:
        try:
            while data := await self._transport.read():
                self._last_received = self._loop.time()
                for event in self._wire.receive(data):
                    self._handle(event)
                    if self._error is not None:
                        return
                while self._held > self._buffer_bytes and not self._must_read():
                    self._may_read.clear()
                    await self._may_read.wait()
            self._lost("the server closed the connection")
        except OSError as error:
            self._lost(f"the connection broke: {error.strerror or error}")

    def _resume_reading(self) -> None:
        if not self._may_read.is_set():
            self._last_received = self._loop.time()
            self._may_read.set()

    def _must_read(self) -> bool:
        return self._waiting > 0 and self._held < self._buffer_bytes * HARD_FACTOR

    def _handle(self, event: Event) -> None:
        match event:
            case Frame(command="MESSAGE"):
                subscription = self._subscriptions.get(self._subscription_id(event.headers))
                if subscription is not None:
                    subscription.put(Message(subscription, event.headers, event.body))
            case Frame(command="RECEIPT"):
                self._receipts.confirm(event.headers.get("receipt-id", ""))
            case BodyStart():
                self._begin_body(event)
            case BodyData():
                if self._stream is not None:
                    self._stream.feed(event.data, self._held > self._buffer_bytes and self._waiting > 0)
            case BodyEnd():
                if self._stream is not None:
                    self._stream.end()
                    self._stream = None
            case Frame(command="CONNECTED"):
                self._on_connected(event)
            case Frame(command="ERROR"):
                self._on_error(event)
            case Violation():
                self._lost(f"the server sent what is not STOMP: {event.code.text}: {event.detail}")
            case _:
                self._lost("the server sent a frame that only clients send")

    def _subscription_id(self, headers: dict[str, str]) -> str:
        id = headers.get("subscription")
        if id is None:
            # STOMP 1.0 servers may leave it out: the destination has to tell.
            destination = headers.get("destination")
            id = next((s.id for s in self._subscriptions.values() if s.destination == destination), "")
        return id

    def _begin_body(self, event: BodyStart) -> None:
        headers = event.head.headers
        subscription = self._subscriptions.get(self._subscription_id(headers))
        if subscription is not None:
            self._stream = BodyStream(self.account)
            subscription.put(Message(subscription, headers, b"", self._stream, event.length))

    def _on_connected(self, frame: Frame) -> None:
        if self._connected.done():
            self._lost("the server sent a second CONNECTED")
            return
        self.version = self._wire.version
        self._connected.set_result(frame)

    def _on_error(self, frame: Frame) -> None:
        headers = frame.headers
        code = headers.get("error-code", "")
        receipt = headers.get("receipt-id")
        error = ServerError(
            natural(code),
            headers.get("message", "ERROR without a message"),
            frame.body.decode("utf-8", "replace"),
            receipt,
        )
        if receipt is not None and self._receipts.refuse(receipt, again(error)):
            self._shown = True
        self._fail(error)

    # ------------------------------------------------------------------ receipts and the end

    async def _answer(self, answer: asyncio.Future[None], what: str) -> None:
        self._waiting += 1
        self._resume_reading()
        try:
            async with asyncio.timeout(self.receipt_timeout):
                await answer
        except TimeoutError:
            raise self._late(what) from None
        finally:
            self._waiting -= 1

    def _late(self, what: str) -> ClientTimeout:
        hint = ""
        if self._held >= self._buffer_bytes:
            hint = "; too many messages are unread: take them, or subscribe with ack='client-individual' and prefetch"
        return ClientTimeout(f"no {what} within {self.receipt_timeout:g} s{hint}")

    def _lost(self, text: str) -> None:
        self._fail(ConnectionLost(text))

    def _fail(self, error: ClientError) -> None:
        """The connection is over: everybody who waits hears of it."""
        if self._error is not None:
            return
        self._error = error
        lost = f"the connection ended: {error}" if isinstance(error, ServerError) else str(error)
        if not self._connected.done():
            self._connected.set_exception(again(error))
            self._connected.exception()  # nobody may be waiting for it any more
        self._receipts.lose(lost)
        for subscription in self._subscriptions.values():
            subscription.end(None if self._leaving else error)
        if self._stream is not None:
            self._stream.fail(self.error)
        self._out.close()
        self._transport.abort()
        for task in self._tasks:
            if task is not asyncio.current_task():
                task.cancel()

    async def _shut(self) -> None:
        """Closes from our side, after what was sent has left."""
        await self._transport.close()
        self._shown = True
        self._lost("the client was closed")
        await asyncio.wait(self._tasks)

    def _start(self, work: Coroutine[None, None, None]) -> asyncio.Task[None]:
        task = self._loop.create_task(work)
        task.add_done_callback(self._ended)
        self._tasks.append(task)
        return task

    def _ended(self, task: asyncio.Task[None]) -> None:
        """A fault in one of our tasks must not leave others waiting for ever."""
        if not task.cancelled() and (fault := task.exception()) is not None:
            self._lost(f"the client failed: {fault!r}")
