"""RabbitMQ's streams: a place is a selector, which the owner's compiler takes; what is no stream has none."""

from __future__ import annotations

import pytest

from broker.config.addressing import AddressSettings
from broker.core.errors import Code, RefusedError
from broker.core.message import Run
from broker.edge.destinations.dialects.streams import refuse, selector
from broker.selector import compile

NOW = 1_764_000_000_123
STREAM = AddressSettings(non_destructive=True)
RUN = Run([7, 8], b"", [b"x-stream-filter-value:eu\n\none\0", b"\ntwo\0"], 9)


def run() -> Run:
    return Run(RUN.ids, RUN.lines, RUN.records, RUN.nbytes, time=NOW)


@pytest.mark.parametrize(
    ("headers", "text", "wanted"),
    [
        ({}, f"AMQTimestamp >= {NOW}", [0, 1]),
        ({"x-stream-offset": "next"}, f"AMQTimestamp >= {NOW}", [0, 1]),
        ({"x-stream-offset": "first"}, "", [0, 1]),
        ({"x-stream-offset": "offset=8"}, "AMQMessageID >= 8", [1]),
        ({"x-stream-offset": "timestamp=1764000001"}, "AMQTimestamp >= 1764000001000", []),
        ({"x-stream-offset": "timestamp=1763999999"}, "AMQTimestamp >= 1763999999000", [0, 1]),
        ({"x-stream-offset": "first", "selector": "1 = 2 OR 1 = 1"}, "(1 = 2 OR 1 = 1)", [0, 1]),
        ({"x-stream-offset": "offset=8", "selector": "1 = 2 OR 1 = 1"}, "AMQMessageID >= 8 AND (1 = 2 OR 1 = 1)", [1]),
        ({"x-stream-offset": "first", "x-stream-filter": "us, eu"},
         "hyphenated_props:x-stream-filter-value IN ('us', 'eu')", [0]),
        ({"x-stream-offset": "first", "x-stream-filter": "o'x", "x-stream-match-unfiltered": "true"},
         "hyphenated_props:(x-stream-filter-value IN ('o''x') OR x-stream-filter-value IS NULL)", [1]),
        ({"x-stream-offset": "offset=7", "x-stream-filter": "eu"},
         "hyphenated_props:AMQMessageID >= 7 AND x-stream-filter-value IN ('eu')", [0]),
    ],
)  # fmt: skip
def test_a_place_in_a_stream_is_a_selector(headers: dict[str, str], text: str, wanted: list[int]) -> None:
    found = selector(headers, STREAM, NOW)
    assert found == text
    if found:
        assert list(compile(found).select(run(), "s")) == wanted


@pytest.mark.parametrize(
    ("headers", "says"),
    [
        ({"x-stream-offset": "latest"}, "must be first, last, next"),
        ({"x-stream-offset": "offset=-1"}, "must be first"),
        ({"x-stream-offset": "timestamp=" + "9" * 18}, "must be first"),
        ({"x-stream-offset": "first", "x-stream-match-unfiltered": "true"}, "needs x-stream-filter"),
        ({"x-stream-filter": "a", "selector": "a = 1"}, "say all of it in one"),
        ({"selector": "hyphenated_props:a-b = 1"}, "has no prefix"),
    ],
)
def test_what_nothing_here_is_like_is_refused_by_name(headers: dict[str, str], says: str) -> None:
    with pytest.raises(RefusedError) as refused:
        selector(headers, STREAM, NOW)
    assert refused.value.code is Code.BAD_HEADER and says in refused.value.detail


def test_numbers_of_partitions_are_no_place() -> None:
    with pytest.raises(RefusedError, match="each of the 3 partitions counts by itself"):
        selector({"x-stream-offset": "offset=8"}, AddressSettings(non_destructive=True, partitions=3), NOW)


@pytest.mark.parametrize("header", ["x-stream-offset", "x-stream-filter", "x-stream-match-unfiltered"])
def test_what_is_no_stream_says_what_to_set(header: str) -> None:
    with pytest.raises(RefusedError, match="non_destructive = true"):
        refuse({header: "first"}, "orders")
    refuse({"selector": "a = 1"}, "orders")
