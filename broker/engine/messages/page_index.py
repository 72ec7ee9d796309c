"""Where the journal has what is paged out of a queue: positions in order, 8 bytes each.

A snapshot shares its arrays: to copy 8 MB for each look at a million messages takes 46 ms. What stands in an array is
never overwritten; only its end grows.

Rule: order only; what stands at a position, and how much of it lives, is the queue's to know.
"""

# Example. Chunks of 4 instead of 1024; positions a … f were appended, the first two are dropped, then y and z
# prepended.
#     append x 6   [a b c d] [e f]       offset 0
#     drop(2)      [a b c d] [e f]       offset 2: nothing moves
#     prepend      [y z c d] [e f]       offset 0, in a copy of the first array: a snapshot may still show a and b
#     drop(4)      [e f]                 the first array goes as a whole
# Each is as cheap as the positions it is about, whatever the queue holds.

from __future__ import annotations

from array import array
from collections import deque
from collections.abc import Iterator, Sequence
from itertools import islice

_CHUNK = 1024
"""Positions per array: the front is dropped array by array."""


class PageIndex:
    """Journal positions in order, 8 bytes each. size: how many."""

    __slots__ = ("_chunks", "_offset", "size")

    def __init__(self) -> None:
        self._chunks: deque[array[int]] = deque()
        self._offset = 0
        self.size = 0

    def __len__(self) -> int:
        return self.size

    def append(self, position: int) -> None:
        if not self._chunks or len(self._chunks[-1]) >= _CHUNK:
            self._chunks.append(array("Q"))
        self._chunks[-1].append(position)
        self.size += 1

    def extend(self, positions: Sequence[int]) -> None:
        """append() for each."""
        done, chunks = 0, self._chunks
        while done < len(positions):
            if not chunks or len(chunks[-1]) >= _CHUNK:
                chunks.append(array("Q"))
            some = positions[done : done + _CHUNK - len(chunks[-1])]
            chunks[-1].extend(some)
            done += len(some)
        self.size += done

    def prepend(self, positions: Sequence[int]) -> None:
        """Puts these before all others, in this order."""
        left = len(positions)
        self.size += left
        if left and self._offset:
            # The only place where something written could be overwritten. A copy of 8 kB, and only when it stands
            # over dropped places.
            self._chunks[0] = self._chunks[0][:]  # what has been dropped of it may be in a snapshot
        while left:
            if not self._offset:
                # Filled from its end to its front, so the next ones to be put before these find room.
                self._chunks.appendleft(array("Q", bytes(8 * _CHUNK)))
                self._offset = _CHUNK
            here = min(left, self._offset)
            self._chunks[0][self._offset - here : self._offset] = array("Q", positions[left - here : left])
            self._offset -= here
            left -= here

    def snapshot(self) -> PageIndex:
        """The positions as they are now, whatever becomes of these; nothing may be appended to it."""
        now = PageIndex()
        # The deque of arrays is copied, not the arrays: an append to the last one is behind the snapshot's `size`.
        now._chunks, now._offset, now.size = self._chunks.copy(), self._offset, self.size
        return now

    def __iter__(self) -> Iterator[int]:
        return islice(self._all(), self.size)

    def _all(self) -> Iterator[int]:
        first = True
        for chunk in self._chunks:
            yield from islice(chunk, self._offset, None) if first else chunk
            first = False

    def at(self, place: int) -> int:
        """The position at that place."""
        place += self._offset
        return self._chunks[place // _CHUNK][place % _CHUNK]

    def first(self, count: int) -> array[int]:
        """The first `count` positions (fewer if there are not so many)."""
        return array("Q", islice(self, count))

    def drop(self, count: int) -> None:
        """Forgets the first `count` positions."""
        self.size -= count
        while count:
            here = len(self._chunks[0]) - self._offset
            if count < here:
                self._offset += count
                return
            self._chunks.popleft()
            self._offset = 0
            count -= here
