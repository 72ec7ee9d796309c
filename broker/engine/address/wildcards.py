"""Wildcard subscriptions of all slots that one process leads, as long as they need no queue.

A wildcard consumer is in every slot of the broker, and most slots never see a message for it. So its description is
kept once, in one trie for all slots; a slot makes queue and consumer of it with the first message that matches there
(attach.awaken). From the moment add() has returned no slot routes a message past it: that is what its receipt says.

  SUBSCRIBE a.* (consumer 512)     add(): one entry, asleep in all slots
  first message to a.x (slot 7)    due(7, "a.x"): the Subscribe of consumer 519, which is awake in slot 7 from now on
  UNSUBSCRIBE                      end(): {7}, where a consumer is to be ended; everywhere else nothing was

In a cluster a slot hears of it from the edge alone, by a Subscribe of its own: sleep() adds the slot to the entry.

Rule: which subscriptions are awake in a slot is that slot's alone, and never due there again. No step is as long as a
session has subscriptions: of one that ended nothing is due at once, and its entries go in pieces (tidy). Of `$…` see
the trie. Must not know queues.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from operator import attrgetter

from broker.core.commands import BLOCK, Subscribe, SubscribeAll
from broker.core.ids import SLOTS

from .trie import Trie

ALL = (1 << SLOTS) - 1
REMEMBERED = 4096
"""Addresses of a slot nobody is due for; names of reply topics would pile up else."""
PIECE = 256
"""Entries of ended sessions that go in one step: less than a millisecond."""
_SAME = attrgetter(
    "session", "address", "routing", "ack", "queue", "durable", "selector", "credit_messages", "credit_bytes", "room",
    "overhead", "browse", "priority", "create", "no_local", "confirm", "maker",
)  # fmt: skip
"""What the parts of one subscription have in common."""


class _Session:
    """Whose entries they are. All as bits: slots it has entries in, those where it has ended, or the slot has; those
    where one of them was ever awake."""

    __slots__ = ("awake", "entries", "gone", "slots")

    def __init__(self) -> None:
        self.entries: dict[int, Wildcard] = {}
        self.slots = self.gone = self.awake = 0


class Wildcard:
    """One subscription.

    model    as for slot 0.    wide   it is in all slots until it ends; else only where it still sleeps.
    asleep, awake   slots, as bits."""

    __slots__ = ("asleep", "awake", "model", "session", "wide", "words")

    def __init__(self, model: Subscribe, session: _Session, words: list[str], asleep: int, wide: bool) -> None:
        self.model = model
        self.session = session
        self.words = words
        self.asleep = asleep
        self.awake = 0
        self.wide = wide


class Wildcards:
    """See the head of this file; shared by the engines of a process."""

    __slots__ = ("_quiet", "_sessions", "_trie", "_version", "ended", "some")

    def __init__(self) -> None:
        self._trie: Trie[Wildcard] = Trie()
        self.some = 0
        """How many there are, those of ended sessions included that have not gone yet."""
        self._sessions: dict[int, _Session] = {}
        self.ended: deque[_Session] = deque()
        self._version = 0
        self._quiet: dict[int, tuple[int, set[str]]] = {}
        """Slot → (version, addresses nobody was due for then)."""

    # ── subscriptions come ─────────────────────────────────────────────────────────────────────────

    def add(self, command: SubscribeAll, delimiter: str) -> None:
        """It sleeps in all slots."""
        self._add(command.model, ALL, delimiter, wide=True)
        # All slots have to look again: 256 sets are not cleared, but found old when they are asked.
        self._version += 1

    def sleep(self, slot: int, command: Subscribe, delimiter: str) -> bool:
        """The part of this slot sleeps. False: it is no part of a block, or not like the rest: it has to be kept by
        itself."""
        first, bit = command.consumer - slot, 1 << slot
        owner = self._sessions.get(command.session)
        # An edge that was given up comes back with the same session: what it says now is all there is.
        if owner is not None and owner.gone & bit:
            self._forget_slot(owner, bit)  # what it had here before is over
        entry = owner.entries.get(first) if owner is not None else None
        if entry is not None:
            entry.asleep &= ~bit
        if first % BLOCK or (entry is not None and _SAME(entry.model) != _SAME(command)):
            self._drop_if_over(entry)
            return False
        if entry is None:
            model = command.as_model(first)
            self._add(model, bit, delimiter, wide=False)
        else:
            entry.asleep |= bit
            entry.session.slots |= bit
        # Of this slot alone: the others have heard nothing new.
        self._quiet.pop(slot, None)
        return True

    def _add(self, model: Subscribe, asleep: int, delimiter: str, wide: bool) -> None:
        session = self._sessions.get(model.session)
        if session is None:
            session = self._sessions[model.session] = _Session()
        session.slots |= asleep
        entry = Wildcard(model, session, model.address.split(delimiter), asleep, wide)
        session.entries[model.consumer] = entry
        self._trie.add(entry.words, entry)
        self.some += 1

    # ── messages come ──────────────────────────────────────────────────────────────────────────────

    def due(self, slot: int, address: str, delimiter: str, most: int = 0) -> list[Subscribe]:
        """Those who must be awake in this slot before a message of the address comes; they are from now on. most: so
        many of them, the oldest first; 0: all."""
        version, quiet = self._quiet.get(slot, (-1, _NOTHING))
        if version != self._version or len(quiet) >= REMEMBERED:
            quiet = set()
            self._quiet[slot] = (self._version, quiet)
        if address in quiet:
            return []
        bit = 1 << slot
        matching = self._trie.find(address.split(delimiter))
        found = [each for each in matching if each.asleep & bit and not each.session.gone & bit]
        found.sort(key=_by_age)
        if most and len(found) > most:
            del found[most:]
        else:
            # From now on a message of this address costs one look in a set, until somebody subscribes.
            quiet.add(address)
        return [self._wake(entry, slot) for entry in found]

    def _wake(self, entry: Wildcard, slot: int) -> Subscribe:
        bit = 1 << slot
        entry.asleep &= ~bit
        entry.awake |= bit
        entry.session.awake |= bit
        command = entry.model.in_slot(slot)
        self._drop_if_over(entry)
        return command

    # ── and go ─────────────────────────────────────────────────────────────────────────────────────

    def end(self, consumer: int, session: int) -> int | None:
        """The subscription with that block of consumers has ended. The slots, as bits, where it was awake; None: the
        session has none of that number."""
        owner = self._sessions.get(session)
        entry = owner.entries.get(consumer) if owner is not None else None
        if entry is None:
            return None
        self._drop(entry)
        return entry.awake

    def forget(self, slot: int, consumer: int, session: int) -> bool:
        """A consumer of this slot has ended. Returns whether it was asleep."""
        owner, bit = self._sessions.get(session), 1 << slot
        entry = owner.entries.get(consumer - slot) if owner is not None else None
        if entry is None or entry.session.gone & bit or not entry.asleep & bit:
            return False
        entry.asleep &= ~bit
        self._drop_if_over(entry)
        return True

    def end_session(self, session: int) -> int:
        """All subscriptions of the session have ended. The slots, as bits, where one was awake."""
        owner = self._sessions.get(session)
        if owner is None:
            return 0
        self._gone(session, owner, ALL)
        return owner.awake

    def forget_session(self, slot: int, session: int) -> None:
        """All its consumers of this slot have ended."""
        owner = self._sessions.get(session)
        if owner is not None:
            self._gone(session, owner, 1 << slot)

    def drop(self, slot: int) -> None:
        """The slot is not led here any more: it knows nobody."""
        for session, owner in list(self._sessions.items()):
            self._gone(session, owner, 1 << slot)

    def tidy(self) -> bool:
        """A piece of what ended sessions have left goes. True: there is more."""
        left = PIECE
        while self.ended and left:
            entries = self.ended[0].entries
            while entries and left:
                self._remove(entries.popitem()[1])
                left -= 1
            if not entries:
                self.ended.popleft()
        return bool(self.ended)

    def _gone(self, session: int, owner: _Session, bits: int) -> None:
        owner.gone |= bits
        # No slot is left that could wake it: it may go, but in pieces.
        if not owner.slots & ~owner.gone:
            del self._sessions[session]
            self.ended.append(owner)

    @staticmethod
    def _forget_slot(owner: _Session, bit: int) -> None:
        """It comes back to a slot where it had ended."""
        for entry in owner.entries.values():
            entry.asleep &= ~bit
        owner.gone &= ~bit
        owner.slots &= ~bit

    def _drop_if_over(self, entry: Wildcard | None) -> None:
        if entry is not None and not entry.wide and not entry.asleep:
            self._drop(entry)

    def _drop(self, entry: Wildcard) -> None:
        owner, model = entry.session, entry.model
        del owner.entries[model.consumer]
        if not owner.entries:
            del self._sessions[model.session]
        self._remove(entry)

    def _remove(self, entry: Wildcard) -> None:
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
