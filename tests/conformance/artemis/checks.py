"""What the cases look at again and again: an ERROR with its text and its end, and bodies in order.

Rule: texts are those that users of Artemis may have written into their own code; ours may say more.
"""

from __future__ import annotations

from tests.conformance.checks import bodies as bodies
from tests.harness import Client, Frame, unescape


def error(client: Client, *texts: str, receipt: str | None = None, timeout: float | None = None) -> Frame:
    """Reads the ERROR frame, which must hold all `texts`, and the end of the connection behind it."""
    frame = client.read(timeout)
    assert frame.command == "ERROR", f"expected ERROR, got {frame}"
    whole = unescape(frame["message"]) + "\n" + frame.body.decode()
    for text in texts:
        assert text.lower() in whole.lower(), f"no {text!r} in {whole!r}"
    assert frame.get("receipt-id") == receipt
    assert frame["content-type"] == "text/plain"
    client.ended()
    return frame


def load(client: Client, destination: str, count: int, **headers: object) -> None:
    """Sends `count` messages with their number as body."""
    for number in range(count):
        client.publish(destination, b"%d" % number, **headers)


def numbers(count: int, first: int = 0) -> list[bytes]:
    """Bodies of load()."""
    return [b"%d" % number for number in range(first, count)]


def size_of(frame: Frame) -> int:
    """Bytes of a frame as it came over the wire: command, header lines, empty line, body and NUL."""
    lines = sum(len(name.encode()) + len(value.encode()) + 2 for name, value in frame.pairs)
    return len(frame.command) + 1 + lines + 1 + len(frame.body) + 1
