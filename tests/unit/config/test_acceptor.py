"""Acceptors: Artemis URLs, what they mean, what is left out with a word, and what cannot go together."""

from __future__ import annotations

import pytest

from broker.config.load import load
from broker.core.errors import ConfigError

TLS = {"acceptors.a.tls": "yes", "acceptors.a.tls_cert_file": "c.pem", "acceptors.a.tls_key_file": "k.pem"}


@pytest.mark.parametrize(
    ("overrides", "said"),
    [
        ({"acceptors.tcp.port": "1", "edge.port": "2"}, ["acceptors.tcp", "edge.port"]),
        ({"acceptors.a.port": "7000", "acceptors.b.port": "7000"}, ["acceptors.a.port", "acceptors.b.port"]),
        ({"acceptors.a.port": "61680"}, ["acceptors.a.port", "admin.port"]),
        ({"acceptors.a.tls": "yes"}, ["acceptors.a.tls", "tls_cert_file"]),
        ({**TLS, "acceptors.a.tls_client_auth": "need"}, ["acceptors.a.tls_client_auth", "tls_client_ca_file"]),
        ({**TLS, "acceptors.a.tls_crl_file": "x"}, ["acceptors.a.tls_crl_file", "tls_client_ca_file"]),
        ({**TLS, "acceptors.a.tls_cert_file": "x.jks"}, ["acceptors.a.tls_cert_file", "x.jks", "openssl"]),
        ({"acceptors.a.connection_ttl_ms": "0"}, ["acceptors.a.connection_ttl_ms", "-1"]),
        ({"acceptors.a.max_producer_rate": "0"}, ["acceptors.a.max_producer_rate"]),
        ({"acceptors.a.anycast_prefix": "/t/,/topic/"}, ["acceptors.a", "/topic/", "multicast_prefix"]),
        ({"acceptors.a.write_buffer_low_bytes": "1MiB"}, ["acceptors.a.write_buffer_low_bytes"]),
        ({"acceptors.a.url": "tcp://h:1?nope=1"}, ["acceptors.a.url", "nope"]),
        ({"acceptors.a.prot": "1"}, ["acceptors.a.prot", "port"]),
    ],
)
def test_contradictions(overrides, said):
    with pytest.raises(ConfigError) as caught:
        load(None, {}, overrides)
    assert [name for name in said if name not in str(caught.value)] == []


def test_what_may_go_together():
    load(None, {}, {**TLS, "acceptors.a.tls_client_auth": "want", "acceptors.a.tls_client_ca_file": "ca.pem"})
    load(None, {}, {"acceptors.a.port": "0", "edge.port": "-1", "edge.ws_port": "-1"})
    load(None, {}, {"edge.tls_cert_file": "c", "edge.tls_key_file": "k", "acceptors.a.tls": "yes"})
    load(None, {}, {"acceptors.a.host": "10.0.0.1", "acceptors.a.port": "9", "acceptors.b.host": "10.0.0.2",
                    "acceptors.b.port": "9"})  # fmt: skip
    load(None, {"STAMPEDE_ACCEPTORS__PUBLIC__PORT": "7001"}, {})
