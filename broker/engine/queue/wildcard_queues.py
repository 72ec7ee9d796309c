"""Wildcard subscriptions of one slot: queues bound to a pattern instead of an address.

A pattern's queue gets a copy of every message that a multicast queue of a matching address would get, whether that
address has queues of its own or not. A wildcard consumer is in all slots of the broker and most of them never see a
matching message, so a queue that only lives as long as its consumer is made with the first one; until then the
consumer sleeps: in wildcards.py, once for all slots of the process, or here, where an edge asks slot by slot. Durable
ones are made at once, because their messages must be kept from the SUBSCRIBE on.

Rule: the registry only; attach.awaken makes the queues. Of `$…` see the trie.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from broker.core.commands import Subscribe

from ..address.address_settings import is_pattern
from ..address.trie import Trie
from .filters import Filters

if TYPE_CHECKING:
    from .queue import Queue

REMEMBERED = 4096
"""Addresses whose patterns are kept; names of reply topics would pile up else."""


class Patterns:
    """Exists in a slot as long as there is a pattern in it (Slot.patterns is None else)."""

    __slots__ = (
        "_asleep",
        "_bound",
        "_count",
        "_delimiter",
        "_filters",
        "_memo",
        "_queues",
        "_quiet",
        "_selective",
        "_sessions",
        "_sleepers",
    )

    def __init__(self, delimiter: str = ".") -> None:
        self._delimiter = delimiter
        self._count = 0
        self._bound: dict[Queue, int] = {}
        """In the order in which they came."""
        self._queues: Trie[Queue] = Trie()
        self._asleep: dict[int, tuple[int, Subscribe]] = {}
        self._sleepers: Trie[int] = Trie()
        self._selective: set[Queue] = set()
        self._sessions: dict[int, dict[int, None]] = {}
        self._memo: dict[str, list[Queue]] = {}
        """Addresses, and the queues that match."""
        self._quiet: set[str] = set()
        """Addresses no sleeper waits for."""
        self._filters: dict[str, Filters] = {}
        """Of these, what the queues take."""

    def __bool__(self) -> bool:
        return bool(self._bound or self._asleep)

    @property
    def filtered(self) -> bool:
        """Does one of the queues not take every message."""
        return bool(self._selective)

    @property
    def sleeping(self) -> bool:
        """Does a consumer wait for its first message."""
        return bool(self._asleep)

    def bind(self, queue: Queue) -> None:
        self._count += 1
        self._bound[queue] = self._count
        # The trie finds in no order; `_bound` has when each came, and the found ones are sorted by it: the same on
        # every replica.
        self._queues.add(self._words(queue.address), queue)
        if queue.selective():
            self._selective.add(queue)
        self._forget()

    def unbind(self, queue: Queue) -> None:
        del self._bound[queue]
        self._queues.remove(self._words(queue.address), queue)
        self._selective.discard(queue)
        self._forget()

    def refresh(self) -> None:
        """Settings of queues have changed."""
        self._selective = {queue for queue in self._bound if queue.selective()}

    def sleep(self, command: Subscribe) -> None:
        """Its consumer waits for the first matching message."""
        known = self._asleep.get(command.consumer)
        # Asked again: at its old place, since who came first is served first.
        if known is not None:
            place = known[0]
            self._wake(known[1])
        else:
            place = self._count = self._count + 1
        self._sessions.setdefault(command.session, {})[command.consumer] = None
        self._asleep[command.consumer] = place, command
        self._sleepers.add(self._words(command.address), command.consumer)
        self._quiet.clear()

    def forget(self, consumer: int, session: int) -> bool:
        """A consumer of the session has ended. Returns whether it was asleep."""
        known = self._asleep.get(consumer)
        if known is None or known[1].session != session:
            return False
        self._wake(known[1])
        return True

    def forget_session(self, session: int) -> None:
        """All consumers of the session have ended."""
        # By session, so the end of one does not look at those of others.
        for consumer in list(self._sessions.get(session, ())):
            self._wake(self._asleep[consumer][1])

    def sleepers(self, address: str, most: int = 0) -> list[Subscribe]:
        """Those who must be awake before a message of the address comes; they sleep no longer. most: so many of
        them, who came first first; 0: all."""
        # Not by the memo of queues(): whoever only asks what is there (filters) wakes nobody.
        if address in self._quiet or not self._asleep:
            return []
        found = [self._asleep[consumer] for consumer in self._sleepers.find(self._words(address))]
        found.sort(key=_place)
        if most and len(found) > most:
            del found[most:]
        else:
            if len(self._quiet) >= REMEMBERED:
                self._quiet.clear()
            self._quiet.add(address)
        for _, command in found:
            self._wake(command)
        return [command for _, command in found]

    def queues(self, address: str) -> list[Queue]:
        """The queues whose pattern matches. Those who are to have one of their own: sleepers() first."""
        found = self._memo.get(address)
        if found is None:
            if len(self._memo) >= REMEMBERED:
                # All of them: it fills again with what is in use.
                self._forget()
            found = self._queues.find(self._words(address))
            found.sort(key=self._bound.__getitem__)
            self._memo[address] = found
        return found

    def filters(self, address: str) -> Filters:
        """What the queues whose pattern matches take."""
        found = self._filters.get(address)
        if found is None:
            found = self._filters[address] = Filters(address, self.queues(address))
        return found

    def _forget(self) -> None:
        """Who matches what has changed."""
        self._memo.clear()
        self._filters.clear()

    def _wake(self, command: Subscribe) -> None:
        del self._asleep[command.consumer]
        self._sleepers.remove(self._words(command.address), command.consumer)
        owned = self._sessions[command.session]
        del owned[command.consumer]
        if not owned:
            del self._sessions[command.session]

    def _words(self, name: str) -> list[str]:
        return name.split(self._delimiter)


def _place(sleeper: tuple[int, Subscribe]) -> int:
    return sleeper[0]


def may_sleep(command: Subscribe, delimiter: str = ".") -> bool:
    """Does the consumer need no queue before the first message."""
    holds = command.resume is not None and command.resume.held
    return command.queue is None and not command.browse and not holds and is_pattern(command.address, delimiter)
