"""What edge processes of one broker must agree on, kept by the parent: durable names, client-ids, rates.

Rule: every answer is given at once, from memory; what a process that has ended had is free. Must not know streams.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from broker.core.client_id_holders import REFUSE, ClientIdHolder, ClientIdHolders, in_use
from broker.core.errors import Code, RefusedError
from broker.edge.destinations.directory import Done, LocalNames
from broker.edge.quotas.meters import LocalTokens

PARENT: Final = 0
"""The number of the parent among those who hold client-ids; edge processes have 1, 2, …"""

Ask = Callable[[str, int, Callable[[bool | None], None]], None]
"""A client-id and the connection that wants it; told then whether it has it, None: nobody can say."""


class IdRegistry:
    """Who has a client-id: process and connection. lost: told the process, the client-id and the connection that has
    it no more."""

    def __init__(self, policy: str, lost: Callable[[int, str, int], None]) -> None:
        """policy: edge.client_id_in_use."""
        self._policy = policy
        self._lost = lost
        self._holders: dict[str, tuple[int, int]] = {}

    def claim(self, process: int, client_id: str, connection: int) -> bool:
        """False: another process has it, and the policy is to refuse. Among its own connections a process decides."""
        other = self._holders.get(client_id)
        if other is not None and other[0] != process:
            if self._policy == REFUSE:
                return False
            self._lost(other[0], client_id, other[1])
        self._holders[client_id] = process, connection
        return True

    def release(self, process: int, client_id: str, connection: int) -> None:
        """No effect when it has lost the id meanwhile."""
        if self._holders.get(client_id) == (process, connection):
            del self._holders[client_id]

    def gone(self, process: int) -> None:
        """It has ended, and its connections with it."""
        self._holders = {name: holder for name, holder in self._holders.items() if holder[0] != process}


class ProcessClientIds:
    """The connections of one process among several (those of the parent are bridges): edge.directory.ClientIds.
    policy: refuse or takeover (with allow nobody has to be asked: client_ids()). ask, release: the registry's."""

    def __init__(self, policy: str, ask: Ask, release: Callable[[str, int], None]) -> None:
        self._ask = ask
        self._release = release
        self._holders = ClientIdHolders(policy)

    def claim(self, client_id: str, holder: ClientIdHolder, done: Done) -> None:
        # Ours from now on, so that a second claim in this process finds it while the registry is asked.
        if not self._holders.claim(client_id, holder):
            done(in_use(client_id))
            return

        def answered(granted: bool | None) -> None:
            if granted:
                done(None)
                return
            self._holders.drop(client_id, holder)
            done(in_use(client_id) if granted is False else RefusedError(Code.INTERNAL))

        self._ask(client_id, holder.id, answered)

    def release(self, client_id: str, holder: ClientIdHolder) -> None:
        if self._holders.drop(client_id, holder):
            self._release(client_id, holder.id)

    def lost(self, client_id: str, connection: int) -> None:
        """Another process has it now."""
        self._holders.lose(client_id, connection)


class Registry:
    """All of it. names, tokens: as the parent's own edge uses them."""

    def __init__(self, ids: IdRegistry, names: LocalNames, tokens: LocalTokens) -> None:
        self._ids = ids
        self._names = names
        self._tokens = tokens

    def claim_id(self, process: int, client_id: str, connection: int) -> bool:
        return self._ids.claim(process, client_id, connection)

    def release_id(self, process: int, client_id: str, connection: int) -> None:
        self._ids.release(process, client_id, connection)

    def claim_name(self, _process: int, name: str, address: str) -> str | None:
        """None, or the address that has the name."""
        return self._names.reserve(name, address)

    def find_name(self, _process: int, name: str) -> str | None:
        return self._names.address_of(name)

    def release_name(self, _process: int, name: str, address: str) -> None:
        self._names.drop(name, address)

    def lease(self, _process: int, name: str, rate: int, most: int, want: int) -> int:
        """Tokens of a rate."""
        given: list[int] = []
        self._tokens.lease(name, rate, most, want, lambda count: given.append(count or 0))
        return given[0]

    def gone(self, process: int) -> None:
        self._ids.gone(process)
