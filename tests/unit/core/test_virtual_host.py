"""Names of virtual hosts: put together and taken apart in one place, and no client's name reaches another host's."""

from __future__ import annotations

from hypothesis import assume, given
from hypothesis import strategies as st

from broker.core.virtual_host import DEFAULT, HOST, VirtualHost, host_of, split, whose

HOSTS = st.from_regex(r"\A[A-Za-z0-9_-]{1,40}\Z")
NAMES = st.text(max_size=20)
DELIMITERS = st.sampled_from([".", "/", ":", "::"])


@given(HOSTS, NAMES, DELIMITERS)
def test_a_name_comes_back_and_says_whose_it_is(host, name, delimiter):
    assume(not name.startswith(HOST))
    made = VirtualHost(host, delimiter).inside(name)
    found = split(made)
    assert found.host == host == host_of(made)
    assert found.local == (name if delimiter != "::" or name.startswith("$") else ":" + name)


@given(HOSTS, HOSTS, NAMES, NAMES)
def test_two_hosts_never_share_a_name(one, other, name, another):
    assume(one != other)
    assert VirtualHost(one).inside(name) != VirtualHost(other).inside(another)
    assert VirtualHost(one).address("$temp.x") != VirtualHost(other).address("$temp.x")


def test_temporary_ones_and_what_is_sent_again_belong_to_their_host():
    shop = VirtualHost("shop")
    assert shop.address("$temp.x9") == "$temp.shop/x9" and whose("$temp.shop/x9") == ("shop", "$temp.x9")
    assert whose("$temp.x9") == ("", "$temp.x9")
    assert whose("$scheduled.$host/shop.orders") == ("shop", "$scheduled.orders")
    assert whose("$scheduled.orders") == ("", "$scheduled.orders")


def test_the_default_host_changes_nothing():
    for name in ("orders", "$temp.x", "$host/shop.orders", ""):
        assert DEFAULT.inside(name) == DEFAULT.address(name) == DEFAULT.kept(name) == DEFAULT.told(name) == name


def test_clients_are_told_names_as_they_know_them():
    shop = VirtualHost("shop")
    text = "'$host/shop.orders' is full; $host/shop$exchange/x; $temp.shop/x9; $host/other.orders"
    assert shop.told(text) == "'orders' is full; $exchange/x; $temp.x9; $host/other.orders"
    assert shop.kept("$host/shop.DLQ") == "$host/shop.DLQ" and shop.kept("DLQ") == "$host/shop.DLQ"
    assert shop.kept("$host/other.DLQ") == "$host/shop$host/other.DLQ", "never another host's"
