"""Settings of one bridge: what is moved to another broker, or fetched from there.

Rule: as settings.py; a check looks at one entry and nothing else. No secret stands here: settings are printed, so the
passcode of the other broker is in a file.
"""

from __future__ import annotations

from dataclasses import dataclass
from urllib.parse import urlsplit

from broker.core.errors import ConfigError
from broker.core.virtual_host import HOST, NAME

from .fields import setting

SCHEMES = ("stomp", "stomp+ssl", "ws", "wss")
SECURE = ("stomp+ssl", "wss")
DIRECTIONS = ("out", "in")
KINDS = ("auto", "stampede", "artemis", "activemq", "rabbitmq")


@dataclass(frozen=True, slots=True)
class BridgeSettings:
    """A bridge takes messages from a queue or topic and sends them to another broker's, or the other way round."""

    url: str = setting(
        "", "URL", "the other broker: stomp://host:61613, stomp+ssl://, ws:// or wss://; no login or passcode in it"
    )
    direction: str = setting("out", "out|in", "out: from here to there; in: from there to here")
    source: str = setting("", "destination", "taken from, as clients there write it, like /queue/orders or /topic/news")
    target: str = setting("", "destination", "sent to, as clients there write it; empty: the same as source")
    filter: str = setting(
        "", "selector", "only messages for which this is true; the others stay. RabbitMQ as the source has none"
    )
    user: str = setting(
        "", "name", "of this broker: the bridge may do here what this user may; needed as soon as there are users"
    )
    virtual_host: str = setting("", "name", "of edge.virtual_hosts: the bridge is in it here; empty: the default host")
    login: str = setting("", "name", "user at the other broker")
    passcode_file: str = setting(
        "", "path", "file with its passcode, on every edge; read at each connecting, so a new one needs no restart"
    )
    host: str = setting("", "name", "`host` in CONNECT to the other broker; empty: as the URL says")
    broker: str = setting(
        "auto",
        "auto|stampede|artemis|activemq|rabbitmq",
        "what the other one is; auto: as `server` in its CONNECTED says",
        "says what names a message there, whether known ids are dropped there, how topics are subscribed to for good",
    )
    ca_file: str = setting("", "path", "PEM CAs of the other broker's certificate; empty: the system's")
    cert_file: str = setting("", "path", "PEM client certificate for the other broker")
    key_file: str = setting("", "path", "PEM key of that certificate")
    window: int = setting(
        200,
        "messages",
        "taken and not acknowledged yet",
        "after a failure at most so many come twice where the target does not know ids",
        most=5000,
    )
    max_hops: int = setting(
        1,
        "bridges",
        "that a message may have crossed, this one included",
        "with 1 two brokers may bridge one topic both ways, and nothing goes round",
        most=16,
    )
    heartbeat_ms: int = setting(10_000, "milliseconds", "between heart-beats with the other broker, both ways")
    retry_min_s: float = setting(1.0, "seconds", "before connecting again; doubles after each failure in a row")
    retry_max_s: float = setting(30.0, "seconds", "the most of that", least=0.1)
    enabled: bool = setting(True, "yes/no", "no: it rests, and what it would take stays where it is")

    @property
    def to(self) -> str:
        """Where it sends to."""
        return self.target or self.source


def check_bridge(name: str, bridge: BridgeSettings, where: str) -> None:
    """Raises ConfigError for what cannot be meant; `where` names the place."""
    if not NAME.fullmatch(name):
        raise ConfigError(f"{where}: the name of a bridge has letters, digits, - and _, 40 at most.")
    _check_url(bridge, where)
    for field, known in (("direction", DIRECTIONS), ("broker", KINDS)):
        if getattr(bridge, field) not in known:
            raise ConfigError(f"{where}: {field} is {getattr(bridge, field)!r}; it must be one of {', '.join(known)}.")
    if not bridge.source:
        raise ConfigError(f"{where}: source is empty; name a queue or topic, like /queue/orders.")
    for destination in (bridge.source, bridge.to):
        if destination.startswith(HOST):
            raise ConfigError(f"{where}: {destination!r} is a name of a virtual host; set virtual_host instead.")
    if bool(bridge.login) != bool(bridge.passcode_file):
        raise ConfigError(f"{where}: login and passcode_file belong together; set both or none.")
    if bool(bridge.cert_file) != bool(bridge.key_file):
        raise ConfigError(f"{where}: cert_file and key_file belong together; set both or none.")
    if bridge.retry_max_s < bridge.retry_min_s:
        raise ConfigError(
            f"{where}: retry_max_s ({bridge.retry_max_s:g}) is below retry_min_s ({bridge.retry_min_s:g}); raise it."
        )
    if bridge.filter and bridge.direction == "in" and bridge.broker == "rabbitmq":
        raise ConfigError(f"{where}: RabbitMQ has no selectors; bind an exchange to what you want, and leave filter.")
    if any(mark in bridge.source for mark in "*#>") and not bridge.source.startswith(("/topic/", "/exchange/")):
        raise ConfigError(f"{where}: source {bridge.source!r} is a wildcard; one bridge moves one queue, or a topic.")


def _check_url(bridge: BridgeSettings, where: str) -> None:
    try:
        url = urlsplit(bridge.url)
        _ = url.port
    except ValueError as error:
        raise ConfigError(f"{where}: url is not a URL: {error}.") from None
    if url.scheme not in SCHEMES or not url.hostname:
        raise ConfigError(
            f"{where}: url must be like stomp://host:61613; schemes are {', '.join(SCHEMES)}, and a host is needed."
        )
    if url.username is not None or url.password is not None:
        raise ConfigError(f"{where}: url holds a login; settings are printed: use login and passcode_file.")
    if url.scheme not in SECURE and (bridge.ca_file or bridge.cert_file):
        raise ConfigError(f"{where}: ca_file and cert_file are for {' and '.join(SECURE)}; {url.scheme} has no TLS.")
