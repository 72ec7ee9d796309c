"""Settings that contradict each other.

Rule: every check says which settings, why they cannot go together, and what to change. Looks at values only;
whether files exist or ports are free is found out by whoever opens them.
"""

from __future__ import annotations

from dataclasses import replace
from urllib.parse import urlsplit

from broker.core.errors import ConfigError

from .settings import AddressSettings, ClusterSettings, EdgeSettings, RedisSettings, Settings

_ANYWHERE = ("", "0.0.0.0", "::")


def check(settings: Settings) -> None:
    """Raises ConfigError for the first contradiction."""
    if not settings.data:
        raise ConfigError("data is empty; name the folder for the journal, for instance --data ./stampede-data.")
    _ports(settings)
    _tls(settings.edge)
    _sizes(settings)
    _rates(settings.edge)
    _copies(settings.cluster)
    _no_secret(settings.redis)
    check_address(settings.engine.address, "engine.address")
    for pattern, table in settings.engine.addresses.items():
        check_address(replace(settings.engine.address, **table), f'engine.addresses."{pattern}"')


def _ports(settings: Settings) -> None:
    edge, admin = settings.edge, settings.admin
    named = {
        "edge.port": edge.port,
        "edge.tls_port": edge.tls_port,
        "edge.ws_port": edge.ws_port,
        "edge.wss_port": edge.wss_port,
    }
    if all(port < 0 for port in named.values()):
        raise ConfigError("All ports are off (-1); turn on at least one of " + ", ".join(named) + ".")
    if admin.host == edge.host or edge.host in _ANYWHERE or admin.host in _ANYWHERE:
        named["admin.port"] = admin.port
    taken: dict[int, str] = {}
    for name, port in named.items():
        if port > 0 and port in taken:
            raise ConfigError(f"{taken[port]} and {name} are both {port}; give one of them another port.")
        taken[port] = name


def _tls(edge: EdgeSettings) -> None:
    for name, port in (("edge.tls_port", edge.tls_port), ("edge.wss_port", edge.wss_port)):
        if port >= 0 and not (edge.tls_cert_file and edge.tls_key_file):
            raise ConfigError(f"{name} is on but edge.tls_cert_file and edge.tls_key_file are not both set.")
    if bool(edge.tls_cert_file) != bool(edge.tls_key_file):
        missing = "edge.tls_key_file" if edge.tls_cert_file else "edge.tls_cert_file"
        raise ConfigError(f"A certificate needs its key: {missing} is not set.")
    if edge.tls_cert_file and edge.tls_port < 0 and edge.wss_port < 0:
        raise ConfigError(
            "A certificate is set but no port uses it; set edge.tls_port (usual: 61612) or edge.wss_port."
        )
    if edge.tls_client_ca_file and not edge.tls_cert_file:
        raise ConfigError("edge.tls_client_ca_file needs TLS; set edge.tls_cert_file, edge.tls_key_file and a port.")
    if edge.ws_path and not edge.ws_path.startswith("/"):
        raise ConfigError(f"edge.ws_path is {edge.ws_path!r}; it must begin with a slash, like /stomp.")


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


def check_address(address: AddressSettings, where: str) -> None:
    """Raises ConfigError for the first contradiction; `where` names the address or pattern."""
    if 0 < address.max_redelivery_delay_ms < address.redelivery_delay_ms:
        raise ConfigError(
            f"{where}: max_redelivery_delay_ms ({address.max_redelivery_delay_ms}) is below redelivery_delay_ms "
            f"({address.redelivery_delay_ms}); raise it, or set it to 0 for 10 × redelivery_delay_ms."
        )
    if address.max_delivery_attempts == 0:
        raise ConfigError(f"{where}: max_delivery_attempts is 0, so nothing would be delivered; -1 means no limit.")
