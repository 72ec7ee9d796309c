"""RabbitMQ's arguments of a queue, in the header of the frame that would declare it.

Here the settings of an address say what its queues are like, whichever client uses them first. So an argument is let in
when the settings say the same, as RabbitMQ lets in the declaration of a queue that is there with equal arguments; else
the frame is refused with the line of settings that would make it true.

Rule: pure; nothing is declared by a frame, and no argument is taken in silence.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from broker.config.addressing import AddressSettings
from broker.core.errors import Code, RefusedError
from broker.core.strict_numbers import AGES, age_ms

from ..dialect import whole_number

MOST: Final = 1 << 53
OVERFLOWS: Final = ("drop-head", "reject-publish", "reject-publish-dlx")
TYPES: Final = ("classic", "quorum", "stream")
NUMBERS: Final = ("x-message-ttl", "x-expires", "x-max-length", "x-max-length-bytes", "x-max-priority")
OF_STREAMS: Final = ("x-stream-max-segment-size-bytes", "x-stream-filter-size-bytes")
"""How RabbitMQ keeps a stream: numbers, on which nothing depends here, where what is kept goes message by message and a
filter is exact."""
ARGUMENTS: Final = (
    *NUMBERS, "x-overflow", "x-dead-letter-exchange", "x-dead-letter-routing-key", "x-single-active-consumer",
    "x-queue-type", "x-max-age", *OF_STREAMS,
)  # fmt: skip


def check(headers: Mapping[str, str], name: str, settings: AddressSettings, dead_letters: Callable[[], str]) -> None:
    """Raises RefusedError(BAD_HEADER) unless the settings of address `name` say what the arguments say.

    dead_letters   the address that its dead letters are to go to."""
    wanted = _wanted(headers, dead_letters)
    for header, fields in wanted.items():
        for field, value in fields.items():
            has = getattr(settings, field)
            if has != value:
                raise RefusedError(
                    Code.BAD_HEADER,
                    f"precondition_failed: {header}:{headers.get(header, '')[:50]} is not what '{name[:100]}' is like: "
                    f'{field} is {has!r}; set engine.addresses."{name[:100]}".{field} = {_written(value)}',
                )


def _wanted(headers: Mapping[str, str], dead_letters: Callable[[], str]) -> dict[str, dict[str, object]]:
    """Header → settings as they must be."""
    numbers = {name: whole_number(headers, name, 0, MOST) for name in (*NUMBERS, *OF_STREAMS)}
    overflow = _one_of(headers, "x-overflow", OVERFLOWS, "drop-head")
    kind = _one_of(headers, "x-queue-type", TYPES, "classic")
    for name in ("x-max-age", *OF_STREAMS):
        if name in headers and kind != "stream":
            raise RefusedError(Code.BAD_HEADER, f"{name}:{headers[name][:50]} is of streams: x-queue-type:stream")
    policy = "DEAD_LETTER" if overflow == "reject-publish-dlx" else "FAIL"
    rings = overflow == "drop-head"
    wanted: dict[str, dict[str, object]] = {}
    if "x-queue-type" in headers:
        wanted["x-queue-type"] = {"non_destructive": kind == "stream"}
    if "x-max-age" in headers:
        wanted["x-max-age"] = {"expiry_delay_ms": _age_ms(headers["x-max-age"].strip())}
    if (ms := numbers["x-message-ttl"]) is not None:
        wanted["x-message-ttl"] = {"expiry_delay_ms": ms}
    if (ms := numbers["x-expires"]) is not None:
        wanted["x-expires"] = {"auto_delete": True, "auto_delete_delay_ms": ms, "auto_delete_message_count": -1}
    if (most := numbers["x-max-length"]) is not None:
        wanted["x-max-length"] = {"ring_size": most} if rings else {"max_size_messages": most, "full_policy": policy}
    if (most := numbers["x-max-length-bytes"]) is not None:
        wanted["x-max-length-bytes"] = (
            {"ring_bytes": most} if rings else {"max_size_bytes": most, "full_policy": policy}
        )
    if "x-dead-letter-exchange" in headers:
        letters: dict[str, object] = {"dead_letter_address": dead_letters()}
        if rings and wanted.keys() & {"x-max-length", "x-max-length-bytes"}:
            letters["ring_dead_letters"] = True
        wanted["x-dead-letter-exchange"] = letters
    elif "x-dead-letter-routing-key" in headers:
        raise RefusedError(Code.BAD_HEADER, "x-dead-letter-routing-key needs x-dead-letter-exchange beside it")
    if (single := _one_of(headers, "x-single-active-consumer", ("true", "false"), "")) != "":
        wanted["x-single-active-consumer"] = {"exclusive": single == "true"}
    return wanted


def _age_ms(text: str) -> int:
    if (ms := age_ms(text)) is None:
        raise RefusedError(Code.BAD_HEADER, f"x-max-age:{text[:50]} must be a number and one of {', '.join(AGES)}")
    return ms


def _one_of(headers: Mapping[str, str], name: str, known: tuple[str, ...], default: str) -> str:
    value = headers.get(name, default).strip().lower()
    if name in headers and value not in known:
        raise RefusedError(Code.BAD_HEADER, f"{name}:{headers[name][:50]} must be one of {', '.join(known)}")
    return value


def _written(value: object) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    return f'"{value}"' if isinstance(value, str) else str(value)
