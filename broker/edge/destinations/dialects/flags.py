"""RabbitMQ's durable, persistent, auto-delete and exclusive: what kind of queue a frame would declare.

Rule: pure; a wish that the queue would not have here is refused, with what to say or set instead. What is kept longer
than a client has asked for is no lie, what goes earlier or later than it counts on is.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from broker.config.addressing import AddressSettings
from broker.core.errors import Code, RefusedError

FLAGS: Final = ("durable", "persistent", "auto-delete", "exclusive")
"""true or false. `persistent` of a SEND is about its message."""


def says(headers: Mapping[str, str], name: str) -> bool:
    return headers.get(name, "").strip().lower() == "true"


def denies(headers: Mapping[str, str], name: str) -> bool:
    return headers.get(name, "").strip().lower() == "false"


def outlives(headers: Mapping[str, str]) -> bool:
    """A subscription that outlives its consumers: it is durable, and not to go with the last one."""
    return (says(headers, "durable") or says(headers, "persistent")) and not says(headers, "auto-delete")


def check_values(headers: Mapping[str, str], names: tuple[str, ...]) -> None:
    """Raises RefusedError(BAD_HEADER)."""
    for name in names:
        if name in headers and headers[name].strip().lower() not in ("true", "false"):
            raise RefusedError(Code.BAD_HEADER, f"{name}:{headers[name][:50]} must be true or false")


def check_queue(headers: Mapping[str, str], name: str, settings: AddressSettings) -> None:
    """Of /queue/NAME, by a SEND or SUBSCRIBE. Raises RefusedError(BAD_HEADER)."""
    at = f'engine.addresses."{name[:100]}"'
    if says(headers, "exclusive") and not settings.exclusive:
        raise RefusedError(Code.BAD_HEADER, f"exclusive:true: set {at}.exclusive = true")
    goes = settings.auto_delete and settings.auto_delete_message_count < 0
    if says(headers, "auto-delete") and not goes:
        raise RefusedError(
            Code.BAD_HEADER,
            f"auto-delete:true, with what is in it: set {at}.auto_delete = true and auto_delete_message_count = -1",
        )
    if denies(headers, "durable") and not (goes or denies(headers, "auto-delete")):
        raise RefusedError(
            Code.BAD_HEADER,
            "durable:false alone makes RabbitMQ delete the queue with its connection; say auto-delete:false as well to "
            f"have it kept, or set {at}.auto_delete = true and auto_delete_message_count = -1",
        )


def check_subscription(headers: Mapping[str, str], durable: bool) -> None:
    """Of a topic or exchange: a queue that is the subscription's own, or (durable) one that everybody may share.

    Raises RefusedError(BAD_HEADER)."""
    if durable and says(headers, "exclusive"):
        raise RefusedError(
            Code.BAD_HEADER,
            "exclusive:true: a durable subscription outlives its connection and is shared; leave it out",
        )
    if not durable and denies(headers, "auto-delete") and not says(headers, "exclusive"):
        raise RefusedError(
            Code.BAD_HEADER,
            "auto-delete:false: a subscription that outlives its connection is one with an id and durable:true",
        )
