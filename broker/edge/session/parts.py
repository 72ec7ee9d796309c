"""What the parts of an edge ask of each other: a connection of its edge, the edge of a connection, and a connection of
its reading half, which is made above it.

Rule: each says as little as its callers need; the edge, the session and the inbound fit by what they have, and nothing
below them knows them by name. So imports point one way: subscriptions, rates and memory, the writing half and the
clocks, session, what carries out frames, inbound, edge.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Any, Protocol

from broker.config.settings import Settings
from broker.core.commands import Command, Publish, Settle
from broker.core.errors import Code
from broker.core.management import Manage
from broker.core.notices import Notify
from broker.core.reasons import Reason
from broker.engine.address.address_settings import Matcher
from broker.link.owner_port import OwnerPort
from broker.seams.loop_watchdog import StepKindStats
from broker.wire.events import Event, Frame

from ..access.acceptor import Entrance, Entrances
from ..access.auth import Authenticator
from ..access.external_logins import ExternalLogins
from ..destinations.directory import Directory
from ..destinations.send_route import RouteCache
from ..destinations.zone_affinity import ZoneAffinity
from ..quotas.quotas import Quotas
from ..rights.permissions import Rights
from ..subscriptions.rate_limits import Rates
from ..subscriptions.split_subscription import SplitSubscription
from ..subscriptions.subscription import ConsumerDesk, SlotSubscription
from ..subscriptions.wildcard_subscription import WildcardSubscription
from ..transport.channel import Channel
from ..transport.connection_memory import Holding, MemoryHolder
from ..transport.fair_reading import Rounds
from .added_headers import Numbers
from .counters import EdgeCounters
from .expiries import Expiries


class OpenConnection(MemoryHolder, Protocol):
    """One connection, as its edge keeps it."""

    channel: Channel

    @property
    def principal(self) -> str: ...
    @property
    def client_id(self) -> str: ...
    @property
    def entrance(self) -> Entrance: ...
    @property
    def edge(self) -> EdgeServices: ...
    def fault(self) -> None:
        """We have made a mistake: it ends this connection and no other."""
        ...


class Faulty(Protocol):
    """What goes wrong in it ends its connection and no other."""

    def fault(self) -> None: ...


class Flushes(Faulty, Protocol):
    """An outbound half that something was written to."""

    def flush(self) -> None: ...


class Eases(Faulty, Protocol):
    """What one session keeps waiting for full addresses, of which some may leave."""

    def advance(self) -> None: ...


class IncomingBody(Protocol):
    """A large body on its way in."""

    @property
    def pending(self) -> int:
        """Bytes that have not reached the file."""
        ...


class ReadingHalf(Protocol):
    """The reading half of a connection (inbound.py). batch   commands of this read."""

    batch: list[Command]

    @property
    def parked(self) -> bool:
        """Something is not finished: frames wait behind it, or for the rate of their user."""
        ...

    @property
    def reading(self) -> bool:
        """False while it is us who are not reading."""
        ...

    @property
    def held_by(self) -> Collection[str]:
        """Why it is not read: words of pause_reading()."""
        ...

    @property
    def large(self) -> IncomingBody | None: ...
    def handle(self, events: list[Event]) -> None: ...
    def submit(self) -> None: ...
    def last(self, ends: list[Command]) -> None: ...
    def park(self) -> None: ...
    def unpark(self) -> None: ...
    def begins(self, units: int) -> None:
        """See inbound.py: after so many units everybody else has a turn."""
        ...

    def breathe(self) -> None: ...
    def rest(self) -> Callable[[], None]: ...
    def hung_up(self) -> bool:
        """Its client has sent its last byte. Does something of that still wait."""
        ...

    def pause_reading(self, why: str) -> None: ...
    def resume_reading(self, why: str) -> None: ...
    def go_on(self) -> None:
        """What waits for a rate may have its turn."""
        ...

    def finish(self) -> None: ...
    def close(self) -> None: ...
    def over(self) -> None: ...


class Judging(Protocol):
    """What has changed for those who are connected. busy: a session has not been judged by it."""

    busy: bool

    def meets(self, session: Any) -> None:
        """It is about to do something: it is judged first."""
        ...


class Ends(Protocol):
    """Where streams end (subscribing/stream_ends.py)."""

    def ask(self, session: Any, frame: Frame, address: str, then: Callable[[], None]) -> None: ...


class PartsOfQueues(Protocol):
    """Subscriptions to queues by a wildcard (subscribing/queue_wildcards.py)."""

    @property
    def served(self) -> bool: ...
    def add(self, split: SplitSubscription) -> None: ...
    def lost(self, sub: SlotSubscription) -> bool: ...
    def ended(self, session: int, handle: bytes) -> bool: ...
    def refused(self, consumer: int, code: Code, detail: str) -> None: ...
    def forget(self, session: int, parts: list[Publish | Settle]) -> None: ...


class EdgeServices(ConsumerDesk, Protocol):
    """The edge, as its connections use it."""

    @property
    def blocked_bytes(self) -> int:
        """Bytes that wait in all sessions for full addresses to have room."""
        ...

    def count_blocked(self, nbytes: int) -> None:
        """So many more of them."""
        ...

    @property
    def settings(self) -> Settings: ...
    @property
    def port(self) -> OwnerPort: ...
    @property
    def auth(self) -> Authenticator: ...
    @property
    def outside(self) -> ExternalLogins | None:
        """Who is known elsewhere."""
        ...

    @property
    def expiries(self) -> Expiries: ...
    @property
    def entrances(self) -> Entrances: ...
    @property
    def boot(self) -> str: ...
    @property
    def directory(self) -> Directory: ...
    @property
    def match(self) -> Matcher:
        """The settings of an address."""
        ...

    @property
    def singly(self) -> Callable[[str], bool] | None:
        """Do messages for this address go to its owner one by one; None: no address wants that."""
        ...

    @property
    def routes(self) -> RouteCache: ...
    @property
    def near(self) -> ZoneAffinity:
        """Slots that are preferred where it does not matter."""
        ...

    @property
    def numbers(self) -> Numbers: ...
    @property
    def management(self) -> Manage | None: ...
    @property
    def notify(self) -> Notify | None: ...
    @property
    def rates(self) -> Rates | None: ...
    @property
    def quotas(self) -> Quotas: ...
    @property
    def counters(self) -> EdgeCounters: ...
    @property
    def reads(self) -> StepKindStats: ...
    @property
    def rounds(self) -> Rounds: ...
    @property
    def changes(self) -> Judging: ...
    @property
    def holding(self) -> Holding: ...
    @property
    def wildcards(self) -> dict[int, WildcardSubscription]: ...
    @property
    def queue_wildcards(self) -> PartsOfQueues: ...
    @property
    def stream_ends(self) -> Ends: ...
    @property
    def log_frames(self) -> bool: ...

    @property
    def dispatching(self) -> bool:
        """Effects are being handed out: what is written meanwhile leaves when all of them are."""
        ...

    @property
    def touched(self) -> list[Flushes]: ...
    @property
    def eased(self) -> dict[Eases, None]: ...
    def next_consumer(self) -> int: ...
    def next_block(self) -> int: ...
    def rights(self, user: str) -> Rights | None: ...
    def rights_of(self, groups: tuple[str, ...]) -> Rights | None: ...
    def known(self, session: OpenConnection) -> None:
        """It has logged in, or ended: a stranger no more."""
        ...

    def pause(self, session: OpenConnection) -> None:
        """The owner is congested: this producer's socket rests until it says so."""
        ...

    def closed(self, session: OpenConnection, reason: Reason, detail: str) -> None: ...
    def forget(self, session: OpenConnection) -> None: ...
