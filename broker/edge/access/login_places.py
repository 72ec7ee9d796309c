"""Who may come in where places are limited: connections that have not logged in give way to newcomers.

A socket that says nothing keeps its place until the login times out; 20,000 of them would keep everybody else out of a
port without TLS for that long. So who comes when all places are taken (of the process, of an acceptor, of an address)
gets that of a stranger: the longest waiting of the address that has the most of them. Who has logged in never gives
way. It is cut, not told: a flood of them would take another place each while it is given time to read.

Rule: every call is O(1); must not know what is said on a connection, nor what limits there are.
"""

from __future__ import annotations

from typing import Protocol

from broker.core.reasons import Reason

from ..transport.channel import Channel
from ..transport.fair_places import FairPlaces, network
from ..transport.tcp import peer_host

GAVE_WAY = "gave way to a newer connection: it was the longest without a login"


class Guest(Protocol):
    """A connection that may not have logged in."""

    channel: Channel

    def abort(self, reason: Reason, detail: str = "") -> None:
        """Ends it at once."""
        ...


class Strangers:
    """Connections that have not logged in, by address."""

    __slots__ = ("_places",)

    def __init__(self) -> None:
        self._places: FairPlaces[Guest] = FairPlaces(1 << 62)

    def __len__(self) -> int:
        return len(self._places)

    def come(self, session: Guest) -> None:
        self._places.admit(network(peer_host(session.channel.peer)), session)

    def leave(self, session: Guest) -> None:
        """It has logged in, or ended. No effect when it had."""
        self._places.leave(session)

    def give_way(self) -> bool:
        """One of them ends. False: there is none."""
        return _end(self._places.longest)

    def give_way_of(self, peer: str) -> bool:
        """One of this address (an IPv6 one shares its network's places, but not its limit)."""
        host = peer_host(peer)
        oldest = self._places.oldest(network(host))
        return oldest is not None and peer_host(oldest.channel.peer) == host and _end(oldest)


def _end(session: Guest | None) -> bool:
    if session is None:
        return False
    session.abort(Reason.CONNECTION_LIMIT, GAVE_WAY)
    return True
