"""All ports of a broker as acceptors: the four of [edge], and those of [acceptors].

Rule: values in, values out; what an acceptor does not say is taken from [edge] and [wire] here and nowhere else, so
that what serves a port asks its AcceptorSettings alone. Nothing is opened or checked here (checks.py).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from ipaddress import IPv4Network, IPv6Network, ip_network
from math import ceil
from typing import Any, NamedTuple

from .acceptor import AcceptorSettings
from .acceptor_url import read
from .settings import EdgeSettings, Settings

OF_EDGE = {"tcp": "port", "tls": "tls_port", "ws": "ws_port", "wss": "wss_port"}
"""Names of the ports of [edge] → their settings. An acceptor of such a name stands in that port's place."""


class NamedAcceptor(NamedTuple):
    """One entry of [acceptors], its URL read. `notes`: what of the URL has no counterpart."""

    settings: AcceptorSettings
    notes: list[str]


def named(name: str, table: Mapping[str, Any]) -> NamedAcceptor:
    """The acceptor as it stands in the settings. What is set beside the URL wins. Raises ConfigError."""
    url = table.get("url", "")
    if not url:
        return NamedAcceptor(AcceptorSettings(**table), [])
    found = read(url, f"acceptors.{name}.url")
    return NamedAcceptor(AcceptorSettings(**{**found.settings, **table}), found.notes)


def all_acceptors(settings: Settings) -> dict[str, AcceptorSettings]:
    """Every acceptor by name, with nothing left open. A port of -1 is not listened on. Raises ConfigError."""
    found = edge_acceptors(settings.edge)
    for name, table in settings.acceptors.items():
        found[name] = _completed(named(name, table).settings, settings.edge)
    large = settings.wire.large_body_bytes
    return {
        name: acceptor if acceptor.large_body_bytes >= 0 else replace(acceptor, large_body_bytes=large)
        for name, acceptor in found.items()
    }


def edge_acceptors(edge: EdgeSettings) -> dict[str, AcceptorSettings]:
    """The ports of [edge], those that are off included."""
    common = AcceptorSettings(
        host=edge.host,
        transport="stomp",
        tls_cert_file=edge.tls_cert_file,
        tls_key_file=edge.tls_key_file,
        tls_client_ca_file=edge.tls_client_ca_file,
        handshake_timeout_s=edge.login_timeout_s,
        connection_ttl_ms=edge.connection_ttl_ms,
        connection_ttl_min_ms=ceil(edge.heartbeat_min_ms * edge.heartbeat_tolerance),
        heartbeat_to_ttl_modifier=edge.heartbeat_tolerance,
        default_heartbeat=edge.default_heartbeat,
        consumer_window_bytes=_window(edge),
        server_header=edge.server_header,
        server_name=edge.server_name,
        full_connected_v10=edge.full_connected_v10,
        ws_max_message_bytes=edge.ws_max_message_bytes,
        ws_compression=True,
        enable_message_id=edge.enable_message_id,
        dialect=edge.dialect,
        client_ids=edge.client_ids,
        login_by=edge.login_by,
    )
    return {
        name: replace(
            common,
            port=getattr(edge, field),
            transport="websocket" if name in ("ws", "wss") else "stomp",
            tls=name in ("tls", "wss"),
        )
        for name, field in OF_EDGE.items()
    }


def _window(edge: EdgeSettings) -> int:
    """As acceptors say it: -1 is unlimited there; in [edge] it leaves the default window in messages, which is -2."""
    return -2 if edge.consumer_window_bytes < 0 else edge.consumer_window_bytes


def _completed(acceptor: AcceptorSettings, edge: EdgeSettings) -> AcceptorSettings:
    """With what [edge] says where the acceptor says nothing."""
    found = acceptor
    if not found.host:
        found = replace(found, host=edge.host)
    if not found.login_by:
        found = replace(found, login_by=edge.login_by)
    if not found.client_ids:
        found = replace(found, client_ids=edge.client_ids)
    if found.consumer_window_bytes == -2:
        found = replace(found, consumer_window_bytes=_window(edge))
    if found.tls and not found.tls_cert_file:
        found = replace(found, tls_cert_file=edge.tls_cert_file, tls_key_file=edge.tls_key_file)
    if found.tls_client_auth != "none" and not found.tls_client_ca_file:
        found = replace(found, tls_client_ca_file=edge.tls_client_ca_file)
    return found


def logins_elsewhere(settings: Settings) -> bool:
    """May a client come in that is not a user of the table, or without a passcode of it. Raises ConfigError."""
    said = [acceptor.login_by for acceptor in all_acceptors(settings).values()]
    said += [table.get("login_by", "") for table in settings.edge.virtual_hosts.values()]
    return any(way != "passcode" for text in said for way in prefixes(text))


def is_edge(name: str, settings: Settings) -> bool:
    """Is this acceptor a port of [edge]."""
    return name in OF_EDGE and name not in settings.acceptors


def hosts(settings: Settings) -> dict[str, str]:
    """Setting → host, of everything that is listened on by name. Raises ConfigError."""
    found = {"edge.host": settings.edge.host}
    if settings.log_reads.port >= 0:
        found["log_reads.host"] = settings.log_reads.host
    for name, acceptor in all_acceptors(settings).items():
        if acceptor.port >= 0 and not is_edge(name, settings):
            found[f"acceptors.{name}.host"] = acceptor.host
    return {setting: host for setting, host in found.items() if host}


def networks(text: str) -> tuple[IPv4Network | IPv6Network, ...]:
    """`10.0.0.0/8, ::1` as networks. Raises ValueError."""
    return tuple(ip_network(word, strict=False) for word in prefixes(text))


def prefixes(text: str) -> tuple[str, ...]:
    """`queue/, /q/` → ("queue/", "/q/"); empty ones are left out."""
    return tuple(word.strip() for word in text.split(",") if word.strip())
