"""Settings of one virtual host: what it is called, and how many may be in it.

Whatever else is about a host stands in the tables of everybody, with `$host/NAME.` in front of the name.

Rule: as settings.py: plain frozen dataclasses, nothing read from anywhere.
"""

from __future__ import annotations

from dataclasses import dataclass

from .fields import setting


@dataclass(frozen=True, slots=True)
class VirtualHostSettings:
    """A virtual host: a name space with addresses, users, permissions and settings of its own.

    The table's name is what CONNECT's `host` header says. What is said of an address, queue, divert, permission or user
    of it has `$host/NAME.` in front: `[engine.addresses."$host/shop.orders.#"]`. Read at start only."""

    names: str = setting("", "list", "other names of it, as `host` of CONNECT or the name in the TLS handshake says")
    login_by: str = setting("", "list", "how its clients prove who they are, in order; empty: as the acceptor says")
    max_connections: int = setting(-1, "connections", "that have logged in, of this process; -1: no limit", least=-1)
