"""Edge processes of one broker (`serve --edges`), as a test sees them: which there are, and which one a client is at.

Rule: from outside, by /proc, as an operator could.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path

from .broker import Broker
from .stomp import Client
from .waiting import PATIENCE_S


def workers(broker: Broker) -> list[int]:
    """Pids of the edge processes."""
    return [int(pid) for pid in Path(f"/proc/{broker.pid}/task/{broker.pid}/children").read_text().split()]


def process_of(client: Client, broker: Broker) -> int:
    """Which process has the other end of its socket."""
    ours, theirs = f":{client.socket.getsockname()[1]:04X}", f":{client.socket.getpeername()[1]:04X}"
    rows = [line.split() for line in Path(f"/proc/{broker.pid}/net/tcp").read_text().splitlines()[1:]]
    inode = next(row[9] for row in rows if row[1].endswith(theirs) and row[2].endswith(ours))
    for pid in workers(broker):
        for fd in os.listdir(f"/proc/{pid}/fd"):
            if os.readlink(f"/proc/{pid}/fd/{fd}") == f"socket:[{inode}]":
                return pid
    raise AssertionError("nobody has it")


def alive(pid: int) -> bool:
    """Is there such a process. A zombie is not, once its last thread has ended: until then its sockets are open, and a
    client may still reach one that listens."""
    try:
        return len(os.listdir(f"/proc/{pid}/task")) > 1 or " Z " not in Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return False


def two_at(broker: Broker, joins: Callable[[], Client]) -> tuple[Client, Client]:
    """Connections to two processes. joins: makes one that is connected."""
    first = joins()
    at = process_of(first, broker)
    end = time.monotonic() + PATIENCE_S
    # By time, not by tries: as long as the other one starts, on a busy machine, all come to the first.
    while time.monotonic() < end:
        other = joins()
        if process_of(other, broker) != at:
            return first, other
        other.leave()
    raise AssertionError("the kernel gives all connections to one")
