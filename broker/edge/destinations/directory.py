"""What edges must agree on before a client may go on: whose a client-id is, and which address a durable subscription
belongs to.

Every question is answered by `done`, at once or later, with None or the refusal; the session waits meanwhile. One
process answers from its memory (LocalClientIds, LocalNames); in a cluster the metadata store is asked for names
(AskedNames), and Redis, if there is one, for client-ids.

Rule: asked at CONNECT with a client-id and at SUBSCRIBE with a durable name, never per message. Must not know frames.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Protocol

from broker.cluster.tasks import Tasks
from broker.core.client_id_holders import ClientIdHolder, ClientIdHolders, in_use
from broker.core.errors import Code, RefusedError
from broker.metadata.port import MetadataRefused, MetadataUnavailable

Done = Callable[[RefusedError | None], None]
Found = Callable[[str], None]


class ClientIds(Protocol):
    """Which connection has a client-id."""

    def claim(self, client_id: str, holder: ClientIdHolder, done: Done) -> None:
        """Refused with CLIENT_ID_IN_USE if another one has it and edge.client_id_in_use says `refuse`."""
        ...

    def release(self, client_id: str, holder: ClientIdHolder) -> None:
        """The connection is over. No effect when it has lost the id meanwhile."""
        ...


class SubscriptionNames(Protocol):
    """Durable subscriptions (`client-id.name`) and their addresses."""

    def claim(self, name: str, address: str, done: Done) -> None:
        """Refused: SUBSCRIPTION_CONFLICT if it belongs to another address, DIRECTORY_UNAVAILABLE if nobody can say."""
        ...

    def find(self, name: str, found: Found, done: Done) -> None:
        """found(address) in front of done(None); refused: NO_SUCH_SUBSCRIPTION, DIRECTORY_UNAVAILABLE."""
        ...

    def release(self, name: str, address: str, done: Done) -> None:
        """Its queue at this address is deleted. No effect when nobody had claimed it, or for another address."""
        ...


class Directory:
    """Both."""

    __slots__ = ("client_ids", "names")

    def __init__(self, client_ids: ClientIds, names: SubscriptionNames) -> None:
        self.client_ids = client_ids
        self.names = names


class LocalClientIds:
    """The connections of this process. `policy`: edge.client_id_in_use."""

    __slots__ = ("_holders",)

    def __init__(self, policy: str) -> None:
        self._holders = ClientIdHolders(policy)

    def claim(self, client_id: str, holder: ClientIdHolder, done: Done) -> None:
        done(None if self._holders.claim(client_id, holder) else in_use(client_id))

    def release(self, client_id: str, holder: ClientIdHolder) -> None:
        self._holders.drop(client_id, holder)


class LocalNames:
    """The durable subscriptions of this process."""

    __slots__ = ("_addresses",)

    def __init__(self) -> None:
        self._addresses: dict[str, str] = {}

    def learn(self, known: Mapping[str, str]) -> None:
        """Those that were there at its start: name → address."""
        self._addresses.update(known)

    def address_of(self, name: str) -> str | None:
        """Whose a durable subscription is."""
        return self._addresses.get(name)

    def reserve(self, name: str, address: str) -> str | None:
        """None, or the address that has the name."""
        owner = self._addresses.setdefault(name, address)
        return None if owner == address else owner

    def drop(self, name: str, address: str) -> None:
        if self._addresses.get(name) == address:
            del self._addresses[name]

    def claim(self, name: str, address: str, done: Done) -> None:
        owner = self.reserve(name, address)
        done(None if owner is None else conflict(name, owner))

    def find(self, name: str, found: Found, done: Done) -> None:
        done(_tell(self._addresses.get(name), name, found))

    def release(self, name: str, address: str, done: Done) -> None:
        self.drop(name, address)
        done(None)


class SharedNames(Protocol):
    """A registry that has to be waited for. All may raise MetadataUnavailable or MetadataRefused."""

    def claim(self, name: str, address: str) -> Awaitable[str | None]:
        """None, or the address that has the name."""
        ...

    def find(self, name: str) -> Awaitable[str | None]:
        """The address that has the name."""
        ...

    def release(self, name: str, address: str) -> Awaitable[None]: ...


class AskedNames:
    """The durable subscriptions of a cluster."""

    def __init__(self, shared: SharedNames) -> None:
        self._shared = shared
        self._tasks = Tasks()

    def claim(self, name: str, address: str, done: Done) -> None:
        self._tasks.spawn(_answer(self._claim(name, address), done), "claim of a durable subscription")

    def find(self, name: str, found: Found, done: Done) -> None:
        self._tasks.spawn(_answer(self._find(name, found), done), "look for a durable subscription")

    def release(self, name: str, address: str, done: Done) -> None:
        self._tasks.spawn(_answer(self._release(name, address), done), "release of a durable subscription")

    async def _claim(self, name: str, address: str) -> RefusedError | None:
        owner = await self._shared.claim(name, address)
        return None if owner is None else conflict(name, owner)

    async def _find(self, name: str, found: Found) -> RefusedError | None:
        return _tell(await self._shared.find(name), name, found)

    async def _release(self, name: str, address: str) -> None:
        await self._shared.release(name, address)

    async def close(self) -> None:
        await self._tasks.close()


async def _answer(question: Awaitable[RefusedError | None], done: Done) -> None:
    """Whatever happens, there is an answer: a session waits for it."""
    try:
        answer = await question
    except (MetadataUnavailable, MetadataRefused) as error:
        answer = RefusedError(Code.DIRECTORY_UNAVAILABLE, f"try again in a few seconds ({error})")
    except Exception:
        done(RefusedError(Code.INTERNAL))
        raise
    done(answer)


def _tell(address: str | None, name: str, found: Found) -> RefusedError | None:
    if address is None:
        return RefusedError(
            Code.NO_SUCH_SUBSCRIPTION,
            f"there is no durable subscription '{name[:100]}' (client-id.name); with its destination in a header a "
            "queue of that name is looked for there",
        )
    found(address)
    return None


def conflict(name: str, owner: str) -> RefusedError:
    return RefusedError(
        Code.SUBSCRIPTION_CONFLICT,
        f"'{name[:100]}' belongs to '{owner[:100]}'; UNSUBSCRIBE with its name deletes it",
    )
