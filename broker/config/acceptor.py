"""Settings of one listening port that has parameters of its own.

Rule: as settings.py: plain frozen dataclasses, nothing read from anywhere.
"""

from __future__ import annotations

from dataclasses import dataclass

from .fields import KIB, setting


@dataclass(frozen=True, slots=True)
class AcceptorSettings:
    """One listening port of its own. The names in brackets are Artemis'; its URLs are understood too.

    What stands here holds for this port's connections only; other bounds are those of [edge]. The defaults are
    Artemis', where it has the parameter. Read at start only."""

    url: str = setting(
        "",
        "URL",
        "all of it as Artemis writes it: tcp://0.0.0.0:61613?protocols=STOMP;connectionTtl=20000; "
        "what is set beside it wins",
    )
    host: str = setting("", "address", "where to listen; empty: as edge.host")
    port: int = setting(61613, "TCP port", "0 picks a free one, -1 turns it off")
    transport: str = setting("both", "stomp|websocket|both", "both: found out by the first bytes")
    tls: bool = setting(False, "yes/no", "TLS [sslEnabled]; needs tls_cert_file and tls_key_file")
    tls_cert_file: str = setting("", "path", "PEM certificate chain [keyStorePath]; empty: that of [edge]")
    tls_key_file: str = setting("", "path", "PEM private key")
    tls_client_ca_file: str = setting("", "path", "PEM CAs of client certificates [trustStorePath]")
    tls_client_auth: str = setting(
        "none",
        "none|want|need",
        "client certificates [wantClientAuth, needClientAuth]; a CA file alone means need",
    )
    tls_min_version: str = setting("TLSv1.2", "TLSv1.2|TLSv1.3", "lowest version [enabledProtocols]")
    tls_ciphers: str = setting("", "list", "OpenSSL ciphers of TLS 1.2 [enabledCipherSuites]; empty: Python's")
    tls_crl_file: str = setting("", "path", "PEM list of revoked client certificates [crlPath]")
    tls_sni_host: str = setting("", "name", "only clients that ask for this host name (`*.` allowed) [sniHost]")
    dialect: str = setting(
        "artemis",
        "artemis|rabbitmq|activemq",
        "what names of destinations and headers mean: whose clients connect here",
    )
    anycast_prefix: str = setting(
        "/queue/", "list", "prefixes of destinations that mean ANYCAST [anycastPrefix]; the longest match wins"
    )
    multicast_prefix: str = setting("/topic/", "list", "prefixes of destinations that mean MULTICAST [multicastPrefix]")
    virtual_topic_consumers: str = setting(
        "Consumer.*.VirtualTopic.>;2,VirtualTopicConsumers.*.>;2",
        "list",
        "with dialect activemq: queues that consume topics, and how many words stand in front of the topic's name",
    )
    virtual_hosts: str = setting(
        "",
        "list",
        "what CONNECT's `host` may say; others are refused. Empty: anything. All of them are one space of names",
    )
    virtual_host: str = setting(
        "",
        "name",
        "of edge.virtual_hosts: whoever comes in here is in it, whatever CONNECT says; empty: as CONNECT says",
    )
    default_user: str = setting(
        "", "name", "who a CONNECT without login is, without a passcode; empty: it is refused, as wrong ones are"
    )
    login_by: str = setting(
        "",
        "list",
        "how clients may prove who they are, in order: certificate, token, passcode, ldap, hook; empty: edge.login_by",
    )
    certificate_user: str = setting(
        "cn",
        "cn|dn|dns|email|uri",
        "what of a client certificate is the user's name: CN of the subject, all of that (RFC 4514), or its only "
        "alternative name of that kind",
    )
    client_ids: str = setting(
        "",
        "list",
        "what a user may call himself in `client-id`; %u: the user's name, `*`: anything. Empty: as edge.client_ids",
    )
    implicit_connect: bool = setting(
        False, "yes/no", "a client whose first frame is not CONNECT is default_user, in STOMP 1.0; no CONNECTED comes"
    )
    subscribe_without_id: bool = setting(
        False, "yes/no", "SUBSCRIBE needs no id and ACK no subscription in STOMP 1.1 and 1.2 (RabbitMQ)"
    )
    nack_v10: bool = setting(False, "yes/no", "NACK in STOMP 1.0 (RabbitMQ)")
    open_after_error: bool = setting(
        False,
        "yes/no",
        "an ERROR about a destination, header, subscription or transaction name, or a full address, leaves the "
        "connection open (RabbitMQ)",
    )
    connections_allowed: int = setting(-1, "connections", "of this port [connectionsAllowed]; -1: as [edge]", least=-1)
    handshake_timeout_s: float = setting(
        10.0, "seconds", "from accept to CONNECTED [handshake-timeout]; 0: no limit", least=0
    )
    connection_ttl_ms: int = setting(
        60_000, "milliseconds", "silence of clients that promise no heart-beat [connectionTtl]; -1: for ever", least=-1
    )
    connection_ttl_min_ms: int = setting(1000, "milliseconds", "least silence allowed [connectionTtlMin]", least=1)
    connection_ttl_max_ms: int = setting(1 << 53, "milliseconds", "most silence allowed [connectionTtlMax]", least=1)
    heartbeat_to_ttl_modifier: float = setting(
        2.0, "factor", "silence allowed per promised interval [heartBeatToConnectionTtlModifier]", least=1
    )
    default_heartbeat: str = setting(
        "0,0", "ms,ms", "assumed for clients that send no heart-beat header [transport.defaultHeartBeat of Fuse]"
    )
    consumer_window_bytes: int = setting(
        10 * KIB,
        "bytes",
        "default window of client modes [stompConsumerWindowSize]; -1: unlimited, -2: as [edge]",
        least=-2,
    )
    prefetch_unit: str = setting(
        "bytes", "bytes|messages", "unit of the header activemq.prefetchSize: Artemis' or ActiveMQ Classic's"
    )
    large_body_bytes: int = setting(
        -1, "bytes", "bodies from this size on are streamed [stompMinLargeMessageSize]; -1: as [wire]", least=-1
    )
    compress_large_bodies: bool = setting(False, "yes/no", "streamed bodies rest compressed on the owner's disk")
    enable_message_id: bool = setting(
        False, "yes/no", "messages get amqMessageId:STOMP…, the same at each delivery [stompEnableMessageId]"
    )
    server_header: bool = setting(True, "yes/no", "send `server` in CONNECTED [not disableStompServerHeader]")
    server_name: str = setting(
        "",
        "name/version",
        "what `server` in CONNECTED says; empty: stampede/VERSION, behind the name that its dialect's clients seek",
    )
    full_connected_v10: bool = setting(
        False,
        "yes/no",
        "CONNECTED of STOMP 1.0 has version, heart-beat and server; dialects rabbitmq and activemq: always",
    )
    trailing_lf: bool = setting(
        False,
        "yes/no",
        "an empty line behind each frame to the client, over TCP and TLS, for those that read up to NUL and LF "
        "(RabbitMQ's trailing_lf; ActiveMQ Classic)",
    )
    ws_http_auth: bool = setting(
        False,
        "yes/no",
        "over WebSocket the login is that of the HTTP request (Authorization: Basic or Bearer), whatever CONNECT says; "
        "without one it is default_user (RabbitMQ's use_http_auth)",
    )
    ws_max_message_bytes: int = setting(
        0,
        "bytes",
        "largest WebSocket frame payload [webSocketMaxFramePayloadLength]; 0: as large as a STOMP frame may be",
    )
    ws_encoder: str = setting(
        "mirror", "mirror|binary|text", "kind of WebSocket frames to the client [webSocketEncoderType]"
    )
    ws_compression: bool = setting(False, "yes/no", "offer permessage-deflate [webSocketCompressionSupported]")
    proxy_protocol: bool = setting(
        False, "yes/no", "connections begin with a PROXY protocol header, v1 or v2 [proxyProtocolEnabled]"
    )
    proxy_sources: str = setting(
        "",
        "list",
        "addresses and networks (10.0.0.0/8) of the balancers whose PROXY headers are believed; empty: anybody's, who "
        "may then say that it comes from any address",
    )
    selector_coercion: str = setting(
        "auto", "auto|strict", "auto: `age > 18` compares a header's text as a number; strict: as Artemis does"
    )
    validated_user: bool = setting(False, "yes/no", "messages get JMSXUserID, the login [populate-validated-user]")
    max_producer_rate: int = setting(-1, "messages/s", "of one connection; -1: unlimited", least=-1)
    backlog: int = setting(1024, "connections", "the kernel holds until they are accepted [backlog]")
    tcp_send_buffer_bytes: int = setting(0, "bytes", "[tcpSendBufferSize]; 0: the kernel's choice", least=0)
    tcp_receive_buffer_bytes: int = setting(0, "bytes", "[tcpReceiveBufferSize]; 0: the kernel's choice", least=0)
    write_buffer_high_bytes: int = setting(
        128 * KIB,
        "bytes",
        "waiting for one socket above which its consumers get no more [writeBufferHighWaterMark]",
    )
    write_buffer_low_bytes: int = setting(
        32 * KIB, "bytes", "… and below which they do again [writeBufferLowWaterMark]", least=0
    )
