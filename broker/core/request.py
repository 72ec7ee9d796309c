"""What all requests that are answered under a number have in common.

Rule: only for those that happen again when they are asked again, or are found to have happened. A Publish and a
Transact happen once, by their `dedup`, and are answered alike each time.
"""

from __future__ import annotations

from typing import Self


class Request:
    """`seq`: 0: nobody waits for the answer."""

    __slots__ = ("seq",)

    seq: int

    def asked_as(self, seq: int) -> Self:
        """Its answer goes to that number."""
        self.seq = seq
        return self
