"""All ports of a broker: what an acceptor leaves open, and whose place it takes."""

from __future__ import annotations

import pytest

from broker.config.acceptor import AcceptorSettings
from broker.config.load import load
from broker.config.ports import (
    all_acceptors,
    edge_acceptors,
    hosts,
    is_edge,
    logins_elsewhere,
    named,
    networks,
    prefixes,
)
from broker.config.settings import EdgeSettings, Settings, WireSettings
from broker.core.errors import ConfigError


def test_what_stands_beside_the_url_wins():
    assert named("a", {"url": "tcp://h:1?connectionTtl=5", "port": 2}).settings == AcceptorSettings(
        url="tcp://h:1?connectionTtl=5", host="h", port=2, connection_ttl_ms=5
    )


def test_what_an_acceptor_leaves_open_is_as_in_edge_and_wire():
    edge = EdgeSettings(
        host="10.1.1.1", tls_cert_file="c", tls_key_file="k", tls_client_ca_file="ca", consumer_window_bytes=77
    )
    settings = Settings(
        edge=edge,
        wire=WireSettings(large_body_bytes=5555),
        acceptors={"a": {"tls": True, "tls_client_auth": "want", "consumer_window_bytes": -2}, "b": {"host": "b"}},
    )
    found = all_acceptors(settings)
    a, b = found["a"], found["b"]
    assert (a.host, a.tls_cert_file, a.tls_key_file, a.tls_client_ca_file) == ("10.1.1.1", "c", "k", "ca")
    assert (a.consumer_window_bytes, a.large_body_bytes) == (77, 5555)
    assert (b.host, b.tls_cert_file, b.consumer_window_bytes) == ("b", "", 10240)
    assert list(found) == ["tcp", "tls", "ws", "wss", "a", "b"]


def test_a_default_port_gives_way_to_an_acceptor_and_a_port_that_was_set_does_not():
    assert load(None, {}, {"acceptors.a.port": "61613"}).edge.port == -1
    assert load(None, {}, {"acceptors.a.url": "tcp://:61614"}).edge.ws_port == -1
    assert load(None, {}, {"acceptors.a.port": "7000"}).edge.port == 61613
    replaced = load(None, {}, {"acceptors.ws.port": "7000"})
    assert (replaced.edge.ws_port, all_acceptors(replaced)["ws"].port) == (-1, 7000)
    with pytest.raises(ConfigError, match=r"edge\.port and acceptors\.a\.port are both 61613"):
        load(None, {}, {"acceptors.a.port": "61613", "edge.port": "61613"})


def test_hosts_are_those_of_what_is_listened_on():
    settings = load(None, {}, {"acceptors.a.host": "1.1.1.1", "acceptors.a.port": "7", "acceptors.b.host": "2.2.2.2",
                               "acceptors.b.port": "-1", "acceptors.ws.host": "3.3.3.3", "acceptors.ws.port": "9",
                               "log_reads.port": "0", "log_reads.host": "4.4.4.4"})  # fmt: skip
    found = hosts(settings)
    assert settings.edge.host == ""
    assert found == {"log_reads.host": "4.4.4.4", "acceptors.a.host": "1.1.1.1", "acceptors.ws.host": "3.3.3.3"}
    assert is_edge("tcp", settings) and not is_edge("ws", settings) and not is_edge("a", settings)


@pytest.mark.parametrize(("said", "window"), [(-1, -2), (0, 0), (5, 5)])
def test_a_window_of_edge_is_told_as_acceptors_tell_it(said, window):
    assert edge_acceptors(EdgeSettings(consumer_window_bytes=said))["tcp"].consumer_window_bytes == window


def test_somebody_who_is_known_elsewhere_may_come_in_by_an_acceptor_or_a_host():
    assert not logins_elsewhere(Settings())
    assert not logins_elsewhere(Settings(acceptors={"a": {"login_by": "passcode"}}))
    assert logins_elsewhere(Settings(acceptors={"a": {"login_by": "passcode, token"}}))
    assert logins_elsewhere(Settings(edge=EdgeSettings(virtual_hosts={"h": {"login_by": "certificate"}})))


def test_lists_by_commas():
    assert prefixes(" queue/ ,,/q/ ") == ("queue/", "/q/") and prefixes("") == ()
    assert [str(net) for net in networks("10.0.0.1/8, ::1")] == ["10.0.0.0/8", "::1/128"]
    with pytest.raises(ValueError):
        networks("10.0.0.0/33")
