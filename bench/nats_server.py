"""nats-server: where it is, what its configuration says, and the few words of its protocol that starting one needs.

Rule: lines and questions only. Who starts and ends a server is the affair of brokers.py and cluster.py.
"""

from __future__ import annotations

import json
import shutil
import socket
import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
from tests.oracles.peers import CACHE

VERSION = "2.15.2"
TO_INSTALL = f"GOBIN={CACHE} go install github.com/nats-io/nats-server/v2@v{VERSION}"
HOST = "127.0.0.1"
STREAM = "bench"
SUBJECTS = "queue.>"
"""What the stream keeps: as the load generator calls /queue/…"""
HELLO = b'CONNECT {"verbose":false,"headers":true,"no_responders":true,"protocol":1}\r\nPING\r\n'


def binary() -> str | None:
    """The one that was put into the cache, else that of the PATH (Debian's is 2.9)."""
    cached = CACHE / "nats-server"
    return str(cached) if cached.exists() else shutil.which("nats-server")


def config(port: int, store: Path | None = None, sync: str = "always", name: str = "n0", routes: str = "") -> str:
    """store: where streams are kept, or None for a server without any. sync: `sync_interval`, how often what is written
    is made safe; with `always` before it is acknowledged. routes: what `cluster` says, if it is in one."""
    lines = [f"listen: {HOST}:{port}", f"server_name: {name}"]
    if store is not None:
        lines += [f'jetstream {{ store_dir: "{store}", sync_interval: {sync} }}']
    return "\n".join([*lines, routes, ""])


def cluster(own: int, ports: list[int]) -> str:
    """The part of a configuration that makes one cluster of servers whose routes come in at these ports."""
    routes = ", ".join(f'"nats://{HOST}:{port}"' for port in ports)
    return f"cluster {{ name: bench, listen: {HOST}:{own}, routes: [{routes}] }}"


def answers(port: int) -> bool:
    """Does a PING get its PONG?"""
    try:
        with socket.create_connection((HOST, port), timeout=5) as connection:
            connection.sendall(HELLO)
            with connection.makefile("rb") as lines:
                return any(line == b"PONG\r\n" for line in lines)
    except OSError:
        return False


def ask(port: int, subject: str, question: dict[str, Any]) -> dict[str, Any]:
    """What the API of JetStream answers; {} where nobody does yet. Raises OSError."""
    said = json.dumps(question).encode()
    with socket.create_connection((HOST, port), timeout=10) as connection, connection.makefile("rb") as lines:
        connection.sendall(b"%sSUB answer 0\r\nPUB %s answer %d\r\n%s\r\n" % (HELLO, subject.encode(), len(said), said))
        for line in lines:
            if line.startswith(b"MSG answer "):
                return dict(json.loads(lines.read(int(line.split()[-1]))))
            if line.startswith((b"HMSG answer ", b"-ERR")):
                break
    return {}


def make_stream(port: int, copies: int) -> bool:
    """Is there a stream now, in files, with so many copies? Ask again until there is."""
    wanted = {"name": STREAM, "subjects": [SUBJECTS], "num_replicas": copies, "storage": "file"}
    try:
        return "config" in ask(port, f"$JS.API.STREAM.CREATE.{STREAM}", wanted)
    except OSError:
        return False


def leader(port: int, copies: int) -> str | None:
    """The server that leads the stream, once all copies are as far as it is."""
    try:
        found = ask(port, f"$JS.API.STREAM.INFO.{STREAM}", {}).get("cluster", {})
    except OSError:
        return None
    others = found.get("replicas", [])
    whole = len(others) == copies - 1 and all(each.get("current") for each in others)
    return found.get("leader") if whole else None
