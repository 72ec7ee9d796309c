"""A standalone broker as a process: start, look at it from outside, stop, kill, start again on the same data.

Rule: only what an operator could do: flags, signals, /metrics, /proc and the log. Imports nothing of the product.
"""

from __future__ import annotations

import itertools
import os
import random
import re
import signal
import socket
import subprocess
import sys
import time
import tomllib
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping
from pathlib import Path

from . import steps
from .waiting import PATIENCE_S, listens

ROOT = Path(__file__).resolve().parents[2]
HOST = "127.0.0.1"


def _ports() -> Iterator[int]:
    """Below the range that outgoing connections take theirs from; a part of it for each worker of xdist, round and
    round from anywhere in it."""
    worker = int(os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw")) % 4
    part = range(18_000 + 3500 * worker, 21_500 + 3500 * worker)
    start = random.randrange(len(part))
    return itertools.cycle([*part[start:], *part[:start]])


_next_port = _ports()


def free_ports(count: int) -> list[int]:
    """Ports nobody listens on. Who asked may take its time: it is long until they are handed out again."""
    found: list[int] = []
    while len(found) < count:
        port = next(_next_port)
        with socket.socket() as probe:
            try:
                probe.bind((HOST, port))
            except OSError:
                continue
        found.append(port)
    return found


def settings_in(toml: str) -> dict[str, object]:
    """The settings of a file, by their dotted names, as Broker takes them."""

    def leaves(table: Mapping[str, object], front: str) -> Iterator[tuple[str, object]]:
        for name, value in table.items():
            if isinstance(value, Mapping):
                yield from leaves(value, f"{front}{name}.")
            else:
                yield front + name, value

    return dict(leaves(tomllib.loads(toml), ""))


class Broker:
    """`folder` holds the data (folder/data) and the log (folder/broker.log) over restarts.

    settings  dotted name → value, given as `--set name=value`.    tls  also opens tls_port and wss_port (the caller
    sets edge.tls_cert_file and edge.tls_key_file).
    """

    def __init__(
        self, folder: Path, settings: Mapping[str, object] | None = None, *, tls: bool = False, level: str = "INFO"
    ) -> None:
        self.folder = folder
        self.data = folder / "data"
        self.log_file = folder / "broker.log"
        self.host = HOST
        self.port, self.ws_port, self.admin_port, self.tls_port, self.wss_port = free_ports(5)
        self.settings = {str(key): str(value) for key, value in (settings or {}).items()}
        if tls:
            self.settings |= {"edge.tls_port": str(self.tls_port), "edge.wss_port": str(self.wss_port)}
        self.level = level
        self.process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Broker:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self.process is not None and self.process.poll() is None:
            self.stop()

    def command(self) -> list[str]:
        """The command line; tests of the life cycle run it themselves."""
        line = [sys.executable, "-m", "broker.app.cli", "serve", "--host", self.host, "--port", str(self.port)]
        line += ["--ws-port", str(self.ws_port), "--admin-port", str(self.admin_port)]
        line += ["--data", str(self.data), "--log-level", self.level]
        for name, value in self.settings.items():
            line += ["--set", f"{name}={value}"]
        return line

    def add_user(self, name: str, passcode: str) -> None:
        """`stampede user add`, before or while the broker runs."""
        line = [sys.executable, "-m", "broker.app.cli", "user", "add", name, "--passcode-stdin"]
        subprocess.run(
            [*line, "--data", str(self.data)],
            input=passcode.encode() + b"\n",
            env=self.environment(),
            check=True,
            capture_output=True,
        )

    def environment(self) -> dict[str, str]:
        """Ours without settings that somebody may have exported."""
        env = {key: value for key, value in os.environ.items() if not key.startswith("STAMPEDE_")}
        return env | {"PYTHONPATH": os.environ.get("COMPILED", str(ROOT))}

    def start(self, timeout: float = PATIENCE_S) -> None:
        """Returns when the STOMP port accepts. Raises RuntimeError with the log when the process ends first."""
        self.folder.mkdir(parents=True, exist_ok=True)
        with open(self.log_file, "ab") as log:
            self.process = subprocess.Popen(
                self.command(),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env=self.environment(),
                cwd=self.folder,
            )
        end = time.monotonic() + timeout
        while not listens(self.port, self.host):
            if self.process.poll() is not None:
                raise RuntimeError(f"the broker ended with {self.process.returncode}:\n{self.log()[-4000:]}")
            if time.monotonic() > end:
                self.kill()
                raise RuntimeError(f"the broker does not listen:\n{self.log()[-4000:]}")
            time.sleep(0.02)

    @property
    def pid(self) -> int:
        assert self.process is not None
        return self.process.pid

    @property
    def alive(self) -> bool:
        return self.process is not None and self.process.poll() is None

    def terminate(self) -> None:
        """SIGTERM, without waiting."""
        os.kill(self.pid, signal.SIGTERM)

    def wait(self, timeout: float = PATIENCE_S) -> int:
        """The exit status."""
        assert self.process is not None
        status = self.process.wait(timeout)
        steps.look(self.log_file)
        return status

    def stop(self, timeout: float = PATIENCE_S) -> int:
        """SIGTERM and the exit status; killed when it does not end in time."""
        self.terminate()
        try:
            return self.wait(timeout)
        except subprocess.TimeoutExpired:
            self.kill()
            raise

    def kill(self) -> None:
        """SIGKILL: the process gets no chance to tidy up."""
        if self.alive:
            os.kill(self.pid, signal.SIGKILL)
            self.wait()

    def log(self) -> str:
        return self.log_file.read_text(errors="replace") if self.log_file.exists() else ""

    def rss(self) -> int:
        """Resident memory in bytes."""
        text = Path(f"/proc/{self.pid}/status").read_text()
        found = re.search(r"VmRSS:\s+(\d+) kB", text)
        assert found is not None
        return int(found[1]) * 1024

    def cpu(self) -> float:
        """Seconds of the processor it has used so far."""
        fields = Path(f"/proc/{self.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def queued(self) -> float:
        """Seconds its main thread could have run so far, but others had the processor."""
        return int(Path(f"/proc/{self.pid}/schedstat").read_text().split()[1]) / 1e9

    def open_files(self) -> int:
        return len(os.listdir(f"/proc/{self.pid}/fd"))

    def http(self, path: str, timeout: float = PATIENCE_S) -> tuple[int, str]:
        """(status, text) of a page of the admin port; waits for the port, which opens after the STOMP ports."""
        end = time.monotonic() + timeout
        while True:
            try:
                with urllib.request.urlopen(f"http://{self.host}:{self.admin_port}{path}", timeout=5) as reply:
                    return reply.status, reply.read().decode()
            except urllib.error.HTTPError as error:
                with error:
                    text = error.read().decode()
                if "urn:stampede:problem:starting" not in text or time.monotonic() > end:
                    return error.code, text
                time.sleep(0.05)
            except OSError:
                if time.monotonic() > end:
                    raise
                time.sleep(0.05)

    def metrics(self) -> dict[str, float]:
        """`name{label="value"}` → value."""
        _, text = self.http("/metrics")
        lines = (line.rpartition(" ") for line in text.splitlines() if line and not line.startswith("#"))
        return {name: float(value) for name, _, value in lines}

    def messages(self, address: str) -> int:
        """How many messages the queues of that address hold."""
        ours = f'stomp_queue_messages{{address="{address}",'
        return int(sum(value for name, value in self.metrics().items() if name.startswith(ours)))

    def closed(self, reason: str) -> int:
        """How many connections have ended for this reason so far."""
        return int(self.metrics().get(f'stomp_connections_closed_total{{reason="{reason}"}}', 0))
