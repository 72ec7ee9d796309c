"""Why something was closed. Closing anything names one of these; the name is the metric label.

Rule: one enum, one line of help each; nothing else.
"""

from __future__ import annotations

from enum import Enum


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
    FRAME_TIMEOUT = "frame_timeout"
    """A frame that had begun did not end within frame_timeout_s (slow loris)."""
    HEARTBEAT_MISSED = "heartbeat_missed"
    """Nothing came from the client for longer than it had promised."""
    CONNECTION_LIMIT = "connection_limit"
    """max_connections or max_connections_per_ip reached."""
    SUBSCRIPTION_LIMIT = "subscription_limit"
    """max_subscriptions of one connection reached."""
    TRANSACTION_LIMIT = "transaction_limit"
    """Too many open transactions, or one too large."""
    SLOW_CONSUMER = "slow_consumer"
    """The client does not read: max_outbox_bytes are waiting for its socket."""
    HEARTBEAT_FLOOD = "heartbeat_flood"
    """Endless empty lines faster than max_eol_per_s."""
    REFUSED = "refused"
    """The broker could not do what a frame asked (see the ERROR frame's error-code)."""
    WEBSOCKET_PROTOCOL = "websocket_protocol"
    """A WebSocket frame broke RFC 6455."""
    TLS_FAILED = "tls_failed"
    """The TLS handshake failed."""
    QUEUE_DELETED = "queue_deleted"
    """The queue of this consumer was deleted."""
    OWNER_STOPPED = "owner_stopped"
    """The slot's owner failed (disk error) and takes nothing more."""
    SHUTDOWN = "shutdown"
    """The broker is stopping."""
    INTERNAL = "internal"
    """A fault of the broker; details are in its log only."""
