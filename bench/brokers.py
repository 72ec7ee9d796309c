"""Brokers under test: started on loopback with a scratch folder, asked whether they answer, stopped.

Rule: each start is a fresh process on free ports; nothing of the machine's own configuration is used or changed.
"""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import nats_server

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))
from tests.oracles import peers  # noqa: E402

# Compiled once, as on a user's machine and in an image, also where a container forbids it.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)

START_TIMEOUT_S = 120.0
STOP_TIMEOUT_S = 30.0


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


class Broker:
    """A process that speaks STOMP, or what `load_arguments` says. `window`: SUBSCRIBE header that sets a window of so
    many messages.

    ready_s: from the start of the process until it answers."""

    name = ""
    window = "prefetch-count:%d"
    login: tuple[str, str] | None = None
    vhost: str | None = None
    largest_body = 1 << 40
    transports: tuple[str, ...] = ("tcp",)
    root = ROOT

    def __init__(self, folder: Path, transport: str = "tcp") -> None:
        self.folder = folder
        self.transport = transport
        self.port = self.load_port = free_port()
        self.process: subprocess.Popen[bytes] | None = None
        self.ready_s = 0.0
        folder.mkdir(parents=True, exist_ok=True)

    @classmethod
    def missing(cls) -> str | None:
        """What to do before this broker can be started here, or None."""
        return None

    def command(self) -> tuple[list[str], dict[str, str]]:
        """(argv, additional environment)."""
        raise NotImplementedError

    def prepare(self) -> None:
        """Writes configuration into the folder, once."""

    @property
    def pid(self) -> int:
        assert self.process is not None
        return self.process.pid

    def start(self) -> None:
        """Raises RuntimeError when it does not answer."""
        if self.process is None:
            self.prepare()
        argv, extra = self.command()
        with (self.folder / "output.log").open("ab") as log:
            began = time.monotonic()
            self.process = subprocess.Popen(
                argv, cwd=self.root, env=os.environ | extra, stdout=log, stderr=log, start_new_session=True
            )
        while not self.answers():
            if self.process.poll() is not None or time.monotonic() - began > START_TIMEOUT_S:
                tail = (self.folder / "output.log").read_text(errors="replace")[-1500:]
                self.kill()
                raise RuntimeError(f"{self.name} did not start:\n{tail}")
            time.sleep(0.002)
        self.ready_s = time.monotonic() - began

    def answers(self) -> bool:
        """Does a CONNECT get its CONNECTED?"""
        login = f"login:{self.login[0]}\npasscode:{self.login[1]}\n" if self.login else ""
        hello = f"CONNECT\naccept-version:1.2\nhost:{self.vhost or '127.0.0.1'}\n{login}\n\0"
        try:
            with socket.create_connection(("127.0.0.1", self.port), timeout=5) as connection:
                connection.sendall(hello.encode())
                return connection.recv(4096).lstrip().startswith(b"CONNECTED")
        except OSError:
            return False

    def kill(self) -> None:
        """SIGKILL, as a crash would be."""
        self._signal(signal.SIGKILL)

    def stop(self) -> None:
        """SIGTERM, and SIGKILL if that does not do."""
        self._signal(signal.SIGTERM)

    def _signal(self, number: int) -> None:
        process = self.process
        if process is None or process.poll() is not None:
            return
        # The whole session that start() made: launch scripts leave their server in the same one.
        os.killpg(process.pid, number)
        try:
            process.wait(STOP_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()

    def load_arguments(self) -> list[str]:
        """What the load generator needs to know about this broker."""
        arguments = ["--port", str(self.load_port), "--pid", str(self.pid)]
        if self.login:
            arguments += ["--login", self.login[0], "--passcode", self.login[1]]
        if self.vhost:
            arguments += ["--vhost", self.vhost]
        if self.transport != "tcp":
            arguments += [f"--{self.transport}"]
        return arguments


class Stampede(Broker):
    """This working tree. Over TLS or WebSocket the load gets a port of its own."""

    name = "stampede"
    transports = ("tcp", "tls", "websocket")

    def __init__(self, folder: Path, transport: str = "tcp") -> None:
        super().__init__(folder, transport)
        self.load_port = self.port if transport == "tcp" else free_port()

    def prepare(self) -> None:
        if self.transport == "tls":
            line = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=localhost"]
            subprocess.run([*line, "-keyout", self.folder / "key", "-out", self.folder / "cert"], check=True,
                           capture_output=True)  # fmt: skip

    def command(self) -> tuple[list[str], dict[str, str]]:
        argv = [sys.executable, "-m", "broker.app.cli", "serve", "--port", str(self.port), "--admin-port", "-1"]
        argv += ["--ws-port", str(self.load_port) if self.transport == "websocket" else "-1"]
        if self.transport == "tls":
            argv += ["--set", f"edge.tls_port={self.load_port}"]
            argv += [
                "--set",
                f"edge.tls_cert_file={self.folder / 'cert'}",
                "--set",
                f"edge.tls_key_file={self.folder / 'key'}",
            ]
        return [*argv, "--data", str(self.folder / "data")], {}


class StampedeEdges(Stampede):
    """The same with edge processes, one for each core (`--edges`); CPU and memory are those of all processes."""

    name = "edges"

    def command(self) -> tuple[list[str], dict[str, str]]:
        argv, extra = super().command()
        return [*argv, "--edges", os.environ.get("BENCH_EDGES", str(max(os.cpu_count() or 2, 2)))], extra

    def load_arguments(self) -> list[str]:
        arguments = super().load_arguments()
        children = Path(f"/proc/{self.pid}/task/{self.pid}/children").read_text().split()
        arguments[arguments.index("--pid") + 1] = ",".join([str(self.pid), *children])
        return arguments


class RabbitMQ(Broker):
    """Debian's rabbitmq-server with its STOMP plugin; its own epmd, so that it meets no other node."""

    name = "rabbitmq"
    login = ("guest", "guest")
    vhost = "/"
    largest_body = 128 << 20
    server = Path("/usr/lib/rabbitmq/bin/rabbitmq-server")

    @classmethod
    def missing(cls) -> str | None:
        return None if cls.server.exists() else "apt-get install rabbitmq-server"

    def prepare(self) -> None:
        self.epmd_port, self.dist_port = free_port(), free_port()
        (self.folder / "enabled_plugins").write_text("[rabbitmq_stomp].\n")
        (self.folder / "rabbitmq.conf").write_text(
            f"listeners.tcp.1 = 127.0.0.1:{free_port()}\nstomp.listeners.tcp.1 = 127.0.0.1:{self.port}\n"
            "log.console.level = warning\n"
        )
        (self.folder / "advanced.config").write_text("[].\n")

    def command(self) -> tuple[list[str], dict[str, str]]:
        folder = str(self.folder)
        return [str(self.server)], {
            "HOME": folder,
            "RABBITMQ_NODENAME": "bench@localhost",
            "RABBITMQ_MNESIA_BASE": f"{folder}/mnesia",
            "RABBITMQ_LOG_BASE": f"{folder}/log",
            "RABBITMQ_LOGS": "-",
            "RABBITMQ_ENABLED_PLUGINS_FILE": f"{folder}/enabled_plugins",
            "RABBITMQ_CONFIG_FILE": f"{folder}/rabbitmq.conf",
            "RABBITMQ_ADVANCED_CONFIG_FILE": f"{folder}/advanced.config",
            "RABBITMQ_CONF_ENV_FILE": f"{folder}/none",
            "RABBITMQ_DIST_PORT": str(self.dist_port),
            "ERL_EPMD_PORT": str(self.epmd_port),
            "ERL_EPMD_ADDRESS": "127.0.0.1",
        }

    def stop(self) -> None:
        super().stop()
        self._end_epmd()

    def _end_epmd(self) -> None:
        if shutil.which("epmd"):
            subprocess.run(["epmd", "-port", str(self.epmd_port), "-kill"], capture_output=True)


ACTIVEMQ_XML = """<beans xmlns="http://www.springframework.org/schema/beans"
  xmlns:xsi="http://www.w3.org/2001/XMLSchema-instance"
  xsi:schemaLocation="http://www.springframework.org/schema/beans
  http://www.springframework.org/schema/beans/spring-beans.xsd http://activemq.apache.org/schema/core
  http://activemq.apache.org/schema/core/activemq-core.xsd">
  <broker xmlns="http://activemq.apache.org/schema/core" brokerName="bench" useJmx="false"
      dataDirectory="{folder}/data" schedulerSupport="false">
    <persistenceAdapter><kahaDB directory="{folder}/kahadb"/></persistenceAdapter>
    <transportConnectors>
      <transportConnector name="stomp" uri="stomp://127.0.0.1:{port}?maximumConnections=20000"/>
    </transportConnectors>
  </broker>
</beans>
"""


class ActiveMQ(Broker):
    """Debian's activemq with KahaDB and the defaults of its broker; run by java directly."""

    name = "activemq"
    window = "activemq.prefetchSize:%d"
    largest_body = 100 << 20
    home = Path("/usr/share/activemq")
    jar = home / "bin" / "activemq.jar"

    @classmethod
    def missing(cls) -> str | None:
        found = cls.jar.exists() and shutil.which("java") is not None
        return None if found else "apt-get install activemq default-jre-headless"

    def prepare(self) -> None:
        (self.folder / "activemq.xml").write_text(ACTIVEMQ_XML.format(folder=self.folder, port=self.port))

    def command(self) -> tuple[list[str], dict[str, str]]:
        options = ["-Xms512m", "-Xmx1g", f"-Dactivemq.home={self.home}", f"-Dactivemq.base={self.folder}"]
        options += [f"-Dactivemq.conf={self.folder}", f"-Dactivemq.data={self.folder}/data"]
        return ["java", *options, "-jar", str(self.jar), "start", f"xbean:file:{self.folder}/activemq.xml"], {}


class Artemis(Broker):
    """ActiveMQ Artemis as its distribution makes a broker, with one acceptor: NIO journal, defaults, 1 GiB for Java."""

    name = "artemis"
    window = "consumer-window-size:%d00"
    """It counts bytes: so many messages of 100."""
    login = ("guest", "guest")
    largest_body = 100 << 20

    @classmethod
    def missing(cls) -> str | None:
        return peers.artemis_missing()

    def prepare(self) -> None:
        self.argv = peers.make_artemis(self.folder / "broker", self.port, "1G")

    def command(self) -> tuple[list[str], dict[str, str]]:
        return self.argv, {}


class Nats(Broker):
    """nats-server with its defaults, in memory: it speaks no STOMP, and the generator its protocol."""

    name = "nats"
    largest_body = 1 << 20
    protocol = "nats"

    @classmethod
    def missing(cls) -> str | None:
        return None if nats_server.binary() else nats_server.TO_INSTALL

    def prepare(self) -> None:
        (self.folder / "nats.conf").write_text(nats_server.config(self.port))

    def command(self) -> tuple[list[str], dict[str, str]]:
        return [str(nats_server.binary()), "-c", str(self.folder / "nats.conf")], {}

    def answers(self) -> bool:
        return nats_server.answers(self.port)

    def load_arguments(self) -> list[str]:
        return [*super().load_arguments(), "--protocol", self.protocol]


class JetStream(Nats):
    """The same with a stream in files that syncs before it acknowledges, for what is persistent and nobody consumes."""

    name = "jetstream"
    protocol = "jetstream"

    def prepare(self) -> None:
        (self.folder / "nats.conf").write_text(nats_server.config(self.port, self.folder / "streams"))

    def answers(self) -> bool:
        return super().answers() and nats_server.make_stream(self.port, 1)


BROKERS: dict[str, type[Broker]] = {
    kind.name: kind for kind in (Stampede, StampedeEdges, RabbitMQ, ActiveMQ, Artemis, Nats, JetStream)
}
