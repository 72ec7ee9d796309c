"""Settings that contradict each other.

Rule: every check says which settings, why they cannot go together, and what to change. Looks at values only; whether
files exist or ports are free is found out by what opens them.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from operator import attrgetter
from typing import Any
from urllib.parse import urlsplit

from broker.core.errors import ConfigError
from broker.core.virtual_host import HOST

from .acceptor import AcceptorSettings
from .acceptor_url import KEY_STORES
from .addressing import AddressSettings, DivertSettings, QueueSettings
from .bridges import BridgeSettings, check_bridge
from .cross_checks.entry_checks import check_divert, check_queue, check_types
from .cross_checks.host_checks import check_defaults, check_hosts, check_one_host, check_reserved
from .cross_checks.login_checks import check_issuers, check_ways
from .permissions import check_permission
from .ports import OF_EDGE, all_acceptors, is_edge, networks, prefixes
from .quotas import DEFAULT_HOST, EACH, QuotaSettings, check_quota
from .settings import ClusterSettings, EdgeSettings, RedisSettings, Settings

_VIRTUAL = re.compile(r"[^;>#]+\.>;[1-9]")
_ANYWHERE = ("", "0.0.0.0", "::")


def check(settings: Settings) -> None:
    """Raises ConfigError for the first contradiction."""
    if not settings.data:
        raise ConfigError("data is empty; name the folder for the journal, for instance --data ./stampede-data.")
    acceptors = all_acceptors(settings)
    for name in settings.acceptors:
        _acceptor(name, acceptors[name], settings.edge)
    for name, acceptor in acceptors.items():
        if not acceptor.server_name.isprintable():
            raise ConfigError(f"server_name of {name} must be one line of printable text, like RabbitMQ/4.1.0.")
        check_ways(f"login_by of {name}", acceptor.login_by, settings, acceptor)
        for item in prefixes(acceptor.client_ids):
            if item.count("*") > 1 or (item != "*" and "%u" not in item):
                raise ConfigError(
                    f"client_ids of {name}: {item!r} must have %u, the user's name, in it and one * at most; a * alone "
                    "lets every user have any client-id."
                )
        for item in prefixes(acceptor.virtual_topic_consumers):
            if not _VIRTUAL.fullmatch(item):
                raise ConfigError(
                    f"virtual_topic_consumers of {name}: {item!r} must be a pattern that ends with .> and how many "
                    "words stand in front of the topic's name, like Consumer.*.VirtualTopic.>;2"
                )
    check_issuers(settings)
    _ports(settings, acceptors)
    _tls(settings.edge, acceptors)
    admin = settings.admin
    if (admin.tls_port >= 0) != bool(admin.tls_cert_file) or bool(admin.tls_cert_file) != bool(admin.tls_key_file):
        raise ConfigError(
            "admin.tls_port, admin.tls_cert_file and admin.tls_key_file belong together; set all of them or none."
        )
    if admin.tls_port >= 0 and admin.port < 0:
        raise ConfigError("admin.tls_port needs admin.port, which is off (-1); leave that on 127.0.0.1.")
    if bool(settings.log_reads.cert_file) != bool(settings.log_reads.key_file):
        raise ConfigError("log_reads.cert_file and log_reads.key_file belong together; set both or none.")
    _sizes(settings)
    _rates(settings.edge)
    _copies(settings.cluster)
    _no_secret(settings.redis)
    delimiter = settings.engine.wildcard_delimiter
    check_delimiter(delimiter)
    base = settings.engine.address
    check_hosts(settings, acceptors)
    _address(base, "engine.address")
    check_defaults(base)
    for name, bridge in settings.bridges.items():
        if (host := bridge.get("virtual_host", "")) and host not in settings.edge.virtual_hosts:
            raise ConfigError(f"bridges.{name}.virtual_host is {host!r}; add [edge.virtual_hosts.{host}].")
    for name in settings.edge.quotas:
        kind, _, host = name.partition(":")
        if kind == "host" and host not in (EACH, DEFAULT_HOST, *settings.edge.virtual_hosts):
            raise ConfigError(f'edge.quotas."{name}": there is no such virtual host; add [edge.virtual_hosts.{host}].')
    for table in (
        "engine.addresses", "engine.queues", "engine.diverts", "edge.permissions", "edge.quotas", "bridges",
    ):  # fmt: skip
        for entry, values in attrgetter(table)(settings).items():
            check_entry(table, entry, values, f'{table}."{entry}"', delimiter, base)


def check_entry(
    table: str, entry: str, values: Mapping[str, Any], where: str, delimiter: str, base: AddressSettings
) -> None:
    """Raises ConfigError for the first contradiction in one entry of a table; `where` names it. `base`: what the
    settings of an address are laid over."""
    if table == "bridges":
        check_bridge(entry, BridgeSettings(**values), where)
        return
    if table == "edge.quotas":
        check_quota(entry, QuotaSettings(**values), where)
        return
    if table == "edge.permissions":
        if HOST in entry:  # there may be a hundred thousand entries, and few have one
            check_one_host(table, entry, values, where, delimiter)
        check_permission(entry, values, where)
        return
    check_one_host(table, entry, values, where, delimiter)
    check_reserved(table, entry, values, where)
    if table == "engine.addresses":
        _address(replace(base, **values), where)
    elif table == "engine.queues":
        check_queue(entry, QueueSettings(**values), where, delimiter)
    else:
        check_divert(DivertSettings(**values), where, delimiter)


def _ports(settings: Settings, acceptors: Mapping[str, AcceptorSettings]) -> None:
    if all(acceptor.port < 0 for acceptor in acceptors.values()):
        raise ConfigError(
            "All ports are off (-1); turn on at least one of edge.port, edge.tls_port, edge.ws_port, edge.wss_port, "
            "or give an acceptor a port."
        )
    admin, reads = settings.admin, settings.log_reads
    named = [(_port_name(name, settings), acceptor.host, acceptor.port) for name, acceptor in acceptors.items()]
    taken: list[tuple[str, str, int]] = []
    for name, host, port in [
        *named,
        ("admin.port", admin.host, admin.port),
        ("admin.tls_port", admin.tls_host, admin.tls_port),
        ("log_reads.port", reads.host, reads.port),
    ]:
        for other, its_host, its_port in taken:
            if port == its_port and (host == its_host or host in _ANYWHERE or its_host in _ANYWHERE):
                raise ConfigError(f"{other} and {name} are both {port}; give one of them another port (-1: off).")
        if port > 0:
            taken.append((name, host, port))


def _port_name(acceptor: str, settings: Settings) -> str:
    return f"edge.{OF_EDGE[acceptor]}" if is_edge(acceptor, settings) else f"acceptors.{acceptor}.port"


def _tls(edge: EdgeSettings, acceptors: Mapping[str, AcceptorSettings]) -> None:
    for name, port in (("edge.tls_port", edge.tls_port), ("edge.wss_port", edge.wss_port)):
        if port >= 0 and not (edge.tls_cert_file and edge.tls_key_file):
            raise ConfigError(f"{name} is on but edge.tls_cert_file and edge.tls_key_file are not both set.")
    if bool(edge.tls_cert_file) != bool(edge.tls_key_file):
        missing = "edge.tls_key_file" if edge.tls_cert_file else "edge.tls_cert_file"
        raise ConfigError(f"A certificate needs its key: {missing} is not set.")
    if edge.tls_cert_file and not any(acceptor.tls and acceptor.port >= 0 for acceptor in acceptors.values()):
        raise ConfigError(
            "A certificate is set but no port uses it; set edge.tls_port (usual: 61612) or edge.wss_port."
        )
    if edge.tls_client_ca_file and not edge.tls_cert_file:
        raise ConfigError("edge.tls_client_ca_file needs TLS; set edge.tls_cert_file, edge.tls_key_file and a port.")
    if edge.ws_path and not edge.ws_path.startswith("/"):
        raise ConfigError(f"edge.ws_path is {edge.ws_path!r}; it must begin with a slash, like /stomp.")


def _acceptor(name: str, acceptor: AcceptorSettings, edge: EdgeSettings) -> None:
    """One entry of [acceptors], completed with what [edge] says."""
    where = f"acceptors.{name}"
    if name.startswith("$"):
        raise ConfigError(f"{where}: names that begin with $ are the broker's own; rename the acceptor.")
    if name in OF_EDGE and getattr(edge, OF_EDGE[name]) >= 0:
        raise ConfigError(
            f"{where} stands in the place of edge.{OF_EDGE[name]}; set that to -1, or rename the acceptor."
        )
    if acceptor.tls:
        _acceptor_tls(where, acceptor)
    for field in ("connection_ttl_ms", "connections_allowed", "max_producer_rate"):
        if getattr(acceptor, field) == 0:
            raise ConfigError(f"{where}.{field} is 0, so nobody could do anything; -1 means no limit.")
    try:
        networks(acceptor.proxy_sources)
    except ValueError as error:
        raise ConfigError(f"{where}.proxy_sources: {error}; write addresses or networks, like 10.0.0.0/8.") from None
    if acceptor.proxy_sources and not acceptor.proxy_protocol:
        raise ConfigError(f"{where}.proxy_sources needs proxy_protocol; without it every source is believed.")
    if acceptor.implicit_connect and not acceptor.default_user:
        raise ConfigError(f"{where}.implicit_connect needs default_user: who such a client is.")
    both = set(prefixes(acceptor.anycast_prefix)) & set(prefixes(acceptor.multicast_prefix))
    if both:
        raise ConfigError(
            f"{where}: the prefix {min(both)!r} stands in anycast_prefix and in multicast_prefix; it can mean one only."
        )
    if acceptor.write_buffer_low_bytes > acceptor.write_buffer_high_bytes:
        raise ConfigError(
            f"{where}.write_buffer_low_bytes ({acceptor.write_buffer_low_bytes}) is above write_buffer_high_bytes "
            f"({acceptor.write_buffer_high_bytes}); lower it."
        )


def _acceptor_tls(where: str, acceptor: AcceptorSettings) -> None:
    for field in ("tls_cert_file", "tls_client_ca_file"):
        path = getattr(acceptor, field)
        if path.lower().endswith(KEY_STORES):
            raise ConfigError(
                f"{where}.{field} is {path!r}, a Java key store; convert it (keytool -importkeystore … -deststoretype "
                "PKCS12, then openssl pkcs12 -in FILE -nodes) and name the PEM file."
            )
    if not (acceptor.tls_cert_file and acceptor.tls_key_file):
        raise ConfigError(
            f"{where}.tls is on but tls_cert_file and tls_key_file are not both set, nor those of [edge]."
        )
    for field, value in (("tls_client_auth", acceptor.tls_client_auth), ("tls_crl_file", acceptor.tls_crl_file)):
        if value not in ("", "none") and not acceptor.tls_client_ca_file:
            raise ConfigError(f"{where}.{field} is {value!r}, which needs tls_client_ca_file: who signs the clients.")


def _sizes(settings: Settings) -> None:
    pairs = (
        (settings.wire, "wire", "max_frame_bytes_before_login", "max_frame_bytes"),
        (settings.wire, "wire", "max_header_bytes", "max_header_block_bytes"),
        (settings.engine, "engine", "page_bytes", "queue_memory_bytes"),
    )
    for table, prefix, small, large in pairs:
        low, high = getattr(table, small), getattr(table, large)
        if low > high:
            raise ConfigError(f"{prefix}.{small} ({low}) is larger than {prefix}.{large} ({high}); lower the first.")


def _rates(edge: EdgeSettings) -> None:
    for name in ("max_producer_rate", "max_consumer_rate"):
        if getattr(edge, name) == 0:
            raise ConfigError(f"edge.{name} is 0, so nobody could do anything; -1 means no limit.")


def _copies(cluster: ClusterSettings) -> None:
    if cluster.min_in_sync > cluster.replicas:
        raise ConfigError(
            f"cluster.min_in_sync ({cluster.min_in_sync}) is larger than cluster.replicas ({cluster.replicas}), so no "
            "message could ever be confirmed; lower the first or raise the second."
        )


def _no_secret(redis: RedisSettings) -> None:
    """Settings are printed (`stampede settings`): a secret must not be among them."""
    try:
        secret = urlsplit(redis.url).password
    except ValueError as error:
        raise ConfigError(f"redis.url is not a URL: {error}.") from None
    if secret:
        raise ConfigError("redis.url holds a password; take it out and put it into a file: redis.password_file.")


def check_delimiter(delimiter: str) -> None:
    """Raises ConfigError unless patterns can be read with it."""
    if len(delimiter) != 1 or delimiter in "*#":
        raise ConfigError(f"engine.wildcard_delimiter is {delimiter!r}; it must be one character, neither * nor #.")


def _address(address: AddressSettings, where: str) -> None:
    check_types(address, where)
    if 0 < address.max_redelivery_delay_ms < address.redelivery_delay_ms:
        raise ConfigError(
            f"{where}: max_redelivery_delay_ms ({address.max_redelivery_delay_ms}) is below redelivery_delay_ms "
            f"({address.redelivery_delay_ms}); raise it, or set it to 0 for 10 × redelivery_delay_ms."
        )
    if address.max_delivery_attempts == 0:
        raise ConfigError(f"{where}: max_delivery_attempts is 0, so nothing would be delivered; -1 means no limit.")
