"""Headers and destinations that mean something to RabbitMQ, ActiveMQ or Artemis, and nothing here.

Rule: none of them is accepted in silence. A client that asks for a queue that dies with it, a message that comes back
every hour or a subscription that outlives its connection has been promised something by a RECEIPT, and would wait for
ever; here it gets an ERROR that names the header and what to write instead. Which names these are stands in the tables
below and in docs/compatibility.md (a test compares the two). Pure; asked once per distinct SEND header block and once
per SUBSCRIBE, never per message.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from broker.core.address import Routing
from broker.core.errors import Code, RefusedError
from broker.core.strict_numbers import integer

IN_SEND: Final[Mapping[str, str]] = {
    "AMQ_SCHEDULED_CRON": "a message is scheduled once: AMQ_SCHEDULED_DELAY or AMQ_SCHEDULED_TIME",
    "AMQ_SCHEDULED_PERIOD": "a message is scheduled once: AMQ_SCHEDULED_DELAY or AMQ_SCHEDULED_TIME",
    "AMQ_SCHEDULED_REPEAT": "a message is scheduled once: AMQ_SCHEDULED_DELAY or AMQ_SCHEDULED_TIME",
    "AMQ_SCHEDULER_ACTION": "what is scheduled cannot be listed or taken back by messages",
    "transformation": "bodies are relayed as they came; transform them in the client",
}
"""Header of SEND → what to do instead. Refused whatever the value. All of them are in wire.heads.SIGNIFICANT."""

NUMBERS: Final[Mapping[str, str]] = {
    "expiration": "write ttl (milliseconds to live) or expires (epoch milliseconds); `dialect` rabbitmq has it",
}
"""Header of SEND → what to do instead. Refused where its value is a number, as RabbitMQ wants it; any other value is
the client's own. All of them are in wire.heads.SIGNIFICANT."""
# Why not their effect: a number by that name of an Artemis or Classic client's own, a month for instance, would have
# its messages expire in a second. Refused, nobody loses a message, and nobody waits for one to go.

MISSPELT: Final = "activemq.subcriptionName"
"""As ActiveMQ had it until 5.5 and its manual for longer: who sends it alone believes to be durable."""
SPELT: Final = "activemq.subscriptionName"
IN_SUBSCRIBE: Final[Mapping[str, str]] = {
    MISSPELT: f"it is spelt {SPELT}",
    "x-queue-name": "name the queue in the destination: /topic/address::queue",
    "exclusive": "set `exclusive` in the settings of the address",
    "activemq.exclusive": "set `exclusive` in the settings of the address",
    "activemq.retroactive": "set `retroactive_messages` in the settings of the address",
    "activemq.maximumPendingMessageLimit": "set `ring_size` in the settings of the address",
    "activemq.networkSubscription": "there are no networks of brokers here: a cluster is one broker",
    "transformation": "bodies are delivered as they came; transform them in the client",
    "x-stream-offset": "`dialect` rabbitmq has it; here a `non_destructive` queue is read from its start",
    "x-stream-filter": "`dialect` rabbitmq has it; here a selector chooses",
    "x-stream-match-unfiltered": "`dialect` rabbitmq has it; here a selector chooses",
}
"""Header of SUBSCRIBE → what to do instead. Refused unless its value asks for nothing (`false`, `0`, `-1`)."""

ARGUMENTS: Final[Mapping[str, str]] = {
    "x-message-ttl": "expiry_delay_ms",
    "x-expires": "auto_delete_delay_ms",
    "x-max-length": "max_size_messages",
    "x-max-length-bytes": "max_size_bytes",
    "x-overflow": "full_policy",
    "x-dead-letter-exchange": "dead_letter_address",
    "x-dead-letter-routing-key": "dead_letter_address",
    "x-max-priority": "(none is needed: all queues have priorities 0 to 9)",
    "x-single-active-consumer": "exclusive",
    "x-queue-type": "(none is needed: there is one type of queue)",
    "x-max-age": "expiry_delay_ms",
    "x-stream-max-segment-size-bytes": "(none is needed: what is kept goes message by message)",
    "x-stream-filter-size-bytes": "(none is needed: a selector is exact)",
}
"""RabbitMQ's arguments of the queue that a SEND or SUBSCRIBE declares → our setting of the address."""

DESTINATIONS: Final[Mapping[str, str]] = {
    "activemq.management": "requests are sent there, and answered to their reply-to; nobody consumes them",
    "activemq.notifications": "set edge.notifications and subscribe to it as a topic; nobody sends there",
    "ActiveMQ.Advisory.": "set edge.notifications, and subscribe with dialect activemq to those there are "
    "(docs/compatibility-activemq.md); nobody sends there",
    "ActiveMQ.Statistics.": "requests are sent there (`dialect` activemq of the acceptor); nobody reads them",
    "ActiveMQ.Scheduler.Management": "requests are sent there (`dialect` activemq of the acceptor); nobody reads them",
}
"""An address, or the beginning of one when it ends with a dot → what to do instead."""

_NOTHING = {"", "false", "0", "-1"}
_PREFIXES = ("/queue/", "/topic/", "queue://", "topic://", "/temp-queue/", "/temp-topic/")


def check_send(headers: Mapping[str, str]) -> None:
    """Raises RefusedError(BAD_HEADER) for a SEND that asks for what is not here."""
    for name in headers.keys() & IN_SEND.keys():
        raise _refusal(name, headers[name], IN_SEND[name])
    check_numbers(headers)
    _check_arguments(headers)


def check_numbers(headers: Mapping[str, str]) -> None:
    """Raises RefusedError(BAD_HEADER) for a SEND with one of NUMBERS."""
    for name in headers.keys() & NUMBERS.keys():
        if integer(headers[name].strip()) is not None:
            raise _refusal(name, headers[name], NUMBERS[name])


def check_subscribe(headers: Mapping[str, str], routing: Routing, durable: bool) -> None:
    """Raises RefusedError(BAD_HEADER) for a SUBSCRIBE that asks for what is not here.

    routing, durable   of what it names: a topic with a durable name, for instance."""
    for name in headers.keys() & IN_SUBSCRIBE.keys():
        if name == MISSPELT and SPELT in headers:
            continue  # clients that do not know which one counts send both
        if headers[name].strip().lower() not in _NOTHING:
            raise _refusal(name, headers[name], IN_SUBSCRIBE[name])
    _check_arguments(headers)
    if routing is not Routing.MULTICAST or durable:
        return
    # RabbitMQ: a topic subscription that outlives its connection. Of a queue, it is what every queue does anyway.
    for name, wish in (("persistent", "true"), ("durable", "true"), ("auto-delete", "false")):
        if headers.get(name, "").strip().lower() == wish:
            raise _refusal(
                name, wish, "give CONNECT a client-id and SUBSCRIBE a durable-subscription-name: then it outlives you"
            )


def check_destination(destination: str) -> None:
    """Raises RefusedError(BAD_DESTINATION) for a name that other brokers read as something else than one address."""
    for prefix in _PREFIXES:
        if f",{prefix}" in destination:
            raise _misnomer(
                destination, f"one destination for each frame: send it once for each name around `,{prefix}`"
            )
    if "?consumer." in destination:
        raise _misnomer(destination, "destination options are not read: write them as headers of SUBSCRIBE")


def check_address(address: str, delimiter: str) -> None:
    """The same for what remains of it without its prefix."""
    if ">" in address and ">" in address.split(delimiter):
        raise _misnomer(address, "the wildcard for the rest of a name is # here: write it in place of >")
    for name, instead in DESTINATIONS.items():
        if address == name or (name.endswith(".") and address.startswith(name)):
            raise _misnomer(address, instead)


def _check_arguments(headers: Mapping[str, str]) -> None:
    for name in headers.keys() & ARGUMENTS.keys():
        raise _refusal(
            name, headers[name],
            f"queues are not declared by frames; the setting of the address that does this: {ARGUMENTS[name]}",
        )  # fmt: skip


def _refusal(name: str, value: str, instead: str) -> RefusedError:
    return RefusedError(Code.BAD_HEADER, f"{name}:{value[:50]} would have no effect here; {instead}")


def _misnomer(destination: str, instead: str) -> RefusedError:
    return RefusedError(Code.BAD_DESTINATION, f"'{destination[:100]}': {instead}")
