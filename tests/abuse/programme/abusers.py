"""Clients that want more than their share of queues and topics: `… abusers NAME PORT WS_PORT ADMIN SECONDS`.

Rule: only what any client on the network may send. An abuser that is refused or thrown out begins again at once.
"""

from __future__ import annotations

import contextlib
import itertools
import random
import sys
import time

from tests.harness.stomp import Client, ClosedByBroker, Frame, build

from . import strangers  # noqa: F401  registers its own
from .target import ALL, Target, abuser

THOUSAND = 1000


def _fill(client: Client, destination: str, thousands: int, body: bytes = b"x" * 20, **headers: object) -> None:
    """So many thousand messages, and a look that they are there."""
    frames = build("SEND", {"destination": destination, **headers}, body) * THOUSAND
    for _ in range(thousands):
        client.raw(frames)
    client.sync()


def _listen(client: Client, target: Target) -> None:
    """Reads whatever comes, to the end."""
    while target.time_left() > 0:
        with contextlib.suppress(TimeoutError):
            client.read(timeout=min(target.time_left(), 5.0))


def _subscribe(client: Client, count: int, **headers: object) -> None:
    """So many SUBSCRIBEs in one write; `{n}` in a value is the number of each."""
    frames = []
    for n in range(count):
        pairs = {name.replace("_", "-"): str(value).replace("{n}", str(n)) for name, value in headers.items()}
        frames.append(build("SUBSCRIBE", {"id": n, **pairs}))
    client.raw(b"".join(frames))


# ── selectors ─────────────────────────────────────────────────────────────────────────────────────


@abuser("engine.xpath is off by default: refused")
def xpath(target: Target) -> None:
    """Selectors whose cost is a power of the message's length."""
    body = ("<a>" * 30 + "</a>" * 30).encode() * 40
    counts = "count(//a[count(//a[count(//a)>0])>0])>0"
    with target.joined() as client:
        _subscribe(client, 10, destination="/queue/x", selector=f"XPATH '{counts}'")
        for _ in range(50):
            client.send("SEND", {"destination": "/queue/x"}, b"<r>" + body + b"</r>")
        _listen(client, target)


@abuser("cost of a selector (docs/selectors.md); asked in pieces, only its session waits")
def like(target: Target) -> None:
    """A pattern of 4.8 KB beside a header of 9.9 KB, 20 times a message."""
    pattern = "%" + "a_" * 2380 + "b%"
    with target.joined() as client:
        _subscribe(client, 20, destination="/topic/l", selector=f"h LIKE '{pattern}'")
        while target.time_left() > 0:
            client.publish("/topic/l", b"", h="a" * 9900)


@abuser("an index of terms; what it cannot answer is asked in pieces (broker/engine/publishing/prefilter.py)")
def selectors(target: Target) -> None:
    """2,000 selectors of a topic that all match, and messages as fast as they go."""
    with target.joined() as client, target.joined() as sender:
        _subscribe(client, 2000, destination="/topic/s", selector="a > {n} OR b LIKE '%{n}%' OR c = 'x'")
        client.sync()
        while target.time_left() > 0:
            sender.publish("/topic/s", b"x", c="x")
            client.socket.settimeout(30)
            client.socket.recv(1 << 20)


# ── many of something ─────────────────────────────────────────────────────────────────────────────


@abuser("edge.max_wildcard_subscriptions; a trie (docs/adr/0013-wildcards.md)")
def wildcards(target: Target) -> None:
    """90 KB of SUBSCRIBEs to topics that do not exist."""
    with target.joined() as client:
        _subscribe(client, 2000, destination="/topic/w{n}.#")
        _listen(client, target)


@abuser("pieces of a queue's dispatch (docs/adr/0009-work-is-bounded.md)")
def consumers(target: Target) -> None:
    """400 consumers of one queue that has 100,000 messages."""
    with target.joined() as client:
        _fill(client, "/queue/many", 100)
        _subscribe(client, 400, destination="/queue/many", ack="client", prefetch_count=200)
        _listen(client, target)


@abuser("edge.max_subscriptions; leaving in pieces (broker/engine/queue/large_returns.py)")
def comes_and_goes(target: Target) -> None:
    """1,000 consumers of 1,000 queues, all gone with their connection, again and again."""
    for turn in itertools.count():
        if target.time_left() <= 0:
            return
        with target.joined() as client:
            _subscribe(client, 1000, destination=f"/queue/c{turn % 3}.{{n}}", ack="client")
            client.sync()


@abuser("a browser looks at a bounded part of its queue a turn")
def browsers(target: Target) -> None:
    """200 browsers of one queue that has 50,000 messages, with a selector that matches none."""
    with target.joined() as client:
        _fill(client, "/queue/b", 50)
        while target.time_left() > 0:
            with target.joined() as looker:
                _subscribe(looker, 200, destination="/queue/b", browser="true", selector="nothing = 'x{n}'")
                looker.sync()


# ── many messages ─────────────────────────────────────────────────────────────────────────────────


@abuser("fair turns of reads (broker/edge/transport/fair_reading.py)")
def flood(target: Target) -> None:
    """As much into one queue as goes, without a consumer."""
    frames = build("SEND", {"destination": "/queue/flood"}, b"x" * 100) * 500
    with target.joined() as client:
        while target.time_left() > 0:
            client.raw(frames)


@abuser("copies go out in turns, and who makes more waits (broker/engine/messages/copies.py)")
def fan_out(target: Target) -> None:
    """Small messages to a topic with 500 subscribers on one connection that reads them all."""
    frames = build("SEND", {"destination": "/topic/f"}, b"x" * 100) * 50
    with target.joined() as client, target.joined() as sender:
        _subscribe(client, 500, destination="/topic/f")
        client.sync()
        client.socket.settimeout(30)
        while target.time_left() > 0:
            sender.raw(frames)
            left = 50 * 500 * 150
            while left > 0 and target.time_left() > 0:
                left -= len(client.socket.recv(1 << 20))


@abuser("edge.consumer_room_bytes, edge.max_outbox_bytes")
def does_not_read(target: Target) -> None:
    """Asks for everything and reads nothing."""
    frames = build("SEND", {"destination": "/topic/deaf"}, b"x" * 1000) * 100
    with target.joined() as client, target.joined() as sender:
        _subscribe(client, 50, destination="/topic/deaf")
        client.sync()
        while target.time_left() > 0:
            sender.raw(frames)


@abuser("wire.large_body_bytes: streamed to disk in pieces")
def large_bodies(target: Target) -> None:
    """Bodies of 20 MB, sent and fetched."""
    body = b"x" * 20_000_000
    with target.joined() as client:
        client.subscribe("/queue/large", ack="client-individual")
        while target.time_left() > 0:
            client.publish("/queue/large", body, persistent="true")
            client.ack(client.read())


@abuser("wire.max_header_block_bytes, wire.max_headers")
def headers(target: Target) -> None:
    """Header blocks of 60 KB that all differ."""
    with target.joined() as client:
        for number in itertools.count():
            if target.time_left() <= 0:
                return
            lines = [(f"h{n}-{number}", "\\c" * 300) for n in range(90)]
            client.send("SEND", [("destination", "/queue/h"), *lines])


@abuser("due ones in pieces (docs/schedules.md)")
def schedules(target: Target) -> None:
    """50,000 messages that are all due at one moment, again and again."""
    with target.joined() as client:
        while target.time_left() > 0:
            _fill(client, "/queue/later", 50, AMQ_SCHEDULED_DELAY=8000)
            time.sleep(max(min(9.0, target.time_left()), 0.0))


@abuser("expired ones in pieces (broker/engine/publishing/expiry.py)")
def expiries(target: Target) -> None:
    """50,000 messages that all expire at one moment, again and again."""
    with target.joined() as client:
        while target.time_left() > 0:
            _fill(client, "/queue/short", 50, expires=int((time.time() + 8) * 1000))
            time.sleep(max(min(9.0, target.time_left()), 0.0))


# ── acknowledging ─────────────────────────────────────────────────────────────────────────────────


@abuser("edge.max_transaction_frames, edge.max_transaction_bytes")
def commits(target: Target) -> None:
    """Transactions of as many frames as are allowed."""
    frame = build("SEND", {"destination": "/queue/t", "transaction": "t"}, b"x" * 100)
    with target.joined() as client:
        while target.time_left() > 0:
            client.send("BEGIN", {"transaction": "t"})
            client.raw(frame * 9990)
            client.ask("COMMIT", {"transaction": "t"})


@abuser("edge.max_transaction_frames")
def wide_commits(target: Target) -> None:
    """Transactions over 250 queues."""
    frames = [build("SEND", {"destination": f"/queue/t.{n}", "transaction": "t"}, b"x" * 100) for n in range(250)]
    with target.joined() as client:
        while target.time_left() > 0:
            client.send("BEGIN", {"transaction": "t"})
            client.raw(b"".join(frames))
            client.ask("COMMIT", {"transaction": "t"})


@abuser("edge.consumer_window_messages; given back in pieces (broker/engine/queue/large_returns.py)")
def give_backs(target: Target) -> None:
    """Takes 50,000 messages, acknowledges none, goes; again and again."""
    with target.joined() as client:
        _fill(client, "/queue/g", 50)
    while target.time_left() > 0:
        with target.joined() as client:
            client.subscribe("/queue/g", ack="client-individual", prefetch_count=50_000)
            for _ in range(50_000):
                client.read()


def _taken(client: Client, queue: str, thousands: int, ack: str) -> list[Frame]:
    """So many thousand messages of a queue that this client holds."""
    _fill(client, queue, thousands)
    client.subscribe(queue, ack=ack, prefetch_count=thousands * THOUSAND)
    return [client.read() for _ in range(thousands * THOUSAND)]


@abuser("fair turns of reads, by what they cost")
def shuffled_acks(target: Target) -> None:
    """20,000 single ACKs in any order, in one write."""
    while target.time_left() > 0:
        with target.joined() as client:
            taken = _taken(client, "/queue/shuffled", 20, "client-individual")
            random.shuffle(taken)
            client.raw(b"".join(build("ACK", {"id": frame["ack"]}) for frame in taken))
            client.sync()


@abuser("fair turns of reads, by what they cost")
def nacks(target: Target) -> None:
    """20,000 NACKs in one write: each comes back, up to max_delivery_attempts."""
    while target.time_left() > 0:
        with target.joined() as client:
            taken = _taken(client, "/queue/nacked", 20, "client-individual")
            client.raw(b"".join(build("NACK", {"id": frame["ack"]}) for frame in taken))
            client.sync()


@abuser("pieces of what one NACK gives back (broker/engine/queue/large_returns.py)")
def whole_windows(target: Target) -> None:
    """Holds 100,000 messages, gives all of them back by one NACK, and acknowledges them by one ACK, again and again."""
    with target.joined() as client, target.joined() as sender:
        client.subscribe("/queue/whole", ack="client", prefetch_count=100 * THOUSAND)
        while target.time_left() > 0:
            _fill(sender, "/queue/whole", 100)
            for verdict in ("NACK", "ACK"):
                for _ in range(100 * THOUSAND):
                    last = client.read()
                client.settle(verdict, last)


@abuser("engine.max_held_messages")
def held_acks(target: Target) -> None:
    """Transactions that acknowledge 10,000 messages at once and are aborted."""
    with target.joined() as client:
        taken = _taken(client, "/queue/held", 10, "client")
        while target.time_left() > 0:
            client.send("BEGIN", {"transaction": "t"})
            client.send("ACK", {"id": taken[-1]["ack"], "transaction": "t"})
            client.ask("ABORT", {"transaction": "t"})


def main() -> None:
    name, port, ws_port, admin, seconds = sys.argv[1], *map(int, sys.argv[2:5]), float(sys.argv[5])
    target = Target(port, ws_port, admin, time.monotonic() + seconds)
    while target.time_left() > 0:
        try:
            ALL[name](target)
        except (OSError, ClosedByBroker, TimeoutError, AssertionError):
            time.sleep(0.05)  # refused, thrown out, or something unexpected instead of an answer


if __name__ == "__main__":
    main()
