"""OwnerPort: the only thing an edge knows of owners.

Rule: batches in, batches out; no call waits. In one process it is LocalOwner; over the network the same
commands travel as link batches, and nothing above this line can tell.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import Protocol

from broker.core.address import Outcome
from broker.core.commands import Command, Publish
from broker.core.effects import Effect
from broker.core.errors import Code
from broker.core.message import Blob


class Away(str):
    """Why a large body was not stored or not read where its owner is the reason, not its disk. `code`: for clients."""

    # A text with a code: texts go through interfaces of files and disks that know nothing of owners, and come out as
    # they went in.
    code: Code

    def __new__(cls, why: str, code: Code = Code.OWNER_MOVED) -> Away:
        text = super().__new__(cls, why)
        text.code = code
        return text


def broken_disk(why: str) -> Away:
    """Of a disk that has failed, which is not one that is full."""
    return Away(why, Code.OWNER_STOPPED)


class Rotten(str):
    """Why a large body cannot be read: what is stored of it is lost. No other message is concerned."""

    __slots__ = ()


class EffectListener(Protocol):
    """What an edge offers its port."""

    def on_effects(self, effects: list[Effect]) -> None: ...
    def on_relief(self, sessions: Collection[int] | None = None) -> None:
        """Paused producers may go on: these sessions, or all."""
        ...

    def on_stopped(self, why: str) -> None: ...


class BodyWriter(Protocol):
    """A large body on its way to the slot's owner. Calls are in order; none of them blocks."""

    @property
    def pending(self) -> int:
        """Bytes given to write() that have not reached the file yet: above a bound, stop reading the socket."""
        ...

    def write(self, data: bytes) -> None: ...
    def finish(self, sync: bool, done: Callable[[Blob | None, str], None]) -> None:
        """done(blob, "") when all bytes are in the file (on stable storage if `sync`), or done(None, why): an Away
        where the disk has nothing to do with it."""
        ...

    def abort(self) -> None:
        """Nobody wants it: the file goes."""
        ...


class BodyReader(Protocol):
    """A large body on its way to a consumer. Holds the file: deleting the message meanwhile does no harm."""

    def read(self, n: int, done: Callable[[bytes | None, str], None]) -> None:
        """The next at most n bytes; b"" at the end; None with a text (an Away or Rotten, perhaps) when it failed."""
        ...

    def close(self) -> None: ...


class OwnerPort(Protocol):
    """Where an edge's commands go and its effects come from.

    shares_wildcards   a SubscribeAll costs one thing here; else one for each slot.
    at_once   carries out a message that is not durable now, and tells what comes of it before it returns: when nothing
              else waits, and it leaves nothing to do. False: it has done nothing, submit() it. None: it never does.
              Not to be called while effects are being told."""

    shares_wildcards: bool
    at_once: Callable[[Publish], bool] | None

    def attach(self, listener: EffectListener) -> None: ...
    def submit(self, commands: list[Command]) -> bool:
        """True: an owner of one of them has accepted more than its disk has taken (or cannot be reached): pause the
        producer until on_relief."""
        ...

    def write_body(self, slot: int, on_drain: Callable[[], None]) -> BodyWriter:
        """on_drain is called whenever pending bytes have been written."""
        ...

    def read_body(self, slot: int, blob: Blob, consumer: int = 0, message: int = 0) -> BodyReader:
        """Of the message that was delivered to the consumer (0: to none): it comes on, whichever owner leads."""
        ...

    def arrived(self, consumer: int, message: int, outcome: Outcome = Outcome.ACK) -> None:
        """All of the body of a message that was delivered in AckMode.AUTO is with the client: now it is consumed. Or
        (UNREADABLE) it never will be."""
        ...

    def held(self, slot: int, consumer: int) -> Sequence[int]:
        """What the consumer was given and has not settled, in order; what a transaction acknowledges it holds no
        more."""
        ...
