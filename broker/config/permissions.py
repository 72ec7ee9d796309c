"""Who may do what where: one entry of `edge.permissions`.

Rule: as settings.py; a check looks at one entry and nothing else. Names follow Artemis', with underscores. What an
entry means for an address is decided in the edge.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from functools import lru_cache

from broker.core.errors import ConfigError

from .fields import setting

EVERYBODY = "*"
"""Instead of the name of a group: every user who is let in, also one without groups."""
FQQN = "::"


@dataclass(frozen=True, slots=True)
class PermissionSettings:
    """Which groups of users may do what at the addresses of a match; the most specific match counts, alone."""

    send: str = setting("", "list", "groups that may SEND; `*`: every user; empty: nobody")
    consume: str = setting("", "list", "groups that may SUBSCRIBE and take messages")
    browse: str = setting("", "list", "groups that may SUBSCRIBE with `browser:true`")
    create_address: str = setting("", "list", "groups whose SEND or SUBSCRIBE may create the address")
    create_durable_queue: str = setting(
        "", "list", "groups whose SEND or SUBSCRIBE may create an anycast or named queue, or a durable subscription"
    )
    create_non_durable_queue: str = setting(
        "", "list", "groups that may subscribe to topics without a durable name: such a subscription is a queue"
    )
    delete_durable_queue: str = setting("", "list", "groups whose UNSUBSCRIBE may delete a durable subscription")
    read: str = setting("", "list", "groups that may read the log of the address (log_reads), also what is settled")
    manage: str = setting("", "list", "groups that may see its queues through the API (/api/v1), and act on them")


OPERATIONS: tuple[str, ...] = tuple(field.name for field in fields(PermissionSettings))


@lru_cache(10_000)
def groups_of(text: str) -> frozenset[str]:
    """The groups of a comma list. Remembered: entries by the thousand name the same few."""
    return frozenset(name.strip() for name in text.split(",")) if text.strip() else frozenset()


def check_permission(match: str, permission: Mapping[str, str], where: str) -> None:
    """Raises ConfigError for what cannot be meant; `where` names the place. permission: operation → groups."""
    for operation, groups in permission.items():
        if "" in groups_of(groups):
            raise ConfigError(f"{where}: {operation} has an empty name of a group; take the extra comma out.")
    address, mark, queue = match.partition(FQQN)
    if mark and not (address and queue):
        raise ConfigError(f"{where}: {match!r} must name an address and a queue of it, as in orders::audit.")
