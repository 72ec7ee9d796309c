"""Tokens of machines for the API of a standalone broker: DATA/tokens.json.

    {"version": 1, "tokens": {"backup": {"hash": "9f86d0…", "groups": ["ops"], "by": "ada", "created": 1764…}}}

Rule: a token is told once, to who makes it; kept is its SHA-256 (it has 256 random bits, nobody guesses them), and no
log holds it. On the disk before it counts, and gone from there before it is told that it is revoked.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Mapping, Sequence
from hashlib import sha256

import msgspec

from broker.cluster.config import KeptToken
from broker.core.errors import ConfigError
from broker.edge.access.users import checked_groups
from broker.seams.clock import SystemClock
from broker.seams.entropy import token
from broker.seams.files import read_whole, replace_whole

from .uncancelled import Uncancelled

FILE = "tokens.json"
PREFIX = "stampede_"
"""Of a token, so that those who look for secrets in files know one."""
MOST = 1000


class _Kept(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    tokens: dict[str, KeptToken] = {}
    version: int = 1


class LiveTokens:
    """See the head of this file."""

    def __init__(self, data: str) -> None:
        """Raises ConfigError."""
        self._path = os.path.join(data, FILE)
        self._tokens: Mapping[str, KeptToken] = self._read()
        self._names = _by_hash(self._tokens)
        self._whole = Uncancelled()

    def _read(self) -> dict[str, KeptToken]:
        try:
            kept = msgspec.json.decode(read_whole(self._path), type=_Kept)
        except FileNotFoundError:
            return {}
        except OSError as error:
            raise ConfigError(f"Cannot read {self._path}: {error.strerror}.") from None
        except msgspec.DecodeError as error:
            raise ConfigError(
                f"{self._path} cannot be read: {error}. Mend it, or put it aside: tokens are gone then."
            ) from None
        return kept.tokens

    def find(self, secret: str) -> tuple[str, Sequence[str]] | None:
        """Whose token it is, and the groups; None: nobody's."""
        name = self._names.get(hashed(secret))
        return (name, self._tokens[name].groups) if name is not None else None

    def all(self) -> Mapping[str, KeptToken]:
        return self._tokens

    async def behind(self) -> list[str]:
        """Nobody else uses them."""
        return []

    async def create(self, name: str, groups: Sequence[str], by: str) -> str:
        """The token. Raises ConfigError."""
        return await self._whole.run(self._create(name, groups, by))

    async def _create(self, name: str, groups: Sequence[str], by: str) -> str:
        if name in self._tokens:
            raise ConfigError(name_in_use(name))
        if len(self._tokens) >= MOST:
            raise ConfigError(f"There are {MOST} tokens, which is the most; revoke some.")
        secret = fresh()
        one = KeptToken(hashed(secret), refuse_groups(groups), by, SystemClock().wall_ms())
        await self._keep({**self._tokens, name: one})
        return secret

    async def revoke(self, name: str) -> None:
        """Raises ConfigError, KeyError: there is none."""
        await self._whole.run(self._revoke(name))

    async def _revoke(self, name: str) -> None:
        rest = dict(self._tokens)
        del rest[name]
        await self._keep(rest)

    async def _keep(self, tokens: dict[str, KeptToken]) -> None:
        data = msgspec.json.format(msgspec.json.encode(_Kept(tokens)), indent=1) + b"\n"
        try:
            await asyncio.to_thread(replace_whole, self._path, data)
        except OSError as error:
            raise ConfigError(f"Cannot keep it in {self._path}: {error.strerror}.") from error
        self._tokens, self._names = tokens, _by_hash(tokens)


def _by_hash(tokens: Mapping[str, KeptToken]) -> dict[str, str]:
    return {one.hash: name for name, one in tokens.items()}


def fresh() -> str:
    """A token that nobody has."""
    return PREFIX + token(32)


def hashed(secret: str) -> str:
    """What is kept of it."""
    return sha256(secret.encode(errors="surrogateescape")).hexdigest()


def refuse_groups(groups: Sequence[str]) -> tuple[str, ...]:
    """The groups of a token, checked. Raises ConfigError."""
    if not groups:
        raise ConfigError("A token without groups may nothing; give it a group of admin.administrators, or one with "
                          "`manage` in edge.permissions.")  # fmt: skip
    return tuple(checked_groups(groups))


def name_in_use(name: str) -> str:
    """Why a token is not made."""
    return f"There is a token {name!r} already; revoke it first, or take another name."
