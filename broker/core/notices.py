"""What happens to clients, as it is told to those that subscribe to it: Artemis' notifications, ActiveMQ
Classic's advisories.

Rule: values only: an edge makes them, what tells them stands above it, and neither knows the other.
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
SINGLE: Final = ("Connection", "Queue", "Topic", "TempQueue", "TempTopic")
"""Advisories there are one of, …"""
OF_DESTINATIONS: Final = ("Consumer", "FULL", "Producer", "SlowConsumer")
"""… and two for each destination: of queues and of topics. Nothing is ever told of producers, as nothing is by Classic:
those of STOMP clients belong to no destination."""

OF_MESSAGES: Final = ("MessageDLQd", "Expired", "MessageDiscarded", "NoConsumer")
"""Advisories of single messages, which owners tell where `message_advisories` of an address names them."""


class NoticeKind(Enum):
    """Artemis' types, and what only Classic has (of small letters)."""

    CONNECTION_CREATED = "CONNECTION_CREATED"
    CONNECTION_DESTROYED = "CONNECTION_DESTROYED"
    CONSUMER_CREATED = "CONSUMER_CREATED"
    CONSUMER_CLOSED = "CONSUMER_CLOSED"
    CONSUMER_SLOW = "CONSUMER_SLOW"
    ADDRESS_ADDED = "ADDRESS_ADDED"
    ADDRESS_REMOVED = "ADDRESS_REMOVED"
    SECURITY_AUTHENTICATION_VIOLATION = "SECURITY_AUTHENTICATION_VIOLATION"
    TEMPORARY_ADDED = "temporary added"
    TEMPORARY_REMOVED = "temporary removed"
    FULL = "full"


class Notice(NamedTuple):
    """connection   its number at its edge.    peer   its address.    address, topic   of a consumer: what it is
    subscribed to; else what it is about.    subscription   its id.    host   where it happens."""

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


def of_messages(address: str) -> tuple[str, str] | None:
    """Kind and what it is about (an address, or a wildcard) of an advisory of single messages; None: it is none."""
    kind, _, rest = address.removeprefix(ADVISORIES).partition(".")
    sort, _, about = rest.partition(".")
    if kind not in OF_MESSAGES or sort not in ("Queue", "Topic") or not about or not address.startswith(ADVISORIES):
        return None
    return kind, about


def is_advisory(address: str) -> bool:
    """Is it one that is told."""
    name = address.removeprefix(ADVISORIES)
    kind, _, rest = name.partition(".")
    if name == address:
        return False
    return name in SINGLE or (kind in OF_DESTINATIONS and rest.startswith(("Queue.", "Topic.")))
