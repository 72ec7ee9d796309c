"""What one user, virtual host or address of clients may use at a time, and how fast: one entry of `edge.quotas`.

Rule: as settings.py; a check looks at one entry and nothing else. Who is counted with whom is decided in the edge.
"""

from __future__ import annotations

import ipaddress
from dataclasses import dataclass, fields
from typing import Any, NamedTuple

from broker.core.errors import ConfigError
from broker.core.virtual_host import NAME

from .fields import setting

EACH = "*"
"""Instead of a name: each that has no entry of its own."""
DEFAULT_HOST = "/"
"""What the default virtual host is called here."""
KINDS = ("user", "host", "ip")


def _most(unit: str, help: str, why: str = "") -> Any:
    return setting(-1, unit, f"{help}; -1: no limit", why, least=-1)


@dataclass(frozen=True, slots=True)
class QuotaSettings:
    """What `user:NAME`, `host:NAME` or `ip:ADDRESS` may use, of all edges together (`user:*`: each user, and so on).

    The most specific entry counts, alone."""

    max_connections: int = _most("connections", "that have logged in")
    max_logins: int = _most(
        "logins", "that are being checked; not of a user", "anybody can say that he is ada, who would then not come in"
    )
    max_subscriptions: int = _most(
        "subscriptions", "weighted: one for each partition of its address, 256 for a wildcard"
    )
    max_unacknowledged: int = _most(
        "messages", "given to consumers with ack client or client-individual; a window gets what is left",
        "what waits for an acknowledgement is kept from others",
    )  # fmt: skip
    max_transactions: int = _most("transactions", "open at once")
    max_queues: int = _most(
        "queues", "that there are, those of subscribers among them; of a user: that he has made by using them",
        "a queue costs memory, and its owner's time, whether anybody uses it or not",
    )  # fmt: skip
    max_durable_subscriptions: int = _most(
        "subscriptions", "durable ones that there are, also those nobody is connected to; of a user: by client-id",
        "they outlive their connection, and what nobody reads grows",
    )  # fmt: skip
    max_bytes: int = _most(
        "bytes", "of messages in queues, in memory or not; SEND is refused; of a user: in queues that he has made, and "
        "whoever sends there by their names is refused",
    )  # fmt: skip
    max_memory_bytes: int = _most("bytes", "the same, in memory alone")
    max_producer_rate: int = _most("messages/s", "sent; what is more is read later", "as edge.max_producer_rate")
    max_producer_byte_rate: int = _most(
        "bytes/s", "of messages sent; what is more is read later",
        "a message goes as a whole, and what it is too large is owed",
    )  # fmt: skip
    max_consumer_rate: int = _most("messages/s", "delivered; what is more stays in its queue")
    max_consumer_byte_rate: int = _most("bytes/s", "of messages delivered; what is more stays in its queue")


_NAMES = tuple(field.name for field in fields(QuotaSettings))
RATES: tuple[str, ...] = tuple(name for name in _NAMES if name.endswith("_rate"))
"""What waits where it is too much."""
KEPT: tuple[str, ...] = ("max_queues", "max_durable_subscriptions", "max_bytes", "max_memory_bytes")
"""What owners keep, whichever clients are connected: they are asked for it."""
LIMITS: tuple[str, ...] = tuple(name for name in _NAMES if name not in RATES and name not in KEPT)
"""What is refused where it is too much, of connections."""


class QuotaName(NamedTuple):
    """An entry's name taken apart."""

    kind: str
    name: str


def parsed_quota(entry: str) -> QuotaName:
    """Raises ValueError, which says what is wrong."""
    kind, mark, name = entry.partition(":")
    if not mark or kind not in KINDS or not name:
        raise ValueError("it is user:NAME, host:NAME or ip:ADDRESS, or one of them with * for each")
    if name == EACH:
        return QuotaName(kind, name)
    if kind == "host" and name != DEFAULT_HOST and not NAME.fullmatch(name):
        raise ValueError(
            f"a virtual host has letters, digits, - and _ in its name; the default one is host:{DEFAULT_HOST}"
        )
    if kind == "ip":
        name = str(ipaddress.ip_network(name))
    return QuotaName(kind, name)


def check_quota(entry: str, quota: QuotaSettings, where: str) -> None:
    """Raises ConfigError for what cannot be meant; `where` names the place."""
    try:
        kind, _ = parsed_quota(entry)
    except ValueError as error:
        raise ConfigError(f"{where}: {error}.") from None
    if kind == "user" and quota.max_logins >= 0:
        raise ConfigError(
            f"{where}.max_logins: who logs in has not proven that he is that user, and would keep him out; set it for "
            "ip:* or host:*."
        )
    for name in KEPT:
        if getattr(quota, name) >= 0 and kind == "ip":
            raise ConfigError(
                f"{where}.{name}: what is kept outlives its connection, and is no address' any more; set it for "
                "host:*, host:NAME, user:* or user:NAME, or limit the address (max_size_bytes, max_size_messages)."
            )
    for name in RATES:
        if getattr(quota, name) == 0:
            raise ConfigError(
                f"{where}.{name}: 0 would make everybody wait for ever; take the right away instead "
                "(edge.permissions), or write -1 for no limit."
            )
