"""What the API asks of the rest of the process; `app` hands it in.

Rule: interfaces and values only. On a standalone broker and on an edge the same stands behind them.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from typing import Any, NamedTuple, Protocol

Question = Mapping[str, Any]
Answer = dict[str, Any]
Work = Generator[None, None, Answer]
"""An answer in pieces of some microseconds (core/pages.py)."""

May = Sequence[tuple[str, bool]]
"""Patterns of addresses and whether a user may manage them, from specific to general: the first that matches
decides."""


class Missing(NamedTuple):
    """An owner that has not answered, and why."""

    owner: str
    why: str


class Owners(Protocol):
    """Who leads the slots."""

    async def ask(self, question: Question) -> tuple[list[Answer], list[Missing]]:
        """What they say of a question of owner/shard/views.py; who has said nothing."""
        ...


class ClientsPort(Protocol):
    """The connections of this process."""

    def answer(self, question: Question) -> Work:
        """Kinds: "connections" (a list), "connection" (`id`), "clients" (totals), "acceptors" (a list), "audit" (rows),
        and "disconnect" (`id`, `why`; `ended`)."""
        ...


class ElsewherePort(Protocol):
    """The connections of other processes of this broker."""

    own_name: str
    """What this process is called among them; empty: numbers of connections are of all of them."""

    def answered_by(self, view: Callable[[dict[str, Any]], Work]) -> None:
        """What others ask of this process."""
        ...

    async def ask(self, question: Question) -> tuple[list[Answer], list[Missing]]:
        """What they say, as ClientsPort.answer; who has said nothing. `edge` in the question: that one alone."""
        ...


class LoginsPort(Protocol):
    """Users, as for STOMP."""

    @property
    def has_users(self) -> bool: ...
    async def login(self, login: str, passcode: str, peer: str) -> str:
        """The user. Raises RefusedError(LOGIN_FAILED)."""
        ...

    def groups(self, user: str) -> Sequence[str]: ...
    def knows(self, user: str) -> bool:
        """Is there such a user."""
        ...

    def manages(self, groups: Sequence[str]) -> May:
        """By the permissions (`manage`)."""
        ...

    def rights(self, groups: Sequence[str], address: str, queue: str | None) -> list[Answer] | None:
        """What users with these groups may do there: operation, allowed, entry (the one that decides; None: there is
        none), groups (that it names). None: there are no permissions, everybody may do everything."""
        ...


class TokenEntry(Protocol):
    @property
    def groups(self) -> Sequence[str]: ...
    @property
    def by(self) -> str: ...
    @property
    def created(self) -> int: ...


class TokensPort(Protocol):
    """Tokens of machines. What is refused raises ConfigError."""

    def find(self, secret: str) -> tuple[str, Sequence[str]] | None:
        """The name of the token, and its groups."""
        ...

    def all(self) -> Mapping[str, TokenEntry]: ...
    async def create(self, name: str, groups: Sequence[str], by: str) -> str:
        """The token, told this once."""
        ...

    async def revoke(self, name: str) -> None:
        """KeyError: there is none."""
        ...

    async def behind(self) -> list[str]:
        """Members of the cluster that do not know the last change yet, after a moment."""
        ...


class ConfigPort(Protocol):
    """Settings that can be changed while this process runs, and users: its own, or its cluster's. What is refused
    raises ConfigError and has changed nothing; what has returned is kept and in use here. Any other BrokerError: it was
    not possible just now, or nobody knows whether it was made."""

    def entries(self) -> Iterator[dict[str, Any]]:
        """Of the tables config.changes.LIVE: table, name, values, source, overridden, live, by, since, why (it is set
        aside)."""
        ...

    def entry(self, name: str, entry: str) -> dict[str, Any] | None:
        """The values of one that is in use."""
        ...

    async def change(self, name: str, entry: str, values: Mapping[str, Any], by: str) -> dict[str, Any]:
        """Lays values over an entry of table `name` (None takes a change back); the entry before."""
        ...

    async def forget(self, name: str, entry: str) -> dict[str, Any]:
        """Takes all changes of it back; the entry before. KeyError: there were none."""
        ...

    async def reload(self) -> dict[str, Any]:
        """Reads the config file again: `changed` entries (some of a `total`), settings that need a `restart`,
        changes that are set `aside`."""
        ...

    async def behind(self) -> list[str]:
        """Members of the cluster that do not use the last change yet, after a moment."""
        ...

    @property
    def people(self) -> PeoplePort: ...


class PeoplePort(Protocol):
    """Users of this process; as ConfigPort."""

    async def all(self) -> Mapping[str, Sequence[str]]:
        """Names and groups."""
        ...

    async def set(
        self, name: str, passcode: str | None, groups: Sequence[str] | None
    ) -> tuple[Sequence[str] | None, Sequence[str]]:
        """The groups before (None: there was no such user) and now."""
        ...

    async def remove(self, name: str) -> None: ...


class ProcessPort(Protocol):
    """This process."""

    def about(self) -> dict[str, Any]:
        """Id, version, role, since when, is it ready, and what of."""
        ...

    def settings(self) -> list[dict[str, Any]]:
        """All of them: name, value, unit, default, help, why, source, restart (what one would make of it)."""
        ...

    def dead_letter_addresses(self) -> list[str]:
        """Where settings have dead letters and expired messages sent."""
        ...


class TopologyPort(Protocol):
    """The cluster that this process is a part of. Raises BrokerError where it cannot be asked, or says no."""

    async def nodes(self) -> list[Answer]:
        """Owners and edges: name, kind, state, zone, address, admin, leads, replicas, in_sync, unreached."""
        ...

    def slots(self) -> list[Answer]:
        """slot, epoch, leader, replicas, in_sync, target (it is being handed over), shelved (why)."""
        ...

    async def drain(self, owner: str, on: bool) -> bool:
        """Leaders and replicas leave it, for good; False: it was so already."""
        ...

    async def move(self, slot: int, owner: str) -> str:
        """A step towards `owner` leading it: "done", "handing over", "seeding"."""
        ...
