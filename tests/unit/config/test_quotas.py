"""Entries of edge.quotas: which can be meant."""

from __future__ import annotations

import pytest

from broker.config.load import load
from broker.config.quotas import parsed_quota
from broker.core.errors import ConfigError


@pytest.mark.parametrize(
    ("entry", "why"),
    [
        ("ada.max_connections", "user:NAME"), ("user:.max_connections", "user:NAME"),
        ("ip:10.0.0.1/8.max_connections", "host bits"), ("host:a b.max_connections", "virtual host"),
        ("user:*.max_logins", "keep him out"), ("host:shop.max_connections", "no such virtual host"),
        ("ip:*.max_queues", "no address' any more"), ("ip:*.max_durable_subscriptions", "no address' any more"),
            ("user:ada.max_things", "Settings of a quota"),
    ],
)  # fmt: skip
def test_an_entry_that_cannot_be_meant_is_refused(entry: str, why: str):
    with pytest.raises(ConfigError, match=why):
        load(None, {}, {f"edge.quotas.{entry}": "1"})


def test_names_are_taken_apart_and_addresses_are_networks():
    assert parsed_quota("ip:10.0.0.7") == ("ip", "10.0.0.7/32")
    assert parsed_quota("user:$host/shop.a:b") == ("user", "$host/shop.a:b")
    settings = load(None, {}, {"edge.quotas.ip:10.0.0.0/8.max_connections": "5", "edge.quotas.host:/.max_logins": "1"})
    assert settings.edge.quotas == {"ip:10.0.0.0/8": {"max_connections": 5}, "host:/": {"max_logins": 1}}
