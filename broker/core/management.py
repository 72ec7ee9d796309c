"""Requests for the management of the broker that come as messages (Artemis' `activemq.management`).

Rule: values only: an edge makes them, who manages carries them out, and neither knows the other.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final, NamedTuple

from .address import Routing
from .creation import Creation
from .errors import RefusedError
from .virtual_host import DEFAULT, VirtualHost

MANAGEMENT: Final = "activemq.management"
"""The address they are sent to."""
SCHEDULER: Final = "ActiveMQ.Scheduler.Management"
"""… by clients of ActiveMQ Classic, about what is sent again and again."""
STATISTICS: Final = "ActiveMQ.Statistics."
"""… and about how much there is: `ActiveMQ.Statistics.Broker`, `ActiveMQ.Statistics.DestinationNAME`."""


def name_of(destination: str) -> str:
    """A destination of Classic without what says of which type it is."""
    _, found, rest = destination.partition("ActiveMQ.")
    return found + rest if found else destination


class ReplyTo(NamedTuple):
    """Where the answer goes; its sender may send there.    create   … and make what is not there."""

    slot: int
    address: str
    routing: Routing
    queue: str | None
    create: Creation


class ManagementRequest(NamedTuple):
    """One message.    user, peer   whose it is.    headers   decoded.    reply   None: nobody waits for the answer.
    host   the virtual host it comes from: whatever it names is there."""

    user: str
    peer: str
    headers: Mapping[str, str]
    body: bytes
    reply: ReplyTo | None
    host: VirtualHost = DEFAULT


Manage = Callable[[Sequence[ManagementRequest], Callable[[RefusedError | None], None]], None]
"""Carries them out one after the other, and then calls back."""
