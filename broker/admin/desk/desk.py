"""The process's own client of the owners: what operators look at and move goes the way of any other client.

It subscribes, browses, sends and commits by the same commands as an edge's sessions, so what it promises is what a
client is promised: in the log before it is answered, over owners and their fail-over. An errand is one session; its
end gives back whatever it still holds, in order, and counts no attempt.

Rule: bounded: an errand asks for WINDOW_BYTES at a time, and waits PATIENCE_S for an answer. Must not know HTTP.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from types import TracebackType

from broker.core.address import AckMode, Routing
from broker.core.commands import UNLIMITED, Command, Disconnect, Grant, Subscribe
from broker.core.effects import AddressBlocked, BrowseEnd, ConsumerClosed, Deliver, Done, Effect, Refused
from broker.core.errors import Code, RefusedError
from broker.core.message import Run

PATIENCE_S = 30.0
WINDOW_BYTES = 4 * 1024 * 1024
WINDOW_MESSAGES = 4000
FIRST = (1 << 31) - 1
"""Priority of its consumers: before all others."""

Number = Callable[[], int]


class Desk:
    """session, consumer: numbers that no client of this process has."""

    def __init__(self, submit: Callable[[list[Command]], bool], session: Number, consumer: Number) -> None:
        self.submit = submit
        self.session = session
        self.consumer = consumer
        self.errands: dict[int, Errand] = {}
        self.feeds: dict[int, ErrandFeed] = {}

    def on_effect(self, effect: Effect) -> None:
        """What is for none of the edge's own sessions may be for one of ours."""
        if isinstance(effect, Done | Refused | AddressBlocked):
            errand = self.errands.get(effect.session)
            if errand is not None and not isinstance(effect, AddressBlocked):
                errand.answered(effect)
            return
        feed = self.feeds.get(effect.consumer)
        if feed is not None:
            feed.add(effect)

    def errand(self) -> Errand:
        """A session of its own."""
        return Errand(self)


class ErrandFeed:
    """What a consumer of an errand is given.    ended   nothing more comes; why: text of what ended it, if not its
    own end."""

    def __init__(self, desk: Desk, command: Subscribe) -> None:
        self.command = command
        self.ended = False
        self.why = ""
        self._desk = desk
        self._runs: deque[Deliver] = deque()
        self._wake = asyncio.Event()

    def add(self, effect: Deliver | BrowseEnd | ConsumerClosed | Effect) -> None:
        if isinstance(effect, Deliver):
            self._runs.append(effect)
        elif isinstance(effect, ConsumerClosed):
            self.ended, self.why = True, effect.detail or effect.reason.value
        else:
            self.ended = True
        self._wake.set()

    def put_back(self, run: Run) -> None:
        """It is what next() gives next."""
        self._runs.appendleft(Deliver(self.command.consumer, run, 0))

    async def next(self, patience_s: float = PATIENCE_S) -> Run | None:
        """The next messages; None: that was all, or nothing came in that time."""
        while not self._runs and not self.ended:
            self._wake.clear()
            try:
                async with asyncio.timeout(patience_s):
                    await self._wake.wait()
            except TimeoutError:
                return None
        if not self._runs:
            return None
        effect = self._runs.popleft()
        if self.command.browse and effect.cost:
            self._desk.submit([Grant(self.command.slot, effect.consumer, effect.cost)])
        return effect.run

    def ready(self) -> list[Run]:
        """All that is here, without waiting."""
        runs = [effect.run for effect in self._runs]
        self._runs.clear()
        return runs


class Errand:
    """One session; used as a context, whose end is its Disconnect."""

    def __init__(self, desk: Desk) -> None:
        self._desk = desk
        self.session = desk.session()
        self._seq = 0
        self._waiting: dict[int, asyncio.Future[None]] = {}
        self._feeds: list[ErrandFeed] = []
        self._slots: set[int] = set()
        desk.errands[self.session] = self

    def __enter__(self) -> Errand:
        return self

    def __exit__(self, *_: type[BaseException] | BaseException | TracebackType | None) -> None:
        self.close()

    def close(self) -> None:
        """It is over; may be called twice."""
        if self._desk.errands.pop(self.session, None) is None:
            return
        for feed in self._feeds:
            self._desk.feeds.pop(feed.command.consumer, None)
        self._desk.submit([Disconnect(slot, self.session, calm=True) for slot in sorted(self._slots)])
        for waiting in self._waiting.values():
            waiting.cancel()

    def answered(self, effect: Done | Refused) -> None:
        waiting = self._waiting.pop(effect.seq, None)
        if waiting is None or waiting.done():
            return
        if isinstance(effect, Refused):
            waiting.set_exception(RefusedError(effect.code, effect.detail))
        else:
            waiting.set_result(None)

    async def ask(self, make: Callable[[int, int], Command]) -> None:
        """make(session, seq): the command. Returns when it is done. Raises RefusedError."""
        self._seq += 1
        seq = self._seq
        waiting = self._waiting[seq] = asyncio.get_running_loop().create_future()
        self._desk.submit([make(self.session, seq)])
        try:
            async with asyncio.timeout(PATIENCE_S):
                await waiting
        except TimeoutError:
            self._waiting.pop(seq, None)
            why = "the owner has not answered; what was asked may still happen"
            raise RefusedError(Code.OWNER_UNAVAILABLE, why) from None

    async def subscribe(
        self, slot: int, address: str, queue: str, selector: str | None, *, browse: bool, room: int = WINDOW_BYTES
    ) -> ErrandFeed:
        """A browser, or a consumer of what is to be settled by id. Raises RefusedError."""
        consumer = self._desk.consumer()
        command = Subscribe(
            slot, self.session, 0, consumer, address, Routing.UNSET,
            AckMode.AUTO if browse else AckMode.INDIVIDUAL,
            queue=queue, selector=selector, browse=browse, create=False, priority=FIRST,
            room=room if browse else UNLIMITED,
            credit_messages=UNLIMITED if browse else WINDOW_MESSAGES,
            credit_bytes=UNLIMITED if browse else WINDOW_BYTES,
        )  # fmt: skip
        feed = ErrandFeed(self._desk, command)
        self._desk.feeds[consumer] = feed
        self._feeds.append(feed)
        self._slots.add(slot)

        def numbered(_: int, seq: int) -> Command:
            return command.asked_as(seq)

        await self.ask(numbered)
        return feed

    def visits(self, slot: int) -> None:
        """It has something there that ends with it."""
        self._slots.add(slot)

    def end(self, feed: ErrandFeed) -> None:
        """What the consumer still gets concerns nobody; its end comes with the errand's."""
        self._desk.feeds.pop(feed.command.consumer, None)
