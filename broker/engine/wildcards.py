"""Wildcard subscriptions of all slots that one process leads, as long as they need no queue.

A wildcard consumer is in every slot of the broker, and most slots never see a message for it. So its description is
kept once, in one trie for all slots; a slot makes queue and consumer of it with the first message that matches there
(enrol.awaken). From the moment add() has returned no slot routes a message past it: that is what its receipt says.

  SUBSCRIBE a.* (consumer 512)     add(): one entry, asleep in all slots
  first message to a.x (slot 7)    due(7, "a.x"): the Subscribe of consumer 519, who is awake in slot 7 from now on
  UNSUBSCRIBE                      end(): {7}, where a consumer is to be ended; everywhere else nothing was

Rule: who is awake in a slot is that slot's alone, and never due there again. No step is as long as a session has
subscriptions: of one that ended nothing is due at once, and its entries go in pieces (tidy). `$…` is ours and matches
nothing. Must not know queues.
"""

from __future__ import annotations

import copy
from collections import deque
from collections.abc import Iterator

from broker.core.commands import BLOCK, Subscribe, SubscribeAll
from broker.core.ids import SLOTS

from .trie import Trie

ALL = (1 << SLOTS) - 1
REMEMBERED = 4096
"""Addresses of a slot nobody is due for; names of reply topics would pile up else."""
PIECE = 256
"""Entries of ended sessions that go in one step: less than a millisecond."""


class _Session:
    """Whose entries they are."""

    __slots__ = ("awake", "entries", "gone")

    def __init__(self) -> None:
        self.entries: dict[int, Wildcard] = {}
        self.gone = False
        self.awake = 0
        """Slots, as bits, where one of them was ever awake."""


class Wildcard:
    """One subscription. model: as for slot 0; slots where it sleeps, and where it is awake, as bits."""

    __slots__ = ("asleep", "awake", "model", "session", "words")

    def __init__(self, model: Subscribe, session: _Session, words: list[str], asleep: int) -> None:
        self.model = model
        self.session = session
        self.words = words
        self.asleep = asleep
        self.awake = 0

    def wake(self, slot: int) -> Subscribe:
        """The consumer of this slot; it sleeps there no longer."""
        self.asleep &= ~(1 << slot)
        self.awake |= 1 << slot
        self.session.awake |= 1 << slot
        command = copy.copy(self.model)
        command.slot = slot
        command.consumer += slot
        return command


class Wildcards:
    """See the head of this file; shared by the engines of a process."""

    __slots__ = ("_ended", "_quiet", "_sessions", "_trie", "_version", "some")

    def __init__(self) -> None:
        self._trie: Trie[Wildcard] = Trie()
        self.some = 0
        """How many there are, those of ended sessions included that have not gone yet."""
        self._sessions: dict[int, _Session] = {}
        self._ended: deque[_Session] = deque()
        self._version = 0
        self._quiet: dict[int, tuple[int, set[str]]] = {}
        """Slot → (version, addresses nobody was due for then)."""

    def add(self, command: SubscribeAll, delimiter: str) -> None:
        """It sleeps in all slots."""
        model = command.model
        session = self._sessions.get(model.session)
        if session is None:
            session = self._sessions[model.session] = _Session()
        entry = Wildcard(model, session, model.address.split(delimiter), ALL)
        session.entries[model.consumer] = entry
        self._trie.add(entry.words, entry)
        self.some += 1
        self._version += 1

    def due(self, slot: int, address: str, delimiter: str) -> list[Subscribe]:
        """Those who must be awake in this slot before a message of the address comes; they are from now on."""
        version, quiet = self._quiet.get(slot, (0, _NOTHING))
        if version != self._version or len(quiet) >= REMEMBERED:
            quiet = set()
            self._quiet[slot] = (self._version, quiet)
        if address in quiet or address.startswith("$"):
            return []
        bit = 1 << slot
        found = [e for e in self._trie.find(address.split(delimiter)) if e.asleep & bit and not e.session.gone]
        quiet.add(address)
        found.sort(key=_by_age)
        return [entry.wake(slot) for entry in found]

    def end(self, consumer: int, session: int) -> int | None:
        """The subscription with that block of consumers has ended. The slots, as bits, where it was awake; None: the
        session has none of that number."""
        owner = self._sessions.get(session)
        entry = owner.entries.pop(consumer, None) if owner is not None else None
        if owner is None or entry is None:
            return None
        if not owner.entries:
            del self._sessions[session]
        self._forget(entry)
        return entry.awake

    def end_session(self, session: int) -> int:
        """All subscriptions of the session have ended. The slots, as bits, where one was awake."""
        owner = self._sessions.pop(session, None)
        if owner is None:
            return 0
        owner.gone = True
        self._ended.append(owner)
        return owner.awake

    def tidy(self) -> bool:
        """A piece of what ended sessions have left goes. True: there is more."""
        left = PIECE
        while self._ended and left:
            entries = self._ended[0].entries
            while entries and left:
                self._forget(entries.popitem()[1])
                left -= 1
            if not entries:
                self._ended.popleft()
        return bool(self._ended)

    def _forget(self, entry: Wildcard) -> None:
        self.some -= 1
        self._trie.remove(entry.words, entry)


_NOTHING: set[str] = set()


def _by_age(entry: Wildcard) -> int:
    return entry.model.consumer


def slots_in(bits: int) -> Iterator[int]:
    """The slots of a set in ascending order."""
    while bits:
        lowest = bits & -bits
        yield lowest.bit_length() - 1
        bits ^= lowest


assert BLOCK >= SLOTS
