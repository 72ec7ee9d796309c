"""Three nats-servers with JetStream that know each other, and in them one stream with three copies.

Rule: each server is a fresh process with a folder of its own. Whoever asks waits: nothing here does.
"""

from __future__ import annotations

import subprocess
from pathlib import Path

import nats_server
from brokers import free_port

COPIES = 3


class NatsServers:
    """sync: their `sync_interval`."""

    def __init__(self, folder: Path, sync: str) -> None:
        self.folder, self.sync = folder, sync
        self.ports = {f"n{n}": free_port() for n in range(COPIES)}
        self.routes = {name: free_port() for name in self.ports}
        self.processes: list[subprocess.Popen[bytes]] = []

    def start(self) -> None:
        for name, port in self.ports.items():
            path = self.folder / f"{name}.conf"
            one_of_three = nats_server.cluster(self.routes[name], list(self.routes.values()))
            path.write_text(nats_server.config(port, self.folder / name, self.sync, name, one_of_three))
            with (self.folder / f"{name}.log").open("ab") as log:
                line = [str(nats_server.binary()), "-c", str(path)]
                self.processes.append(subprocess.Popen(line, stdout=log, stderr=log))

    def has_stream(self) -> bool:
        """Is there a stream? Makes it; ask again until there is."""
        return nats_server.make_stream(self.ports["n0"], COPIES)

    def lead(self) -> int | None:
        """The port of the server that leads the stream, once all copies are there: the shortest way into it."""
        return self.ports.get(nats_server.leader(self.ports["n0"], COPIES) or "")

    def pids(self) -> str:
        return ",".join(str(process.pid) for process in self.processes)

    def stop(self) -> None:
        for process in self.processes:
            process.kill()
            process.wait()
