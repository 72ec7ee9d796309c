"""What is told of a connection and its subscriptions to who wants to hear of clients (edge.notifications).

Rule: made only where somebody listens. Of an end there are as many as subscriptions: they are made one by one, while
the session may be over already. Must not know frames.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from itertools import chain
from typing import Protocol

from broker.config.addressing import AddressSettings
from broker.core.address import Routing
from broker.core.notices import Notice, NoticeKind
from broker.core.virtual_host import VirtualHost

from ..subscriptions.subscription import SlotSubscription


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


def endings(session: Told, settings: Settings) -> Iterator[Notice]:
    """All of its end."""
    last = notice(session, NoticeKind.CONNECTION_DESTROYED, None, settings)
    about = last._replace(kind=NoticeKind.CONSUMER_CLOSED)
    subs = list(session.subscriptions.values())
    return chain((_of(about, sub, settings) for sub in subs), [last])


def _of(about: Notice, sub: SlotSubscription, settings: Settings) -> Notice:
    if sub.model is not None:
        routing = sub.model.routing or Routing[settings(sub.address).default_routing]
    else:
        routing = Routing.ANYCAST if sub.browses else Routing.MULTICAST
    return about._replace(address=sub.address, topic=routing is Routing.MULTICAST, subscription=sub.id or "")
