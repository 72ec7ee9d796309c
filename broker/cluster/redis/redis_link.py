"""The way to Redis: bounded in time, silent while it is away, back by itself.

After a failure nobody waits for Redis for RETRY_S: an edge goes on alone. One line in the log when it goes, one when it
is back.

Rule: nothing here is needed for a message to travel, and nothing is kept in Redis that may not be lost. The client
library (1.4 s to load) is loaded only when there is a URL.
"""

from __future__ import annotations

import asyncio
import importlib
import logging
import ssl
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

from broker.config.settings import RedisSettings
from broker.core.errors import BrokerError, ConfigError
from broker.seams.clock import Clock
from broker.seams.files import read_whole

from ..tasks import heed

log = logging.getLogger("stampede.redis")

RETRY_S = 1.0

T = TypeVar("T")


class RedisAway(BrokerError):
    """It does not answer, or has not a moment ago."""


class RedisLink:
    """One pool of connections. `prefix` begins all keys."""

    def __init__(self, settings: RedisSettings, clock: Clock) -> None:
        self.prefix = settings.prefix
        self._settings = settings
        self._clock = clock
        self._client: Any = None
        self._away = False
        self._retry_at = 0.0

    async def start(self) -> None:
        """Loads the library; Redis may be away. Raises ConfigError for settings that cannot be used."""
        settings = self._settings
        password = None
        if settings.password_file:
            try:
                password = (await asyncio.to_thread(read_whole, settings.password_file)).decode().strip()
            except (OSError, UnicodeDecodeError) as error:
                raise ConfigError(f"Cannot read redis.password_file {settings.password_file}: {error}.") from None
        try:
            library = await asyncio.to_thread(importlib.import_module, "redis.asyncio")
        except ImportError:
            raise ConfigError(
                "redis.url is set but its client is not installed: pip install stampede-broker[redis]."
            ) from None
        retry = importlib.import_module("redis.asyncio.retry").Retry(
            importlib.import_module("redis.backoff").NoBackoff(), 0
        )
        tls: dict[str, Any] = {}
        if settings.url.startswith("rediss:"):
            # As seams/client_tls.py.
            tls["ssl_exclude_verify_flags"] = [ssl.VERIFY_X509_STRICT]
            tls["ssl_include_verify_flags"] = [ssl.VERIFY_X509_PARTIAL_CHAIN]
        try:
            self._client = library.Redis.from_url(
                settings.url, password=password, decode_responses=True, retry=retry,
                socket_timeout=settings.timeout_s, socket_connect_timeout=settings.timeout_s, **tls,
            )  # fmt: skip
        except ValueError as error:
            raise ConfigError(f"redis.url cannot be used: {error}.") from None

    async def ask(self, question: Callable[[Any], Awaitable[T]]) -> T:
        """`question(client)`, within timeout_s. Raises RedisAway."""
        if self._client is None or (self._away and self._clock.monotonic() < self._retry_at):
            raise RedisAway("Redis is away")
        try:
            async with asyncio.timeout(self._settings.timeout_s):
                answer = await question(self._client)
        except Exception as error:
            heed()
            self._failed(error)
            raise RedisAway(f"Redis: {error or type(error).__name__}") from error
        heed()
        if self._away:
            self._away = False
            log.info("Redis is back")
        return answer

    def listen(self) -> Any:
        """A subscriber with a connection of its own."""
        return self._client.pubsub(ignore_subscribe_messages=True)

    def _failed(self, error: Exception) -> None:
        self._retry_at = self._clock.monotonic() + RETRY_S
        if not self._away:
            self._away = True
            log.warning("Redis does not answer, this edge goes on alone: %s", error or type(error).__name__)

    async def close(self) -> None:
        if self._client is not None:
            await self._client.aclose()
            self._client = None
