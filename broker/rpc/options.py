"""Channel and server options of the component protocol, each with the trap it avoids.

Rule: both sides of a connection must agree on the pings, so all of them stand here together. Who is dead is for the
streams' users to say, who have pings of their own and patience (core/patience.py): nothing here may be faster.
"""

from __future__ import annotations

from broker.config.settings import ClusterSettings
from broker.core.patience import longest_silence

SERVICE = "/stampede.v1.Link/"
"""Streams: + the name of the service of seams.stream, capitalised."""

MAX_MESSAGE_BYTES = 64 * 1024 * 1024
"""gRPC's own bound, 4 MiB, ends the stream when a burst of large records makes one message."""
KEEPALIVE_MS = 3_000
"""Where nobody listens there is no hurry, and each costs both ends of a connection threads that wake up."""
WINDOW_BYTES = 8 * 1024 * 1024
"""Of one stream under way, as much as replication has sent and not acknowledged: with 20 ms to the other end and back
some 250 MB/s. What a stream's user reads late is bounded by what its other end may leave unacknowledged."""


def keepalive(settings: ClusterSettings) -> list[tuple[str, int]]:
    """A dead network path is found by these where nobody listens to a stream; without the third a frozen process only
    after a minute. gRPC answers pings in a thread of its own, so a late loop does not matter, but a process that gets
    no time at all for a second or two, again and again, is what patience is for: they wait for longer than that may
    grow to."""
    longest_ms = round(longest_silence(settings.dead_after_ms))
    return [
        ("grpc.keepalive_time_ms", KEEPALIVE_MS),
        ("grpc.keepalive_timeout_ms", longest_ms),
        ("grpc.http2.ping_timeout_ms", longest_ms),
        ("grpc.http2.max_pings_without_data", 0),
    ]


COMMON: list[tuple[str, int]] = [
    ("grpc.max_receive_message_length", MAX_MESSAGE_BYTES),
    ("grpc.max_send_message_length", MAX_MESSAGE_BYTES),
    # Else gRPC finds the window out by a ping of its own behind each message that comes after a pause, so each
    # heart-beat is two round trips: a fifth of what an idle cluster computes.
    ("grpc.http2.bdp_probe", 0),
    ("grpc.http2.lookahead_bytes", WINDOW_BYTES),
]

CLIENT: list[tuple[str, int]] = [
    *COMMON,
    # A fresh connection per channel: a shared one may sit in the back-off of an earlier failure.
    ("grpc.use_local_subchannel_pool", 1),
    # Transparent retries keep copies of what was sent, and would repeat what the layers above repeat themselves.
    ("grpc.enable_retries", 0),
    # http_proxy in the environment is not meant for neighbours.
    ("grpc.enable_http_proxy", 0),
    ("grpc.service_config_disable_resolution", 1),
]

SERVER: list[tuple[str, int]] = [
    *COMMON,
    # By default two pings in five minutes are a crime, and the third ends the connection (too_many_pings).
    ("grpc.http2.min_recv_ping_interval_without_data_ms", 50),
    ("grpc.http2.max_ping_strikes", 0),
    # Else two processes can listen on one port and share its connections, silently.
    ("grpc.so_reuseport", 0),
]
