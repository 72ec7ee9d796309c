"""Artemis' URLs of acceptors: what they mean, and what is left out with a word."""

from __future__ import annotations

from dataclasses import fields

import pytest

from broker.config.acceptor import AcceptorSettings
from broker.config.acceptor_url import NAMES, SPECIAL, WITHOUT_USE, openssl_cipher, read
from broker.core.errors import ConfigError


@pytest.mark.parametrize(
    ("url", "settings"),
    [
        ("tcp://0.0.0.0:61613?protocols=STOMP;connectionTtl=20000",
         {"host": "0.0.0.0", "port": 61613, "connection_ttl_ms": 20000}),
        ("tcp://localhost:61613", {"host": "localhost", "port": 61613}),
        ("tcp://[::1]:0", {"host": "::1", "port": 0}),
        ("tcp://:7000/", {"port": 7000}),
        ("stomp://0.0.0.0:0?transport.defaultHeartBeat=5000,0",
         {"host": "0.0.0.0", "port": 0, "default_heartbeat": "5000,0"}),
        ("tcp://h:1?connectionTtlMin=500&connectionTtlMax=9223372036854775807&heartBeatToConnectionTtlModifier=1.5",
         {"host": "h", "port": 1, "connection_ttl_min_ms": 500, "connection_ttl_max_ms": (1 << 63) - 1,
          "heartbeat_to_ttl_modifier": 1.5}),
        ("tcp://h:1?anycastPrefix=queue/,/q/;multicastPrefix=topic/",
         {"host": "h", "port": 1, "anycast_prefix": "queue/,/q/", "multicast_prefix": "topic/"}),
        ("tcp://h:1?anycastPrefix=jms%2Equeue.;multicastPrefix=",
         {"host": "h", "port": 1, "anycast_prefix": "jms.queue.", "multicast_prefix": ""}),
        ("tcp://h:1?handshake-timeout=-1;tcpSendBufferSize=1048576;tcpReceiveBufferSize=-1;backlog=10",
         {"host": "h", "port": 1, "handshake_timeout_s": 0.0, "tcp_send_buffer_bytes": 1048576,
          "tcp_receive_buffer_bytes": 0, "backlog": 10}),
        ("tcp://h:1?disableStompServerHeader=true;connectionsAllowed=5;stompMinLargeMessageSize=10240",
         {"host": "h", "port": 1, "server_header": False, "connections_allowed": 5, "large_body_bytes": 10240}),
        # A deprecated name gives way, wherever it stands.
        ("tcp://h:1?stompConsumerWindowSize=7;stompConsumerCredits=8",
         {"host": "h", "port": 1, "consumer_window_bytes": 7}),
        ("tcp://h:1?stompConsumerCredits=8", {"host": "h", "port": 1, "consumer_window_bytes": 8}),
        ("tcp://h:1?stompMaxFramePayloadLength=1;webSocketMaxFramePayloadLength=2",
         {"host": "h", "port": 1, "ws_max_message_bytes": 2}),
        ("tcp://h:1?stomp-enable-message-id=true;stompEnableMessageId=false",
         {"host": "h", "port": 1, "enable_message_id": True}),
        ("tcp://h:1?needClientAuth=true;wantClientAuth=true", {"host": "h", "port": 1, "tls_client_auth": "need"}),
        ("tcp://h:1?sslEnabled=true;keyStorePath=both.pem;trustStorePath=ca.pem;enabledProtocols=TLSv1.3",
         {"host": "h", "port": 1, "tls": True, "tls_cert_file": "both.pem", "tls_key_file": "both.pem",
          "tls_client_ca_file": "ca.pem", "tls_min_version": "TLSv1.3"}),
        ("stomp+ssl://h:1?keyStorePath=a.p12", {"host": "h", "port": 1, "tls": True, "tls_cert_file": "a.p12"}),
        ("tcp://h:1?producerMaxRate=50;compressLargeMessages=true",
         {"host": "h", "port": 1, "max_producer_rate": 50, "compress_large_bodies": True}),
        ("tcp://h:1?sniHost=broker%5C.x%5C.org", {"host": "h", "port": 1, "tls_sni_host": "broker.x.org"}),
        ("tcp://h:1?sniHost=.*%5C.x%5C.org", {"host": "h", "port": 1, "tls_sni_host": "*.x.org"}),
    ],
)  # fmt: skip
def test_what_a_url_says(url, settings):
    assert read(url, "here") == (settings, [])


@pytest.mark.parametrize(
    ("url", "note"),
    [
        ("tcp://h:1?protocols=AMQP,STOMP", "AMQP"),
        ("tcp://h:1?directDeliver=false", "directDeliver"),
        ("tcp://h:1?router=r", "every edge reaches every queue"),
        ("tcp://h:1?securityDomain=d", "the same users"),
        ("tcp://h:1?stompMinLargeMessageSize=-1", "wire.large_body_bytes"),
        ("tcp://h:1?keyStoreType=JKS", "openssl"),
        ("tcp://h:1?enabledProtocols=TLSv1.1,TLSv1.2", "TLSv1.1"),
    ],
)
def test_what_has_no_counterpart_is_told(url, note):
    (said, *_) = read(url, "here").notes
    assert note in said


@pytest.mark.parametrize(
    ("url", "said"),
    [
        ("61613", ["tcp://"]),
        ("vm://0", ["tcp", "stomp"]),
        ("tcp://h:port", ["host:port"]),
        ("tcp://h:99999", ["port", "99999", "65535"]),
        ("tcp://h:1?connectionTTL=5", ["connectionTTL", "Did you mean connectionTtl"]),
        ("tcp://h:1?stompConsumerWindow=5", ["stompConsumerWindowSize"]),
        ("tcp://h:1?zzz=1", ["zzz", "docs/acceptors.md"]),
        ("tcp://h:1?connectionTtl=soon", ["connectionTtl", "soon", "whole number"]),
        ("tcp://h:1?connectionTtl=1;connectionTtl=2", ["connectionTtl", "twice"]),
        ("tcp://h:1?connectionTtl", ["name=value"]),
        ("tcp://h:1?protocols=CORE", ["CORE", "STOMP"]),
        ("tcp://h:1?webSocketEncoderType=json", ["webSocketEncoderType", "json", "binary"]),
        ("tcp://h:1?defaultHeartBeat=5", ["defaultHeartBeat", "milliseconds"]),
        ("tcp://h:1?enabledProtocols=SSLv3", ["SSLv3", "TLSv1.2"]),
        ("tcp://h:1?sniHost=a|b", ["sniHost", "*.x.org"]),
    ],
)
def test_a_url_that_cannot_be_is_refused_with_names(url, said):
    with pytest.raises(ConfigError) as caught:
        read(url, "acceptors.a.url")
    assert [word for word in (*said, "acceptors.a.url") if word not in str(caught.value)] == []


def test_every_parameter_leads_somewhere():
    known = {field.name for field in fields(AcceptorSettings)}
    assert set(NAMES.values()) <= known
    assert not set(NAMES) & set(SPECIAL) and not (set(NAMES) | set(SPECIAL)) & set(WITHOUT_USE)
    assert all(WITHOUT_USE.values())


@pytest.mark.parametrize(
    ("java", "openssl"),
    [
        ("TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256", "ECDHE-RSA-AES128-GCM-SHA256"),
        ("TLS_RSA_WITH_AES_256_CBC_SHA", "AES256-SHA"),
        ("TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256", "ECDHE-ECDSA-CHACHA20-POLY1305"),
        ("ECDHE-RSA-AES128-GCM-SHA256", "ECDHE-RSA-AES128-GCM-SHA256"),
    ],
)
def test_ciphers_have_two_names(java, openssl):
    assert openssl_cipher(java) == openssl
    assert read(f"tcp://h:1?enabledCipherSuites={java},TLS_AES_128_GCM_SHA256", "x").settings["tls_ciphers"] == openssl
