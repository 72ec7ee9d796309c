"""Many selectors asked of the messages of a queue at once.

Rule: each selector has a bit; the answer is the sum of the bits that match. Must not know consumers, nor how they are
found (broker/selector/index.py).
"""

# Example. Bits 1: "price > 10", 2: "colour = 'red'", 4: "price > 10" again, of a consumer with no-local. Three
# messages of one run: 12 red, 5 blue, 20 red.
#     index   two selectors, not three: bits 1 and 4 are one question
#     sift    {7: [0, 2], 0: [1]}
# Were all headers the run's own lines, one question would do for all three, and the answer be an int.

from __future__ import annotations

from broker.core.message import Run
from broker.selector import Index, Predicate
from broker.selector.heads import head_of, shared


class SelectorIndex:
    """asked     bits of all its selectors.
    overran   bits of those that would have cost too much, and over what.
    address   of the messages, for AMQAddress."""

    __slots__ = ("_address", "_bits", "asked", "index", "overran")

    def __init__(self, address: str) -> None:
        self.asked = 0
        self.overran: list[tuple[int, str]] = []
        self.index = Index()
        self._address = address
        self._bits: dict[Predicate, int] = {}

    def add(self, bit: int, selector: Predicate) -> None:
        """One more, or one more bit of the same."""
        if selector not in self._bits:
            self._bits[selector] = 0
            self.index.add(selector)
        self._bits[selector] |= bit
        self.asked |= bit

    def remove(self, bit: int, selector: Predicate) -> None:
        """That bit is asked for no more."""
        self.asked &= ~bit
        self._bits[selector] &= ~bit
        if not self._bits[selector]:
            del self._bits[selector]
            self.index.remove(selector)

    def take_overran(self) -> list[tuple[int, str]]:
        """Takes out what would have cost too much since this was asked last."""
        overran, self.overran = self.overran, []
        return overran

    def bits(self, run: Run, index: int) -> int:
        """Of message `index`."""
        found, bits = 0, self._bits
        for selector in self.index.find(head_of(run, index), run, index, self._address):
            found |= bits[selector]
        return found

    def alike(self, run: Run) -> bool:
        """Is the answer the same for all messages of the run."""
        # `each`: some selector asks for what differs from message to message though the headers are the same.
        return not self.asked or (shared(run) and not self.index.each)

    def sift(self, run: Run, most: int = 0) -> tuple[dict[int, list[int]] | int, int]:
        """(bits → indices of the messages they match, in the order of their first one, an int: all match these; so many
        messages were looked at). most: for about so many nanoseconds, one message at the least; 0: all of them."""
        self.index.begin_work()
        if not self.asked:
            return 0, len(run.records)
        if self.alike(run):
            found: tuple[dict[int, list[int]] | int, int] = self.bits(run, 0), len(run.records)
        else:
            found = self._sift(run, most)
        for selector in self.index.metered:
            assert selector.meter is not None
            if why := selector.meter.overran():
                self.overran.append((self._bits[selector], why))
        return found

    def _sift(self, run: Run, most: int) -> tuple[dict[int, list[int]] | int, int]:
        result: dict[int, list[int]] = {}
        at, index = 0, self.index
        for at in range(len(run.records)):
            result.setdefault(self.bits(run, at), []).append(at)
            # One message at the least, so that every turn gets on; the rest of the run goes back to where it was.
            if most and index.work > most:
                break
        if len(result) == 1:
            return next(iter(result)), at + 1
        return result, at + 1
