"""Clients that want more than their share, each a process of its own: `… abusers NAME PORT ADMIN SECONDS`.

Rule: only what any client on the network may send. An abuser that is refused or thrown out begins again at once.
"""

from __future__ import annotations

import contextlib
import sys
import time
import urllib.request
from collections.abc import Callable

from tests.harness.stomp import Client, ClosedByBroker, build

Abuser = Callable[[int, int, float], None]


def _joined(port: int) -> Client:
    client = Client(port, timeout=30)
    client.connect()
    return client


def _pour(client: Client, frames: bytes, times: int) -> None:
    for _ in range(times):
        client.raw(frames)


def xpath(port: int, admin: int, end: float) -> None:
    """Selectors whose cost is a power of the message's length."""
    body = ("<a>" * 30 + "</a>" * 30).encode() * 40
    counts = "count(//a[count(//a[count(//a)>0])>0])>0"
    with _joined(port) as client:
        for n in range(10):
            client.send("SUBSCRIBE", {"id": n, "destination": "/queue/x", "selector": f"XPATH '{counts}'"})
        _pour(client, build("SEND", {"destination": "/queue/x"}, b"<r>" + body + b"</r>"), 50)
        client.read(timeout=max(end - time.monotonic(), 0.1))


def like(port: int, admin: int, end: float) -> None:
    """A pattern of 4.8 KB beside a header of 9.9 KB, 20 times a message."""
    pattern = "%" + "a_" * 2380 + "b%"
    with _joined(port) as client:
        for n in range(20):
            client.send("SUBSCRIBE", {"id": n, "destination": "/topic/l", "selector": f"h LIKE '{pattern}'"})
        while time.monotonic() < end:
            client.publish("/topic/l", b"", h="a" * 9900)


def wildcards(port: int, admin: int, end: float) -> None:
    """90 KB of SUBSCRIBEs to topics that do not exist."""
    with _joined(port) as client:
        client.raw(b"".join(build("SUBSCRIBE", {"id": n, "destination": f"/topic/w{n}.#"}) for n in range(2000)))
        client.read(timeout=max(end - time.monotonic(), 0.1))


def consumers(port: int, admin: int, end: float) -> None:
    """400 consumers of one queue that has 100,000 messages."""
    with _joined(port) as client:
        _pour(client, build("SEND", {"destination": "/queue/many"}, b"x" * 20) * 1000, 100)
        client.sync()
        headers = [{"id": n, "destination": "/queue/many", "ack": "client", "prefetch-count": 200} for n in range(400)]
        client.raw(b"".join(build("SUBSCRIBE", each) for each in headers))
        while time.monotonic() < end:
            client.read()


def silent(port: int, admin: int, end: float) -> None:
    """Connections that never say a word."""
    opened: list[Client] = []
    try:
        while time.monotonic() < end:
            with contextlib.suppress(OSError):
                opened.append(Client(port))
            if len(opened) > 1500:
                opened.pop(0).close()
    finally:
        for client in opened:
            client.close()


def flood(port: int, admin: int, end: float) -> None:
    """As much into one queue as goes, without a consumer."""
    frames = build("SEND", {"destination": "/queue/flood"}, b"x" * 100) * 500
    with _joined(port) as client:
        while time.monotonic() < end:
            client.raw(frames)


def scrapes(port: int, admin: int, end: float) -> None:
    """/metrics again and again, with 20,000 queues."""
    with _joined(port) as client:
        for start in range(0, 20_000, 500):
            client.raw(b"".join(build("SEND", {"destination": f"/queue/q{n}"}) for n in range(start, start + 500)))
        client.sync()
        while time.monotonic() < end:
            with urllib.request.urlopen(f"http://127.0.0.1:{admin}/metrics", timeout=60) as page:
                page.read()


def commits(port: int, admin: int, end: float) -> None:
    """Transactions of as many frames as are allowed."""
    frame = build("SEND", {"destination": "/queue/t", "transaction": "t"}, b"x" * 100)
    with _joined(port) as client:
        while time.monotonic() < end:
            client.send("BEGIN", {"transaction": "t"})
            client.raw(frame * 9990)
            client.ask("COMMIT", {"transaction": "t"})


def give_backs(port: int, admin: int, end: float) -> None:
    """Takes 50,000 messages, acknowledges none, goes; again and again."""
    with _joined(port) as client:
        _pour(client, build("SEND", {"destination": "/queue/g"}, b"x" * 20) * 1000, 50)
        client.sync()
    while time.monotonic() < end:
        with _joined(port) as client:
            client.subscribe("/queue/g", ack="client-individual", prefetch_count=50_000)
            for _ in range(50_000):
                client.read()


def headers(port: int, admin: int, end: float) -> None:
    """Header blocks of 60 KB that all differ."""
    with _joined(port) as client:
        number = 0
        while time.monotonic() < end:
            number += 1
            lines = [(f"h{n}-{number}", "\\c" * 300) for n in range(90)]
            client.send("SEND", [("destination", "/queue/h"), *lines])


ALL: dict[str, Abuser] = {
    each.__name__.replace("_", "-"): each
    for each in (xpath, like, wildcards, consumers, silent, flood, scrapes, commits, give_backs, headers)
}


def main() -> None:
    name, port, admin, seconds = sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), float(sys.argv[4])
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        try:
            ALL[name](port, admin, end)
        except (OSError, ClosedByBroker, TimeoutError, AssertionError):
            time.sleep(0.05)  # refused, thrown out, or something unexpected instead of an answer


if __name__ == "__main__":
    main()
