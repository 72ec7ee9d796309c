"""RabbitMQ's x- arguments: let in when the settings say the same, else refused with the line that makes it true."""

from __future__ import annotations

import pytest

from broker.config.addressing import AddressSettings
from broker.core.errors import Code, RefusedError
from broker.edge.destinations.dialects.arguments import check


def asked(headers: dict[str, str], **settings) -> str:
    """The refusal; empty: it is let in."""
    try:
        check(headers, "orders", AddressSettings(**settings), lambda: "dead.orders")
    except RefusedError as refused:
        assert refused.code is Code.BAD_HEADER
        return refused.detail
    return ""


@pytest.mark.parametrize(
    ("headers", "settings"),
    [
        ({"x-message-ttl": "5000"}, {"expiry_delay_ms": 5000}),
        ({"x-expires": "60000"}, {"auto_delete": True, "auto_delete_delay_ms": 60000, "auto_delete_message_count": -1}),
        ({"x-max-length": "9"}, {"ring_size": 9}),
        ({"x-max-length": "9", "x-overflow": "reject-publish"}, {"max_size_messages": 9, "full_policy": "FAIL"}),
        ({"x-max-length-bytes": "9", "x-overflow": "reject-publish"}, {"max_size_bytes": 9, "full_policy": "FAIL"}),
        ({"x-max-length-bytes": "9"}, {"ring_bytes": 9}),
        (
            {"x-max-length": "9", "x-overflow": "reject-publish-dlx"},
            {"max_size_messages": 9, "full_policy": "DEAD_LETTER"},
        ),
        (
            {"x-max-length-bytes": "9", "x-overflow": "reject-publish-dlx"},
            {"max_size_bytes": 9, "full_policy": "DEAD_LETTER"},
        ),
        (
            {"x-dead-letter-exchange": "", "x-max-length": "9"},
            {"ring_size": 9, "dead_letter_address": "dead.orders", "ring_dead_letters": True},
        ),
        ({"x-dead-letter-exchange": ""}, {"dead_letter_address": "dead.orders"}),
        ({"x-single-active-consumer": "true"}, {"exclusive": True}),
        ({"x-queue-type": "quorum"}, {}),
        ({"x-queue-type": "stream"}, {"non_destructive": True}),
        ({"x-queue-type": "stream", "x-max-age": "7D"}, {"non_destructive": True, "expiry_delay_ms": 604_800_000}),
        ({"x-queue-type": "stream", "x-max-age": "90s"}, {"non_destructive": True, "expiry_delay_ms": 90_000}),
        ({"x-queue-type": "stream", "x-stream-max-segment-size-bytes": "9"}, {"non_destructive": True}),
        ({"x-unknown": "1", "body": "x"}, {}),
    ],
)
def test_it_is_let_in_where_the_settings_say_the_same_and_told_what_to_set_where_not(headers, settings):
    assert asked(headers, **settings) == ""
    if settings:
        told = asked(headers)
        name, value = next((n, v) for n, v in settings.items() if getattr(AddressSettings(), n) != v)
        written = str(value).lower() if isinstance(value, bool) else f'"{value}"' if isinstance(value, str) else value
        assert told.startswith("precondition_failed") and told.endswith(f'"orders".{name} = {written}')


@pytest.mark.parametrize(
    ("headers", "says"),
    [
        ({"x-max-age": "7D"}, "is of streams: x-queue-type:stream"),
        ({"x-stream-filter-size-bytes": "16"}, "is of streams: x-queue-type:stream"),
        ({"x-queue-type": "stream", "x-max-age": "7W"}, "must be a number and one of Y, M, D, h, m, s"),
        ({"x-queue-type": "stream", "x-stream-max-segment-size-bytes": "big"}, "x-stream-max-segment-size-bytes"),
        ({"x-overflow": "drop-dlx"}, "must be one of drop-head, reject-publish, reject-publish-dlx"),
        ({"x-dead-letter-routing-key": "k"}, "needs x-dead-letter-exchange"),
        ({"x-queue-type": "lazy"}, "must be one of classic, quorum, stream"),
        ({"x-queue-type": "stream"}, "non_destructive = true"),
        ({"x-message-ttl": "-1"}, "x-message-ttl"),
        ({"x-message-ttl": "1" * 40}, "x-message-ttl"),
        ({"x-single-active-consumer": "yes"}, "must be one of true, false"),
    ],
)
def test_what_nothing_here_is_like_is_refused_by_name(headers, says):
    assert says in asked(headers)


def test_a_stream_is_not_let_in_as_another_queue():
    assert "non_destructive is True" in asked({"x-queue-type": "classic"}, non_destructive=True)
