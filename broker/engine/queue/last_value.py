"""Which message of each key is the newest, and which ones it has replaced.

Messages are looked at when they come (in `fresh`, at the end of the turn that brought them) or go to the page index; so
every key is in memory, about 200 bytes of it, and bodies need not be. What comes to the page index unseen, at a restart
or from the schedule, is looked at before anything is handed out: in memory if it all fits, else by reading the pages
once for their keys alone. Newer is what has the higher id.

Rule: knows keys and ids; where messages rest, and that they leave, is queue_policies.py's. A message without the key's
header is like any other, and is never replaced.
"""

# Example. Messages 1 (key a), 2 (key b), 3 (key a) come in three turns; nobody consumes.
#     turn 1, 2   1 and 2 rest: newest = {a: 1, b: 2}
#     turn 3      overtaken(): 1 has rested and is replaced by 3, which is fresh: dead = {1}, settled with REPLACED
#     consumer    comes: gets 2 and 3
# With a consumer that waits, 3 goes out at the end of turn 3 and never rests: it replaces 1, and nothing replaces it.
# Two fresh ones of one key in one turn both stay until the consumers have had their chance (settle_down comes
# behind).

from __future__ import annotations

from array import array
from collections import deque
from collections.abc import Iterable
from itertools import islice

from broker.core.message import Run
from broker.selector import heads

from ..consumers.browser import consumed
from ..messages.runs import pick
from ..messages.unloaded import Stub

_SLACK = 1024
"""So many keys of messages that have left are not worth a look."""


class LastValue:
    """name   of the key's header.    fresh   came since the last settle_down().    dead   replaced, and still here.
    blind   positions in the page index whose keys are not known, in its order.    asked   those being read for them."""

    __slots__ = ("_buried", "_buried_bytes", "_key", "_newest", "_paged", "asked", "blind", "dead", "fresh", "name")

    def __init__(self, name: str) -> None:
        self.name = name
        self.fresh: list[Run] = []
        self.dead: set[int] = set()
        self.blind: deque[int] = deque()
        self.asked: array[int] | None = None
        self._key = heads.key(name)
        self._newest: dict[bytes, int] = {}
        self._paged: dict[int, Stub] = {}
        """Messages in the page index whose keys are known."""
        self._buried_bytes = 0
        self._buried: dict[int, int] = {}
        """Messages in the page index that were replaced, and are settled already; and their sizes."""

    def settled(self) -> tuple[int, int]:
        """(messages, bytes) that the page index counts and that are gone all the same."""
        return len(self._buried), self._buried_bytes

    def overtaken(self) -> None:
        """Before anything is handed out: finds what rested and is replaced by something fresh. Fresh messages do not
        replace each other yet: the first of them may go to a consumer that waits."""
        if not self.fresh:
            return
        fresh = {i for run in self.fresh for i in run.ids}
        for key, i in self._keys(self.fresh):
            known = self._newest.get(key)
            if known is None:
                continue
            # A message that came back to the head after a newer one had come.
            if known > i:
                self.dead.add(i)
            elif known < i and known not in fresh:
                self.dead.add(known)

    def settle_down(self) -> None:
        """What is fresh and was not handed out rests now."""
        fresh, self.fresh = self.fresh, []
        for key, i in self._keys(fresh):
            self._replace(key, i)
        if self._paged:
            for run in fresh:
                for i in run.ids:
                    # It is in memory again: found in a store from now on, and settled with its run.
                    self._paged.pop(i, None)

    def paged(self, run: Run) -> None:
        """The run goes to the page index."""
        stub = Stub(range(run.ids[0], run.ids[-1] + 1), run.position, run.nbytes, run.flags)
        for key, i in self._keys([run]):
            self._replace(key, i)
            self._paged[i] = stub

    def unpaged(self, positions: Iterable[int]) -> None:
        """These have left the page index, and are in memory or dead."""
        gone = set(positions)
        # In the order of the index, as `positions` are: so only the front has to be looked at.
        while self.blind and self.blind[0] in gone:
            self.blind.popleft()

    def ask(self, count: int) -> array[int]:
        """The next positions to be read for their keys, at most so many. They come to looked()."""
        self.asked = array("Q", islice(self.blind, count))
        return self.asked

    def rest(self, runs: Iterable[Run], positions: Iterable[int]) -> None:
        """What was in the queue before it looked at keys: in memory, and in the page index."""
        self.fresh += runs
        self.blind.extend(positions)

    def arranged(self, positions: Iterable[int]) -> None:
        """The page index has another order."""
        self.blind = deque(positions)

    def take_dead(self) -> set[int]:
        """Takes out what was replaced."""
        dead, self.dead = self.dead, set()
        return dead

    def looked(self, runs: list[Run], used: Iterable[Run]) -> None:
        """The journal's answer to look(), and what of it is in the queue."""
        assert self.asked is not None
        for _ in range(consumed(self.asked, runs)):
            self.blind.popleft()
        self.asked = None
        for run in used:
            self.paged(run)

    def current(self, run: Run) -> Run:
        """Those of its messages that nothing which rests has replaced."""
        newest = self._newest
        # For what was set aside for a consumer's place: a message that has been replaced since must not be shown as
        # the last value.
        old = {i for key, i in self._keys([run]) if newest.get(key, i) > i}
        return pick(run, [at for at, i in enumerate(run.ids) if i not in old]) if old else run

    def bury(self, dead: set[int], gone: list[Run]) -> tuple[list[Run], dict[int, Run]]:
        """These are replaced; `gone` is what of them was in memory. Returns what is to be settled: runs, and messages
        of the page index. The rest of them have been settled before."""
        runs: list[Run] = []
        for run in gone:
            # Settled while its bytes were in the journal: to settle it again would count it off twice.
            if self._buried:
                at = [n for n, i in enumerate(run.ids) if i not in self._buried]
                self._buried_bytes -= sum([self._buried.pop(i, 0) for i in run.ids])
                run = pick(run, at)
            if run.ids:
                runs.append(run)
        paged = {i: self._paged.pop(i) for i in dead if i in self._paged}
        # Kept until their page is read: the index counts them still, and settled() takes them off that sum.
        for i, stub in paged.items():
            self._buried[i] = nbytes = stub.size_of(0)
            self._buried_bytes += nbytes
        return runs, dict(paged)

    def none_paged(self) -> None:
        """The page index is empty."""
        self._paged.clear()
        self._buried.clear()
        self._buried_bytes = 0

    def alive(self, runs: list[Run]) -> list[Run]:
        """Those messages of pages that were not replaced meanwhile."""
        if not self._buried:
            return runs
        parts = [pick(run, [at for at, i in enumerate(run.ids) if i not in self._buried]) for run in runs]
        return [part for part in parts if part.ids]

    def outgrown(self, count: int) -> bool:
        """Are most of the keys those of messages that have left; `count`: messages that are here."""
        # The keys of what has gone are forgotten when they are the larger part: seldom, and no list of them is kept.
        return len(self._newest) > 2 * (count + len(self._paged)) + _SLACK

    def forget(self, here: set[int]) -> None:
        """Forgets the keys of messages that are neither in the page index nor among these."""
        self._newest = {key: i for key, i in self._newest.items() if i in here or i in self._paged}

    def _replace(self, key: bytes, i: int) -> None:
        known = self._newest.get(key, 0)
        if known < i:
            self._newest[key] = i
            if known:
                self.dead.add(known)
        elif known > i:
            self.dead.add(i)

    def _keys(self, runs: Iterable[Run]) -> list[tuple[bytes, int]]:
        """(key, id) of all messages that have one."""
        raw, head_of, key = heads.raw, heads.head_of, self._key
        found: list[tuple[bytes, int]] = []
        for run in runs:
            for at, i in enumerate(run.ids):
                value = raw(head_of(run, at), key)
                if value is not None:
                    found.append((value, i))
        return found
