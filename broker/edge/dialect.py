"""The default dialect: what destinations and SEND/SUBSCRIBE headers mean for a new user.

`/queue/x` and plain `x` are the anycast side of address x, `/topic/x` its multicast side; `address::queue`
names one queue. Anything else that begins with "/" is refused: a typo must not become a queue.

Rule: names in, address-model nouns out; pure. Other dialects are sister modules with the same functions.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from broker.core.address import Routing
from broker.core.errors import Code, RefusedError
from broker.engine.matching import is_pattern

PREFIXES = (("/queue/", Routing.ANYCAST), ("/topic/", Routing.MULTICAST))
DURABLE_NAMES = ("durable-subscriber-name", "durable-subscription-name", "activemq.subscriptionName")
"""In order of precedence, as the Artemis chapter has it."""
MAX_DESTINATION = 1024
"""Characters; keeps one destination from filling a page of the log's snapshot."""


class Target(NamedTuple):
    """A destination in the broker's own terms."""

    address: str
    routing: Routing
    queue: str | None


def resolve(destination: str, type_header: str | None, header_name: str) -> Target:
    """What `destination` names. `type_header`: value of destination-type / subscription-type, if given.

    Raises RefusedError(BAD_DESTINATION | BAD_HEADER)."""
    routing, name = Routing.UNSET, destination
    for prefix, meaning in PREFIXES:
        if destination.startswith(prefix):
            routing, name = meaning, destination[len(prefix) :]
            break
    else:
        if destination.startswith("/"):
            raise RefusedError(
                Code.BAD_DESTINATION,
                f"'{destination[:100]}' begins with neither /queue/ nor /topic/; use one of them, or a plain name",
            )
    if type_header is not None:
        if type_header not in ("ANYCAST", "MULTICAST"):
            raise RefusedError(Code.BAD_HEADER, f"{header_name}:{type_header[:50]} must be ANYCAST or MULTICAST")
        routing = Routing[type_header]
    address, mark, queue = name.partition("::")
    if not address or (mark and not queue):
        raise RefusedError(Code.BAD_DESTINATION, f"'{destination[:100]}' names nothing: a part of it is empty")
    if len(name) > MAX_DESTINATION:
        raise RefusedError(Code.BAD_DESTINATION, f"longer than {MAX_DESTINATION} characters")
    return Target(address, routing, queue if mark else None)


def check_no_wildcard(target: Target) -> None:
    """Raises RefusedError(BAD_DESTINATION) for a SEND to a name that stands for several addresses."""
    if is_pattern(target.address):
        raise RefusedError(
            Code.BAD_DESTINATION,
            f"'{target.address[:100]}' is a wildcard; it can be subscribed to, but a message goes to one address: "
            "name it without * and #",
        )


def check_wildcard(target: Target) -> bool:
    """Does a SUBSCRIBE stand for several addresses. Raises RefusedError(BAD_DESTINATION) where it may not."""
    address = target.address
    if not is_pattern(address):
        return False
    if "#" in address.split(".")[:-1]:
        raise RefusedError(
            Code.BAD_DESTINATION, f"'{address[:100]}': # stands for the rest, so it must be the last word"
        )
    if target.routing is not Routing.MULTICAST or target.queue is not None:
        raise RefusedError(
            Code.BAD_DESTINATION,
            f"'{address[:100]}': only topics have wildcards (/topic/{address[:100]}); consume from queues one by one",
        )
    return True


def durable_name(headers: Mapping[str, str]) -> str | None:
    """Name of the durable subscription that the frame is about, or None."""
    for name in DURABLE_NAMES:
        value = headers.get(name)
        if value:
            return value
    return None


def whole_number(headers: Mapping[str, str], name: str, low: int, high: int) -> int | None:
    """A header as a decimal int within [low, high], or None when absent.

    Raises RefusedError(BAD_HEADER) that names header, value and range."""
    text = headers.get(name)
    if text is None:
        return None
    text = text.strip()
    digits = text[1:] if text.startswith("-") else text
    if not (digits.isascii() and digits.isdigit() and len(digits) < 20 and low <= int(text) <= high):
        raise RefusedError(Code.BAD_HEADER, f"{name}:{text[:50]} must be a whole number from {low} to {high}")
    return int(text)


def yes(headers: Mapping[str, str], name: str) -> bool:
    """A true/false header; absent is false.

    Raises RefusedError(BAD_HEADER) for anything else."""
    text = headers.get(name)
    if text is None:
        return False
    lowered = text.strip().lower()
    if lowered not in ("true", "false"):
        raise RefusedError(Code.BAD_HEADER, f"{name}:{text[:50]} must be true or false")
    return lowered == "true"
