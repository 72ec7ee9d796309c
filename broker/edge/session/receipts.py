"""RECEIPTs in frame order, whatever order the owners answer in.

Rule: every request that asks for a receipt gets the next number; answers leave by number. Must not know what was asked.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

Then = Callable[[], None]
NEVER: Final = 1 << 62
ASIDE: Final = 1 << 62
"""Numbers from here on are of requests that no client has made: they have no turn among the answers."""


class Answers:
    """Open requests of one session. Memory is bounded by what the client has in flight."""

    __slots__ = ("_answered", "_early", "_end", "_last", "_open")

    def __init__(self) -> None:
        self._last = 0
        self._answered = 0
        self._end = NEVER
        self._open: dict[int, tuple[list[bytes], Then | None]] = {}
        self._early: set[int] | None = None

    def ask(self, receipts: list[bytes], then: Then | None = None) -> int:
        """A number for a request. `then` is called when its turn to be answered has come, after its receipts."""
        self._last += 1
        self._open[self._last] = (receipts, then)
        return self._last

    def ask_one(self, receipt: bytes | None) -> int:
        """Number of a request whose receipt is wanted; 0 when none is."""
        return 0 if receipt is None else self.ask([receipt])

    def ask_parts(self, receipts: list[bytes] | None, parts: int) -> Sequence[int]:
        """Numbers for the parts of one request to several slots: the last one has the receipts, and is answered after
        all others. Zeros when no request waits."""
        if not receipts:
            return (0,) * parts
        return [*(self.ask([]) for _ in range(parts - 1)), self.ask(receipts)]

    def latest(self, seq: int) -> bool:
        """Nothing has been asked behind request `seq` (0: is none): it may grow, and receipts still leave in order."""
        return seq == self._last and seq > 0

    def more(self, seq: int, receipts: list[bytes]) -> None:
        """The latest request `seq` has grown by frames with these receipts."""
        self._open[seq][0].extend(receipts)

    def withdraw(self, seq: int) -> list[bytes]:
        """The receipts of the open request `seq`, which will have none: they are asked for anew."""
        receipts, then = self._open[seq]
        self._open[seq] = ([], then)
        return receipts

    @property
    def quiet(self) -> bool:
        """Nothing is open."""
        return self._last == self._answered

    def when_quiet(self, then: Then) -> None:
        """Calls back once everything that is open now has been answered; at once when nothing is."""
        if self.quiet:
            then()
            return
        receipts, earlier = self._open[self._last]

        def both() -> None:
            if earlier is not None:
                earlier()
            then()

        self._open[self._last] = (receipts, both)

    def first_receipt(self, seq: int) -> bytes | None:
        """The receipt id an ERROR for this request should carry. A request without one is a part of the next one that
        has (ask_parts, and the barriers of DISCONNECT)."""
        entry = self._open.get(seq)
        while entry is not None and not entry[0]:
            seq += 1
            entry = self._open.get(seq)
        return entry[0][0] if entry is not None and entry[0] else None

    def instead(self, seq: int, then: Then) -> None:
        """Request `seq` failed: when its turn comes, `then` is called in place of its receipts, and nothing behind
        it is answered any more. Its turn is told by done(seq), as ever. No error when it is not open."""
        if seq in self._open:
            # The receipts stay: an ERROR for an earlier part of the same frame names them.
            self._open[seq] = (self._open[seq][0], then)
            self._end = min(self._end, seq)

    def whole(self, seq: int) -> list[bytes]:
        """The receipts of an open request that is nobody's part, and nothing happens after it; else none."""
        receipts, then = self._open.get(seq, ([], None))
        return receipts if then is None else []

    def told_otherwise(self, seq: int, then: Then) -> None:
        """Request `seq` failed, and what is behind it goes on: in its turn `then` is called, not its receipts told."""
        self._open[seq] = ([], then)

    def done(self, seq: int) -> tuple[list[bytes], list[Then]]:
        """Request `seq` is answered. Returns what may be told now: receipt ids and callbacks, in order."""
        if seq != self._answered + 1 or seq > self._end:
            if seq >= ASIDE:
                return [], []
            if self._early is None:
                self._early = set()
            self._early.add(seq)
            return [], []
        receipts, then = self._open.pop(seq)
        if seq == self._end:
            receipts = []
        self._answered = seq
        if not self._early and then is None:
            return receipts, []
        out = list(receipts)
        thens = [then] if then is not None else []
        early = self._early
        while early and self._answered + 1 in early and self._answered < self._end:
            self._answered += 1
            early.discard(self._answered)
            more, then = self._open.pop(self._answered)
            if self._answered != self._end:
                out += more
            if then is not None:
                thens.append(then)
        return out, thens
