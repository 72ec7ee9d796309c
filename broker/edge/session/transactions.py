"""Open transactions of one connection.

The frames between BEGIN and COMMIT wait here, bounded, and go to the owners as one Transact. What an
open transaction acknowledges is held by the consumer's engine meanwhile (core.commands.Hold).

Frames for the same place become one part, wherever they stand in the transaction: a COMMIT is one step of an owner, and
what it costs are its parts. Order is kept where it means anything, among the messages of one destination.

Rule: nothing of a transaction is visible before COMMIT, and nothing of it survives ABORT or the connection.
"""

from __future__ import annotations

from enum import Enum
from typing import Final

from broker.config.settings import EdgeSettings
from broker.core.address import Outcome
from broker.core.commands import Publish, Settle
from broker.core.errors import Code, RefusedError
from broker.core.memory import RUN
from broker.core.message import DURABLE, TEXT
from broker.core.states import StateTable

JOINED_BYTES: Final = 1 << 20
"""Of one part: it is carried out whole, and each byte of it is copied and summed up twice (1 ms)."""
JOINED_IDS: Final = 1000
"""… that is acknowledged: each is looked for."""


class TransactionState(Enum):
    """Of a client's transaction, at its edge."""

    OPEN = "open"
    """Its frames wait here; what they acknowledge is held by engines. Nobody sees anything of it."""
    COMMITTED = "committed"
    """Nothing is added any more. All its parts go to an owner as one command, or to a coordinator (CrossSlotState), who
    answers for them: done, or refused with all of it given back."""
    ABORTED = "aborted"
    """Nothing of it happens; what it has acknowledged is given back to its consumers."""


TRANSACTION: Final = StateTable(
    "A client's transaction, at its edge (`edge/session/transactions.py`; decided in `edge/requests/control.py`).",
    TransactionState,
    {TransactionState.OPEN: "BEGIN"},
    {TransactionState.OPEN: {TransactionState.COMMITTED: "COMMIT", TransactionState.ABORTED: "ABORT"}},
    {
        TransactionState.OPEN: "its connection ends, and what it has acknowledged goes back with all the consumer held",
        TransactionState.COMMITTED: "its owner has answered",
        TransactionState.ABORTED: "at once",
    },
)


class OpenTransaction:
    """The frames of one, in order."""

    __slots__ = ("_latest", "_same", "_timed", "frames", "homes", "nbytes", "parts", "state")

    def __init__(self) -> None:
        self.state = TRANSACTION.begin(TransactionState.OPEN)
        self.homes: dict[str, int] = {}
        """Split address → the slot of those of its messages that may go to any."""
        self.parts: list[Publish | Settle] = []
        self.frames = 0
        self.nbytes = 0
        self._same: dict[tuple[object, ...], Publish | Settle] = {}
        self._latest: dict[tuple[int, str], Publish] = {}
        """The last part that goes to an address."""
        self._timed: list[tuple[Publish, float]] = []
        """Messages that live, or rest, for a length of time, and when they came."""

    def add(self, part: Publish | Settle, now: float = 0.0) -> bool:
        """One more, or more of one there is (False). What is in `part` is ours from now on. now: of one with a
        length of time the seconds, by a clock that never goes back."""
        key = _place(part)
        known = None if key is None else self._same.get(key)
        if type(part) is Publish:
            place = part.slot, part.address
            # Not past another one to the same address: that has its place behind the first.
            if type(known) is Publish and known is self._latest[place] and known.run.nbytes < JOINED_BYTES:
                more = part.run
                known.run.join(more.lines, more.records, more.nbytes, more.flags)
                return False
            self._latest[place] = part
        if type(part) is Settle and type(known) is Settle and len(known.ids) < JOINED_IDS:
            assert isinstance(known.ids, list)
            known.ids.extend(part.ids)
            return False
        if type(part) is Settle:
            part.own()  # its Hold names the same ids
        if key is not None:
            self._same[key] = part
        elif type(part) is Publish:
            self._timed.append((part, now))
        self.parts.append(part)
        return True

    def aborts(self, session: int) -> list[Settle]:
        """What it gives back: everything that it had acknowledged."""
        self.state = TRANSACTION.to(self.state, TransactionState.ABORTED)
        return [
            Settle(part.slot, session, 0, part.consumer, part.ids, Outcome.RETURN)
            for part in self.parts
            if type(part) is Settle
        ]

    def commits(self, now: float) -> list[Publish | Settle]:
        """Its parts. What its messages have waited is part of their time to live, and of their delay. now: by the clock
        that counts seconds, whatever is done to the other one."""
        self.state = TRANSACTION.to(self.state, TransactionState.COMMITTED)
        for part, came in self._timed:
            part.waited(int(1000 * (now - came)))
        return self.parts


class Transactions:
    """By id. Bounds come from EdgeSettings; all raise RefusedError.

    What is bounded is so for all open ones together: a hundred of 64 MiB each would be 6 GiB of memory."""

    __slots__ = ("_frames", "_nbytes", "_open", "_parts", "_settings")

    def __init__(self, settings: EdgeSettings) -> None:
        self._settings = settings
        self._open: dict[str, OpenTransaction] = {}
        self._frames = self._parts = 0
        self._nbytes = 0

    def begin(self, id: str) -> None:
        if id in self._open:
            raise RefusedError(
                Code.DUPLICATE_TRANSACTION, f"transaction:{id[:100]} is already open; COMMIT or ABORT it first"
            )
        if len(self._open) >= self._settings.max_transactions:
            raise RefusedError(
                Code.TRANSACTION_LIMIT, f"{self._settings.max_transactions} transactions are open (max_transactions)"
            )
        self._open[id] = OpenTransaction()

    def get(self, id: str) -> OpenTransaction:
        transaction = self._open.get(id)
        if transaction is None:
            raise RefusedError(Code.NO_SUCH_TRANSACTION, f"transaction:{id[:100]} was not begun on this connection")
        return transaction

    def add(self, id: str, part: Publish | Settle, frames: int, nbytes: int, now: float = 0.0) -> None:
        transaction = self.get(id)
        transaction.frames += frames
        transaction.nbytes += nbytes
        self._frames += frames
        self._nbytes += nbytes
        if self._frames > self._settings.max_transaction_frames:
            raise RefusedError(
                Code.TRANSACTION_LIMIT,
                f"more than {self._settings.max_transaction_frames} frames in transactions (max_transaction_frames)",
            )
        if self._nbytes > self._settings.max_transaction_bytes:
            raise RefusedError(
                Code.TRANSACTION_LIMIT,
                f"more than {self._settings.max_transaction_bytes} bytes in transactions (max_transaction_bytes)",
            )
        self._parts += transaction.add(part, now)
        if self._parts > self._settings.max_transaction_parts:
            raise RefusedError(
                Code.TRANSACTION_LIMIT,
                f"more than {self._settings.max_transaction_parts} destinations, expiries, priorities and subscriptions"
                " in transactions (max_transaction_parts); COMMIT earlier",
            )

    def end(self, id: str) -> OpenTransaction:
        """Takes it out, for COMMIT or ABORT."""
        transaction = self.get(id)
        del self._open[id]
        self._frames -= transaction.frames
        self._parts -= len(transaction.parts)
        self._nbytes -= transaction.nbytes
        return transaction

    def __len__(self) -> int:
        return len(self._open)

    def settled(self) -> set[int]:
        """Consumers that open ones acknowledge messages of."""
        return {part.consumer for each in self._open.values() for part in each.parts if type(part) is Settle}

    @property
    def held(self) -> int:
        """Bytes in memory, about."""
        return self._nbytes + RUN * self._frames


def _place(part: Publish | Settle) -> tuple[object, ...] | None:
    """Parts with the same one may be one; None: it is one of its own (what lives for a while has its own time)."""
    if type(part) is Settle:
        return part.consumer, part.outcome, part.delay
    assert type(part) is Publish
    if part.ttl or part.delay:
        return None
    run = part.run
    kind = run.flags & (DURABLE | TEXT), run.priority, run.expires, run.due
    return part.slot, part.address, part.routing, part.queue, part.create, *kind
