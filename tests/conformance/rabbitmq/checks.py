"""RabbitMQ's ERROR: its `message` header to the letter, what the body must say, and the end of the connection."""

from __future__ import annotations

from tests.harness import Client, Frame, unescape


def error(client: Client, message: str, *texts: str, receipt: str | None = None) -> Frame:
    """Reads it."""
    frame = client.expect("ERROR")
    assert unescape(frame["message"]) == message, frame
    for text in texts:
        assert text in frame.body.decode(), frame.body
    assert frame.get("receipt-id") == receipt
    client.ended()
    return frame
