"""Queues and diverts that make no sense are refused, and the place is named."""

from __future__ import annotations

import pytest

from broker.config.addressing import AddressSettings, DivertSettings, QueueSettings
from broker.config.cross_checks.entry_checks import check_divert, check_queue, check_types
from broker.core.errors import ConfigError


@pytest.mark.parametrize("forward", ["audit", "audit, archive", "audit::eu", "audit, orders::eu"])
def test_diverts_lead_to_addresses_and_to_single_queues(forward):
    check_divert(DivertSettings(address="orders", forward=forward), "engine.diverts.d", ".")


@pytest.mark.parametrize(
    ("address", "forward"),
    [
        ("orders", ""), ("orders", "audit,"), ("orders", "orders"), ("orders", "audit.*"), ("orders", "audit.#::q"),
        ("orders", "audit::"), ("orders", "::q"), ("orders", "a::b::c"), ("orders::eu", "audit"), ("#", "audit"),
    ],
)  # fmt: skip
def test_diverts_that_make_no_sense(address, forward):
    with pytest.raises(ConfigError, match=r"^engine\.diverts\.d: "):
        check_divert(DivertSettings(address=address, forward=forward), "engine.diverts.d", ".")


@pytest.mark.parametrize(
    ("name", "queue", "why"),
    [
        ("a::q", QueueSettings(), "`::`"),
        ("q", QueueSettings(address="a::q"), "`::`"),
        ("q", QueueSettings(address="a.#.b", routing="MULTICAST"), "must be the last word"),
        ("q", QueueSettings(address="a.*", routing="ANYCAST"), "must be MULTICAST"),
        ("q", QueueSettings(address="a.#", routing="ANYCAST"), "must be MULTICAST"),
        ("q", QueueSettings(selector="n >"), "here: "),
    ],
)
def test_queues_that_make_no_sense(name, queue, why):
    with pytest.raises(ConfigError, match=why):
        check_queue(name, queue, "here", ".")


def test_queues_of_plain_addresses_and_of_wildcards():
    check_queue("a.*x", QueueSettings(routing="ANYCAST", selector="n > 1"), "here", ".")
    check_queue("q", QueueSettings(address="a.*.#", routing="MULTICAST"), "here", ".")
    check_queue("q", QueueSettings(address="a/#.b/c", routing="ANYCAST"), "here", "/")


@pytest.mark.parametrize("types", ["anycast", "ANYCAST, MULTICAST", "ANYCAST,", "BOTH"])
def test_routing_types_are_a_list_without_blanks(types):
    with pytest.raises(ConfigError, match="routing_types"):
        check_types(AddressSettings(routing_types=types), "here")
    for fine in ("", "ANYCAST", "MULTICAST,ANYCAST"):
        check_types(AddressSettings(routing_types=fine), "here")


@pytest.mark.parametrize("kinds", ["MessageConsumed", "Expired, MessageDLQd", "Expired,", "expired"])
def test_advisories_of_messages_are_those_that_are_told(kinds):
    with pytest.raises(ConfigError, match="message_advisories is"):
        check_types(AddressSettings(message_advisories=kinds), "here")
    for fine in ("", "Expired", "NoConsumer,MessageDLQd"):
        check_types(AddressSettings(message_advisories=fine), "here")
