"""RabbitMQ's exchanges as addresses: what is published to one with a key goes to a topic of ours, and who subscribes to
it there is who would be bound.

  direct    `$exchange/NAME/KEY`: who has bound just that key
  fanout    `$exchange/NAME`, whatever the key
  topic     `$exchange/NAME.KEY`, whose wildcards are those of topics; amq.topic is the topics themselves
  headers   `$exchange/NAME`; a SUBSCRIBE binds it without arguments, which everything matches, and may have a selector

Rule: names only. What lies under `$` no wildcard of another place stands for, so exchanges do not mix.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from broker.core.errors import Code, RefusedError

TOPIC: Final = "amq.topic"
"""Its keys are the topics."""
PREDECLARED: Final[Mapping[str, str]] = {
    "amq.direct": "direct", "amq.fanout": "fanout", TOPIC: "topic", "amq.headers": "headers", "amq.match": "headers",
}  # fmt: skip
_ROOT = "$exchange/"


class Exchanges:
    """Those there are. configured: edge.exchanges. delimiter: of the engine's addresses."""

    __slots__ = ("_delimiter", "_types")

    def __init__(self, configured: Mapping[str, Mapping[str, Any]], delimiter: str) -> None:
        self._types = {**{name: table.get("type", "direct") for name, table in configured.items()}, **PREDECLARED}
        self._delimiter = delimiter

    def address(self, name: str, key: str, destination: str) -> str:
        """Of an exchange and a key, or pattern of keys. Raises RefusedError."""
        kind = self._types.get(name)
        if kind is None:
            raise RefusedError(
                Code.NO_SUCH_DESTINATION,
                f"NOT_FOUND - no exchange '{name[:100]}' in vhost '/'; name it in edge.exchanges",
            )
        if kind in ("fanout", "headers"):
            return _ROOT + _quoted(name)
        if kind == "direct":
            if not {"*", "#"}.isdisjoint(key.split(self._delimiter)):
                raise RefusedError(
                    Code.BAD_DESTINATION,
                    f"'{destination[:100]}': '{name[:100]}' is a direct exchange, its keys have no * and #",
                )
            return f"{_ROOT}{_quoted(name)}/{key}"
        key = self.key(key)
        if name != TOPIC:
            return f"{_ROOT}{_quoted(name)}{self._delimiter}{key}"
        if not key:
            raise RefusedError(Code.BAD_DESTINATION, f"'{destination[:100]}' names nothing: its key is empty")
        return key

    def key(self, key: str) -> str:
        """A key of a topic exchange in words of ours: they are always split by dots at RabbitMQ."""
        words = key.split(".")
        # Several # in a row are one.
        kept = [word for n, word in enumerate(words) if word != "#" or n == 0 or words[n - 1] != "#"]
        return self._delimiter.join(kept)


def _quoted(name: str) -> str:
    """As one word, so that no name of an exchange is the beginning of another one's keys."""
    return name.replace("%", "%25").replace(".", "%2E").replace("/", "%2F")
