"""What is told of a connection and its subscriptions to subscribers that want to hear of clients (edge.notifications).

Rule: made only where there is such a subscriber. Of an end there are as many as subscriptions: they are made one by
one, while the session may be over already. Must not know frames.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Protocol

from broker.config.addressing import AddressSettings
from broker.core.address import Routing
from broker.core.notices import Notice, NoticeKind
from broker.core.reasons import Reason
from broker.core.virtual_host import VirtualHost
from broker.engine.address.address_settings import plain_routing

from ...destinations.temporary import TOPIC
from ...subscriptions.subscription import SlotSubscription


class Told(Protocol):
    """A session."""

    @property
    def id(self) -> int: ...
    @property
    def principal(self) -> str: ...
    @property
    def peer(self) -> str: ...
    @property
    def client_id(self) -> str: ...
    @property
    def host(self) -> VirtualHost: ...
    @property
    def subscriptions(self) -> Mapping[str, SlotSubscription]: ...


Settings = Callable[[str], AddressSettings]
"""Those of an address."""


def notice(session: Told, kind: NoticeKind, sub: SlotSubscription | None, settings: Settings) -> Notice:
    """That this happens to the connection, or to a subscription of it."""
    about = Notice(kind, session.id, session.principal, session.peer, session.client_id, host=session.host)
    return about if sub is None else _of(about, sub, settings)


def filled(session: Told, address: str, settings: Settings) -> Notice:
    """It begins to wait for a full address."""
    topic = plain_routing(settings(address)) is Routing.MULTICAST
    return notice(session, NoticeKind.FULL, None, settings)._replace(address=address, topic=topic)


def temporary(about: Notice, name: str, address: str) -> Notice:
    """The same of a temporary destination, which its connection calls so."""
    return about._replace(address=address, topic=name.startswith(TOPIC))


def endings(session: Told, settings: Settings, own: Sequence[tuple[str, str]], reason: Reason) -> Iterator[Notice]:
    """All of its end.    own   its temporary destinations: name and address."""
    last = notice(session, NoticeKind.CONNECTION_DESTROYED, None, settings)
    return _endings(last, list(session.subscriptions.values()), settings, own, reason)


def _endings(
    last: Notice, subs: Sequence[SlotSubscription], settings: Settings, own: Sequence[tuple[str, str]], reason: Reason
) -> Iterator[Notice]:
    about = last._replace(kind=NoticeKind.CONSUMER_CLOSED)
    for sub in subs:
        closed = _of(about, sub, settings)
        if reason is Reason.SLOW_CONSUMER:
            yield closed._replace(kind=NoticeKind.CONSUMER_SLOW)
        yield closed
    gone = last._replace(kind=NoticeKind.TEMPORARY_REMOVED)
    for name, address in own:
        yield temporary(gone, name, address)
    yield last


def _of(about: Notice, sub: SlotSubscription, settings: Settings) -> Notice:
    if sub.model is not None:
        routing = sub.model.routing or plain_routing(settings(sub.address))
    else:
        routing = Routing.ANYCAST if sub.browses else Routing.MULTICAST
    return about._replace(address=sub.address, topic=routing is Routing.MULTICAST, subscription=sub.id or "")
