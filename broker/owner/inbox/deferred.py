"""Commands that need more than one turn: they publish to topics where thousands of selectors have to be asked.

What their messages match is found in pieces (engine/publishing/prefilter.py), so much a turn for all of them together;
then they are carried out as any other. Meanwhile the session that sent them waits: its later commands do, for order,
and its connection is not read (AddressBlocked). No other does, at that topic neither: those that wait are served in
turns.

Rule: what one session sends stays in order, in a cluster also what one edge sends to one slot, whose numbers ascend.
Must not know how a selector is asked.
"""

# Example. Session 7 publishes to a topic with 20,000 selectors, which takes 12 ms to ask; session 8 publishes
# elsewhere.
#     turn 1   7's SEND is looked at for 1 ms (PIECE_NS) and waits; 7 is told so (AddressBlocked: its connection is not
#              read). 8's SEND is carried out as always
#     turn 2   7's SEND comes first, for another millisecond; what 7 has sent behind it waits behind it (holds)
#     turn 12  all is known: it is carried out by what was found, with the others of its turn, and 7 is told to go on
# A turn never looks for more than 1 ms, whoever sends what; sessions that had their share come after the others.

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final, Protocol

from broker.core.commands import Command, Publish, Subscribe
from broker.core.effects import AddressBlocked, Turn

from .portions import TURN, units

TURN_NS: Final = 1_000_000
"""Of looking, in one turn. Why: no step may be longer than 5 ms (docs/adr/0009), and a turn has other work."""
PIECE_NS: Final = TURN_NS
"""… for one session: all of it, as others have the next turns."""
ALL: Final = 1 << 62
"""More units than there are."""


class Looker(Protocol):
    """A slot (engine/engine.py)."""

    @property
    def number(self) -> int: ...
    @property
    def filtered(self) -> bool: ...
    @property
    def spread(self) -> bool: ...
    def wide(self, part: Publish) -> bool: ...
    @property
    def drowsy(self) -> bool: ...
    def wake_some(self, part: Publish, turn: Turn) -> bool: ...
    def look(self, parts: Sequence[Publish], turn: Turn, most: int) -> int: ...
    def looked(self, parts: Sequence[Publish]) -> None: ...


class Deferred:
    """waiting   commands that are carried out in a later turn.
    done, told   what end() has to look at: most turns have neither, and do without it."""

    __slots__ = (
        "_asking", "_busy", "_consumers", "_full", "_left", "_places", "_room", "_served", "_sessions", "_spent",
        "_tokens", "done", "told", "waiting",
    )  # fmt: skip

    def __init__(self) -> None:
        self.waiting: list[Command] = []
        self._sessions: set[int] = set()
        """Who sent them."""
        self._places: set[tuple[int, int]] = set()
        """(slot, session) of theirs."""
        self._tokens: set[tuple[int, int]] = set()
        """(slot, producer) of those that are numbered."""
        self._consumers: set[tuple[int, int]] = set()
        """(slot, consumer) of those that are about one."""
        self._asking: set[int] = set()
        """Sessions that wait for time, not for another one."""
        self._served: set[int] = set()
        """… that had their share; the others come first."""
        self._spent: dict[int, int] = {}
        """… in this turn."""
        self._left = TURN_NS
        self._room = TURN
        """Units of what has waited that this turn still takes."""
        self.told: dict[tuple[int, int, str], None] = {}
        """(session, slot, address) that has been told to wait."""
        self.done: list[tuple[Looker, Sequence[Publish]]] = []
        self._busy = False
        """Somebody waits for nothing but time."""
        self._full: list[Looker] = []
        """Whose copies have to go out before somebody can go on."""

    def some(self, waiting: list[Command]) -> Iterator[Command]:
        """What has waited and can be carried out, one after the other, until that is as much as a turn's portion: the
        rest waits on."""
        # Things that waited for each other may all be ready at once: they are portioned as what is new is.
        self._room = TURN
        for at, command in enumerate(waiting):
            if self._room <= 0:
                self._busy = True
                for later in waiting[at:]:
                    self._wait(later)
                return
            # Nothing waits yet: most turns, and no call. Behind puts_back() nobody is held: what is put back has not
            # been carried out, and what was kept here for the sake of something else would come before it.
            if self._room > TURN or not (self.waiting and self.delays(command)):
                self._room -= units(command)
                yield command

    def puts_back(self) -> None:
        """The turn has had enough: what it was not given yet (some) goes all the same way, to the inbox. What stayed
        here would come before it."""
        self._room = ALL

    def begin(self) -> list[Command]:
        """A turn begins: what waits comes before all that is new."""
        # All who ask have had their share: a new round. Not all who wait: who only stands behind another session (an
        # edge numbers what it sends to a slot) never has one, and nobody would ever be looked at again.
        if self._asking <= self._served:
            self._served.clear()
        self._asking.clear()
        waiting, self.waiting = self.waiting, []
        self._forget_who_waits()
        self._spent.clear()
        self._full.clear()
        self._busy = False
        self._left = TURN_NS
        return waiting

    def delays(self, command: Any) -> bool:
        """Has it to wait for an earlier one; then it does."""
        dedup = getattr(command, "dedup", None)
        session = getattr(command, "session", None)
        consumer = getattr(command, "consumer", None)
        # By session, for the order of what one client sends (I7). By producer number as well: an edge numbers what it
        # sends to a slot, and a later number that is carried out first would make the earlier one a repetition. By
        # consumer, for what an edge says of one on its own account: a Grant that overtakes the Subscribe that comes
        # again without room (slot_channel.py) is lost, and the consumer is never given anything.
        # Who comes again to a slot that has just come keeps all of that from going on: it waits for its own there, and
        # not for what its session has asked of others, of which an edge expects no order.
        comes_again = type(command) is Subscribe and command.resume is not None
        if (
            ((command.slot, session) in self._places if comes_again else session in self._sessions)
            or (dedup is not None and (command.slot, dedup[0]) in self._tokens)
            or (consumer is not None and (command.slot, consumer) in self._consumers)
        ):
            self._wait(command)
            return True
        return False

    def goes(self, engines: Sequence[Looker], command: Any, parts: Sequence[Publish], turn: Turn) -> bool:
        """Is there room for the copies it makes, and known what its messages match. False: it waits."""
        # Room first: to ask selectors in vain costs time, to ask for room none.
        if self._spreads(engines, command, parts, turn):
            return False
        if any([engine.drowsy for engine in engines]) and self._sleeps(engines, command, parts, turn):
            return False
        filtered = [engine for engine in engines if engine.filtered]
        return not filtered or self.looks(filtered, command, parts, turn)

    def looks(self, engines: Sequence[Looker], command: Any, parts: Sequence[Publish], turn: Turn) -> bool:
        """Is all known that these parts of the command match; then forget() is due when it is carried out. False: it
        waits."""
        session = command.session
        # A share each turn, so that the session with the widest topic does not use up everybody's.
        if self._left > 0 and session not in self._served:
            most = before = min(self._left, PIECE_NS)
            for engine in engines:
                most = engine.look([part for part in parts if part.slot == engine.number], turn, most)
                if most < 0:
                    break
            spent = self._spent[session] = self._spent.get(session, 0) + before - max(most, 0)
            self._left -= before - max(most, 0)
            if spent >= PIECE_NS:
                self._served.add(session)
            if most >= 0:
                # What was found is kept by the engines until the command has been carried out: then it is forgotten
                # (end).
                self.done += [(engine, parts) for engine in engines]
                return True
        self._asking.add(session)
        self._busy = True
        self._rest(command, parts, turn)
        return False

    def _spreads(self, engines: Sequence[Looker], command: Any, parts: Sequence[Publish], turn: Turn) -> bool:
        """Do these parts go to so many queues that the copies of earlier ones have to go out first. True: it waits."""
        for engine in engines:
            if engine.spread and any(engine.wide(part) for part in parts if part.slot == engine.number):
                self._full.append(engine)
                self._rest(command, parts, turn)
                return True
        return False

    def _sleeps(self, engines: Sequence[Looker], command: Any, parts: Sequence[Publish], turn: Turn) -> bool:
        """Are there many wildcard subscriptions that need a queue before these come: some have theirs now. True: it
        waits for the rest."""
        for engine in engines:
            for part in parts:
                if part.slot == engine.number and engine.wake_some(part, turn):
                    self._busy = True
                    self._rest(command, parts, turn)
                    return True
        return False

    def _rest(self, command: Any, parts: Sequence[Publish], turn: Turn) -> None:
        session = command.session
        self._wait(command)
        for part in parts:
            key = (session, part.slot, part.address)
            # Once; the edge keeps it until it is told to go on.
            if session and key not in self.told:
                self.told[key] = None
                turn.effects.append(AddressBlocked(*key, True, passing=True))

    @property
    def ready(self) -> bool:
        """Can some of what waits go on in the next turn. What waits for copies to go out, and cannot: there will be a
        turn when they do."""
        return bool(self.waiting) and (self._busy or not all(engine.spread for engine in self._full))

    def _wait(self, command: Any) -> None:
        dedup = getattr(command, "dedup", None)
        session = getattr(command, "session", None)
        consumer = getattr(command, "consumer", None)
        self.waiting.append(command)
        if session is not None:
            self._sessions.add(session)
            self._places.add((command.slot, session))
        if dedup is not None:
            self._tokens.add((command.slot, dedup[0]))
        if consumer is not None:
            self._consumers.add((command.slot, consumer))

    def end(self, turn: Turn) -> None:
        """The turn has carried out what it could: commands that wait no more go on."""
        for engine, parts in self.done:
            engine.looked(parts)
        self.done.clear()
        if self.told:
            # Those that wait no more.
            for key in [key for key in self.told if key[0] not in self._sessions]:
                del self.told[key]
                turn.effects.append(AddressBlocked(*key, False, passing=True))

    def _forget_who_waits(self) -> None:
        self._sessions.clear()
        self._places.clear()
        self._tokens.clear()
        self._consumers.clear()

    def drop(self, slot: int) -> None:
        """The slot is led elsewhere: edges ask there again for what waits."""
        kept, self.waiting = [command for command in self.waiting if command.slot != slot], []
        # begin(), which makes these anew, is not called where nothing waits: a session that waits no more would be
        # waited for, and its connection would never be read again.
        self._forget_who_waits()
        for command in kept:
            self._wait(command)
