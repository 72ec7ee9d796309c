"""An acceptor as Artemis (or Fuse) writes it: `tcp://0.0.0.0:61613?protocols=STOMP;connectionTtl=20000`.

Rule: a pure function, text → settings of config/acceptor.py and notes about what has no counterpart here. A name
nobody knows is an error with near misses; what Artemis knows and we have no use for is listed below with the reason.
Must not know files or sockets.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from difflib import get_close_matches
from typing import Any, NamedTuple
from urllib.parse import unquote

from broker.core.errors import ConfigError

from .catalogue import entry_leaves
from .values import coerce

SCHEMES = {
    "tcp": {}, "stomp": {}, "stomp+nio": {}, "ws": {},
    "ssl": {"tls": True}, "stomp+ssl": {"tls": True}, "stomp+nio+ssl": {"tls": True}, "wss": {"tls": True},
}  # fmt: skip
"""Scheme → settings it stands for. All but `tcp` are ActiveMQ Classic's and Fuse's."""
KEY_STORES = (".jks", ".ks", ".jceks", ".p12", ".pfx", ".pkcs12", ".keystore", ".truststore")
"""File names of Java's key stores, which OpenSSL cannot read."""

Converted = tuple[dict[str, Any], list[str]]
"""Settings and notes."""


class Url(NamedTuple):
    """`settings`: typed fields of AcceptorSettings. `notes`: sentences about what was left out."""

    settings: dict[str, Any]
    notes: list[str]


def read(url: str, where: str) -> Url:
    """What the URL says. `where` names it in errors. Raises ConfigError."""
    scheme, mark, rest = url.strip().partition("://")
    if not mark or scheme.lower() not in SCHEMES:
        raise ConfigError(
            f"{where} is {url!r}; it must begin with one of {', '.join(SCHEMES)} and look like tcp://0.0.0.0:61613"
        )
    authority, _, query = rest.partition("?")
    settings: dict[str, Any] = {**SCHEMES[scheme.lower()], **_authority(authority.rstrip("/"), url, where)}
    notes: list[str] = []
    given = list(_parameters(query, where))
    # Deprecated names first: the new one wins where both are there.
    for name, value in sorted(given, key=lambda pair: pair[0] not in DEPRECATED):
        found, said = _parameter(name, value, where)
        if name in EITHER and settings.get(EITHER[name]):
            continue
        settings.update(found)
        notes += said
    return Url(settings, notes)


def _authority(text: str, url: str, where: str) -> dict[str, Any]:
    match = re.fullmatch(r"(\[[0-9a-fA-F:.%\w]*\]|[^:\[\]/]*)(?::(\d+))?", text)
    if match is None:
        raise ConfigError(f"{where} is {url!r}; behind :// it must have host:port, as in tcp://0.0.0.0:61613")
    found: dict[str, Any] = {"host": match[1].strip("[]")} if match[1] else {}
    if match[2] is not None:
        found["port"] = _typed("port", match[2], where)
    return found


def _parameters(query: str, where: str) -> Iterator[tuple[str, str]]:
    """(name, value) of `a=1;b=2`, also with & between them; Fuse's `transport.` is cut off."""
    seen: set[str] = set()
    for part in re.split(r"[;&]", query):
        name, equals, value = part.strip().partition("=")
        if not name and not equals:
            continue
        if not equals:
            raise ConfigError(f"{where}: {part.strip()!r} must be name=value")
        name = name.strip().removeprefix("transport.")
        if name in seen:
            raise ConfigError(f"{where}: {name} stands twice; leave one of them out")
        seen.add(name)
        yield name, unquote(value.strip())


def _parameter(name: str, value: str, where: str) -> Converted:
    if name in WITHOUT_USE:
        return {}, [f"{name} is of no use here: {WITHOUT_USE[name]}"]
    if name in SPECIAL:
        return SPECIAL[name](value, f"parameter {name} of {where}")
    if name in NAMES:
        return {NAMES[name]: _typed(NAMES[name], value, f"parameter {name} of {where}")}, []
    known = {known.lower(): known for known in (*NAMES, *SPECIAL, *WITHOUT_USE)}
    near = [known[match] for match in get_close_matches(name.lower(), known, 2, 0.7)]
    meant = f" Did you mean {' or '.join(near)}?" if near else ""
    raise ConfigError(f"{where}: unknown parameter {name}.{meant} docs/acceptors.md lists all.")


def _typed(field: str, value: Any, where: str) -> Any:
    return coerce(entry_leaves("acceptors")[field], value, where)


# ── parameters that need a look ──────────────────────────────────────────────────────────────────────


def _protocols(value: str, where: str) -> Converted:
    spoken = [word.strip().upper() for word in value.split(",") if word.strip()]
    if spoken and "STOMP" not in spoken:
        raise ConfigError(f"{where} is {value!r}; only STOMP is spoken here, so it must be among them")
    others = [word for word in spoken if word != "STOMP"]
    return {}, [f"protocols: {', '.join(others)} are not spoken here, only STOMP"] if others else []


def _handshake(value: str, where: str) -> Converted:
    seconds = _typed("handshake_timeout_s", value.lstrip("-") if value.startswith("-") else value, where)
    return {"handshake_timeout_s": 0.0 if value.startswith("-") else seconds}, []


def _kernel_if_negative(field: str) -> Callable[[str, str], Converted]:
    return lambda value, where: ({field: _typed(field, "0" if value.startswith("-") else value, where)}, [])


def _large(value: str, where: str) -> Converted:
    size = _typed("large_body_bytes", value, where)
    notes = ["stompMinLargeMessageSize=-1: bodies are streamed here from wire.large_body_bytes on"] if size < 0 else []
    return {"large_body_bytes": size}, notes


def _no_server_header(value: str, where: str) -> Converted:
    return {"server_header": not _typed("server_header", value, where)}, []


def _client_auth(word: str) -> Callable[[str, str], Converted]:
    return lambda value, where: (({"tls_client_auth": word} if _typed("tls", value, where) else {}), [])


def _key_store(value: str, where: str) -> Converted:
    if value.lower().endswith(KEY_STORES):
        return {"tls_cert_file": value}, []  # checks.py says how to convert it
    return {"tls_cert_file": value, "tls_key_file": value}, []


def _store_type(value: str, where: str) -> Converted:
    if value.upper() in ("PEM", "PEMCFG"):
        return {}, []
    return {}, [f"{value} key stores cannot be read: convert them to PEM files (openssl pkcs12 -in FILE -nodes)"]


def _protocol_versions(value: str, where: str) -> Converted:
    asked = {word.strip() for word in value.split(",") if word.strip()}
    spoken = sorted(asked & {"TLSv1.2", "TLSv1.3"})
    if not spoken:
        raise ConfigError(f"TLS versions ({where}) are {value!r}; TLSv1.2 and TLSv1.3 are spoken, name one of them")
    notes = []
    if asked - set(spoken):
        notes.append(f"enabledProtocols: {', '.join(sorted(asked - set(spoken)))} are not spoken here")
    if spoken == ["TLSv1.2"]:
        notes.append("enabledProtocols: TLSv1.2 is the lowest version, TLSv1.3 is spoken as well")
    return {"tls_min_version": spoken[0]}, notes


def _ciphers(value: str, where: str) -> Converted:
    names = [openssl_cipher(word.strip()) for word in value.split(",") if word.strip()]
    # The suites of TLS 1.3 (TLS_AES_…) are on in any case, and no part of OpenSSL's list.
    return {"tls_ciphers": ":".join(name for name in names if not name.startswith("TLS_"))}, []


def openssl_cipher(name: str) -> str:
    """TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256, as Java calls it, is ECDHE-RSA-AES128-GCM-SHA256 for OpenSSL."""
    key, mark, cipher = name.removeprefix("TLS_").partition("_WITH_")
    if not name.startswith("TLS_") or not mark:
        return name
    cipher = re.sub(r"^(AES|CAMELLIA|ARIA)_(\d+)_", r"\1\2_", cipher).replace("_CBC_", "_")
    cipher = re.sub(r"^CHACHA20_POLY1305_SHA256$", "CHACHA20_POLY1305", cipher)
    return (cipher if key == "RSA" else f"{key}_{cipher}").replace("_", "-")


def _sni(value: str, where: str) -> Converted:
    """A regular expression in Artemis; ours is a name, or *.name."""
    name = value.removeprefix("^").removesuffix("$")
    name = re.sub(r"^(\.[*+]|\[\^\.\][*+])\\\.", "*.", name).replace("\\.", ".")
    if not re.fullmatch(r"(\*\.)?[\w.-]+", name):
        raise ConfigError(
            f"the host name ({where}) is {value!r}; only a name, or any name of a domain (*.x.org), works"
        )
    return {"tls_sni_host": name}, []


NAMES: dict[str, str] = {
    "connectionTtl": "connection_ttl_ms",
    "connectionTtlMin": "connection_ttl_min_ms",
    "connectionTtlMax": "connection_ttl_max_ms",
    "heartBeatToConnectionTtlModifier": "heartbeat_to_ttl_modifier",
    "hbGracePeriodMultiplier": "heartbeat_to_ttl_modifier",
    "defaultHeartBeat": "default_heartbeat",
    "stompConsumerWindowSize": "consumer_window_bytes",
    "stompConsumerCredits": "consumer_window_bytes",
    "prefetchSizeUnit": "prefetch_unit",
    "stompEnableMessageId": "enable_message_id",
    "stomp-enable-message-id": "enable_message_id",
    "webSocketMaxFramePayloadLength": "ws_max_message_bytes",
    "stompMaxFramePayloadLength": "ws_max_message_bytes",
    "webSocketEncoderType": "ws_encoder",
    "webSocketCompressionSupported": "ws_compression",
    "anycastPrefix": "anycast_prefix",
    "multicastPrefix": "multicast_prefix",
    "connectionsAllowed": "connections_allowed",
    "maximumConnections": "connections_allowed",
    "sslEnabled": "tls",
    "trustStorePath": "tls_client_ca_file",
    "crlPath": "tls_crl_file",
    "proxyProtocolEnabled": "proxy_protocol",
    "producerMaxRate": "max_producer_rate",
    "compressLargeMessages": "compress_large_bodies",
    "backlog": "backlog",
    "writeBufferLowWaterMark": "write_buffer_low_bytes",
    "writeBufferHighWaterMark": "write_buffer_high_bytes",
}
"""Parameter → setting; the value is written alike."""
DEPRECATED = {
    "stompConsumerCredits", "stomp-enable-message-id", "stompMaxFramePayloadLength", "stomp-min-large-message-size",
    "wantClientAuth",
}  # fmt: skip
"""Give way to the name that came after them (and want to need)."""
EITHER = {"stompEnableMessageId": "enable_message_id"}
"""On when one of its names says so."""
SPECIAL: dict[str, Callable[[str, str], Converted]] = {
    "protocols": _protocols,
    "handshake-timeout": _handshake,
    "tcpSendBufferSize": _kernel_if_negative("tcp_send_buffer_bytes"),
    "tcpReceiveBufferSize": _kernel_if_negative("tcp_receive_buffer_bytes"),
    "stompMinLargeMessageSize": _large,
    "stomp-min-large-message-size": _large,
    "disableStompServerHeader": _no_server_header,
    "needClientAuth": _client_auth("need"),
    "wantClientAuth": _client_auth("want"),
    "keyStorePath": _key_store,
    "keyStoreType": _store_type,
    "trustStoreType": _store_type,
    "enabledProtocols": _protocol_versions,
    "enabledCipherSuites": _ciphers,
    "sniHost": _sni,
}
"""Parameters whose values are written differently."""
_THREADS = "there is one event loop"
_JAVA = "about Java's TLS; OpenSSL does it here"
_SECRET = "PEM files are kept without a password, readable by the broker alone"
_OTHER = "about a protocol that is not spoken here"
_HTTP = "there is no HTTP tunnel; WebSocket is on the same port"
WITHOUT_USE: dict[str, str] = {
    **dict.fromkeys(
        ("useNio", "useNioGlobalWorkerPool", "useGlobalWorkerPool", "useEpoll", "useKQueue", "useIOUring", "useInvm",
         "nioRemotingThreads", "remotingThreads"), _THREADS,
    ),
    **dict.fromkeys(
        ("sslProvider", "sslContext", "sslKrb5Config", "trustManagerFactoryPlugin", "forceSSLParameters",
         "keyStoreProvider", "trustStoreProvider", "keyStoreAlias", "verifyHost", "trustAll"), _JAVA,
    ),
    **dict.fromkeys(
        ("keyStorePassword", "trustStorePassword", "passwordCodec", "activemq.usemaskedpassword"), _SECRET
    ),
    **dict.fromkeys(
        ("amqpCredits", "amqpLowCredits", "amqpMinCredits", "amqpMinLargeMessageSize", "amqpDuplicateDetection",
         "amqpIdleTimeout", "amqpTreatRejectAsUnmodifiedDeliveryFailed", "supportAdvisory",
         "openwireUseDuplicateDetectionOnFailover",
         "openWireDestinationCacheSize", "virtualTopicConsumerWildcards", "virtualTopicConsumerLruCacheMax",
         "defaultMqttSessionExpiryInterval", "mqtt-session-scan-interval", "serverKeepAlive", "topicAliasMaximum",
         "receiveMaximum", "maximumPacketSize", "closeMqttConnectionOnPublishAuthorizationFailure",
         "allowLinkStealing", "clusterConnection", "failOnBlockedProducer"), _OTHER,
    ),
    **dict.fromkeys(
        ("httpEnabled", "httpUpgradeEnabled", "httpClientIdleTime", "httpClientIdleScanPeriod", "httpResponseTime",
         "httpServerScanPeriod", "httpRequiresSessionId", "useServlet", "servletPath"), _HTTP,
    ),
    "sslAutoReload": "certificates are always re-read when they change (edge.tls_reload_s)",
    "tcpNoDelay": "always on",
    "directDeliver": "STOMP does not use it in Artemis either",
    "batchDelay": "what is ready is written at once, in one piece",
    "quietPeriod": "see edge.drain_timeout_s",
    "shutdownTimeout": "see edge.drain_timeout_s",
    "autoStart": "an acceptor that is not wanted has port -1",
    "router": "every edge reaches every queue, so no connection is sent elsewhere",
    "redirect-to": "every edge reaches every queue, so no connection is sent elsewhere",
    "securityDomain": "all ports have the same users",
    "suppressInternalManagementObjects": "there is no JMX",
    "name": "the setting's own name is used",
    "localAddress": "outgoing connections only",
    "localPort": "outgoing connections only",
}  # fmt: skip
"""What Artemis knows and we have no use for → why. Each one is told in the log."""
