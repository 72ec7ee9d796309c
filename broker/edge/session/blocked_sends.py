"""What a session has sent to full addresses (policy BLOCK): it waits here, without RECEIPT, until there is room.

Only what goes to such an address waits, in order; everything else of the session goes on, and its receipts do not wait
for those of what waits. Above edge.park_bytes (or when all sessions together keep edge.park_total_bytes) the socket is
not read any more; its silence is not the client's then. A connection that consumes is always read: it could not
acknowledge what makes room. If such a one sends more than park_bytes to full addresses, it ends with ERROR, like
everybody who has waited for edge.block_timeout_s. DISCONNECT and the end of the stream wait for what waits, after the
session's consumers have ended. What waits when a connection breaks is dropped: nobody was told that it was taken.

Where an owner has only much to do (`busy`), nobody's ACK is needed, and the session as a whole is not read for a while:
no ACK overtakes what was sent on before it, and what a broken connection had sent is carried out.

When there is room again, what waits leaves piece by piece, the next one when the last has been answered: else all that
waits would pass the limit at once.

Rule: made for a session that was told of a full address, and for no other. Must not know frames.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping, Sequence
from itertools import islice
from typing import Protocol

from broker.core.commands import Command, Publish, Transact
from broker.core.errors import Code, RefusedError

from ..subscriptions.subscription import SlotSubscription
from ..transport.timers import Handle
from .parts import OpenConnection, ReadingHalf
from .receipts import Answers

PIECE = 64 * 1024
"""Bytes for one address that leave at a time."""
EACH = 200
"""Bytes a command takes beside its messages, about."""
GONE_S = 60.0
"""What a client sent before it closed its side waits no longer than this: nobody is there to hear of it."""

TOLD = 5
"""Addresses that an operator is told of."""

Key = tuple[int, str]
"""Slot, address."""


class Waiting:
    """A command that waits, or something else that is to happen in its turn (`go`). receipts   of its frames."""

    __slots__ = ("command", "go", "keys", "nbytes", "receipts")

    def __init__(
        self,
        keys: Sequence[Key],
        receipts: list[bytes],
        command: Publish | Transact | None = None,
        go: Callable[[], None] | None = None,
    ) -> None:
        self.keys = keys
        self.receipts = receipts
        self.command = command
        self.go = go
        self.nbytes = EACH if command is None else _size(command)


class BlockedClient(OpenConnection, Protocol):
    """The connection whose messages wait."""

    @property
    def answers(self) -> Answers: ...
    @property
    def leaving(self) -> bool: ...
    @property
    def subscriptions(self) -> Mapping[str, SlotSubscription]: ...
    @property
    def inbound(self) -> ReadingHalf: ...
    def done(self, seq: int) -> None: ...


class BlockedSends:
    """See the head of this file. `full`: addresses the session was told of. `busy`: the same of owners."""

    __slots__ = (
        "_held", "_last", "_paced", "_patience", "_then", "_timer", "_waiting", "busy", "full", "nbytes", "session",
    )  # fmt: skip

    def __init__(self, session: BlockedClient) -> None:
        self.session = session
        self.full: set[Key] = set()
        self.busy: set[Key] = set()
        self.nbytes = 0
        self._waiting: deque[Waiting] = deque()
        self._held: dict[Key, int] = {}
        """Address → how many of those that wait go there."""
        self._paced: dict[Key, int] = {}
        """Address → the last request of its piece that is on its way: the next piece waits for its answer."""
        self._last: dict[int, list[Key]] = {}
        """The same the other way round."""
        self._patience: float = session.edge.settings.edge.block_timeout_s
        """Seconds without a step forward; 0: for ever."""
        self._then: Callable[[], None] | None = None
        self._timer: Handle | None = None

    # ── from the session ───────────────────────────────────────────────────────────────────────────

    def sift(self, batch: list[Command]) -> list[Command]:
        """What of it may leave now; the rest waits. A message with a large body was on its way before (see blocks)."""
        if not (self.full or self._waiting):
            return batch
        out: list[Command] = []
        for command in batch:
            if isinstance(command, Publish | Transact):
                keys = _keys(command)
                if any(map(self._shut, keys)) and not (isinstance(command, Publish) and command.run.blob):
                    self._keep(Waiting(keys, self._withdraw_receipts(command), command))
                    continue
            out.append(command)
        self._bound()
        return out

    def awaited(self) -> list[str]:
        """Addresses that something waits for, some of them."""
        return [address for _, address in islice(self._held, TOLD)]

    def blocks(self, slot: int, address: str) -> bool:
        """Has what goes there to wait."""
        return self._shut((slot, address))

    def wait(self, slot: int, address: str, receipt: bytes | None, go: Callable[[], None]) -> None:
        """Calls `go` when it is its turn. Raises RefusedError if the session cannot wait for it: what it sends behind
        it would have to wait as well, also what makes room."""
        if self.session.subscriptions:
            raise RefusedError(
                Code.ADDRESS_FULL, f'Address "{address}" is full; send large messages over a connection of their own'
            )
        self.session.inbound.submit()  # what came before this in the same read
        self._keep(Waiting(((slot, address),), [] if receipt is None else [receipt], go=go))

    def when_empty(self, then: Callable[[], None], gone: bool = False) -> bool:
        """Calls back when nothing waits any more; False: nothing does now. gone: the client will send no more."""
        self.session.inbound.submit()  # what came before this in the same read
        if not self._waiting:
            return False
        self._then = then
        if gone:
            self._patience = min(self._patience or GONE_S, GONE_S)
            self._arm()
        return True

    def answered(self, seq: int) -> None:
        """Request `seq` of the session is carried out."""
        if seq in self._last:
            for key in self._last.pop(seq):
                del self._paced[key]
            self._soon()

    def address_blocked(self, slot: int, address: str, full: bool) -> None:
        """The address has reached its limit, or has room again."""
        if full:
            self.full.add((slot, address))
        else:
            self.full.discard((slot, address))
            self._soon()

    def passing(self, slot: int, address: str, busy: bool) -> None:
        """The owner has more to do for that address than it can at once, or has done it."""
        inbound = self.session.inbound
        if busy:
            self.busy.add((slot, address))
            inbound.pause_reading("busy")
            return
        self.busy.discard((slot, address))
        if not self.busy:
            inbound.resume_reading("busy")

    def _soon(self) -> None:
        """Once for all that the owners tell in one go: they may have a thousand addresses to speak of."""
        edge = self.session.edge
        if edge.dispatching:
            edge.eased[self] = None
        else:
            self.advance()

    def fault(self) -> None:
        """See Session.fault."""
        self.session.fault()

    def close(self) -> None:
        """The session has ended."""
        self.session.edge.count_blocked(-self.nbytes)
        self.nbytes = 0
        self._waiting.clear()
        self._held.clear()
        self._then = None
        self._disarm()

    # ── waiting ────────────────────────────────────────────────────────────────────────────────────

    def _shut(self, key: Key) -> bool:
        return key in self.full or key in self._held

    def _withdraw_receipts(self, command: Publish | Transact) -> list[bytes]:
        """Its receipts do not keep back those of later frames: they are asked for when it leaves."""
        session, seq = self.session, command.seq
        if not seq:
            return []
        command.answer_to(0)
        receipts = session.answers.withdraw(seq)
        session.done(seq)
        return receipts

    def _keep(self, waiting: Waiting) -> None:
        self._waiting.append(waiting)
        for key in waiting.keys:
            self._held[key] = self._held.get(key, 0) + 1
        self.nbytes += waiting.nbytes
        self.session.edge.count_blocked(waiting.nbytes)
        self.session.edge.holding.note(self.session)
        if self._timer is None:
            self._arm()

    def _bound(self) -> None:
        session, settings = self.session, self.session.edge.settings.edge
        over = self.nbytes > settings.park_bytes
        if not self._waiting or not (over or session.edge.blocked_bytes > settings.park_total_bytes):
            return
        if not session.subscriptions:
            session.inbound.pause_reading("blocked")
        elif over:
            self._fail(f"a connection that consumes may keep {settings.park_bytes} bytes waiting (park_bytes)")

    def _fail(self, why: str) -> None:
        first = self._waiting[0]
        receipt = next((r for waiting in self._waiting for r in waiting.receipts), None)
        self.session.fail(Code.ADDRESS_FULL, f'Address "{first.keys[0][1]}" is full; {why}', receipt)

    # ── leaving ────────────────────────────────────────────────────────────────────────────────────

    def advance(self) -> None:
        """What may leave leaves."""
        session = self.session
        if not self._waiting or session.closed or session.leaving:
            return
        stay: deque[Waiting] = deque()
        blocked = self.full | self._paced.keys()
        sizes: dict[Key, int] = {}
        leaving: list[Waiting] = []
        for waiting in self._waiting:
            if blocked.isdisjoint(waiting.keys):
                leaving.append(waiting)
                for key in waiting.keys:
                    sizes[key] = sizes.get(key, 0) + waiting.nbytes
                    if sizes[key] >= PIECE or waiting.go is not None:
                        blocked.add(key)
            else:
                stay.append(waiting)
                blocked.update(waiting.keys)
        self._waiting = stay
        self._leave(leaving)
        if leaving:
            self._eased()

    def _leave(self, leaving: list[Waiting]) -> None:
        session = self.session
        batch: list[Command] = []
        for waiting in leaving:
            for key in waiting.keys:
                self._held[key] -= 1
                if not self._held[key]:
                    del self._held[key]
            self.nbytes -= waiting.nbytes
            session.edge.count_blocked(-waiting.nbytes)
            if waiting.command is not None:
                seq = session.answers.ask(waiting.receipts)
                waiting.command.answer_to(seq)
                # The last of each address is who the next piece waits for; earlier ones are answered before it.
                for key in waiting.keys:
                    self._pace(key, seq)
                batch.append(waiting.command)
        if batch and session.edge.port.submit(batch):
            session.edge.pause(session)
        for waiting in leaving:
            if waiting.go is not None:
                waiting.go()

    def _pace(self, key: Key, seq: int) -> None:
        before = self._paced.get(key)
        if before is not None:
            self._last[before].remove(key)
            if not self._last[before]:
                del self._last[before]
        self._paced[key] = seq
        self._last.setdefault(seq, []).append(key)

    def _eased(self) -> None:
        session = self.session
        self._disarm()
        if self.nbytes <= session.edge.settings.edge.park_bytes // 2:
            session.inbound.resume_reading("blocked")
        if self._waiting:
            self._arm()
        elif self._then is not None:
            then, self._then = self._then, None
            then()

    # ── patience ───────────────────────────────────────────────────────────────────────────────────

    def _arm(self) -> None:
        self._disarm()
        edge = self.session.edge
        if self._patience > 0:
            self._timer = edge.beats.deadline(edge.clock.monotonic() + self._patience, self._too_long)

    def _disarm(self) -> None:
        if self._timer is not None:
            self.session.edge.beats.cancel(self._timer)
            self._timer = None

    def _too_long(self) -> None:
        self._timer = None
        if self._waiting:
            self._fail("nobody has made room in time (block_timeout_s)")


def _keys(command: Publish | Transact) -> Sequence[Key]:
    if isinstance(command, Publish):
        return ((command.slot, command.address),)
    return tuple(dict.fromkeys((p.slot, p.address) for p in command.parts if isinstance(p, Publish)))


def _size(command: Publish | Transact) -> int:
    if isinstance(command, Publish):
        return EACH + command.run.nbytes
    return EACH + sum([EACH + (part.run.nbytes if isinstance(part, Publish) else 0) for part in command.parts])
