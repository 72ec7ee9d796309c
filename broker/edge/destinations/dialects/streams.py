"""RabbitMQ's streams, as a queue whose messages stay (`non_destructive` of its address) is read: from where on, and
which of them.

Rule: pure; a place in a stream is said as a selector, so that it is the same after a fail-over. What is no stream has
none of these headers.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from broker.config.addressing import AddressSettings
from broker.core.errors import Code, RefusedError
from broker.core.strict_numbers import natural

from ..dialect import yes

OFFSET, FILTER, UNFILTERED = "x-stream-offset", "x-stream-filter", "x-stream-match-unfiltered"
HEADERS: Final = (OFFSET, FILTER, UNFILTERED)
"""Of SUBSCRIBE."""
VALUE: Final = "x-stream-filter-value"
"""Header of SEND that FILTER is about."""
_HYPHENATED: Final = "hyphenated_props:"
_PREFIXES: Final = (_HYPHENATED, "no_" + _HYPHENATED, "convert_string_expressions:", "no_convert_string_expressions:")
"""How a selector may begin: how all of it is to be read."""
LAST: Final = "last"
"""A value of OFFSET: RabbitMQ begins with its last chunk, here it is the last message; see stream_ends.py."""
_OFFSETS: Final = "first, last, next, offset=NUMBER or timestamp=SECONDS since 1970"


def refuse(headers: Mapping[str, str], name: str) -> None:
    """Raises RefusedError(BAD_HEADER) for what only a stream has."""
    for header in HEADERS:
        if header in headers:
            raise RefusedError(
                Code.BAD_HEADER,
                f"{header}:{headers[header][:50]} would have no effect: '{name[:100]}' is no stream; set "
                f'engine.addresses."{name[:100]}".non_destructive = true',
            )


def selector(headers: Mapping[str, str], settings: AddressSettings, now: int) -> str:
    """What a consumer gets of a stream; "": everything. now: epoch milliseconds. Raises RefusedError(BAD_HEADER)."""
    wanted = [part for part in (_from(headers, settings, now), _filter(headers)) if part]
    own = headers.get("selector", "")
    if not own:
        return _HYPHENATED + " AND ".join(wanted) if FILTER in headers else " AND ".join(wanted)
    if FILTER in headers or own.lstrip().startswith(_PREFIXES):
        raise RefusedError(
            Code.BAD_HEADER, f"a selector of a stream has no prefix, and no {FILTER} beside it: say all of it in one"
        )
    return " AND ".join([*wanted, f"({own})"])


def _from(headers: Mapping[str, str], settings: AddressSettings, now: int) -> str:
    """RabbitMQ's default is what comes from now on."""
    text = headers.get(OFFSET, "next").strip()
    kind, _, value = text.partition("=")
    if text == "first":
        return ""
    if text == "next":
        return f"AMQTimestamp >= {now}"
    number = natural(value, 18)
    if text == LAST or (kind == "offset" and number is not None):
        if settings.partitions > 1:
            raise RefusedError(
                Code.BAD_HEADER, f"{OFFSET}:{text}: each of the {settings.partitions} partitions counts by itself; "
                "say timestamp=SECONDS, or set partitions to 1",
            )  # fmt: skip
        return f"AMQMessageID >= {number}"
    if kind == "timestamp" and number is not None and number < 1 << 42:
        return f"AMQTimestamp >= {1000 * number}"
    raise RefusedError(Code.BAD_HEADER, f"{OFFSET}:{text[:50]} must be {_OFFSETS}")


def _filter(headers: Mapping[str, str]) -> str:
    """Messages with one of these values; with UNFILTERED those without any, too."""
    unfiltered = yes(headers, UNFILTERED)
    if FILTER not in headers:
        if unfiltered:
            raise RefusedError(Code.BAD_HEADER, f"{UNFILTERED} needs {FILTER} beside it")
        return ""
    quoted = ["'" + value.strip().replace("'", "''") + "'" for value in headers[FILTER].split(",")]
    found = f"{VALUE} IN ({', '.join(quoted)})"
    return f"({found} OR {VALUE} IS NULL)" if unfiltered else found
