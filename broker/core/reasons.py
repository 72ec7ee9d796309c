"""Why something was closed. Closing anything names one of these; the name is the metric label.

Rule: one enum, one line of help each, and which of them are no failure of the client; nothing else.
"""

from __future__ import annotations

from enum import Enum
from typing import Final


class Reason(Enum):
    """The value is the metric label and the word in the log."""

    CLIENT_DISCONNECT = "client_disconnect"
    """The client sent DISCONNECT."""
    CLIENT_GONE = "client_gone"
    """The socket ended without DISCONNECT."""
    PROTOCOL_ERROR = "protocol_error"
    """A frame broke the STOMP rules of its version."""
    TLS_ON_PLAIN_PORT = "tls_on_plain_port"
    """The first bytes were a TLS hello; use the TLS port."""
    HTTP_ON_STOMP_PORT = "http_on_stomp_port"
    """The first bytes were an HTTP request; use the WebSocket port."""
    FRAME_TOO_LARGE = "frame_too_large"
    """A frame passed max_frame_bytes (or the tighter bound before login)."""
    HEADER_TOO_LARGE = "header_too_large"
    """Too many headers, or one too long, or the command line too long."""
    LOGIN_FAILED = "login_failed"
    """Wrong user or passcode."""
    LOGIN_TIMEOUT = "login_timeout"
    """No CONNECT within login_timeout_s."""
    LOGIN_EXPIRED = "login_expired"
    """What it logged in with has ended, or does not count any more: a token, a certificate, an entry of a directory."""
    FRAME_TIMEOUT = "frame_timeout"
    """A frame that had begun did not end within frame_timeout_s (slow loris)."""
    HEARTBEAT_MISSED = "heartbeat_missed"
    """Nothing came from the client for longer than its heart-beat, or the port's connection TTL, allows."""
    CONNECTION_LIMIT = "connection_limit"
    """max_connections or max_connections_per_ip reached."""
    SUBSCRIPTION_LIMIT = "subscription_limit"
    """max_subscriptions of one connection reached."""
    TRANSACTION_LIMIT = "transaction_limit"
    """Too many open transactions, or one too large."""
    QUOTA = "quota"
    """A limit of edge.quotas: its user, its virtual host or its address uses as much as it may."""
    SLOW_CONSUMER = "slow_consumer"
    """The client does not read: max_outbox_bytes are waiting for its socket."""
    MEMORY_FULL = "memory_full"
    """Memory was full: it sent a message all the same, or held more than any other connection."""
    DISK_FULL = "disk_full"
    """A disk of the broker was full. What the client held counts as delivered, not as failed."""
    SELECTOR_COST = "selector_cost"
    """The selector of a subscription would cost too much for a message."""
    HEARTBEAT_FLOOD = "heartbeat_flood"
    """Endless empty lines faster than max_eol_per_s."""
    REFUSED = "refused"
    """The broker could not do what a frame asked (see the ERROR frame's error-code)."""
    OPERATOR = "operator"
    """An operator has ended it (admin API)."""
    WEBSOCKET_PROTOCOL = "websocket_protocol"
    """A WebSocket frame broke RFC 6455."""
    TLS_FAILED = "tls_failed"
    """The TLS handshake failed."""
    PROXY_FAILED = "proxy_failed"
    """The connection did not begin with a good PROXY protocol header (acceptors with proxy_protocol)."""
    QUEUE_DELETED = "queue_deleted"
    """The queue of this consumer was deleted."""
    OWNER_STOPPED = "owner_stopped"
    """The slot's owner failed (disk error) and takes nothing more."""
    SHUTDOWN = "shutdown"
    """The broker is stopping."""
    INTERNAL = "internal"
    """A fault of the broker; details are in its log only."""


CALM: Final = frozenset({Reason.CLIENT_DISCONNECT, Reason.SHUTDOWN, Reason.OWNER_STOPPED, Reason.DISK_FULL})
"""Ends, of connections and transactions, that say nothing about the messages the client held: it went in order, or the
broker left it, or could take nothing (who moves messages from queue to queue would make dead letters of all of them
while a disk is full)."""
