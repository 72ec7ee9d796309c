"""All ports of a broker: what an acceptor leaves open, and whose place it takes."""

from __future__ import annotations

import pytest

from broker.config.acceptor import AcceptorSettings
from broker.config.load import load
from broker.config.ports import all_acceptors, named
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
