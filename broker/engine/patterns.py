"""Wildcard subscriptions of one slot: queues bound to a pattern instead of an address.

A pattern's queue gets a copy of every message that a multicast queue of a matching address would get, whether that
address has queues of its own or not. A wildcard consumer is in all slots of the broker and most of them never see a
matching message, so a queue that only lives as long as its consumer is made with the first one; until then the
consumer sleeps here. Durable ones are made at once, because their messages must be kept from the SUBSCRIBE on.

Rule: the registry only; who makes queues says enrol.awaken. `$…` is ours and matches nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from broker.core.commands import Subscribe

from .matching import is_pattern, matches

if TYPE_CHECKING:
    from .queue import Queue

REMEMBERED = 4096
"""Addresses whose patterns are kept; names of reply topics would pile up else."""


class Patterns:
    """Exists in a slot as long as there is a pattern in it (Slot.patterns is None else)."""

    __slots__ = ("_asleep", "_bound", "_delimiter", "_memo", "_selective", "_sessions")

    def __init__(self, delimiter: str = ".") -> None:
        self._delimiter = delimiter
        self._bound: dict[Queue, list[str]] = {}
        self._asleep: dict[int, Subscribe] = {}
        self._selective: set[Queue] = set()
        self._sessions: dict[int, list[int]] = {}
        self._memo: dict[str, list[Queue]] = {}
        """Addresses no sleeper waits for, and the queues that match."""

    def __bool__(self) -> bool:
        return bool(self._bound or self._asleep)

    @property
    def filtered(self) -> bool:
        """Does one of the queues not take every message."""
        return bool(self._selective)

    def bind(self, queue: Queue) -> None:
        self._bound[queue] = queue.address.split(self._delimiter)
        if queue.selective():
            self._selective.add(queue)
        self._memo.clear()

    def unbind(self, queue: Queue) -> None:
        del self._bound[queue]
        self._selective.discard(queue)
        self._memo.clear()

    def refresh(self) -> None:
        """Settings of queues have changed."""
        self._selective = {queue for queue in self._bound if queue.selective()}

    def sleep(self, command: Subscribe) -> None:
        """Its consumer waits for the first matching message."""
        if command.consumer not in self._asleep:
            self._sessions.setdefault(command.session, []).append(command.consumer)
        self._asleep[command.consumer] = command
        self._memo.clear()

    def forget(self, consumer: int, session: int) -> bool:
        """A consumer of the session has ended. Returns whether it was asleep."""
        known = self._asleep.get(consumer)
        if known is None or known.session != session:
            return False
        self._wake(known)
        return True

    def forget_session(self, session: int) -> None:
        """All consumers of the session have ended."""
        for consumer in self._sessions.pop(session, ()):
            del self._asleep[consumer]

    def sleepers(self, address: str) -> list[Subscribe]:
        """Those who must be awake before a message of the address comes; they sleep no longer."""
        if address in self._memo or not self._asleep or address.startswith("$"):
            return []
        words = address.split(self._delimiter)
        due = [command for command in self._asleep.values() if matches(command.address.split(self._delimiter), words)]
        for command in due:
            self._wake(command)
        return due

    def queues(self, address: str) -> list[Queue]:
        """The queues whose pattern matches. Ask sleepers() first."""
        found = self._memo.get(address)
        if found is None:
            if len(self._memo) >= REMEMBERED:
                self._memo.clear()
            words = address.split(self._delimiter)
            mine = address.startswith("$")
            found = [] if mine else [queue for queue, pattern in self._bound.items() if matches(pattern, words)]
            self._memo[address] = found
        return found

    def _wake(self, command: Subscribe) -> None:
        del self._asleep[command.consumer]
        owned = self._sessions[command.session]
        owned.remove(command.consumer)
        if not owned:
            del self._sessions[command.session]


def may_sleep(command: Subscribe, delimiter: str = ".") -> bool:
    """Does the consumer need no queue before the first message."""
    holds = command.resume is not None and command.resume.held
    return command.queue is None and not command.browse and not holds and is_pattern(command.address, delimiter)
