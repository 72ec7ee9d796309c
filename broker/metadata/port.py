"""Metadata: what the cluster asks of its metadata store. EtcdMetadata is the real one.

Rule: the store arbitrates, it never carries messages: nothing here is called per message or per client frame.
Every call may raise MetadataUnavailable; a write that raised it may have happened all the same.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from typing import Final, Protocol

from broker.core.errors import BrokerError

RAN_OUT: Final = "the metadata store did not answer before it ran out"
"""Why a lease was lost that nobody ended."""


class MetadataUnavailable(BrokerError):
    """No answer in time. Reads may be repeated; of a write nobody knows whether it happened."""


class MetadataRefused(BrokerError):
    """It answered no: credentials, permissions, a limit. Repeating does not help."""


@dataclass(frozen=True, slots=True)
class KeyValue:
    """revision: of its last change (etcd's mod_revision). lease: 0 = none."""

    key: str
    value: bytes
    revision: int
    lease: int = 0


@dataclass(frozen=True, slots=True)
class Change:
    """value None: the key is gone. `revision` of the change."""

    key: str
    value: bytes | None
    revision: int
    lease: int = 0


@dataclass(frozen=True, slots=True)
class Put:
    key: str
    value: bytes
    lease: int = 0


@dataclass(frozen=True, slots=True)
class Delete:
    key: str


class Lease(Protocol):
    """Kept alive in the background from the moment it is granted."""

    id: int

    @property
    def remaining(self) -> float:
        """Seconds by the local monotonic clock until it must be taken for gone. Counted from the moment the last
        successful keep-alive was *sent*; <= 0: it is lost."""
        ...

    async def lost(self) -> str:
        """Returns why, once it is lost: expired here (RAN_OUT: by the local clock, also when the store cannot be asked)
        or revoked there. Never before that."""
        ...

    async def revoke(self) -> None:
        """Gives it back: its keys are gone at once."""
        ...


class Metadata(Protocol):
    @property
    def rewound(self) -> str:
        """What shows that the store has lost what it had told us (an empty disk, an old snapshot), in words;
        "": nothing does. Watches are silent then, as they wait for a revision that is yet to come."""
        ...

    async def get(self, key: str) -> KeyValue | None: ...
    async def range(self, prefix: str) -> tuple[list[KeyValue], int]:
        """All keys under the prefix and the store's revision they were read at (watch from revision + 1)."""
        ...

    async def commit(self, compare: Sequence[tuple[str, int]], then: Sequence[Put | Delete]) -> int:
        """All of `then` if each key's revision is the one given (0: the key must not exist), else nothing.
        Returns the store's revision, or 0 when the comparison failed."""
        ...

    async def put(self, key: str, value: bytes, lease: int = 0) -> int:
        """Unconditionally; the revision."""
        ...

    async def delete(self, key: str) -> bool:
        """Was it there."""
        ...

    def watch(self, prefix: str, revision: int) -> AsyncIterator[list[Change]]:
        """Changes from `revision` on, in order, none missing, over disconnects and restarts of the store, for ever.
        Raises Compacted when the store no longer has that history: range() again."""
        ...

    async def grant(self, ttl_s: float) -> Lease: ...
    async def revoke(self, lease: int) -> None:
        """Ends another process' lease. No error when it is gone already."""
        ...

    async def close(self) -> None: ...


class Compacted(BrokerError):
    """The history behind a watch is gone; read the range again and watch from there."""
