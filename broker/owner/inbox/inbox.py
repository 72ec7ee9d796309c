"""What has been submitted to a shard and not been carried out: what is new, and what waits for several turns.

Rule: order. What has waited comes before what is new, and what a turn leaves over before what comes meanwhile; in a
cluster that holds for each slot, and who has little here does not wait for who has much (shares.py). Must not know what
a command does.
"""

# Example. 2,000 SENDs come in one go, of which a turn carries out 512:
#     submit    all of them stand in `new`; more than `most` wait: whoever sends is told to pause (fills)
#     take      the first portion goes into the turn, the rest keeps its place in `new`; another turn is asked for
#     put_back  the turn had enough before its end: what it has left over comes before what was sent meanwhile
#     eases     less than half of `most` are left: those who pause may go on

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import chain

from broker.core.commands import Command, Publish, Subscribe
from broker.core.message import Blob

from .deferred import Deferred
from .portions import FEW, LEAST, MOST, TURNS, portion
from .shares import Shares


class Inbox:
    """new       what nobody has looked at yet. Appended to where it is submitted: a call less for each.
    deferred  what waits for several turns.
    throttles an edge was told to have its producers pause, as too much waits.
    most      new commands that may wait, beside MOST with those that are deferred: as many as TURNS turns carry out, of
              what there was last. In a cluster MOST: who has little there need not wait for all of them (shares.py),
              and each word to an edge costs a message.
    again     slot → how many consumers come again to it and have not been attached yet; None: nobody asks."""

    __slots__ = ("_shares", "_wake", "again", "deferred", "most", "new", "throttles")

    def __init__(self, deferred: Deferred, wake: Callable[[], None], alone: bool = True) -> None:
        """wake: has a turn run soon. alone: every slot is led here, and what a session asks of one may be seen by what
        it asks of another."""
        self._shares = None if alone else Shares()
        self.new: list[Command] = []
        self.deferred = deferred
        self.throttles = False
        self.most = MOST
        self.again: dict[int, int] | None = None
        self._wake = wake

    def fills(self) -> None:
        """An edge is told to have its producers pause."""
        self.throttles = True

    def eases(self) -> bool:
        """Those who pause may go on; asked while it throttles."""
        # Half: else producers would be stopped and let go by turns.
        new = len(self.new)
        self.throttles = new >= self.most // 2 or new + len(self.deferred.waiting) >= MOST // 2
        return not self.throttles

    def drain(self) -> tuple[list[Command], list[Command]]:
        """For a turn: what has waited, and as much of what is new as is enough for one."""
        inbox, self.new = self.new, []
        shares = self._shares
        # The rest keeps its place in front of what comes meanwhile.
        if len(inbox) > FEW and (cut := portion(inbox)) < len(inbox):
            if shares is None:
                inbox, self.new = inbox[:cut], inbox[cut:]
                self.most = min(max(TURNS * cut, LEAST), MOST)
            else:
                inbox, self.new = shares.drain(inbox)
            self._wake()
        elif shares is None:
            self.most = MOST
        elif shares.seen:
            shares.clear()
        return self.deferred.begin() if self.deferred.waiting else [], inbox

    def put_back(self, rest: Iterable[Command], first: Sequence[Command] = ()) -> None:
        """The rest waits for the next turn, and `first` comes before it."""
        self.deferred.puts_back()
        back = [*first, *rest]
        if self._shares is not None:
            self._shares.back(back)
        self.new = back + self.new
        self._wake()

    def drain_new(self) -> list[Command]:
        """All that is new, however much."""
        new, self.new = self.new, []
        if self._shares is not None:
            self._shares.clear()
        return new

    def beside(self) -> list[Command]:
        """All that may go on beside what a turn has had enough of. In a cluster nothing: who has little has had his
        turn in this very one."""
        return self.drain_new() if self._shares is None else []

    def waiting(self, after: int) -> Iterator[Command]:
        """All of it in its order, behind so many."""
        deferred = self.deferred.waiting
        # Cut, not passed over: whoever asks again and again would look at all of it each time.
        return chain(deferred[after:], self.new[max(after - len(deferred), 0) :])

    def attaching(self, slot: int) -> bool:
        """Does a consumer come again to that slot which has not been attached yet, also for what its session has sent
        before. From now on they are counted as they come (comes) and go (gone); asked before a turn takes anything."""
        if self.again is None:
            # Once, and not in each turn in which a slot stands: a replay of 100,000 commands has hundreds of these.
            self.again = {}
            self.comes(self.waiting(0))
        return slot in self.again

    def comes(self, commands: Iterable[Command]) -> None:
        """These wait as well; while somebody asks who comes again."""
        again = self.again
        assert again is not None
        for command in commands:
            if type(command) is Subscribe and command.resume is not None:
                again[command.slot] = again.get(command.slot, 0) + 1

    def gone(self, command: Command) -> None:
        """It waits no more: it was carried out, or its slot is led elsewhere."""
        if self.again is not None and type(command) is Subscribe and command.resume is not None:
            left = self.again.pop(command.slot, 0) - 1
            if left > 0:
                self.again[command.slot] = left

    def asks_no_more(self) -> None:
        """No slot stands for who comes again."""
        self.again = None

    def drop(self, slot: int) -> list[Blob]:
        """The slot is led elsewhere. The large bodies of what waited for it, which no record will ever name here: their
        edges send them again to whoever leads it (a Publish that comes again is known by its number)."""
        # The edges ask the next leader: nothing was answered, so nothing is lost.
        waited = [each for each in self.waiting(0) if each.slot == slot and type(each) is Publish and each.dedup]
        bodies = [each.run.blob for each in waited if each.run.blob is not None]
        self.new = [command for command in self.new if command.slot != slot]
        if self._shares is not None:
            self._shares.clear()
        self.deferred.drop(slot)
        if self.again is not None:
            self.again.pop(slot, None)
        return bodies

    def empty(self, under_way: Sequence[Command]) -> list[Command]:
        """Nothing of it will be carried out, nor what is under way: all of it."""
        return [*self.deferred.begin(), *under_way, *self.drain_new()]
