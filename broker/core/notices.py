"""What happens to clients, as it is told to whoever subscribes to it: Artemis' notifications, ActiveMQ Classic's
advisories.

Rule: values only: an edge makes them, who tells them stands above it, and neither knows the other.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from enum import Enum
from typing import Final, NamedTuple

from .virtual_host import DEFAULT, VirtualHost

NOTIFICATIONS: Final = "activemq.notifications"
"""The address of all of them, for clients of Artemis."""
ADVISORIES: Final = "ActiveMQ.Advisory."
"""… and what theirs begin with for clients of Classic."""
CONNECTIONS: Final = "Connection"
CONSUMERS: Final = ("Consumer.Queue.", "Consumer.Topic.")
"""Advisories there are: one, and two for each destination."""


class NoticeKind(Enum):
    """Artemis' types."""

    CONNECTION_CREATED = "CONNECTION_CREATED"
    CONNECTION_DESTROYED = "CONNECTION_DESTROYED"
    CONSUMER_CREATED = "CONSUMER_CREATED"
    CONSUMER_CLOSED = "CONSUMER_CLOSED"
    SECURITY_AUTHENTICATION_VIOLATION = "SECURITY_AUTHENTICATION_VIOLATION"


class Notice(NamedTuple):
    """connection   its number at its edge.    peer   its address.    address, topic   of a consumer: what it is
    subscribed to.    subscription   its id.    host   where it happens."""

    kind: NoticeKind
    connection: int
    user: str
    peer: str
    client_id: str = ""
    address: str = ""
    topic: bool = False
    subscription: str = ""
    host: VirtualHost = DEFAULT


Notify = Callable[[Notice | Iterator[Notice]], None]
"""Takes one, at once; or as many as there are, some at a time: a session ends with all of its consumers."""


def is_advisory(address: str) -> bool:
    """Is it one that is told."""
    name = address.removeprefix(ADVISORIES)
    return name != address and (name == CONNECTIONS or name.startswith(CONSUMERS))
