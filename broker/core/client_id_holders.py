"""Which connection of one process has a client-id: the half of the answer that needs nobody else.

Rule: with `allow` nobody has one. Of two that want the same one, the first keeps it (`refuse`), or is told that it is
the second's now (`takeover`); whether another process has it, the registries ask (edge/destinations/directory.py).
"""

from __future__ import annotations

from typing import Protocol

from .errors import Code, RefusedError

ALLOW, REFUSE = "allow", "refuse"
"""Of edge.client_id_in_use; the third is takeover."""


class ClientIdHolder(Protocol):
    """Who has a client-id: a connection."""

    id: int

    def taken_over(self) -> None:
        """Another connection has it now: this one ends."""
        ...


class ClientIdHolders:
    """Those of one process. policy: edge.client_id_in_use."""

    __slots__ = ("_holders", "_policy")

    def __init__(self, policy: str) -> None:
        self._policy = policy
        self._holders: dict[str, ClientIdHolder] = {}

    def claim(self, client_id: str, holder: ClientIdHolder) -> bool:
        """False: another one has it, and keeps it."""
        if self._policy == ALLOW:
            return True
        other = self._holders.get(client_id)
        if other is not None and self._policy == REFUSE:
            return False
        self._holders[client_id] = holder
        if other is not None:
            other.taken_over()
        return True

    def drop(self, client_id: str, holder: ClientIdHolder) -> bool:
        """False: it had lost it before."""
        if self._holders.get(client_id) is not holder:
            return False
        del self._holders[client_id]
        return True

    def lose(self, client_id: str, connection: int) -> None:
        """A connection elsewhere has it now. No effect when it is not this one's any more."""
        holder = self._holders.get(client_id)
        if holder is not None and holder.id == connection:
            del self._holders[client_id]
            holder.taken_over()

    def all(self) -> list[tuple[str, ClientIdHolder]]:
        """As of now."""
        return list(self._holders.items())


def in_use(client_id: str) -> RefusedError:
    return RefusedError(
        Code.CLIENT_ID_IN_USE,
        f"client-id:{client_id[:100]}; close that connection, choose another id, or set edge.client_id_in_use",
    )
