"""Tokens of machines for the API of a cluster's edges: entries in etcd, so that one made here is known at every edge.

Rule: as with those of a standalone broker (live_tokens.py): told once, kept as a hash; in use here before it is told,
and gone here before it is told that it is revoked.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec

from broker.cluster.config import ConfigWatch, KeptToken
from broker.cluster.config_writer import ConfigWriter, Table
from broker.core.errors import ConfigError
from broker.seams.clock import SystemClock

from .live_tokens import MOST, fresh, hashed, name_in_use, refuse_groups


class ClusterTokens:
    """See the head of this file."""

    def __init__(self, config: ConfigWatch, writer: ConfigWriter) -> None:
        self._config = config
        self._writer = writer
        self._names: dict[str, str] = {}
        self._read = -1
        """The revision of the configuration that `_names` is of."""

    def find(self, secret: str) -> tuple[str, Sequence[str]] | None:
        """Whose token it is, and the groups; None: nobody's."""
        if self._read != self._config.revision:
            self._names = {one.hash: name for name, one in self._config.tokens.items()}
            self._read = self._config.revision
        name = self._names.get(hashed(secret))
        return (name, self._config.tokens[name].groups) if name is not None else None

    def all(self) -> Mapping[str, KeptToken]:
        return self._config.tokens

    async def behind(self) -> list[str]:
        """Members that do not know the last change yet."""
        return await self._writer.behind()

    async def create(self, name: str, groups: Sequence[str], by: str) -> str:
        """The token. Raises ConfigError, BrokerError."""
        if len(self._config.tokens) >= MOST:
            raise ConfigError(f"There are {MOST} tokens, which is the most; revoke some.")
        secret = fresh()
        entry = KeptToken(hashed(secret), refuse_groups(groups), by, SystemClock().wall_ms())

        def made(stored: Table | None) -> Table:
            if stored is not None:
                raise ConfigError(name_in_use(name))
            return dict(msgspec.to_builtins(entry))

        await self._writer.edit(self._writer.keys.token(name), made)
        return secret

    async def revoke(self, name: str) -> None:
        """Raises BrokerError, KeyError: there is none."""
        if name not in self._config.tokens and self._writer.keys.token(name) not in self._config.bad:
            raise KeyError(name)
        await self._writer.edit(self._writer.keys.token(name), lambda _: None)
