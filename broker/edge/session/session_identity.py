"""Who a connection is: where it comes from, the virtual host it is in, its user, what he may, and its client-id.

A connection without a name counts as well: `whose` is the network it comes from until it has logged in, so that
thousands of strangers from one place have one share of the turns (fair_reading.py), and a user from many places has one
as well.

Rule: what is said of it to people, to owners and to quotas is asked here; it changes with a login and with the table of
users (live_changes.py), never with a frame. Knows nothing of what the client asks for.
"""

from __future__ import annotations

from broker.config.acceptor import AcceptorSettings
from broker.core.virtual_host import VirtualHost, split

from ..access.acceptor import Entrance
from ..access.auth import ANONYMOUS, Principal
from ..rights.permissions import Rights
from ..transport.channel import Channel
from ..transport.fair_places import network
from .parts import EdgeServices
from .session_state import SessionLife


class SessionIdentity(SessionLife):
    """The part of a session that says who it is."""

    __slots__ = (
        "channel", "client_id", "edge", "entrance", "groups", "id", "login_mark", "principal", "rights",
    )  # fmt: skip

    def __init__(self, edge: EdgeServices, channel: Channel, entrance: Entrance) -> None:
        super().__init__()
        self.edge = edge
        self.channel = channel
        self.entrance = entrance
        self.id = channel.id
        self.client_id = ""
        self.principal = ""
        self.login_mark = 0  # Principal.mark
        self.groups: tuple[str, ...] | None = None
        """Of who was proven elsewhere; None: as the table of users has them."""
        self.rights: Rights | None = None

    @property
    def host(self) -> VirtualHost:
        """The virtual host it is in."""
        return self.entrance.dialect.host

    @property
    def login(self) -> str:
        """Its user, as the clients of its virtual host know him."""
        return split(self.principal).local

    @property
    def acceptor(self) -> AcceptorSettings:
        """Parameters of the port it came in by."""
        return self.entrance.settings

    @property
    def peer(self) -> str:
        """Where it comes from."""
        return self.channel.peer

    @property
    def told(self) -> str:
        """Whose connection this is, for people."""
        return f"{self.channel.peer} #{self.id}" + (f" (user {self.principal[:100]!r})" if self.principal else "")

    @property
    def whose(self) -> str:
        """Who has its share of turns: its user, or its address while nobody has logged in by name."""
        user = self.principal
        return (
            user if user and user != ANONYMOUS.name else "@" + network(self.channel.peer.rpartition(":")[0].strip("[]"))
        )

    def has_client_id(self, client_id: str) -> None:
        """It is its own, until the end."""
        self.client_id = client_id

    def authorised(self) -> None:
        """Its rights are those of its user now."""
        self.rights = self.edge.rights(self.principal) if self.groups is None else self.edge.rights_of(self.groups)

    def _is(self, principal: Principal) -> None:
        """Its user is proven."""
        self.principal, self.login_mark = principal.name, principal.mark
        if principal.outside:
            self.groups = principal.groups
        self.authorised()
