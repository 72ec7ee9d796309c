"""Resources of one broker that wait until every live member has applied the revision of their keys.

Rule: each is told once; who finds that it still has to wait says so again. A question costs by what it tells, not by
how many wait: members answer four times a second each, and ten thousand Addresses may wait.
"""

from __future__ import annotations

from heapq import heapify, heappop, heappush

from ..spec.names import Id

SPARE = 64


class Unapplied:
    """`revisions`: who waits for which."""

    __slots__ = ("_first", "revisions")

    def __init__(self) -> None:
        self.revisions: dict[Id, int] = {}
        self._first: list[tuple[int, Id]] = []
        """The lowest revision in front; also of those that have gone, or wait for another one by now."""

    def wait(self, id: Id, revision: int) -> None:
        if self.revisions.get(id) == revision:
            return
        self.revisions[id] = revision
        heappush(self._first, (revision, id))
        if len(self._first) > 2 * len(self.revisions) + SPARE:
            self._first = [(revision, id) for id, revision in self.revisions.items()]
            heapify(self._first)

    def forget(self, id: Id) -> None:
        self.revisions.pop(id, None)

    def up_to(self, applied: int) -> list[Id]:
        """Takes out all that wait for this revision, or an earlier one."""
        found = []
        while self._first and self._first[0][0] <= applied:
            revision, id = heappop(self._first)
            if self.revisions.get(id) == revision:
                del self.revisions[id]
                found.append(id)
        return found
