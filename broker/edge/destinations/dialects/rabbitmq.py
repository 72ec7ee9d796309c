"""Names as RabbitMQ's STOMP plug-in has them: /queue, /topic, /exchange, /amq/queue, bare names, temporary queues in
reply-to, durable subscriptions by id, the arguments of queues, AMQP's properties, its words for errors.

Rule: where RabbitMQ breaks the STOMP specification we follow the specification (docs/compatibility-rabbitmq.md has the
list). Names in, addresses out; pure.
"""

from __future__ import annotations

import re
from base64 import urlsafe_b64encode
from collections.abc import Callable, Mapping
from hashlib import blake2b
from typing import Any, Final

from broker.config.addressing import AddressSettings
from broker.core.address import Routing
from broker.core.errors import Code, RefusedError
from broker.core.management import MANAGEMENT
from broker.core.strict_numbers import natural

from ..dialect import FAR_FUTURE, MAX_DESTINATION, Destination, Dialect, Homes, not_named, whole_number, yes
from ..temporary import OWN, TEMPORARY_ID, THEIRS, Private, address_of, private_of
from . import arguments, streams
from .exchanges import TOPIC, Exchanges
from .flags import FLAGS, check_queue, check_subscription, check_values, outlives

PREFIXES: Final = ("/amq/queue", "/exchange", "/queue", "/reply-queue", "/temp-queue", "/topic")
PREFETCH: Final = "prefetch-count"
TEXTS: Final[Mapping[Code, str]] = {
    Code.LOGIN_FAILED: "Bad CONNECT",
    Code.UNKNOWN_HOST: "Bad CONNECT",
    Code.VERSION_MISMATCH: "Version mismatch",
    Code.NOT_CONNECTED: "Illegal command",
    Code.UNKNOWN_COMMAND: "Bad command",
    Code.DUPLICATE_SUBSCRIPTION: "Duplicated subscription identifier",
    Code.NO_SUCH_SUBSCRIPTION: "No subscription found",
    Code.NO_SUCH_DELIVERY: "Message not found",
    Code.NO_SUCH_TRANSACTION: "Bad transaction",
    Code.MISSING_HEADER: "Missing header",
    Code.BAD_HEADER: "Invalid header",
    Code.BAD_ACK_MODE: "Processing error",
    Code.BAD_DESTINATION: "Invalid destination",
    Code.UNKNOWN_DESTINATION: "Unknown destination",
    Code.NO_SUCH_DESTINATION: "not_found",
    Code.NOT_ALLOWED: "access_refused",
    Code.QUEUE_DELETED: "Server cancelled subscription",
}
"""Code → the `message` header of RabbitMQ's ERROR for the same."""
MISSING: Final[Mapping[str, str]] = {
    "destination": "Missing destination",
    "destination or id": "Missing destination or id",
    "transaction": "Missing transaction",
    "id of a durable subscription": "Missing Header",
}
"""What is missing → the `message` header; of anything else it is that of MISSING_HEADER."""
IN_SEND: Final[Mapping[str, str]] = {
    "message-id": "it is not allowed on 'SEND': the broker gives every message its own; yours may be amqp-message-id",
}
"""Headers of SEND that are refused, as at RabbitMQ."""
SENT: Final = ("durable", "auto-delete", "exclusive")
"""The flags that a SEND may have for the queue that it would make."""
PROPERTIES: Final = (
    "content-type", "content-encoding", "correlation-id", "reply-to", "amqp-message-id", "timestamp", "type", "app-id",
)  # fmt: skip
"""Of AMQP, that are relayed as they came."""
_HIGHEST = 9
_PERCENT = re.compile("(?:%[0-9A-F]{2})+")
_TRUE = ("true", "True")


class RabbitMQ(Dialect):
    """match: the settings of an address. configured: edge.exchanges."""

    __slots__ = ("_exchanges", "_match")
    name = "rabbitmq"
    read = ("expiration",)
    lines = b"redelivered:false\n"
    texts = TEXTS
    server = "RabbitMQ/3.10"
    full_v10 = True
    names_temporaries = False

    def __init__(
        self,
        delimiter: str,
        homes: Homes,
        match: Callable[[str], AddressSettings],
        configured: Mapping[str, Mapping[str, Any]],
    ) -> None:
        super().__init__((), delimiter, homes)
        self._match = match
        self._exchanges = Exchanges(configured, delimiter)

    # ── destinations ───────────────────────────────────────────────────────────────────────────────

    def _resolve(self, destination: str, type_header: str | None, header_name: str) -> Destination:
        """See the head of this file; the type headers are Artemis' and mean nothing here."""
        if destination.startswith(THEIRS):
            return Destination(address_of(destination), Routing.MULTICAST, None)
        if len(destination) > MAX_DESTINATION:
            raise RefusedError(Code.BAD_DESTINATION, f"longer than {MAX_DESTINATION} characters")
        if not destination.startswith("/"):
            if "/" in destination:
                raise _unknown(destination)
            return self._queue(destination, destination)
        kind, *parts = destination[1:].split("/")
        if destination.startswith(OWN):
            raise not_named(destination, header_name.partition("-")[0])
        if kind == "amq" and parts[:1] == ["queue"]:
            return self._queue(_one(parts[1:], destination), destination)._replace(create=False)
        if kind == "queue":
            return self._queue(_one(parts, destination), destination)
        if kind == "topic":
            key = self._exchanges.key(_decoded(_one(parts, destination), destination))
            return self._named(key, Routing.MULTICAST, destination)
        if kind == "exchange":
            if len(parts) not in (1, 2) or not parts[0]:
                raise _invalid(destination)
            name, key = (_decoded(part, destination) for part in (*parts, "")[:2])
            address = self._exchanges.address(name, key, destination)
            return self._named(address, Routing.MULTICAST, destination, ours=name != TOPIC)
        raise _unknown(destination)

    def _queue(self, name: str, destination: str) -> Destination:
        return self._named(_decoded(name, destination), Routing.ANYCAST, destination)

    def _named(self, address: str, routing: Routing, destination: str, ours: bool = False) -> Destination:
        """ours: the address may be one that no client's name is."""
        if "::" in address or (address.startswith("$") and not ours):
            raise RefusedError(
                Code.BAD_DESTINATION,
                f"'{destination[:100]}': names of queues and keys may not begin with $ or hold `::`",
            )
        if address == MANAGEMENT:
            raise RefusedError(
                Code.BAD_DESTINATION,
                f"'{destination[:100]}': requests to the broker are not taken with dialect rabbitmq; use the API "
                "(docs/admin-api.md), or an acceptor with dialect artemis",
            )
        return Destination(address, routing, None)

    def _subscribed(self, headers: Mapping[str, str]) -> Destination:
        """durable:true (or persistent:true) on a topic or exchange: a queue by id and destination, for everybody."""
        destination = headers["destination"]
        target = self._resolve(destination, None, "SUBSCRIBE-")
        if target.routing is not Routing.MULTICAST or not outlives(headers):
            return target
        name = headers.get("x-queue-name", "")
        if not name:
            if "id" not in headers:
                raise RefusedError(
                    Code.MISSING_HEADER,
                    "Header 'id' is required for durable subscriptions",
                    about="id of a durable subscription",
                )
            sum = blake2b(f"{destination}\0{headers['id']}".encode(), digest_size=16).digest()
            name = "stomp-subscription-" + urlsafe_b64encode(sum).decode().rstrip("=")
        return target._replace(queue=name, durable=True)

    def deletes(self, headers: Mapping[str, str]) -> bool:
        """UNSUBSCRIBE with the header that made it durable."""
        return outlives(headers)

    def text(self, code: Code, about: str) -> str | None:
        missing = MISSING.get(about) if code is Code.MISSING_HEADER else None
        if about == TEMPORARY_ID:
            return "Invalid id"
        return missing or super().text(code, about)

    # ── SEND ───────────────────────────────────────────────────────────────────────────────────────

    def check_send(self, headers: Mapping[str, str]) -> None:
        for name in headers.keys() & IN_SEND.keys():
            raise RefusedError(Code.BAD_HEADER, f"'{name}': {IN_SEND[name]}")
        self._check_arguments(headers)
        if not headers.keys().isdisjoint(SENT):
            check_values(headers, SENT)
            if not headers.get("destination", OWN[0]).startswith(OWN):
                target = self.resolve(headers["destination"], None, "SEND-")
                if target.routing is Routing.ANYCAST and target.create:
                    check_queue(headers, target.address, self._match(target.address))

    def private(self, headers: Mapping[str, str]) -> Private | None:
        found = private_of(headers)
        user = headers.get("user-id")
        return found if user is None else Private(*(found or (None, None))[:2], user)

    def durable(self, headers: Mapping[str, str]) -> bool:
        return headers.get("persistent", "").strip() in _TRUE

    def priority(self, headers: Mapping[str, str]) -> int | None:
        """0 to 255 there; what is no number counts as absent."""
        found = natural(headers.get("priority", "").strip(), 3)
        return None if found is None else min(found, _HIGHEST)

    def ttl(self, headers: Mapping[str, str]) -> int:
        """`expiration`: milliseconds; 0 is over at once, which is the next one here."""
        lives = whole_number(headers, "expiration", 0, FAR_FUTURE)
        return super().ttl(headers) if lives is None else max(lives, 1)

    # ── SUBSCRIBE ──────────────────────────────────────────────────────────────────────────────────

    def check_subscribe(self, headers: Mapping[str, str], target: Destination) -> None:
        check_values(headers, FLAGS)
        self._check_arguments(headers)
        topic = target.routing is Routing.MULTICAST
        if "x-queue-name" in headers and not target.durable:
            where = "with durable:true it names the queue" if topic else "the destination names the queue"
            raise RefusedError(Code.BAD_HEADER, f"x-queue-name:{headers['x-queue-name'][:50]}: {where}")
        if topic:
            check_subscription(headers, target.durable)
        elif target.create:
            check_queue(headers, target.address, self._match(target.address))

    def stream(self, headers: Mapping[str, str], target: Destination, now: Callable[[], int]) -> str | None:
        """A queue whose messages stay when they are consumed. One of last values is another thing."""
        if (settings := self._stream(headers, target)) is not None:
            return streams.selector(headers, settings, now())
        streams.refuse(headers, target.address)
        return None

    def _stream(self, headers: Mapping[str, str], target: Destination) -> AddressSettings | None:
        if target.routing is Routing.MULTICAST or yes(headers, "browser"):
            return None
        settings = self._match(target.address)
        return settings if settings.non_destructive and not (settings.last_value or settings.last_value_key) else None

    def from_end(self, headers: Mapping[str, str]) -> str | None:
        if headers.get(streams.OFFSET, "").strip() != streams.LAST or headers["destination"].startswith(
            (*OWN, *THEIRS)
        ):
            return None
        target = self.subscribed(headers)
        settings = self._stream(headers, target)
        return target.address if settings is not None and settings.partitions == 1 else None

    def begins_at(self, headers: dict[str, str], number: int) -> None:
        headers[streams.OFFSET] = f"offset={number}"

    def _check_arguments(self, headers: Mapping[str, str]) -> None:
        if headers.keys().isdisjoint(arguments.ARGUMENTS) or headers["destination"].startswith(OWN):
            return
        address = self.resolve(headers["destination"], None, "").address
        arguments.check(headers, address, self._match(address), lambda: self._dead_letters(headers))

    def _dead_letters(self, headers: Mapping[str, str]) -> str:
        """The address that an exchange and key are; the default exchange's keys are queues."""
        exchange, key = headers["x-dead-letter-exchange"].strip(), headers.get("x-dead-letter-routing-key", "").strip()
        if exchange:
            key = self._exchanges.address(exchange, key, f"/exchange/{exchange}/{key}")
        return self.host.inside(key)


def _one(parts: list[str], destination: str) -> str:
    """The only part, which may not be empty."""
    if len(parts) != 1 or not parts[0]:
        raise _invalid(destination)
    return parts[0]


def _decoded(part: str, destination: str) -> str:
    """Without the escapes that RabbitMQ reads (`%2F`) or writes in destinations of MESSAGE: those of `/`, `%`, control
    characters and bytes beyond ASCII. Any other one is what it looks like."""

    def bytes_of(found: re.Match[str]) -> str:
        raw = bytes.fromhex(found[0].replace("%", ""))
        try:
            text = raw.decode()
        except UnicodeDecodeError:
            raise _invalid(destination) from None
        return "".join([char if char in "/%" or not 32 <= ord(char) <= 127 else f"%{ord(char):02X}" for char in text])

    return _PERCENT.sub(bytes_of, part) if "%" in part else part


def _invalid(destination: str) -> RefusedError:
    return RefusedError(
        Code.BAD_DESTINATION,
        f"'{destination[:100]}' is not a valid destination; a / inside a name is written %2F, and no part may be empty",
    )


def _unknown(destination: str) -> RefusedError:
    return RefusedError(
        Code.UNKNOWN_DESTINATION,
        f"'{destination[:100]}' is not a valid destination. Valid destination types are: {', '.join(PREFIXES)}.",
    )
