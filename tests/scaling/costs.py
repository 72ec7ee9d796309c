"""What one more of each thing costs a real cluster: `python -m tests.scaling costs`.

Rule: real processes (etcd, three owners, one edge, three copies), real sockets; memory is what is resident, computing
is what the kernel says the processes have used, so others on the machine do not count. Each figure is that of COUNT
things of a kind made after each other, divided by COUNT.
"""

from __future__ import annotations

import os
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

from tests.harness.cluster import PREFIX, Cluster, Process
from tests.harness.servers import running

COUNT = 2_000
WILDCARDS = 200
MESSAGES = 100_000
IDLE_S = 10.0
TICK_S = 1 / os.sysconf("SC_CLK_TCK")


def resident_kib(process: Process) -> float:
    for line in Path(f"/proc/{process.pid}/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return float(line.split()[1])
    raise AssertionError("the kernel tells nothing of it")


def used_s(process: Process) -> float:
    fields = Path(f"/proc/{process.pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) * TICK_S


class Peer:
    """A client that says what it is told to, and waits for what it must see."""

    def __init__(self, port: int) -> None:
        self.socket = socket.create_connection(("127.0.0.1", port), 60)
        self.seen = b""

    def say(self, *frames: str) -> None:
        self.socket.sendall("".join(f"{frame}\n\n\0" for frame in frames).encode())

    def expect(self, what: bytes) -> None:
        while what not in self.seen:
            data = self.socket.recv(65536)
            assert data, self.seen[-300:]
            self.seen = self.seen[-200:] + data
            assert b"ERROR\n" not in self.seen, self.seen[-500:]


class Costs:
    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        self.edge = cluster.edges[0]
        self.peers: list[Peer] = []

    def keys(self) -> int:
        return self.cluster._ask("get", "--prefix", f"{PREFIX}/", "--keys-only").count(PREFIX)

    @contextmanager
    def line(self, what: str, count: int, *, keys: bool = False) -> Iterator[None]:
        """Prints what one of `count` cost."""
        owners, edge = self.cluster.owners, self.edge
        before = self.keys() if keys else 0
        memory = resident_kib(edge), sum(map(resident_kib, owners))
        used = used_s(edge), sum(map(used_s, owners))
        yield
        time.sleep(1.0)
        kib = resident_kib(edge) - memory[0], sum(map(resident_kib, owners)) - memory[1]
        us = (used_s(edge) - used[0]) * 1e6, (sum(map(used_s, owners)) - used[1]) * 1e6
        cells = [what, f"{count:,}", *(f"{each / count:.2f}" for each in kib), *(f"{each / count:,.1f}" for each in us)]
        cells.append(f"{(self.keys() - before) / count:.2g}" if keys else "")
        print("| " + " | ".join(cells) + " |", flush=True)

    # ── the things ─────────────────────────────────────────────────────────────────────────────────

    def idle(self) -> None:
        used = [used_s(process) for process in self.cluster.processes]
        time.sleep(IDLE_S)
        for process, before in zip(self.cluster.processes, used, strict=True):
            ms = (used_s(process) - before) / IDLE_S * 1000
            print(f"{process.id}: {resident_kib(process) / 1024:.0f} MB, {ms:.0f} ms/s at rest")
        print(f"etcd: {self.keys()} keys\n")

    def connections(self) -> None:
        for n in range(COUNT):
            peer = Peer(self.edge.port)
            peer.say(f"CONNECT\naccept-version:1.2\nhost:h\nclient-id:c{n}")
            peer.expect(b"CONNECTED\n")
            self.peers.append(peer)

    def each(self, frame: Callable[[int], str]) -> None:
        """All peers say it, and have it receipted."""
        for n, peer in enumerate(self.peers):
            peer.say(frame(n))
        for peer in self.peers:
            peer.expect(b"receipt-id:r")
            peer.seen = b""

    def messages(self, name: str, more: str) -> None:
        """Many at a time, through one queue with one consumer."""
        sender, taker = Peer(self.edge.port), Peer(self.edge.port)
        for peer in (sender, taker):
            peer.say("CONNECT\naccept-version:1.2\nhost:h")
            peer.expect(b"CONNECTED\n")
        taker.say(f"SUBSCRIBE\nid:1\ndestination:/queue/{name}\nreceipt:r")
        taker.expect(b"receipt-id:r")
        body, got, sent = "x" * 100, 0, 0
        while got < MESSAGES:
            while sent - got < 2_000 and sent < MESSAGES:
                block = [f"SEND\ndestination:/queue/{name}\nn:{sent + n}{more}\n\n{body}\0" for n in range(100)]
                sender.socket.sendall("".join(block).encode())
                sent += 100
            data = taker.socket.recv(1 << 18)
            assert data
            got += data.count(b"\0")
        for peer in (sender, taker):
            peer.socket.close()


def main() -> int:
    with TemporaryDirectory() as folder, running("etcd", Path(folder)) as etcd:
        settings = {"edge.max_wildcard_subscriptions": WILDCARDS}
        with Cluster(Path(folder) / "cluster", etcd.port, owners=3, edges=1, settings=settings) as cluster:
            costs = Costs(cluster)
            costs.idle()
            print("| one more | of | edge KiB | owners KiB | edge µs | owners µs | etcd keys |")
            print("| --- | ---: | ---: | ---: | ---: | ---: | ---: |")
            with costs.line("connection", COUNT, keys=True):
                costs.connections()
            with costs.line("queue with a consumer", COUNT, keys=True):
                costs.each(lambda n: f"SUBSCRIBE\nid:q\ndestination:/queue/own.{n}\nreceipt:r{n}")
            with costs.line("consumer of one topic", COUNT, keys=True):
                costs.each(lambda n: f"SUBSCRIBE\nid:t\ndestination:/topic/news\nreceipt:r{n}")
            with costs.line("durable subscription", COUNT, keys=True):
                costs.each(
                    lambda n: f"SUBSCRIBE\nid:d\ndestination:/topic/news\ndurable-subscription-name:d\nreceipt:r{n}"
                )
            everybody, costs.peers = costs.peers, costs.peers[:1]
            with costs.line("wildcard subscription", WILDCARDS):
                for n in range(WILDCARDS):
                    costs.each(lambda _, n=n: f"SUBSCRIBE\nid:w{n}\ndestination:/topic/w.{n}.#\nreceipt:r{n}")  # type: ignore[misc]
            with costs.line("message, non-persistent", MESSAGES):
                costs.messages("plain", "")
            with costs.line("message, persistent, three copies", MESSAGES):
                costs.messages("kept", "\npersistent:true")
            with costs.line("connection that goes", COUNT):
                for peer in everybody:
                    peer.socket.close()
                time.sleep(3.0)
    return 0
