"""What the API asks of the rest of the process; `app` hands it in.

Rule: interfaces and values only. On a standalone broker and on an edge the same stands behind them.
"""

from __future__ import annotations

from collections.abc import Generator, Mapping, Sequence
from typing import Any, NamedTuple, Protocol

Question = Mapping[str, Any]
Answer = dict[str, Any]
Work = Generator[None, None, Answer]
"""An answer in steps of a millisecond."""

May = Sequence[tuple[str, bool]]
"""Patterns of addresses and whether somebody may manage them, from specific to general: the first that matches
decides."""


class Missing(NamedTuple):
    """An owner that has not answered, and why."""

    owner: str
    why: str


class Owners(Protocol):
    """Who leads the slots."""

    async def ask(self, question: Question) -> tuple[list[Answer], list[Missing]]:
        """What they say of a question of owner/views.py; who has said nothing."""
        ...


class ClientsPort(Protocol):
    """The connections of this process."""

    def answer(self, question: Question) -> Work:
        """Kinds: "connections" (a list), "connection" (`id`), "clients" (totals)."""
        ...

    def disconnect(self, id: int, why: str) -> bool:
        """Ends one with an ERROR that says why; False: it is not there (any more)."""
        ...


class LoginsPort(Protocol):
    """Users, as for STOMP."""

    @property
    def has_users(self) -> bool: ...
    async def login(self, login: str, passcode: str, peer: str) -> str:
        """The user. Raises RefusedError(LOGIN_FAILED)."""
        ...

    def groups(self, user: str) -> Sequence[str]: ...
    def manages(self, user: str) -> May:
        """By the permissions (`manage`)."""
        ...


class ProcessPort(Protocol):
    """This process."""

    def about(self) -> dict[str, Any]:
        """Id, version, role, since when, is it ready, and what of."""
        ...

    def settings(self) -> list[dict[str, Any]]:
        """All of them: name, value, unit, default, help, why, source."""
        ...
