"""What was taken from whom: the last number of each producer, so that a replay after a fail-over changes nothing twice.

Rule: a number that is not above the last one has been dealt with: taken, or refused and remembered so (a refusal
goes into the log before the first record of a higher number; without it a replay of the refused one would be
answered as if it had been taken). Must not know queues.
"""

# Example. Edge token T sends 1 … 5 to this slot. 3 is refused (the address was full), 1, 2 and 4 are taken; then the
# leader dies, and nobody has been answered. The edge sends all five to the next leader.
#     the log       run (T, 1), run (T, 2), "refused T 3", run (T, 4)
#     1, 2, 4       not above the last number, 4, and not refused: Done, when the log says so
#     3             refused again, with the same words
#     5             above 4: taken
# Without the refusal in front of 4, 3 would look like taken, and its sender be told so: a receipt for a message that
# is nowhere (I3). Written at its own time it would cost a record per refusal, also of those who never send anything
# again.

from __future__ import annotations

from typing import Any

from broker.core.errors import Code

_PRODUCERS = 4096
"""Kept per slot; beyond it the one that was silent longest is forgotten."""

_REFUSALS = 64
"""Kept per producer: an edge replays no more than what it had under way."""

_SILENT_MS = 3_600_000
"""A producer that sent nothing for so long has no replays left: snapshots leave it out."""

Dedup = tuple[int, int]
"""(producer token, number)."""


class _Producer:
    """refused: number → (name of the code, detail).   fresh: refused ones that are not in the log.
    repeated, inherited: numbers above the one, up to the other, an earlier leader took, and nobody asked again."""

    __slots__ = ("fresh", "inherited", "last", "refused", "repeated", "used")

    def __init__(self, last: int) -> None:
        self.last = last
        self.used = 0
        self.inherited = self.repeated = 0
        self.refused: dict[int, tuple[str, str]] = {}
        self.fresh: list[int] = []


class Producers:
    """Of one slot, in the order of their last use."""

    __slots__ = ("_known", "_now", "refusing")

    def __init__(self) -> None:
        self._known: dict[int, _Producer] = {}
        self.refusing = False
        """Something has been refused here: unlogged() may have something to say."""
        self._now = 0

    def seen(self, dedup: Dedup) -> bool:
        """Has that number been dealt with."""
        producer = self._known.get(dedup[0])
        return producer is not None and dedup[1] <= producer.last

    def inherited(self, dedup: Dedup) -> bool:
        """Was a number that was seen dealt with by an earlier leader, and does it come again for the first time. They
        come in order."""
        producer = self._known[dedup[0]]
        if not producer.repeated < dedup[1] <= producer.inherited:
            return False
        # Numbers come in order, so one number remembers them all: each is repeated to subscribers once per leader.
        producer.repeated = dedup[1]
        return True

    def refusal(self, dedup: Dedup) -> tuple[Code, str] | None:
        """How a number that was seen was refused; None: it was taken."""
        known = self._known[dedup[0]].refused.get(dedup[1])
        return (Code[known[0]], known[1]) if known else None

    def accepted(self, dedup: Dedup, now: int) -> None:
        """That number is taken. `now`: epoch ms, 0 = during recovery."""
        token, number = dedup
        # Taken out and put back: the dict stands by last use, and the front is the one that was silent longest.
        producer = self._known.pop(token, None)
        if producer is None:
            producer = _Producer(number)
            if len(self._known) >= _PRODUCERS:
                # What it would send again is taken twice then. 4096 edges with something under way at one slot are
                # not expected.
                del self._known[next(iter(self._known))]
        elif number > producer.last:
            producer.last = number
        self._known[token] = producer
        producer.used = now
        if now > self._now:
            self._now = now

    def refuse(self, dedup: Dedup, code: Code, detail: str) -> None:
        """That number was refused. It does not count as the last one: nothing came after it yet."""
        token, number = dedup
        if token not in self._known:
            # Known from now on, with nothing taken: 0 is below every number.
            self.accepted((token, 0), self._now)
        producer = self._known[token]
        # The eldest: an edge asks again for what is under way, not for what it has heard of.
        while len(producer.refused) >= _REFUSALS:
            del producer.refused[next(iter(producer.refused))]
        producer.refused[number] = (code.name, detail)
        producer.fresh.append(number)
        self.refusing = True

    def unlogged(self, dedup: Dedup) -> list[list[Any]]:
        """Refusals that must be in the log before `dedup` is taken: [token, number, code, detail] …; told once."""
        producer = self._known.get(dedup[0])
        if producer is None or not producer.fresh:
            return []
        fresh, producer.fresh = producer.fresh, []
        if dedup[1] in producer.refused:
            # Only the edge's own second try can be that: it had no answer, so "taken" is the first it hears.
            del producer.refused[dedup[1]]  # tried again, and taken this time
        return [[dedup[0], n, *producer.refused[n]] for n in dict.fromkeys(fresh) if n in producer.refused]

    def restore(self, data: dict[str, Any]) -> None:
        """Replays what data() or the engine wrote."""
        for token, number in data["producers"]:
            self.accepted((token, number), 0)
        for token, number, code, detail in data.get("refused", ()):
            self.refuse((token, number), Code[code], detail)
            # From the log, so it is in the log.
            self._known[token].fresh.clear()

    def begin(self, now: int) -> None:
        """Recovery is over: an edge that was known may come back from now on."""
        for producer in self._known.values():
            producer.used = producer.used or now
            # Whatever is known now was dealt with by an earlier leader.
            producer.inherited = producer.last
        self._now = max(self._now, now)

    def last(self) -> dict[int, int]:
        """Token → last number."""
        return {token: producer.last for token, producer in self._known.items()}

    def data(self) -> dict[str, Any] | None:
        """For a snapshot: those that may still replay; None: nobody."""
        horizon = self._now - _SILENT_MS
        kept = [(token, p) for token, p in self._known.items() if not p.used or p.used > horizon]
        if not kept:
            return None
        refused = [[token, n, *why] for token, p in kept for n, why in p.refused.items()]
        return {"producers": [[token, p.last] for token, p in kept], "refused": refused}
