"""Typed settings. Every limit has its unit in its name or help, a default, and a reason.

Rule: plain frozen dataclasses, nothing read from anywhere (config/load.py does that). Each field is made
by `setting(default, unit, help, reason)`; `stampede serve --help` and docs/settings.md are printed from it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from .addressing import AddressSettings
from .fields import GIB, KIB, MIB, group, setting, table
from .logs import LogSettings
from .scaler import ScalerSettings
from .tracing import TracingSettings


@dataclass(frozen=True, slots=True)
class WireSettings:
    """Bounds of the STOMP parser."""

    max_frame_bytes: int = setting(
        64 * GIB, "bytes", "largest SEND accepted", "streamed to disk, so only the disk bounds it"
    )
    max_frame_bytes_before_login: int = setting(
        64 * KIB, "bytes", "largest frame before CONNECTED", "strangers get little memory"
    )
    max_control_body_bytes: int = setting(
        64 * KIB, "bytes", "largest body of any frame but SEND/MESSAGE", "1.2 forbids such bodies; 1.0/1.1 allow them"
    )
    max_headers: int = setting(100, "headers", "most headers of one frame", "RabbitMQ's bound; real clients use < 30")
    max_header_bytes: int = setting(10 * KIB, "bytes", "longest single header line", "ActiveMQ's bound (10,240)")
    max_header_block_bytes: int = setting(
        64 * KIB, "bytes", "all headers of a frame together", "held in memory until the blank line comes"
    )
    max_command_bytes: int = setting(32, "bytes", "longest command line", "the longest command has 11 letters")
    large_body_bytes: int = setting(
        100 * KIB, "bytes", "bodies from this size on are streamed to a file", "Artemis' minLargeMessageSize"
    )
    memo_entries: int = setting(
        4096,
        "header blocks",
        "what so many say is remembered",
        "4096 × about 850 B = 3.5 MB, of each version of STOMP in use; besides, 256 rows of header names",
    )


@dataclass(frozen=True, slots=True)
class EdgeSettings:
    """Connections and sessions."""

    host: str = setting("", "address", "where to listen; empty: 127.0.0.1 without users, all interfaces with users")
    port: int = setting(61613, "TCP port", "STOMP; 0 picks a free one, -1 turns it off")
    tls_port: int = setting(-1, "TCP port", "STOMP over TLS (usual: 61612); needs tls_cert_file and tls_key_file")
    ws_port: int = setting(61614, "TCP port", "STOMP over WebSocket; 0 picks a free one, -1 turns it off")
    wss_port: int = setting(-1, "TCP port", "STOMP over WebSocket over TLS; needs tls_cert_file and tls_key_file")
    clear_text: str = setting(
        "warn",
        "warn|refuse",
        "with users, and a port without TLS that other machines reach: a WARNING, or no start",
        "passcodes go over it; refuse makes sure that none is forgotten",
    )
    tls_cert_file: str = setting("", "path", "PEM certificate chain; re-read when the file changes")
    tls_key_file: str = setting("", "path", "PEM private key")
    tls_client_ca_file: str = setting("", "path", "PEM CAs that client certificates must chain to (mutual TLS)")
    tls_reload_s: float = setting(
        5.0,
        "seconds",
        "how often the certificate files are looked at",
        "rotation by cert-manager takes effect without a restart",
        least=0.1,
    )
    ws_path: str = setting("", "URL path", "only this path upgrades to WebSocket; empty: any")
    ws_allowed_origins: str = setting(
        "", "list", "comma list of Origin values that may connect; empty: same host, or loopback"
    )
    ws_max_message_bytes: int = setting(
        0,
        "bytes",
        "largest WebSocket frame payload; 0: as large as a STOMP frame may be",
        "it is streamed, so it costs no memory; @stomp/stompjs sends a body of any size as one",
    )
    processes: str = setting(
        "0",
        "processes",
        "of `stampede serve` that share its ports; auto: one for each core, none below four; 0: one process does all",
        "one process uses one core; on two cores it is the faster one (docs/benchmarks.md): for four and more",
    )
    max_connections: int = setting(20_000, "connections", "of this process", "about 6 KiB each")
    max_connections_per_ip: int = setting(
        20_000, "connections", "from one client address", "lower it where clients are not behind a proxy"
    )
    max_subscriptions: int = setting(
        10_000, "subscriptions", "of one connection", "a browser has < 100, a bridge thousands"
    )
    max_wildcard_subscriptions: int = setting(
        200,
        "subscriptions",
        "to wildcards, of one connection: durable and browsing ones, those of queues, in a cluster all; "
        "`max_subscriptions` counts them "
        "as well",
        "each has something in all 256 slots, 400 KB together: 2,000 of one client would hold others up for seconds",
    )
    max_transactions: int = setting(100, "transactions", "open at once on one connection", "RabbitMQ allows 16")
    max_transaction_frames: int = setting(
        10_000, "frames", "in the open transactions of one connection", "applied in one turn: more would stall others"
    )
    max_transaction_parts: int = setting(
        1000,
        "parts",
        "in the open transactions of one connection: messages for one destination with the same priority, durability "
        "and expiry are one, and so are ACKs of one subscription",
        "a COMMIT takes 20 µs for each; it comes in pieces, but nobody else is served by its owner in between",
    )
    max_transaction_bytes: int = setting(
        64 * MIB, "bytes", "in the open transactions of one connection", "held in memory until COMMIT"
    )
    max_outbox_bytes: int = setting(
        64 * MIB, "bytes", "waiting for one slow socket", "then the connection is closed as slow_consumer"
    )
    consumer_room_bytes: int = setting(
        1 * MIB, "bytes", "under way to one consumer's socket", "the rest stays in the queue"
    )
    consumer_window_bytes: int = setting(
        -1, "bytes", "default unacknowledged bytes per client/client-individual consumer; -1: as in messages alone"
    )
    consumer_window_messages: int = setting(
        1000,
        "messages",
        "default unacknowledged messages per client/client-individual consumer; -1: unlimited",
        "ActiveMQ's prefetch for queues",
        least=-1,
    )
    login_timeout_s: float = setting(10.0, "seconds", "from accept to CONNECTED", "RabbitMQ's value")
    frame_timeout_s: float = setting(
        60.0,
        "seconds",
        "without progress inside a frame that has begun",
        "ends slow loris attacks; a slow uplink still makes progress",
    )
    max_eol_per_s: int = setting(
        10_000, "empty lines/s", "heart-beat bytes from one client", "a heart-beat is one byte per interval"
    )
    heartbeat_min_ms: int = setting(
        500, "milliseconds", "shortest heart-beat the broker promises to send", "Artemis' bound", least=1
    )
    heartbeat_tolerance: float = setting(
        2.0,
        "factor",
        "silent longer than this × the promised interval: closed",
        "the specs ask for an error margin; Artemis uses 2.0",
        least=1,
    )
    default_heartbeat: str = setting(
        "0,0", "ms,ms", "assumed for clients that send no heart-beat header (Fuse: transport.defaultHeartBeat)"
    )
    server_header: bool = setting(True, "yes/no", "send the `server` header in CONNECTED")
    server_name: str = setting(
        "",
        "name/version",
        "what `server` in CONNECTED says; empty: stampede/VERSION, behind the name that the dialect's clients seek",
        "some clients look for a broker's name to choose their dialect",
    )
    full_connected_v10: bool = setting(
        True, "yes/no", "CONNECTED of STOMP 1.0 has version, heart-beat and server", "as of RabbitMQ and ActiveMQ"
    )
    dialect: str = setting(
        "artemis",
        "artemis|rabbitmq|activemq",
        "what names of destinations and headers mean on the ports above: whose clients connect there",
        "each acceptor has its own",
    )
    exchanges: dict[str, Any] = table(
        "RabbitMQ's exchanges beside the amq.* ones: name = table of `exchange` settings",
        "for acceptors of that dialect",
    )
    virtual_hosts: dict[str, Any] = table(
        "name spaces of their own, which CONNECT's `host` header names: name = table of `virtual host` settings",
        "clients of one never see another's messages",
    )
    unknown_hosts: str = setting(
        "default",
        "default|refuse",
        "CONNECT names a virtual host that is not there: it comes to the default host, or is refused",
        "clients put the name of the machine there",
    )
    default_host_names: str = setting(
        "/", "list", "what CONNECT may call the default host where unknown ones are refused", "as of RabbitMQ"
    )
    enable_message_id: bool = setting(
        False,
        "yes/no",
        "messages get amqMessageId:STOMP…, which stays the same whoever gets them and however often",
        "message-id names a delivery: another one each time. Costs a header of 30 bytes",
    )
    users_file: str = setting(
        "", "path", "users and argon2 hashes (see `stampede user add`); empty: DATA/users.toml if it exists"
    )
    drain_timeout_s: float = setting(10.0, "seconds", "at SIGTERM: how long to finish what is in flight", least=0)
    client_id_in_use: str = setting(
        "allow",
        "allow|refuse|takeover",
        "a second connection with the same client-id: both stay, the new one is refused, or the old one is closed",
        "Artemis does not check it either: consumers with one client-id share durable subscriptions",
    )
    login_by: str = setting(
        "passcode",
        "list",
        "how clients may prove who they are, in order: certificate, token, passcode, ldap, hook",
        "the first that has something to go by decides; acceptors and virtual hosts have their own",
    )
    issuers: dict[str, Any] = table(
        "who issues tokens (JWT) that count as logins: name = table of `issuer` settings", "where login_by has `token`"
    )
    ldap: dict[str, Any] = table(
        "directories that judge logins: name = table of `ldap` settings; the first that has the user decides",
        "where login_by has `ldap`",
    )
    hooks: dict[str, Any] = table(
        "services or functions of yours that judge logins: name = table of `hook` settings",
        "where login_by has `hook`; the first that counts in the virtual host decides",
    )
    audit: str = setting(
        "failures",
        "off|failures|all",
        "what of clients the log stampede.audit has: logins that failed and what was denied, or each login and end too",
        "each login and each end is a line",
    )
    login_grace_s: float = setting(
        0.0,
        "seconds",
        "connections that came in with a passcode that has been changed may stay",
        "programs get the new one a little later; who is removed goes at once",
        least=0,
    )
    client_ids: str = setting(
        "%u,%u.*,%u-*,%u_*,%u:*,%u/*",
        "list",
        "what a user may call himself in `client-id`, where there are users; %u: the user's name, `*`: anything",
        "durable subscriptions and takeovers go by it: nobody has those of another user. `*` alone: everybody may",
    )
    max_producer_rate: int = setting(
        -1,
        "messages/s",
        "sent by one user over all edges; -1: unlimited",
        "above it sockets are read later; nothing is dropped",
        least=-1,
    )
    max_consumer_rate: int = setting(
        -1,
        "messages/s",
        "delivered to one user over all edges; -1: unlimited",
        "above it messages stay in the queue",
        least=-1,
    )
    connection_ttl_ms: int = setting(
        -1,
        "milliseconds",
        "silence of clients that promise no heart-beat; -1: for ever",
        "a client that only listens is silent; TCP keep-alive finds those that have gone",
        least=-1,
    )
    park_bytes: int = setting(
        1 * MIB,
        "bytes",
        "sent by one connection to full addresses (policy BLOCK) that wait in memory; then its socket is not read",
        "what goes to other addresses is not held up before that",
    )
    park_total_bytes: int = setting(
        64 * MIB, "bytes", "of all connections together; then sockets are not read as soon as something waits"
    )
    block_timeout_s: float = setting(
        300.0,
        "seconds",
        "a message waits for a full address (policy BLOCK); then ERROR; 0: for ever",
        "whoever consumes behind its own blocked SEND would hang else",
        least=0,
    )
    shed_rate: int = setting(
        200,
        "connections/s",
        "ended when this process stops or has far more than the others; more if drain_timeout_s asks for it",
        "they all connect elsewhere at once",
    )
    rebalance_above: float = setting(
        1.2,
        "factor",
        "an edge where more than so many times the mean have logged in sheds idle connections of the users that have "
        "most there; 0: never",
        least=0,
    )
    rebalance_least: int = setting(200, "connections", "above the mean before it does so")
    rebalance_rate: int = setting(20, "connections/s", "ended to balance edges", "clients notice each of them")
    prefer_zone: bool = setting(
        True,
        "yes/no",
        "where it does not matter which slot takes a message (a split address, a temporary destination), one that an "
        "owner of this edge's `cluster.zone` leads; off: all take turns",
        "traffic between zones costs money and time",
    )
    notifications: bool = setting(
        False,
        "yes/no",
        "connections, consumers and addresses are told of at activemq.notifications, and with dialect activemq at "
        "ActiveMQ.Advisory.…",
        "two messages each time somebody comes or goes",
    )
    quotas: dict[str, Any] = table(
        "what one user, virtual host or address of clients may use, of all edges together: `user:NAME`, `host:NAME`, "
        "`ip:ADDRESS` (or network), `*` for each = table of `quota` settings",
        "one client of many cannot take what all need",
    )
    permissions: dict[str, Any] = table(
        "who may do what: address, pattern (`*` one word, `#` rest) or ADDRESS::QUEUE = table of groups by operation",
        "empty: everybody who is let in may do everything; with one entry or more, what no entry matches is for nobody",
    )
    permissions_required: bool = setting(
        False,
        "yes/no",
        "without any entry in `permissions` nobody may do anything",
        "an edge that starts after the last entry was deleted stays closed",
    )


@dataclass(frozen=True, slots=True)
class EngineSettings:
    """Queues in memory."""

    queue_memory_bytes: int = setting(
        4 * MIB, "bytes", "of one queue kept in memory; the rest is read back from the journal"
    )
    page_bytes: int = setting(256 * KIB, "bytes", "read back at a time", "large enough to be cheaper than live traffic")
    mark_messages: int = setting(
        16_384,
        "messages",
        "how far ahead delivery is announced to the journal",
        "after a crash at most so many are marked redelivered without need",
    )
    address: AddressSettings = group(AddressSettings)
    addresses: dict[str, Any] = table("name or pattern (`*` one word, `#` rest) = table of the settings above")
    max_queues: int = setting(
        100_000, "queues", "of this process, those of topic subscribers included; for a SUBSCRIBE that makes one also "
        "deleted queues whose dead letters are still to be sent (`stomp_deleted_queues`)",
        "about 4 KiB each, so 400 MB",
    )  # fmt: skip
    timed_queues: int = setting(
        50, "queues", "whose times to delivery and ACK are told one by one; the rest is one series; 0: none",
        "each has 36 series in /metrics", least=0, most=1000,
    )  # fmt: skip
    queues: dict[str, Any] = table("queues that exist from the start: name = table of `queue` settings")
    diverts: dict[str, Any] = table("copies or detours of messages: name = table of `divert` settings")
    wildcard_delimiter: str = setting(
        ".", "character", "between the words of addresses, for patterns of settings and of wildcard subscriptions"
    )
    xpath: bool = setting(
        False,
        "yes/no",
        "SUBSCRIBE may have XPATH in its selector: bodies are read as XML",
        "each costs up to 8 ms of what all share for every message; a header costs microseconds",
    )
    max_held_bytes: int = setting(
        64 * MIB,
        "bytes",
        "of messages of one subscription that open transactions have acknowledged",
        "their window is given back before COMMIT, so nothing else bounds them",
    )
    max_held_messages: int = setting(
        20_000,
        "messages",
        "of one subscription that open transactions have acknowledged",
        "one cumulative ACK may stand for any number, and COMMIT settles all of them in one step: 10 ms",
    )


@dataclass(frozen=True, slots=True)
class MemorySettings:
    """What messages may take of this process, in queues and connections together."""

    limit_bytes: int = setting(
        0,
        "bytes",
        "of messages in memory; 0: half of what the container (control group) or the machine has; -1: no bound",
        "near it queues go to disk; at it producers wait, a quarter above they are refused; the other half is for the "
        "interpreter, what is on its way to disk, and fragmentation",
        least=-1,
    )


@dataclass(frozen=True, slots=True)
class JournalSettings:
    """The log on disk."""

    segment_bytes: int = setting(
        64 * MIB, "bytes", "size of a segment file", "zero-filled: a sync needs no metadata", least=64 * KIB
    )
    max_inflight_bytes: int = setting(
        32 * MIB,
        "bytes",
        "accepted but not yet synced; above it producers are paused",
        "bounds memory when the disk is slower than the clients",
    )
    compact_below: float = setting(0.25, "fraction", "a segment with fewer live bytes is rewritten and freed")
    min_free_bytes: int = setting(
        256 * MIB,
        "bytes",
        "below it SEND is refused, settling goes on",
        "room for acknowledgements so that consumers can free space",
        least=0,
    )
    sync: bool = setting(True, "yes/no", "fdatasync before a receipt; `no` only for experiments")


@dataclass(frozen=True, slots=True)
class AdminSettings:
    """Metrics, health and the API for operators."""

    host: str = setting("127.0.0.1", "address", "where /metrics, /healthz, /readyz and /api/v1 listen")
    port: int = setting(61680, "TCP port", "0 picks a free one, -1 turns it off")
    administrators: str = setting(
        "admin", "list", "groups whose users may see and change everything through the API; empty: nobody may",
        "without users everybody may who is on this machine, and nobody else",
    )  # fmt: skip
    hosts: str = setting(
        "", "list", "names under which browsers reach this port, besides its addresses and localhost",
        "a page of a stranger could lead a browser here under a name of its own (DNS rebinding)",
    )  # fmt: skip
    token_file: str = setting("", "path", "who reads numbers from another machine shows its token; empty: anybody may")
    tls_host: str = setting("", "address", "where the same listens with TLS; empty: everywhere")
    tls_port: int = setting(
        -1, "TCP port", "the same with TLS; 0 picks a free one, -1: off",
        "the plain port is for probes, Prometheus and this machine; logins cross a network here",
    )  # fmt: skip
    tls_cert_file: str = setting("", "path", "PEM certificate chain of the TLS port; re-read when it changes")
    tls_key_file: str = setting("", "path", "PEM private key of the TLS port")


@dataclass(frozen=True, slots=True)
class EtcdSettings:
    """Where the cluster's metadata is."""

    endpoints: str = setting("127.0.0.1:2379", "list", "comma list of host:port of etcd's client port")
    prefix: str = setting("/stampede/default", "key", "all keys of this cluster stand under it")
    user: str = setting("", "name", "etcd user; empty: no authentication")
    password_file: str = setting("", "path", "file with the password of that user")
    ca_file: str = setting("", "path", "PEM CAs of etcd's certificate; empty: plain text")
    cert_file: str = setting("", "path", "PEM client certificate for etcd")
    key_file: str = setting("", "path", "PEM key of that certificate")
    timeout_s: float = setting(3.0, "seconds", "one request to etcd", least=0.1)


@dataclass(frozen=True, slots=True)
class RedisSettings:
    """What edges share and may forget: client ids, rates, verified logins."""

    url: str = setting("", "URL", "redis://… or rediss://…; empty: every edge keeps its own")
    prefix: str = setting("stampede:default:", "key", "all keys of this cluster begin with it")
    password_file: str = setting("", "path", "file with the password, so that it is not in the URL")
    timeout_s: float = setting(0.5, "seconds", "one request to Redis", "then this edge goes on alone", least=0.01)


@dataclass(frozen=True, slots=True)
class ClusterSettings:
    """Edges and owners as processes of their own (`stampede edge`, `stampede owner`)."""

    id: str = setting("", "name", "stable name of this process; empty: the host's name")
    zone: str = setting("", "name", "failure domain; replicas of a slot go to different ones where possible")
    host: str = setting("127.0.0.1", "address", "where the component port (gRPC) listens")
    port: int = setting(61700, "TCP port", "component port; 0 picks a free one")
    advertise: str = setting("", "host:port", "how other components reach this one; empty: host and port above")
    ca_file: str = setting("", "path", "PEM CAs of all components: mutual TLS between them; empty: plain text")
    cert_file: str = setting("", "path", "PEM certificate of this component (server and client)")
    key_file: str = setting("", "path", "PEM key of that certificate")
    role_domain: str = setting(
        "", "DNS domain", "a certificate is that of owner.DOMAIN or edge.DOMAIN; empty: of any", "docs/cluster.md"
    )
    crl_file: str = setting("", "path", "PEM list of revoked certificates of components; read again when it changes")
    replicas: int = setting(3, "copies", "of each slot; fewer while there are fewer owners", most=7)
    min_in_sync: int = setting(2, "copies", "that must have a durable message before its RECEIPT", most=7)
    lease_s: float = setting(5.0, "seconds", "without contact to etcd: a component counts as dead", least=2)
    ping_ms: int = setting(
        80,
        "milliseconds",
        "heart-beat on streams between components",
        "at rest every second one, where three of those fit into dead_after_ms",
        least=10,
    )
    dead_after_ms: int = setting(
        500,
        "milliseconds",
        "a silent component is taken for frozen; its peers try to revoke its lease",
        "after false alarms up to 8 times as long: an overloaded machine must not feed its overload",
        least=50,
    )
    promise_ms: int = setting(
        250,
        "milliseconds",
        "a follower promises not to lead for so long; a leader dispatches only while it holds that promise",
        "no two owners ever dispatch from one queue, whatever etcd or clocks do",
        least=20,
    )
    tail_bytes: int = setting(
        64 * MIB, "bytes", "of recent log kept in memory for followers that come back", "else they are seeded anew"
    )
    seed_bytes_per_s: int = setting(50 * MIB, "bytes/s", "at which a leader seeds a new replica")
    max_moves: int = setting(8, "slots", "moved at once when the cluster is balanced")
    batch_bytes: int = setting(
        256 * KIB, "bytes", "of one message between edge and owner", "measured: larger is slower"
    )
    linger_ms: int = setting(
        1, "milliseconds", "SENDs without receipts wait for more, where an edge has four in that time for one owner",
        "halves what 5,000 a second cost that come one by one, and adds half of it to their way; 0: none waits",
        least=0, most=20,
    )  # fmt: skip
    edge_pending_bytes: int = setting(
        16 * MIB, "bytes", "an edge holds for one owner before it pauses producers", "a fail-over of 0.5 s at 32 MB/s"
    )
    kept_body_bytes: int = setting(
        4 * GIB,
        "bytes",
        "of large bodies an edge keeps (above 1 MiB each in a file without a name in its data folder) until their "
        "messages are safe; 0: none",
        "when the owner changes they are sent again; those that do not fit are refused then",
        least=0,
    )
    edge_grace_s: float = setting(
        5.0, "seconds", "an owner keeps the consumers of an edge whose stream broke", "it usually comes back"
    )
    unavailable_after_s: float = setting(
        30.0, "seconds", "without an owner for a destination: its requests are refused", least=0.1
    )
    replace_after_s: float = setting(
        60.0,
        "seconds",
        "a dead owner's replicas wait for it before they are made anew elsewhere",
        "a restart must not set off copying; `stampede cluster drain` does not wait",
    )


@dataclass(frozen=True, slots=True)
class LogReadsSettings:
    """The read API: the log of slots for archives, reports and Spark (gRPC, docs/adr/0010)."""

    host: str = setting("", "address", "where to listen; empty: 127.0.0.1 without users, all interfaces with users")
    port: int = setting(-1, "TCP port", "usual: 61690; 0 picks a free one, -1 turns it off")
    cert_file: str = setting("", "path", "PEM certificate chain of this port; empty: plain text")
    key_file: str = setting("", "path", "PEM key of that certificate")
    max_streams: int = setting(
        8, "streams", "reads at a time, of all clients", "each holds one batch in memory and takes turns", least=1
    )
    batch_bytes: int = setting(
        256 * KIB,
        "bytes",
        "of one answer, about",
        "what one stream holds in memory; a single larger message comes alone",
        least=4 * KIB,
    )
    turn_rows: int = setting(
        128,
        "rows",
        "made in one turn of the loop, then messages have theirs",
        "about half a millisecond: what a read may add to a message's way",
        least=1,
    )
    keep_bytes: int = setting(
        4 * GIB,
        "bytes",
        "of the log kept for archives only (Watermark); beyond it their marks go, with an error in the log",
        "an archive that has stopped must not fill the disk",
        least=0,
    )


@dataclass(frozen=True, slots=True)
class Settings:
    """Everything `stampede serve` can be told."""

    data: str = setting("./stampede-data", "path", "folder of the journal, large bodies and users")
    wire: WireSettings = group(WireSettings)
    edge: EdgeSettings = group(EdgeSettings)
    engine: EngineSettings = group(EngineSettings)
    memory: MemorySettings = group(MemorySettings)
    journal: JournalSettings = group(JournalSettings)
    admin: AdminSettings = group(AdminSettings)
    log: LogSettings = group(LogSettings)
    tracing: TracingSettings = group(TracingSettings)
    cluster: ClusterSettings = group(ClusterSettings)
    etcd: EtcdSettings = group(EtcdSettings)
    redis: RedisSettings = group(RedisSettings)
    acceptors: dict[str, Any] = table(
        "ports with parameters of their own: name = table of `acceptor` settings",
        "the ports of [edge] share one set of parameters",
    )
    bridges: dict[str, Any] = table(
        "what is moved to other brokers, or fetched from there: name = table of `bridge` settings",
        "one process of a cluster at a time runs each; another one takes over",
    )
    scaler: ScalerSettings = group(ScalerSettings)
    log_reads: LogReadsSettings = group(LogReadsSettings)
