"""What the client raises.

Rule: every text says what happened and, where there is one, what to do; no passcode is ever in it.
"""

from __future__ import annotations

from broker.core.errors import BrokerError


class ClientError(BrokerError):
    """Root of what the client raises; itself: the client was asked for something it cannot do."""


class ConnectFailed(ClientError):
    """No STOMP connection came about: refused, unknown host, TLS failure, or not a STOMP server."""


class ConnectionLost(ClientError):
    """The connection is over. What was not confirmed by a receipt may or may not have happened."""


class ClientTimeout(ClientError, TimeoutError):
    """No answer in time. The connection is still there unless the text says otherwise."""


class ServerError(ClientError):
    """The server sent an ERROR frame; it closes the connection behind it.

    code      its `error-code` header as a number, or None when the server sends none (other brokers).
    message   its `message` header.    body   its body, decoded.
    receipt   its `receipt-id`: set when the ERROR answers a frame that asked for a receipt.
    """

    def __init__(self, code: int | None, message: str, body: str = "", receipt: str | None = None) -> None:
        # A broker of ours says in `message` what the body says; others put the particulars in the body alone.
        told = not body.strip() or " ".join(body.split()) in message
        super().__init__(message if told else f"{message}: {body.strip()}")
        self.code = code
        self.message = message
        self.body = body
        self.receipt = receipt


def again(error: ClientError) -> ClientError:
    """A fresh exception for the next caller: one that is raised twice would collect both tracebacks."""
    if isinstance(error, ServerError):
        return ServerError(error.code, error.message, error.body, error.receipt)
    return ConnectionLost(str(error))
