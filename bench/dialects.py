"""What the dialects cost, and what RabbitMQ's and ActiveMQ's own figures are beside ours.

    .venv/bin/python bench/dialects.py bindings     # a topic exchange with 10,000 bindings: one match
    .venv/bin/python bench/dialects.py plain        # the same messages by a port of each dialect: processor time each
    .venv/bin/python bench/dialects.py reply        # request and reply over temporary queues, beside RabbitMQ
    .venv/bin/python bench/dialects.py temporary    # 100,000 temporary queues made and gone: memory while that lasts

Each prints one line of JSON. Processor time is the broker's own as the kernel counts it: it holds on a busy machine,
rates do not. `reply` takes RabbitMQ from Debian's package (tests/oracles/peers.py), or says in one line that there is
none; the two take turns.

Rule: brokers are processes of their own, asked through their ports alone; but for `bindings`, which is one function.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import re
import statistics
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from broker.engine.address.trie import Trie  # noqa: E402
from tests.harness import Broker, Client, build, free_ports  # noqa: E402
from tests.oracles.peers import Absent, rabbitmq  # noqa: E402

DIALECTS = ("artemis", "rabbitmq", "activemq")
GUEST = {"login": "guest", "passcode": "guest"}
BATCH = 200
AT_ONCE = 4000
"""Messages that are sent before they are read."""


def bindings(arguments: argparse.Namespace) -> dict[str, object]:
    """Patterns as applications bind them: words with a * or a # somewhere."""
    chance, trie, patterns = random.Random(1), Trie[int](), []
    for number in range(arguments.bindings):
        words = [f"{name}{chance.randrange(40)}" for name in ("region", "kind", "id")]
        words[2] = f"id{number}" if chance.random() < 0.7 else words[2]
        if chance.random() < 0.5:
            words[chance.randrange(3)] = "*"
        if chance.random() < 0.2:
            words[2:] = ["#"]
        patterns.append(words)
        trie.add(words, number)
    keys = [
        [f"region{chance.randrange(40)}", f"kind{chance.randrange(40)}", f"id{chance.randrange(arguments.bindings)}"]
        for _ in range(2000)
    ]
    found = sum(len(trie.find(key)) for key in keys)
    times = []
    for _ in range(arguments.rounds):
        began = time.process_time()
        for key in keys:
            trie.find(key)
        times.append((time.process_time() - began) / len(keys) * 1e6)
    return {
        "bindings": arguments.bindings, "matches_each": round(found / len(keys), 1),
        "us_a_match": round(statistics.median(times), 2), "least": round(min(times), 2), "most": round(max(times), 2),
    }  # fmt: skip


@contextmanager
def ours(folder: Path) -> Iterator[tuple[Broker, dict[str, int]]]:
    """A broker with a port of each dialect."""
    ports = dict(zip(DIALECTS, free_ports(len(DIALECTS)), strict=True))
    settings: dict[str, object] = {}
    for dialect, port in ports.items():
        settings |= {f"acceptors.{dialect}.port": port, f"acceptors.{dialect}.dialect": dialect}
    with Broker(folder, settings) as broker:
        yield broker, ports


def plain(arguments: argparse.Namespace) -> dict[str, object]:
    """Messages of 100 bytes through one queue, one producer, one consumer; each round begins with another dialect.

    A ratio is of rounds beside each other, so that what else the machine does is in both."""
    cost: dict[str, list[float]] = {dialect: [] for dialect in DIALECTS}
    with tempfile.TemporaryDirectory() as scratch, ours(Path(scratch) / "ours") as (broker, ports):
        for number in range(arguments.rounds + 1):
            order = [DIALECTS[(number + place) % len(DIALECTS)] for place in range(len(DIALECTS))]
            for dialect in order:
                began = _cpu(broker.pid)
                _through(ports[dialect], f"/queue/{dialect:8}".replace(" ", "-"), arguments.messages)
                if number:
                    cost[dialect].append((_cpu(broker.pid) - began) / arguments.messages * 1e6)
    return {
        "messages": arguments.messages,
        "cpu_us_a_message": {name: round(statistics.median(each), 3) for name, each in cost.items()},
        "ratio": {name: _quartiles([a / b for a, b in zip(each, cost["artemis"], strict=True)])
                  for name, each in cost.items() if name != "artemis"},
    }  # fmt: skip


def _cpu(pid: int) -> float:
    """Seconds of the processor that all its threads have used, to the nanosecond: the ticks of /proc are 4 % of a
    round."""
    return time.clock_gettime((~pid << 3) | 2)


def _quartiles(values: list[float]) -> list[float]:
    """The median between the quarters: what is within them says how sure it is."""
    return [round(each, 3) for each in statistics.quantiles(values, n=4)]


def _through(port: int, queue: str, many: int) -> None:
    """One thread sends and reads, so that with the broker's there are two: three on two cores would take it away from
    the broker now and then, more often the more bytes there are to read."""
    frames = build("SEND", {"destination": queue, "content-length": "100"}, b"x" * 100) * BATCH
    with Client(port) as sender, Client(port) as receiver:
        sender.connect()
        receiver.connect()
        receiver.subscribe(queue)
        for _ in range(many // AT_ONCE):
            for _ in range(AT_ONCE // BATCH):
                sender.socket.sendall(frames)
            _drain(receiver, AT_ONCE)


def _drain(client: Client, many: int) -> None:
    """Reads so many MESSAGEs, and nothing of what is in them."""
    rest, seen = b"", 0
    while seen < many:
        data = client.socket.recv(1 << 18)
        if not data:
            raise ConnectionError(f"ended after {seen} messages")
        data = rest + data
        seen += data.count(b"MESSAGE\n")
        rest = data[-7:]
        seen -= rest.count(b"MESSAGE\n")


_REPLY = re.compile(rb"reply-to:([^\n]+)")
_NUMBER = re.compile(rb"correlation-id:(\d+)")


def reply(arguments: argparse.Namespace) -> dict[str, object]:
    """One worker, one requester with so many requests under way."""
    found: dict[str, list[tuple[float, float]]] = {}
    with tempfile.TemporaryDirectory() as scratch, ExitStack() as open_brokers:
        _, ports = open_brokers.enter_context(ours(Path(scratch) / "ours"))
        at = {"stampede": ports["rabbitmq"]}
        try:
            (Path(scratch) / "rabbitmq").mkdir()
            at["rabbitmq"] = open_brokers.enter_context(rabbitmq(Path(scratch) / "rabbitmq"))
        except Absent as absent:
            print(absent, file=sys.stderr)
        for number in range(arguments.rounds + 1):
            for name, port in at.items():
                each = _asked(port, arguments.messages, arguments.window)
                if number:
                    found.setdefault(name, []).append(each)
    told: dict[str, object] = {"requests": arguments.messages, "window": arguments.window}
    for name, each in found.items():
        rate, p99 = (statistics.median(values) for values in zip(*each, strict=True))
        told[name] = {"requests_per_s": round(rate), "p99_ms": round(p99 * 1000, 2)}
    return told


def _asked(port: int, many: int, window: int) -> tuple[float, float]:
    """Requests a second, and the slowest but one in a hundred."""
    with Client(port, "1.0") as worker, Client(port, "1.0") as requester:
        for client in (worker, requester):
            client.connect(GUEST)
        worker.subscribe("/queue/work")
        answering = threading.Thread(target=_work, args=(worker, many), daemon=True)
        answering.start()
        began, sent_at, took, rest = time.perf_counter(), {}, [], b""
        sent = 0
        while len(took) < many:
            free = min(window - (sent - len(took)), many - sent)
            if free > 0:
                now = time.perf_counter()
                frames = []
                for number in range(sent, sent + free):
                    sent_at[number] = now
                    head = {"destination": "/queue/work", "reply-to": "/temp-queue/answers", "correlation-id": number}
                    frames.append(build("SEND", head, b"ask"))
                sent += free
                requester.socket.sendall(b"".join(frames))
            *whole, rest = (rest + requester.socket.recv(1 << 18)).split(b"\0")
            now = time.perf_counter()
            took += [now - sent_at.pop(int(_NUMBER.search(frame)[1])) for frame in whole if b"MESSAGE" in frame]  # type: ignore[index]
        rate = many / (time.perf_counter() - began)
        answering.join()
    return rate, sorted(took)[int(len(took) * 0.99)]


def _work(client: Client, many: int) -> None:
    rest, done = b"", 0
    while done < many:
        *whole, rest = (rest + client.socket.recv(1 << 18)).split(b"\0")
        frames = []
        for frame in whole:
            if b"MESSAGE" in frame:
                to, number = _REPLY.search(frame), _NUMBER.search(frame)
                head = {"destination": to[1].decode(), "correlation-id": number[1].decode()}  # type: ignore[index]
                frames.append(build("SEND", head, b"answer"))
        if frames:
            client.socket.sendall(b"".join(frames))
            done += len(frames)


def _temporaries(broker: Broker) -> int:
    """Of the first 500 queues."""
    rows = json.loads(broker.http("/api/v1/queues?limit=500")[1])["items"]
    return sum(row["name"].startswith("$temp.") for row in rows)


def temporary(arguments: argparse.Namespace) -> dict[str, object]:
    """Connections that each make some and go; memory after the first tenth, and at the end."""
    with tempfile.TemporaryDirectory() as scratch, ours(Path(scratch) / "ours") as (broker, ports):
        made, each, sizes = 0, 500, []
        began, cpu = time.monotonic(), broker.cpu()
        while made < arguments.queues:
            with Client(ports["rabbitmq"]) as client:
                client.connect()
                frames = [
                    build("SEND", {"destination": "/queue/sink", "reply-to": f"/temp-queue/t{number}"}, b"x")
                    for number in range(each)
                ]
                client.socket.sendall(b"".join(frames))
                client.subscribe("/queue/sink")
                client.messages(each)
            made += each
            if made * 10 % arguments.queues == 0:
                sizes.append(round(broker.rss() / 1e6, 1))
        seconds, end = time.monotonic() - began, time.monotonic() + 10
        while (left := _temporaries(broker)) and time.monotonic() < end:
            time.sleep(0.05)  # the last connection has just gone
        return {
            "queues": made, "seconds": round(seconds, 1),
            "cpu_us_each": round((broker.cpu() - cpu) / made * 1e6, 1), "rss_mb_by_tenths": sizes,
            "queues_left": left,
        }  # fmt: skip


WHAT: dict[str, Callable[[argparse.Namespace], dict[str, object]]] = {
    "bindings": bindings, "plain": plain, "reply": reply, "temporary": temporary,
}  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("what", choices=sorted(WHAT))
    parser.add_argument("--rounds", type=int, default=0, help="0: 41 (plain), 5")
    parser.add_argument("--messages", type=int, default=0, help="0: 200,000 (plain), 20,000 (reply)")
    parser.add_argument("--window", type=int, default=100, help="requests under way (reply)")
    parser.add_argument("--bindings", type=int, default=10_000)
    parser.add_argument("--queues", type=int, default=100_000)
    arguments = parser.parse_args()
    arguments.messages = arguments.messages or (200_000 if arguments.what == "plain" else 20_000)
    arguments.rounds = arguments.rounds or (41 if arguments.what == "plain" else 5)
    print(json.dumps({"what": arguments.what, "load": os.getloadavg()[0], **WHAT[arguments.what](arguments)}))


if __name__ == "__main__":
    main()
