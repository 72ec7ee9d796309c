"""What goes on at addresses, for the status of their Address: depth, consumers, rates, dead letters, last change.

A status is for people and is read by everybody who watches, so it follows at a coarse step; live numbers are metrics.
Rates are those between two rounds of questions; leaders count from when they begin to lead, so a number that fell says
nothing.

Rule: pure. However many addresses there are and whatever happens at them: RATE statuses a second, of one address at
most every EVERY_S. An address whose numbers stay is not written at all. Must not know etcd, nor who was asked.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

from ..spec.model import Table
from ..spec.names import Id

RATE = 2.5
"""Statuses a second. With the Events that some of them cause these are five writes."""
EVERY_S = 10.0
MINUTE_S = 60.0
STEP = 0.1
FEW = 10
"""Below so many a tenth is nobody's news: the step is one of ten."""
AHEAD_S = 600.0
"""What people must hear of goes before numbers that wait for less than this; so neither waits for ever."""
PIECE = 500
"""Addresses looked at in one step."""
NEVER_S = 1e12
"""So long ago was a status written that was not."""
NUMBERS = ("depth", "consumers", "inPerSecond", "outPerSecond", "deadLettered")
FIELDS = (*NUMBERS, "blocked", "lastChange")


class Busy(NamedTuple):
    """One address at one moment, over all owners.    came, died   since its leaders lead."""

    depth: int = 0
    consumers: int = 0
    came: int = 0
    died: int = 0
    blocked: bool = False

    def plus(self, other: Busy) -> Busy:
        return Busy(
            self.depth + other.depth, self.consumers + other.consumers, self.came + other.came, self.died + other.died,
            self.blocked or other.blocked,
        )  # fmt: skip


IDLE = Busy()


class _Known:
    """One Address.    died   in all, as far as we know; died_here   as its leaders said last.
    given   when a status was last let go, at   when it was last asked about: monotonic seconds."""

    __slots__ = ("at", "came", "depth", "died", "died_here", "fields", "given", "uid")

    def __init__(self, uid: str) -> None:
        self.uid = uid
        self.came = self.depth = self.died = self.died_here = 0
        self.fields: Table = {}
        self.given = float("-inf")
        self.at = float("-inf")


class Traffic:
    """What is known of the addresses of all brokers, and what their statuses are to say.

    `said`: Address → what was let go; it stands until its status shows it."""

    def __init__(self) -> None:
        self._known: dict[Id, _Known] = {}
        self.said: dict[Id, Table] = {}

    def forget(self, living: Iterable[Id]) -> None:
        """All but these are gone."""
        gone = self._known.keys() - set(living)
        for id in gone:
            del self._known[id]
            self.said.pop(id, None)

    def fields(self, id: Id, status: Mapping[str, object]) -> Table:
        """What its status is to say of them, whyever it is written."""
        old = {name: status[name] for name in FIELDS if name in status}
        said = self.said.get(id)
        if said is None:
            return old
        if said == old:
            del self.said[id]  # it shows: nothing is left to be written again
        return dict(said)

    def observe(self, id: Id, uid: str, status: Mapping[str, object], busy: Busy, now: float) -> None:
        """One round's answer. now: monotonic seconds."""
        known = self._known.get(id)
        if known is None or known.uid != uid:
            known = self._known[id] = _Known(uid)
            known.died = max(_number(status, "deadLettered"), busy.died)
        else:
            # A number that has fallen is of other leaders, which have counted from nothing: at least so many.
            known.died += max(busy.died - known.died_here, 0)
        fields: Table = {
            "depth": busy.depth, "consumers": busy.consumers, "deadLettered": known.died, "blocked": busy.blocked,
            "inPerSecond": _number(status, "inPerSecond"), "outPerSecond": _number(status, "outPerSecond"),
        }  # fmt: skip
        passed = now - known.at
        if 0 < passed < MINUTE_S and busy.came >= known.came:
            came = busy.came - known.came
            fields["inPerSecond"] = round(came / passed)
            fields["outPerSecond"] = round(max(came - busy.depth + known.depth, 0) / passed)
        known.fields, known.at = fields, now
        known.came, known.depth, known.died_here = busy.came, busy.depth, busy.died

    def due(
        self, statuses: Iterable[tuple[Id, Mapping[str, object]]], most: int, now: float
    ) -> Iterator[list[Id] | None]:
        """The last one it yields: which statuses are to be written next, the most urgent first, at most so many. None
        before: there is more to look at."""
        found: list[tuple[float, Id]] = []
        for seen, (id, status) in enumerate(statuses, 1):
            known = self._known.get(id)
            if known is None or ("depth" not in status and known.given >= 0):
                pass  # what was written does not stay: the API server has the CRDs of an earlier release
            elif (wait := _wait(status, known.fields)) is not None:
                ahead, least = wait
                if known.given + least <= now:
                    item = (ahead + min(-known.given, NEVER_S), id)
                    if len(found) < most:
                        heapq.heappush(found, item)
                    elif item > found[0]:
                        heapq.heapreplace(found, item)
            if not seen % PIECE:
                yield None
        yield [id for _, id in sorted(found, reverse=True)]

    def let(self, id: Id, status: Mapping[str, object], now: float, at: str) -> bool:
        """It is to be written now; at: the time, for people. Whether it may cause an Event."""
        known = self._known.get(id)
        if known is None:
            return False
        known.given = now
        self.said[id] = {**known.fields, "lastChange": at}
        return "depth" in status and _urgent(status, known.fields)


def _wait(said: Mapping[str, object], found: Table) -> tuple[float, float] | None:
    """(how much before others, seconds since the last write of it at least); None: nothing to say."""
    if all(name in said and said[name] == found[name] for name in (*NUMBERS, "blocked")):
        return None
    if "depth" not in said or _urgent(said, found):
        return AHEAD_S, EVERY_S
    return 0.0, EVERY_S if any(_coarse(_number(said, name), found[name]) for name in NUMBERS) else MINUTE_S


def _urgent(said: Mapping[str, object], found: Table) -> bool:
    gone = bool(_number(said, "consumers")) != bool(found["consumers"])
    return said.get("blocked") != found["blocked"] or found["deadLettered"] != said.get("deadLettered") or gone


def _coarse(before: int, after: int) -> bool:
    return bool(before) != bool(after) or abs(after - before) > STEP * max(before, FEW)


def _number(status: Mapping[str, object], name: str) -> int:
    value = status.get(name, 0)
    return value if isinstance(value, int) else 0
