"""Which frames are legal: commands per role and version, the headers each needs, values that are checked.

Rule: tables first, code only to read them; one frame at a time (the order of frames is connection.py's
affair). The detail of every complaint names the header and what to write instead.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import IntEnum
from typing import Final, NamedTuple

from broker.core.errors import Code, ProtocolViolation
from broker.core.strict_numbers import natural

from .versions import Version


class Role(IntEnum):
    """Which side we are: a SERVER reads clients' frames, a CLIENT reads a server's."""

    SERVER = 1
    CLIENT = 2


class Leniency(NamedTuple):
    """What a server takes although STOMP does not allow it.

    unnamed    in 1.1 and 1.2 SUBSCRIBE may have no id, UNSUBSCRIBE a destination in its place, ACK and NACK no
               subscription, as in 1.0.
    nack_v10   NACK in 1.0.
    implied    the first frame need not be CONNECT: an event for one comes in front of it."""

    unnamed: bool = False
    nack_v10: bool = False
    implied: bool = False


STRICT: Final = Leniency()
Needs = Mapping[str, tuple[str, ...]]

_CONTROL: Final[Needs] = {
    "CONNECT": (),
    "STOMP": (),
    "SEND": ("destination",),
    "BEGIN": ("transaction",),
    "COMMIT": ("transaction",),
    "ABORT": ("transaction",),
    "DISCONNECT": (),
}
FROM_CLIENT: Final[Mapping[Version, Needs]] = {
    Version.V10: {**_CONTROL, "SUBSCRIBE": ("destination",), "UNSUBSCRIBE": (), "ACK": ("message-id",)},
    Version.V11: {
        **_CONTROL,
        "SUBSCRIBE": ("destination", "id"),
        "UNSUBSCRIBE": (),
        "ACK": ("message-id", "subscription"),
        "NACK": ("message-id", "subscription"),
    },
    Version.V12: {
        **_CONTROL,
        "SUBSCRIBE": ("destination", "id"),
        "UNSUBSCRIBE": (),
        "ACK": ("id",),
        "NACK": ("id",),
    },
}
"""C35, C39, C40, C46, C48–C50, C53: required headers of what clients send."""
_ANSWERS: Final[Needs] = {"CONNECTED": (), "ERROR": (), "RECEIPT": ("receipt-id",)}
FROM_SERVER: Final[Mapping[Version, Needs]] = {
    Version.V10: {**_ANSWERS, "MESSAGE": ("destination", "message-id")},
    Version.V11: {**_ANSWERS, "MESSAGE": ("destination", "message-id", "subscription")},
    Version.V12: {**_ANSWERS, "MESSAGE": ("destination", "message-id", "subscription")},
}
"""C57, C60."""
COMMANDS: Final = {Role.SERVER: FROM_CLIENT, Role.CLIENT: FROM_SERVER}

DURABLE_NAMES: Final = ("durable-subscriber-name", "durable-subscription-name", "activemq.subscriptionName")
"""Name a durable subscription, in order of precedence; for UNSUBSCRIBE such a name is enough, as in Artemis."""

WITH_BODY: Final = frozenset({"SEND", "MESSAGE", "ERROR"})
"""The commands that may have a body in 1.2 (C13)."""
ACK_MODES: Final = frozenset({"auto", "client", "client-individual"})
"""C42. Also taken from 1.0 clients, whose specification leaves further modes open."""
HANDSHAKE: Final = {Role.SERVER: frozenset({"CONNECT", "STOMP"}), Role.CLIENT: frozenset({"CONNECTED", "ERROR"})}
"""The commands that may come first."""
RESERVED: Final = frozenset(
    {
        "message-id", "subscription", "ack", "redelivered", "delivery-count", "receipt", "receipt-id", "transaction",
        "content-length", "error-code",
    }
)  # fmt: skip
"""Headers of SEND that are not relayed: the server's own, which nobody may forge, and those about the SEND itself."""


def check_command(role: Role, command: str, version: Version, leniency: Leniency = STRICT) -> tuple[str, ...]:
    """The headers that `command` needs. Raises ProtocolViolation(UNKNOWN_COMMAND)."""
    # The table says which commands exist in this version, so NACK in 1.0 and an unknown word are the same complaint
    # (C34).
    table = COMMANDS[role][version]
    needs = table.get(command)
    if role is Role.SERVER and leniency is not STRICT:
        needs = _leniently(command, needs, leniency)
    if needs is None:
        known = ", ".join(sorted(table))
        raise ProtocolViolation(
            Code.UNKNOWN_COMMAND,
            f"'{command[:40].partition(':')[0]}' is no frame of STOMP {version.value}; known are {known}",
        )
    return needs


def _leniently(command: str, needs: tuple[str, ...] | None, leniency: Leniency) -> tuple[str, ...] | None:
    # The headers of 1.0's ACK: a NACK there, which the specification lacks, can name nothing else.
    if command == "NACK" and needs is None and leniency.nack_v10:
        return FROM_CLIENT[Version.V10]["ACK"]
    if command == "SUBSCRIBE" and leniency.unnamed:
        return FROM_CLIENT[Version.V10][command]
    if needs is not None and "subscription" in needs and leniency.unnamed:
        return FROM_CLIENT[Version.V10]["ACK"]
    return needs


def check_headers(
    command: str, needs: tuple[str, ...], headers: Mapping[str, str], version: Version, leniency: Leniency = STRICT
) -> None:
    """Raises ProtocolViolation for a required header that is missing or a value that cannot be."""
    # Presence, not value: an empty `destination` is a header, and what it may hold is for the broker to say.
    for name in needs:
        if name not in headers:
            raise ProtocolViolation(
                Code.MISSING_HEADER, f"{command} needs the header {name} in STOMP {version.value}; add it", about=name
            )
    if command == "SUBSCRIBE":
        mode = headers.get("ack", "auto")
        if mode not in ACK_MODES:
            raise ProtocolViolation(
                Code.BAD_ACK_MODE, f"ack:{mode[:40]} is no ack mode; use auto, client or client-individual"
            )
    elif command == "UNSUBSCRIBE":
        _check_unsubscribe(headers, Version.V10 if leniency.unnamed else version)
    elif command in ("CONNECT", "STOMP", "CONNECTED"):
        _check_heart_beat(headers.get("heart-beat", "0,0"))


def _check_unsubscribe(headers: Mapping[str, str], version: Version) -> None:
    if "id" in headers or any(headers.get(name) for name in DURABLE_NAMES):
        return
    if version is Version.V10:
        if "destination" not in headers:
            raise ProtocolViolation(
                Code.MISSING_HEADER,
                "UNSUBSCRIBE needs an id or a destination header; give what SUBSCRIBE gave",
                about="destination or id",
            )
        return
    raise ProtocolViolation(
        Code.MISSING_HEADER,
        f"UNSUBSCRIBE needs the header id in STOMP {version.value}; give that of SUBSCRIBE, or the name of a durable "
        "subscription",
        about="destination or id",
    )


def _check_heart_beat(value: str) -> None:
    """C29: two non-negative integers and a comma between them."""
    parts = value.split(",")
    # Digits alone, as core/strict_numbers.py takes them: what int() reads beyond these, a peer need not, and each would
    # keep to another interval. 18 of them are more than any clock can count.
    if len(parts) != 2 or None in map(natural, parts):
        raise ProtocolViolation(
            Code.BAD_HEARTBEAT,
            f"heart-beat:{value[:60]} must be two whole numbers of milliseconds, like 10000,10000 (0: none)",
        )
