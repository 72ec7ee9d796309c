"""What the clients of other brokers mean by the same names: a file for each, over the base in
edge/destinations/dialect.py.

Rule: names in, the broker's own nouns out; nothing of a dialect is known outside of its file but its name here.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from broker.config.acceptor import AcceptorSettings
from broker.config.addressing import AddressSettings
from broker.core.virtual_host import DEFAULT, VirtualHost

from ..dialect import Dialect, Homes
from .activemq import ActiveMQ
from .rabbitmq import RabbitMQ

Match = Callable[[str], AddressSettings]


def choose(
    acceptor: AcceptorSettings,
    delimiter: str,
    homes: Homes,
    match: Match,
    exchanges: Mapping[str, Mapping[str, Any]],
    host: VirtualHost = DEFAULT,
    notifies: bool = False,
) -> Dialect:
    """The dialect of an acceptor, for clients of one virtual host. match: the settings of an address. notifies:
    edge.notifications."""
    dialect = _made(acceptor, delimiter, homes, match, exchanges)
    dialect.serves(host, notifies)
    return dialect


def _made(
    acceptor: AcceptorSettings, delimiter: str, homes: Homes, match: Match, exchanges: Mapping[str, Mapping[str, Any]]
) -> Dialect:
    if acceptor.dialect == "rabbitmq":
        return RabbitMQ(delimiter, homes, match, exchanges)
    if acceptor.dialect == "activemq":
        return ActiveMQ.made(acceptor, delimiter, homes, match)
    return Dialect.of(acceptor.anycast_prefix, acceptor.multicast_prefix, delimiter, homes)
