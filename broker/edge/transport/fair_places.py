"""Waiting places that strangers share: the address that holds the most gives way first.

A place is held by a holder (an address) for a ticket (a handshake, a check). When all are taken, a newcomer gets the
place of the longest waiting of the holder that holds the most; so a thousand silent connections of one address cost
that address its own, and all other addresses nothing.

    FairPlaces(3): a1 a2 b1 are in, c1 comes → a1 goes. Then a2 b1 c1, each holds one, d1 comes → b1 goes.

Of holders that hold equally many, it is the one that has held so many for longest.

Rule: pure, and every call O(1) whatever is in it: an attacker chooses how often it is called. Must not know sockets.
"""

from __future__ import annotations

import ipaddress
from typing import Generic, TypeVar

T = TypeVar("T")

NETWORK_V6 = 64
"""Bits of an IPv6 address that say who a client is: one that has an address has 2⁶⁴ of them."""


class FairPlaces(Generic[T]):
    """most: how many may be taken."""

    __slots__ = ("_counts", "_holders", "_where", "most", "top")

    def __init__(self, most: int) -> None:
        self.most = most
        self._where: dict[T, str] = {}
        self._holders: dict[str, dict[T, None]] = {}
        """Who → what, longest waiting first."""
        self._counts: dict[int, dict[str, None]] = {}
        """How many → who holds so many, in the order in which they came to."""
        self.top = 0
        """What the one who holds the most holds."""

    def __len__(self) -> int:
        return len(self._where)

    def held(self, who: str) -> int:
        """Places of one holder."""
        return len(self._holders.get(who, ()))

    def admit(self, who: str, ticket: T) -> T | None:
        """A place for `ticket`, which has none yet. Returns what has lost its own for that, if anything has."""
        victim = self.longest if len(self._where) >= self.most else None
        if victim is not None:
            self.leave(victim)
        tickets = self._holders.setdefault(who, {})
        tickets[ticket] = None
        self._where[ticket] = who
        self._recount(who, len(tickets) - 1, len(tickets))
        return victim

    def leave(self, ticket: T) -> None:
        """Its place is free. No effect when it has none."""
        who = self._where.pop(ticket, None)
        if who is None:
            return
        tickets = self._holders[who]
        del tickets[ticket]
        if not tickets:
            del self._holders[who]
        self._recount(who, len(tickets) + 1, len(tickets))

    @property
    def longest(self) -> T | None:
        """What would lose its place now."""
        holders = self._counts.get(self.top)
        return next(iter(self._holders[next(iter(holders))])) if holders else None

    def oldest(self, who: str) -> T | None:
        """What one holder has had for longest."""
        return next(iter(self._holders.get(who, ())), None)

    def _recount(self, who: str, before: int, now: int) -> None:
        if before:
            same = self._counts[before]
            del same[who]
            if not same:
                del self._counts[before]
        if now:
            self._counts.setdefault(now, {})[who] = None
        # A count changes by one, so the highest does as well.
        if now > self.top:
            self.top = now
        elif self.top and self.top not in self._counts:
            self.top -= 1


def network(host: str) -> str:
    """Who an address is, for shares and penalties: IPv6 by its network."""
    if ":" not in host:
        return host
    try:
        address = ipaddress.IPv6Address(host.partition("%")[0])
    except ValueError:
        return host
    if address.ipv4_mapped is not None:
        return str(address.ipv4_mapped)
    return str(ipaddress.IPv6Network((address, NETWORK_V6), strict=False))
