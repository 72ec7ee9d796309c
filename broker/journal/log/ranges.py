"""Live ids of one queue as disjoint ranges, each with the segment that holds them.

Rule: `remove` reports exactly what it took away, so that counters built on it can never drift.
Must not know slots, records or files.

Memory: 24 bytes per range. Consecutive ids of one segment are one range, so a queue that is filled and
drained in order has one range per segment; the worst case (every second id live) is one range per live id.
"""

# Example, one queue:
#     add(1, 100, 1), add(101, 200, 1)   one range: 1…200 in segment 1. Filling in order costs a comparison and a
#                                        store
#     remove(1, 10)                      11…200; returns (1, 10, 1). Draining in order costs the same
#     remove(50, 59)                     11…49, 60…200
#     add(60, 69, 4)                     compaction has copied ten: 11…49 in 1, 60…69 in 4, 70…200 in 1; returns (60,
#                                        69, 1)
#     remove(1, 1000)                    returns the three ranges; the list is empty
# Costs: two binary searches and a memmove of at most 2 × 512 entries; never a step per id.

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right

Piece = tuple[int, int, int]
"""first id, last id, segment"""

_CHUNK = 512
"""Ranges per chunk: an insertion moves at most 2 × 512 × 8 bytes, the list of chunks stays short."""


class _Chunk:
    # Three arrays side by side, not a list of tuples: 24 bytes in place of about 150, and nothing for the garbage
    # collector.
    __slots__ = ("firsts", "lasts", "segments")

    def __init__(self) -> None:
        self.firsts = array("Q")
        self.lasts = array("Q")
        self.segments = array("Q")

    def insert(self, index: int, piece: Piece) -> None:
        self.firsts.insert(index, piece[0])
        self.lasts.insert(index, piece[1])
        self.segments.insert(index, piece[2])

    def copy(self) -> _Chunk:
        twin = _Chunk()
        twin.firsts, twin.lasts, twin.segments = self.firsts[:], self.lasts[:], self.segments[:]
        return twin

    def split(self) -> _Chunk:
        half = len(self.firsts) // 2
        rest = _Chunk()
        for name in self.__slots__:
            whole = getattr(self, name)
            setattr(rest, name, whole[half:])
            del whole[half:]
        return rest


class LiveRanges:
    """Sorted ranges in chunks. `tops[i]` is the last id of chunks[i]."""

    __slots__ = ("chunks", "tops")

    def __init__(self) -> None:
        self.chunks: list[_Chunk] = []
        self.tops: list[int] = []

    def __bool__(self) -> bool:
        return bool(self.chunks)

    def add(self, first: int, last: int, segment: int) -> list[Piece]:
        """Ids first…last now lie in `segment`. Returns what lay elsewhere (or here) before."""
        if not self.tops:
            self._append(_Chunk(), first, last, segment)
            return []
        # Behind the end is the rule (new messages have new ids), in front of it only copies, seeds and what is put
        # back.
        if first <= self.tops[-1]:
            taken = self.remove(first, last)
            self._insert((first, last, segment))
            return taken
        chunk = self.chunks[-1]
        if chunk.lasts[-1] + 1 == first and chunk.segments[-1] == segment:
            chunk.lasts[-1] = self.tops[-1] = last
        elif len(chunk.firsts) >= _CHUNK:
            # Appending never splits: a full last chunk stays at 512, so that later cuts have room up to twice that.
            self._append(_Chunk(), first, last, segment)
        else:
            chunk.firsts.append(first)
            chunk.lasts.append(last)
            chunk.segments.append(segment)
            self.tops[-1] = last
        return []

    def overlap(self, first: int, last: int) -> list[Piece]:
        """The live parts of first…last."""
        found: list[Piece] = []
        # The first chunk whose last id is not before `first`; chunks are disjoint and ascend, so all before it are
        # out.
        at = bisect_left(self.tops, first)
        while at < len(self.chunks):
            chunk = self.chunks[at]
            index = bisect_left(chunk.lasts, first)
            stop = bisect_right(chunk.firsts, last)
            for i in range(index, stop):
                found.append((max(first, chunk.firsts[i]), min(last, chunk.lasts[i]), chunk.segments[i]))
            # A range behind `last` was seen: later chunks begin further on still.
            if stop < len(chunk.firsts):
                break
            at += 1
        return found

    def within(self, first: int, last: int) -> bool:
        """Are all of them within first…last."""
        return not self.chunks or (first <= self.chunks[0].firsts[0] and self.tops[-1] <= last)

    def pop(self, chunks: int) -> list[Piece]:
        """Takes out those of so many chunks, the last ones."""
        taken: list[Piece] = []
        for chunk in self.chunks[-chunks:]:
            taken += zip(chunk.firsts, chunk.lasts, chunk.segments, strict=True)
        del self.chunks[-chunks:], self.tops[-chunks:]
        return taken

    def pieces(self) -> list[Piece]:
        """All ranges."""
        return [piece for c in self.chunks for piece in zip(c.firsts, c.lasts, c.segments, strict=True)]

    def copy(self) -> LiveRanges:
        twin = LiveRanges()
        twin.chunks = [chunk.copy() for chunk in self.chunks]
        twin.tops = self.tops[:]
        return twin

    def range_at(self, message: int) -> Piece | None:
        """The range that holds this id."""
        at = bisect_left(self.tops, message)
        if at == len(self.chunks):
            return None
        chunk = self.chunks[at]
        index = bisect_left(chunk.lasts, message)
        first = chunk.firsts[index]
        return (first, chunk.lasts[index], chunk.segments[index]) if first <= message else None

    def remove(self, first: int, last: int) -> list[Piece]:
        """Takes first…last out. Returns exactly the parts that were there."""
        taken: list[Piece] = []
        if self.chunks:
            chunk = self.chunks[0]
            if chunk.firsts[0] == first and last < chunk.lasts[0]:
                # The front of the oldest range: what consuming in order always hits.
                chunk.firsts[0] = last + 1
                return [(first, last, chunk.segments[0])]
        at = bisect_left(self.tops, first)
        while at < len(self.chunks):
            chunk = self.chunks[at]
            if chunk.firsts[0] > last:
                break
            taken += self._cut(chunk, first, last)
            # No empty chunk stays: `tops`, `__bool__` and the index [0] above rely on it.
            if not chunk.firsts:
                del self.chunks[at], self.tops[at]
                continue
            self.tops[at] = chunk.lasts[-1]
            at += 1
            if len(chunk.firsts) > 2 * _CHUNK:
                self._split(at - 1)
                break  # only a cut inside one range makes a chunk grow, and then nothing else is left to cut
        return taken

    @staticmethod
    def _cut(chunk: _Chunk, first: int, last: int) -> list[Piece]:
        firsts, lasts, segments = chunk.firsts, chunk.lasts, chunk.segments
        index = bisect_left(lasts, first)
        stop = bisect_right(firsts, last)
        if index >= stop:
            return []
        taken = [(max(first, firsts[i]), min(last, lasts[i]), segments[i]) for i in range(index, stop)]
        # Only the outermost two ranges can stick out; all between them are gone. So a cut leaves at most one range
        # more than there was, and only when it is inside a single one.
        left, right = firsts[index], lasts[stop - 1]
        keep: list[Piece] = []
        if left < first:
            keep.append((left, first - 1, segments[index]))
        if right > last:
            keep.append((last + 1, right, segments[stop - 1]))
        firsts[index:stop] = array("Q", [k[0] for k in keep])
        lasts[index:stop] = array("Q", [k[1] for k in keep])
        segments[index:stop] = array("Q", [k[2] for k in keep])
        return taken

    def _append(self, chunk: _Chunk, first: int, last: int, segment: int) -> None:
        chunk.insert(0, (first, last, segment))
        self.chunks.append(chunk)
        self.tops.append(last)

    def _insert(self, piece: Piece) -> None:
        """`piece` overlaps nothing (any more)."""
        if not self.chunks:
            self._append(_Chunk(), *piece)
            return
        # Between two chunks, or behind all: into the later one, or the last.
        at = min(bisect_left(self.tops, piece[0]), len(self.chunks) - 1)
        chunk = self.chunks[at]
        index = bisect_left(chunk.firsts, piece[0])
        if index and chunk.segments[index - 1] == piece[2] and chunk.lasts[index - 1] + 1 == piece[0]:
            chunk.lasts[index - 1] = piece[1]
        else:
            chunk.insert(index, piece)
        self.tops[at] = chunk.lasts[-1]
        if len(chunk.firsts) > 2 * _CHUNK:
            self._split(at)

    def _split(self, at: int) -> None:
        chunk = self.chunks[at]
        rest = chunk.split()
        self.chunks.insert(at + 1, rest)
        self.tops.insert(at + 1, rest.lasts[-1])
        self.tops[at] = chunk.lasts[-1]
