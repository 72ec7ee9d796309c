"""What brokers are like at the other end of a bridge: what names a message there, whether known ids are dropped, how a
topic is subscribed to for good.

Rule: tables and pure functions; the rest of the room asks here, and has no `if` about a kind of broker.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from enum import Enum
from typing import NamedTuple

Headers = Mapping[str, str]

UNIQUE = "_AMQ_DUPL_ID"
"""Stampede and Artemis take a message with an id that they know once."""
HOPS = "bridge_hops"
"""Bridges that a message has crossed. An underscore, because selectors know no hyphens."""
TOPICS = ("/topic/", "/exchange/")


class Kind(NamedTuple):
    """name        as in the settings.
    told         what `server` of CONNECTED begins with, in small letters.
    drops_known  a message with an UNIQUE that it knows is taken once.
    selects      SUBSCRIBE may have a selector.
    named        what stays the same at each delivery of a message; "": nothing does.
    for_good     the same, if no other message is ever called that, whatever the source goes through; else "".
    window       headers of SUBSCRIBE for so many unacknowledged messages.
    lasting      headers of SUBSCRIBE to a topic that outlives the connection.
    ended        headers of UNSUBSCRIBE that end it.
    refuses      headers that it takes from nobody but the user they name.
    lives        header of SEND for how many milliseconds it may live; "": there is none.
    lived        headers of MESSAGE that have said so, the first one that is there.
    until        `expires` of SEND is when it ends, in epoch milliseconds."""

    name: str
    told: str
    drops_known: bool
    selects: bool
    named: Callable[[Headers], str]
    for_good: Callable[[Headers], str]
    window: Callable[[int], dict[str, str]]
    lasting: Callable[[str], dict[str, str]]
    ended: Callable[[str], dict[str, str]]
    refuses: frozenset[str] = frozenset()
    lives: str = ""
    lived: tuple[str, ...] = ()
    until: bool = True


def _stampede_name(headers: Headers) -> str:
    slot, number = headers.get("message-slot", ""), headers.get("message-id", "").rpartition("-")[2]
    return f"{slot}-{number}" if slot and number else ""


def _stampede_for_good(headers: Headers) -> str:
    # The number of a message that is in no log comes again after a kill: the next one with the same body would be
    # dropped as known.
    return _stampede_name(headers) if headers.get("persistent", "").strip().lower() == "true" else ""


def _message_id(headers: Headers) -> str:
    return headers.get("message-id", "")


def _amqp_id(headers: Headers) -> str:
    return headers.get("amqp-message-id", "")


def _artemis_name(headers: Headers) -> str:
    # Newer releases put the consumer in front.
    return headers.get("message-id", "").rpartition(",")[2]


def _durable(name: str) -> dict[str, str]:
    return {"durable-subscription-name": name}


def _subscription(name: str) -> dict[str, str]:
    return {"activemq.subscriptionName": name}


_BYTES = str(1024 * 1024)
STAMPEDE = Kind(
    "stampede", "stampede/", True, True, _stampede_name, _stampede_for_good,
    lambda window: {"prefetch-count": str(window), "message-slot": "true"}, _durable, _durable,
    lives="ttl", lived=("expiration", "ttl"),
)  # fmt: skip
ARTEMIS = Kind(
    "artemis", "activemq-artemis/", True, True, _artemis_name, _artemis_name,
    lambda _: {"consumer-window-size": _BYTES}, _durable, _durable,
)  # fmt: skip
ACTIVEMQ = Kind(
    "activemq", "activemq/", False, True, _message_id, _message_id,
    lambda window: {"activemq.prefetchSize": str(window)}, _subscription, _subscription,
)  # fmt: skip
RABBITMQ = Kind(
    "rabbitmq", "rabbitmq/", False, False, _amqp_id, _amqp_id,
    lambda window: {"prefetch-count": str(window)}, lambda _: {"durable": "true", "auto-delete": "false"},
    lambda _: {"durable": "true", "auto-delete": "false"}, lives="expiration", lived=("expiration",), until=False,
    refuses=frozenset({"user-id"}),
)  # fmt: skip
OTHER = Kind("other", "", False, True, lambda _: "", lambda _: "", lambda _: {}, _durable, _durable)
_KINDS = (STAMPEDE, ARTEMIS, ACTIVEMQ, RABBITMQ)


def kind_of(said: str, server: str) -> Kind:
    """said: the setting `broker`. server: of CONNECTED."""
    if said != "auto":
        return next(kind for kind in _KINDS if kind.name == said)
    named = server.lower()
    found = next((kind for kind in _KINDS if named.startswith(kind.told)), OTHER)
    if f" {STAMPEDE.told}" not in named:
        return found
    # A Stampede in the dialect of another broker. A topic is subscribed to for good as before it said so: by another
    # header it would be another queue, and what waits in the old one would be nobody's.
    return STAMPEDE._replace(refuses=found.refuses)


def is_topic(destination: str) -> bool:
    """A bridge that is not subscribed misses what is sent there meanwhile."""
    return destination.startswith(TOPICS)


def selector(given: str, max_hops: int) -> str:
    """Of the SUBSCRIBE at the source: what has crossed too many bridges stays where it is."""
    fewer = ", ".join(f"'{hops}'" for hops in range(1, max_hops))
    own = f"{HOPS} IS NULL OR {HOPS} IN ({fewer})" if fewer else f"{HOPS} IS NULL"
    return f"({given}) AND ({own})" if given else own


class WhoseFault(Enum):
    """Whose fault it is that the target has refused a message."""

    MESSAGE = "the message's"
    TARGET = "the target's, or of the moment"
    UNKNOWN = "nobody has said"


_MESSAGE_CODES = frozenset({1001, 1003, 1004, 1007, 1008, 1009, 1010, 1014, 1301, 1302, 1508})
"""`error-code` of a Stampede: malformed, too large, or with a header that cannot be. Not: full, not allowed."""


def blame(code: int | None) -> WhoseFault:
    """code: of the ERROR; None: other brokers have none."""
    if code is None:
        return WhoseFault.UNKNOWN
    return WhoseFault.MESSAGE if code in _MESSAGE_CODES else WhoseFault.TARGET
