"""Entries of virtual hosts: none reaches from one host into another, and no name is written so that nobody finds it."""

from __future__ import annotations

import pytest

from broker.config.acceptor import AcceptorSettings
from broker.config.addressing import AddressSettings
from broker.config.cross_checks.host_checks import check_defaults, check_hosts, check_one_host, check_reserved
from broker.config.settings import EdgeSettings, EngineSettings, Settings
from broker.core.errors import ConfigError


def hosts(delimiter: str = ".", **tables: dict[str, object]) -> Settings:
    return Settings(
        edge=EdgeSettings(virtual_hosts=tables, default_host_names="main, old"),
        engine=EngineSettings(wildcard_delimiter=delimiter),
    )


@pytest.mark.parametrize(
    ("settings", "why"),
    [
        (hosts(**{"a b": {}}), "letters, digits"),
        (hosts(**{"x" * 41: {}}), "40 at most"),
        (hosts("-", shop={}), "engine.wildcard_delimiter is '-'"),
        (hosts("$", shop={}), "engine.wildcard_delimiter"),
        (hosts(shop={"names": "a, MAIN"}), "'MAIN' is a name of the default host, too"),
        (hosts(shop={"names": "a"}, bank={"names": "A"}), "'A' is a name of shop, too"),
        (hosts(shop={"max_connections": 0}), "nobody could come in"),
    ],
)
def test_hosts_that_nobody_could_mean(settings, why):
    with pytest.raises(ConfigError, match=why):
        check_hosts(settings, {})


def test_a_host_may_have_its_own_name_twice_and_no_limit():
    check_hosts(
        hosts(shop={"names": "shop, Shop", "max_connections": -1}), {"a": AcceptorSettings(virtual_host="shop")}
    )
    check_hosts(hosts("/"), {})


def test_an_acceptor_and_an_entry_name_hosts_that_are_there():
    with pytest.raises(ConfigError, match=r"acceptors\.a\.virtual_host is 'bank'.*\[edge\.virtual_hosts\.bank\]"):
        check_hosts(hosts(shop={}), {"a": AcceptorSettings(virtual_host="bank")})
    entry = Settings(engine=EngineSettings(addresses={"$host/shop.a": {}}))
    with pytest.raises(ConfigError, match=r'engine\.addresses\."\$host/shop\.a": there is no virtual host \'shop\''):
        check_hosts(entry, {})


@pytest.mark.parametrize("field", ["dead_letter_address", "expiry_address", "address", "forward"])
@pytest.mark.parametrize("own", ["$scheduled.x", "$temp.x"])
def test_no_entry_leads_to_what_is_the_brokers_own(field, own):
    said = f"b, {own}" if field == "forward" else own
    with pytest.raises(ConfigError, match="the broker's own"):
        check_reserved("engine.diverts", "d", {field: said}, "here")
    check_reserved("engine.diverts", own, {field: "b"}, "here")
    with pytest.raises(ConfigError, match="the broker's own"):
        check_reserved("engine.queues", own, {}, "here")


def test_what_holds_for_all_hosts_names_none():
    with pytest.raises(ConfigError, match="one in each virtual host"):
        check_defaults(AddressSettings(expiry_address="$host/shop.x"))
    check_defaults(AddressSettings(expiry_address="x", dead_letter_address="y"))


@pytest.mark.parametrize(
    ("table", "entry", "values"),
    [
        ("engine.queues", "$host/a.q", {"address": "x"}),
        ("engine.diverts", "d", {"address": "$host/a.x", "forward": "$host/a.y, z"}),
        ("edge.permissions", "$host/a.x::$host/b.q", {}),
        ("engine.addresses", "x", {"dead_letter_address": "$host/a.x"}),
        ("engine.addresses", "$host/a.x", {"expiry_address": "$host/b.x"}),
        ("engine.addresses", "$host/a/x", {}),
        ("engine.addresses", "$host/a", {}),
    ],
)
def test_an_entry_is_about_one_host(table, entry, values):
    with pytest.raises(ConfigError, match=r"^here: "):
        check_one_host(table, entry, values, "here", ".")


@pytest.mark.parametrize(
    ("table", "entry", "values"),
    [
        ("engine.queues", "$host/a.q", {"address": "$host/a.x"}),
        ("engine.queues", "q", {}),
        ("engine.diverts", "$host/b.d", {"address": "$host/a.x", "forward": "$host/a.y, $host/a.z::$host/a.q"}),
        ("engine.addresses", "$host/a.x", {"expiry_address": "y", "dead_letter_address": "$host/a.y"}),
        ("engine.addresses", "$host/a.#", {}),
    ],
)
def test_an_entry_of_one_host_is_taken(table, entry, values):
    check_one_host(table, entry, values, "here", ".")
