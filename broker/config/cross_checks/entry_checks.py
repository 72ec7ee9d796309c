"""Queues and diverts that make no sense.

Rule: as checks.py; looks at one entry of a table and nothing else.
"""

from __future__ import annotations

from broker.core.errors import ConfigError, RefusedError
from broker.core.notices import OF_MESSAGES
from broker.selector import compile

from ..addressing import AddressSettings, DivertSettings, QueueSettings

_TYPES = ("ANYCAST", "MULTICAST")


def check_types(address: AddressSettings, where: str) -> None:
    """Raises ConfigError unless routing_types is a comma list of routing types, and message_advisories of what is told
    of single messages."""
    for word in address.message_advisories.split(",") if address.message_advisories else ():
        if word not in OF_MESSAGES:
            raise ConfigError(
                f"{where}: message_advisories is {address.message_advisories!r}; it must be some of "
                f"{', '.join(OF_MESSAGES)}, with commas and no blanks between them."
            )
    for word in address.routing_types.split(",") if address.routing_types else ():
        if word not in _TYPES:
            raise ConfigError(
                f"{where}: routing_types is {address.routing_types!r}; it must be ANYCAST, MULTICAST, or both with a "
                "comma and no blank between them."
            )


def check_queue(name: str, queue: QueueSettings, where: str, delimiter: str) -> None:
    """Raises ConfigError for the first contradiction; `where` names the place."""
    address = queue.address or name
    words = address.split(delimiter)
    for what in (name, address):
        if "::" in what:
            raise ConfigError(f"{where}: {what!r} holds `::`; name the queue, and its address as `address`.")
    if "#" in words[:-1]:
        raise ConfigError(f"{where}: in address {address!r} the # must be the last word: it stands for the rest.")
    if ("*" in words or "#" in words) and queue.routing != "MULTICAST":
        raise ConfigError(f"{where}: address {address!r} is a wildcard, so routing must be MULTICAST.")
    _check_selector(queue.selector, where)


def check_divert(divert: DivertSettings, where: str, delimiter: str) -> None:
    """Raises ConfigError for the first contradiction; `where` names the place."""
    targets = [name.strip() for name in divert.forward.split(",")]
    if not divert.address or not all(targets):
        raise ConfigError(f"{where}: a divert needs `address`, and `forward` with one address or several, by commas.")
    if "::" in divert.address:
        raise ConfigError(f"{where}: {divert.address!r} names a queue; a divert starts at an address, without `::`.")
    for name in (divert.address, *targets):
        address, mark, queue = name.partition("::")
        words = address.split(delimiter)
        if "*" in words or "#" in words:
            raise ConfigError(f"{where}: {name!r} must be the name of one address, without wildcards.")
        if not address or bool(mark) is not bool(queue) or "::" in queue:
            raise ConfigError(f"{where}: {name!r} must be an address, or one of its queues as `address::queue`.")
    if divert.address in targets:
        raise ConfigError(f"{where}: {divert.address!r} would be diverted to itself; name another address.")
    _check_selector(divert.selector, where)


def _check_selector(selector: str, where: str) -> None:
    try:
        if selector:
            compile(selector)
    except RefusedError as error:
        raise ConfigError(f"{where}: {error}") from None
