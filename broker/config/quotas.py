"""What one user, virtual host or address of clients may use at a time, and how fast: one entry of `edge.quotas`.

Rule: as settings.py; a check looks at one entry and nothing else. Who is counted with whom is decided in the edge.
"""

from __future__ import annotations

import ipaddress
from dataclasses import dataclass, fields
from typing import NamedTuple

from broker.core.errors import ConfigError
from broker.core.virtual_host import NAME

from .fields import setting

EACH = "*"
"""Instead of a name: each that has no entry of its own."""
DEFAULT_HOST = "/"
"""What the default virtual host is called here."""
KINDS = ("user", "host", "ip")


@dataclass(frozen=True, slots=True)
class QuotaSettings:
    """What `user:NAME`, `host:NAME` or `ip:ADDRESS` may use, of all edges together (`user:*`: each user, and so on).

    The most specific entry counts, alone."""

    max_connections: int = setting(-1, "connections", "that have logged in; -1: no limit", least=-1)
    max_logins: int = setting(
        -1, "logins", "that are being checked; -1: no limit; not of a user",
        "anybody can say that he is ada, who would then not come in", least=-1,
    )  # fmt: skip
    max_subscriptions: int = setting(
        -1, "subscriptions", "weighted: one for each partition of its address, 256 for a wildcard; -1: no limit",
        least=-1,
    )  # fmt: skip
    max_unacknowledged: int = setting(
        -1, "messages", "given to consumers with ack client or client-individual; a window gets what is left; -1: no "
        "limit", "what waits for an acknowledgement is kept from others", least=-1,
    )  # fmt: skip
    max_transactions: int = setting(-1, "transactions", "open at once; -1: no limit", least=-1)
    max_queues: int = setting(
        -1, "queues", "that there are, those of subscribers among them; of a virtual host only; -1: no limit",
        "who made a queue is not known afterwards, and others may use it", least=-1,
    )  # fmt: skip
    max_durable_subscriptions: int = setting(
        -1, "subscriptions", "durable ones that there are, also those nobody is connected to; of a user: by client-id; "
        "-1: no limit", "they outlive their connection, and what nobody reads grows", least=-1,
    )  # fmt: skip
    max_bytes: int = setting(
        -1, "bytes", "of messages in queues, in memory and on disk; SEND is refused; of a virtual host only; -1: no "
        "limit", "of an address: max_size_bytes", least=-1,
    )  # fmt: skip
    max_memory_bytes: int = setting(
        -1, "bytes", "of messages in queues, in memory; SEND is refused; of a virtual host only; -1: no limit",
        "what is more than engine.queue_memory_bytes in a queue goes to disk", least=-1,
    )  # fmt: skip
    max_producer_rate: int = setting(
        -1, "messages/s", "sent; what is more is read later; -1: no limit", "as edge.max_producer_rate", least=-1
    )
    max_producer_byte_rate: int = setting(
        -1, "bytes/s", "of messages sent; what is more is read later; -1: no limit",
        "a message goes as a whole, and what it is too large is owed", least=-1,
    )  # fmt: skip
    max_consumer_rate: int = setting(
        -1, "messages/s", "delivered; what is more stays in its queue; -1: no limit", least=-1
    )
    max_consumer_byte_rate: int = setting(
        -1, "bytes/s", "of messages delivered; what is more stays in its queue; -1: no limit", least=-1
    )


_NAMES = tuple(field.name for field in fields(QuotaSettings))
RATES: tuple[str, ...] = tuple(name for name in _NAMES if name.endswith("_rate"))
"""What waits where it is too much."""
KEPT: tuple[str, ...] = ("max_queues", "max_durable_subscriptions", "max_bytes", "max_memory_bytes")
"""What owners keep, whoever is connected: they are asked for it."""
LIMITS: tuple[str, ...] = tuple(name for name in _NAMES if name not in RATES and name not in KEPT)
"""What is refused where it is too much, of connections."""
OF_USERS = "max_durable_subscriptions"
"""Of KEPT, what can be told of a user: by the client-ids that are his."""


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
        if getattr(quota, name) >= 0 and kind != "host" and (kind, name) != ("user", OF_USERS):
            raise ConfigError(
                f"{where}.{name}: what is kept is of a virtual host, not of who sent or made it; set it for host:* or "
                f"host:NAME{' (of a user: max_durable_subscriptions)' if kind == 'user' else ''}, or limit the address "
                "(max_size_bytes, max_size_messages)."
            )
    for name in RATES:
        if getattr(quota, name) == 0:
            raise ConfigError(
                f"{where}.{name}: 0 would make everybody wait for ever; take the right away instead "
                "(edge.permissions), or write -1 for no limit."
            )
