"""A real RabbitMQ and a real ActiveMQ Classic (Debian: rabbitmq-server, activemq) and a real Artemis (its distribution)
on ports of their own, with their state in a folder of ours.

Rule: only loopback; what is started here is ended here. Raises Absent with one line where a broker is not installed,
and Down where one that is installed does not come up: nobody may take that for a success. Nothing is fetched but
Artemis, and that only by who asks for it (fetch_artemis).
"""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from tests.harness import Client
from tests.harness.broker import free_ports
from tests.harness.stomp import ClosedByBroker

START_S = 90.0
RABBITMQ = Path("/usr/lib/rabbitmq/bin/rabbitmq-server")
ACTIVEMQ = Path("/usr/share/activemq")
OPENED = ("java.security", "java.net", "java.lang", "java.util", "java.util.concurrent", "java.util.concurrent.atomic")
XML = """<beans xmlns="http://www.springframework.org/schema/beans" xmlns:xsi="http://www.w3.org/2001/XMLSchema-instance"
  xsi:schemaLocation="http://www.springframework.org/schema/beans http://www.springframework.org/schema/beans/spring-beans-2.0.xsd
  http://activemq.apache.org/schema/core http://activemq.apache.org/schema/core/activemq-core.xsd">
  <broker xmlns="http://activemq.apache.org/schema/core" useJmx="false" brokerName="localhost" schedulerSupport="true"
    dataDirectory="{folder}/data">
    <persistenceAdapter><kahaDB directory="{folder}/data/kahadb"/></persistenceAdapter>
    <transportConnectors><transportConnector name="stomp" uri="stomp://127.0.0.1:{port}"/></transportConnectors>
  </broker>
</beans>
"""


ARTEMIS = "2.40.0"
CACHE = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache", "stampede-peers")
"""Where Artemis is unpacked; $ARTEMIS_HOME names another one. bench/ asks here for it, and keeps nats-server there."""


class Absent(Exception):
    """It is not installed here; the text says how it could be."""


class Down(RuntimeError):
    """It is installed and does not come up; the text has the end of its log."""


@contextmanager
def rabbitmq(folder: Path) -> Iterator[int]:
    """Its STOMP port."""
    if not RABBITMQ.exists():
        raise Absent("no RabbitMQ here (Debian: apt install rabbitmq-server)")
    port, amqp, dist, epmd = free_ports(4)
    (folder / "plugins").write_text("[rabbitmq_stomp].\n")
    (folder / "rabbitmq.conf").write_text(
        f"listeners.tcp.1 = 127.0.0.1:{amqp}\nstomp.listeners.tcp.1 = 127.0.0.1:{port}\n"
    )
    settings = {
        "HOME": str(folder), "RABBITMQ_NODENAME": f"oracle{port}@localhost", "RABBITMQ_MNESIA_BASE": str(folder / "db"),
        "RABBITMQ_LOG_BASE": str(folder / "log"), "RABBITMQ_ENABLED_PLUGINS_FILE": str(folder / "plugins"),
        "RABBITMQ_CONFIG_FILE": str(folder / "rabbitmq.conf"), "RABBITMQ_CONF_ENV_FILE": "/dev/null",
        "RABBITMQ_DIST_PORT": str(dist), "ERL_EPMD_PORT": str(epmd), "ERL_EPMD_ADDRESS": "127.0.0.1",
        "LC_ALL": "C.UTF-8",
    }  # fmt: skip
    try:
        with _running([str(RABBITMQ)], folder, port, settings):
            yield port
    finally:
        # Erlang's name server outlives the node that has started it.
        if (tool := shutil.which("epmd")) is not None:
            subprocess.run([tool, "-port", str(epmd), "-kill"], capture_output=True, check=False)


@contextmanager
def activemq(folder: Path) -> Iterator[int]:
    """Its STOMP port."""
    if not ACTIVEMQ.exists() or shutil.which("java") is None:
        raise Absent("no ActiveMQ Classic here (Debian: apt install activemq default-jre-headless)")
    (port,) = free_ports(1)
    for name in ("conf", "tmp"):
        (folder / name).mkdir()
    config = folder / "conf" / "activemq.xml"
    config.write_text(XML.format(folder=folder, port=port))
    line = ["java", "-Xmx512M"]
    for package in OPENED:
        line += ["--add-opens", f"java.base/{package}=ALL-UNNAMED"]
    line += [f"-Djava.io.tmpdir={folder}/tmp", f"-Dactivemq.classpath={folder}/conf;{ACTIVEMQ}/lib"]
    line += [f"-Dactivemq.home={ACTIVEMQ}", f"-Dactivemq.base={folder}", f"-Dactivemq.conf={folder}/conf"]
    line += [f"-Dactivemq.data={folder}/data", "-jar", f"{ACTIVEMQ}/bin/activemq.jar", "start", f"xbean:file:{config}"]
    with _running(line, folder, port, {}):
        yield port


def fetch_artemis() -> None:
    """From Maven Central, if it is not there. Raises Absent."""
    if artemis_home().exists():
        return
    if shutil.which("mvn") is None:
        raise Absent("no Artemis here, and no Maven to fetch it with (Debian: apt install maven; or set ARTEMIS_HOME)")
    CACHE.mkdir(parents=True, exist_ok=True)
    artifact = f"org.apache.activemq:apache-artemis:{ARTEMIS}:tar.gz:bin"
    line = ["mvn", "-q", "-B", "dependency:copy", f"-Dartifact={artifact}", f"-DoutputDirectory={CACHE}"]
    done = subprocess.run(line, capture_output=True, text=True, check=False)
    packed = CACHE / f"apache-artemis-{ARTEMIS}-bin.tar.gz"
    if done.returncode or not packed.exists():
        raise Absent(f"Artemis cannot be fetched: {(done.stdout + done.stderr).strip()[-200:]!r}")
    subprocess.run(["tar", "xzf", str(packed), "-C", str(CACHE)], check=True)
    packed.unlink()


def artemis_home() -> Path:
    return Path(os.environ.get("ARTEMIS_HOME") or CACHE / f"apache-artemis-{ARTEMIS}")


def artemis_missing() -> str | None:
    """What to do before there is one here, or None."""
    found = artemis_home().exists() and shutil.which("java") is not None
    return None if found else f"needs Java 17; `make oracles` fetches it into {CACHE}, or set ARTEMIS_HOME"


def make_artemis(made: Path, port: int, memory: str, options: str = "") -> list[str]:
    """A broker as the distribution makes one, with a STOMP acceptor alone: `/queue/` is anycast, `/topic/` multicast.
    options: more of the acceptor's. Returns what starts it. Raises Down."""
    line = [str(artemis_home() / "bin" / "artemis"), "create", str(made), "--user", "guest", "--password", "guest"]
    line += ["--allow-anonymous", "--silent", "--no-web", "--no-autotune", "--nio", "--java-memory", memory]
    done = subprocess.run(line, capture_output=True, text=True, check=False)
    if done.returncode:
        raise Down(f"Artemis makes no broker: {(done.stdout + done.stderr)[-300:]!r}")
    config = made / "etc" / "broker.xml"
    url = f"tcp://127.0.0.1:{port}?protocols=STOMP;anycastPrefix=/queue/;multicastPrefix=/topic/{options}"
    acceptor = f'<acceptors><acceptor name="stomp">{url}</acceptor></acceptors>'
    said = re.sub(r"<acceptors>.*</acceptors>", acceptor, config.read_text(), flags=re.DOTALL)
    # A disk that others have filled to nine tenths is none of ours to be refused for.
    config.write_text(re.sub(r"<max-disk-usage>\d+<", "<max-disk-usage>-1<", said))
    return [str(made / "bin" / "artemis"), "run"]


@contextmanager
def artemis(folder: Path) -> Iterator[int]:
    """Its STOMP port; windows count nothing, as clients expect them."""
    if (missing := artemis_missing()) is not None:
        raise Absent(f"no Artemis here ({missing})")
    (port,) = free_ports(1)
    with _running(make_artemis(folder / "broker", port, "512M", ";stompConsumerCredits=-1"), folder, port, {}):
        yield port


@contextmanager
def _running(line: list[str], folder: Path, port: int, settings: Mapping[str, str]) -> Iterator[None]:
    """A process, once it answers CONNECT; its whole group is ended."""
    with open(folder / "out.log", "wb") as log:
        process = subprocess.Popen(
            line, stdout=log, stderr=log, stdin=subprocess.DEVNULL, env=os.environ | settings, start_new_session=True
        )
    try:
        end = time.monotonic() + START_S
        while not _answers(port):
            if process.poll() is not None or time.monotonic() > end:
                raise Down(f"{line[0]} does not answer: {(folder / 'out.log').read_text(errors='replace')[-300:]!r}")
            time.sleep(0.3)
        yield
    finally:
        for number in (signal.SIGTERM, signal.SIGKILL):
            try:
                os.killpg(process.pid, number)
                process.wait(20)
            except (ProcessLookupError, subprocess.TimeoutExpired):
                continue


def _answers(port: int) -> bool:
    try:
        with Client(port, "1.0", timeout=3) as client:
            client.connect({"login": "guest", "passcode": "guest", "host": "/"})
    except (OSError, ClosedByBroker, AssertionError):
        return False
    return True
