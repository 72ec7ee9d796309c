"""Start-up: fast, and with a clear text when it cannot be."""

from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
import time
from pathlib import Path

import pytest

from tests.harness import Broker, Client
from tests.harness.secrets import add_user

SOON_S = 1.2
"""From typing the command to CONNECTED, less what it waited for a processor: 0.3 to 0.5 s where nothing else runs."""


def refused(broker: Broker) -> tuple[int, str]:
    """(exit status, what it said) of a broker that must not come up."""
    broker.folder.mkdir(exist_ok=True)
    done = subprocess.run(
        broker.command(), capture_output=True, text=True, timeout=60, env=broker.environment(), cwd=broker.folder
    )
    return done.returncode, done.stdout + done.stderr


def listening(broker: Broker) -> set[tuple[str, int]]:
    """(address, port) of every TCP socket the process listens on, from /proc."""
    sockets = set()
    for fd in os.listdir(f"/proc/{broker.pid}/fd"):
        try:
            sockets.add(os.readlink(f"/proc/{broker.pid}/fd/{fd}"))
        except FileNotFoundError:
            continue  # closed meanwhile
    found = set()
    for table, family in (("tcp", socket.AF_INET), ("tcp6", socket.AF_INET6)):
        for line in Path(f"/proc/{broker.pid}/net/{table}").read_text().splitlines()[1:]:
            fields = line.split()
            if fields[3] == "0A" and f"socket:[{fields[9]}]" in sockets:
                address, port = fields[1].split(":")
                octets = b"".join(bytes.fromhex(address[i : i + 8])[::-1] for i in range(0, len(address), 8))
                found.add((socket.inet_ntop(family, octets), int(port, 16)))
    return found


@pytest.mark.alone
def test_first_connected_comes_soon_after_the_command_was_typed(tmp_path: Path):
    times = []
    for attempt in range(3):
        broker = Broker(tmp_path / str(attempt))
        began = time.monotonic()
        with broker, Client(broker.port) as client:
            client.connect()
            times.append(time.monotonic() - began - broker.queued())
    assert min(times) < SOON_S, times


def test_banner_says_where_it_listens_and_where_the_data_is(tmp_path: Path):
    with Broker(tmp_path) as broker:
        broker.http("/readyz")
        text = broker.log()
        for expected in (f"127.0.0.1 port {broker.port}", f"127.0.0.1 port {broker.ws_port}", str(broker.data)):
            assert expected in text
        (console,) = [line.split()[1] for line in text.splitlines() if line.startswith("  console ")]
        assert "<title>" in broker.http(console.partition(str(broker.admin_port))[2])[1]
        assert "Traceback" not in text


def test_second_broker_on_the_same_folder_is_refused(tmp_path: Path):
    with Broker(tmp_path / "first") as first, Client(first.port) as client:
        client.connect()
        second = Broker(tmp_path / "second")
        second.data = first.data
        status, text = refused(second)
        assert status == 1
        assert str(first.data) in text and "in use" in text
        assert "Traceback" not in text
        client.publish("/queue/a", b"unharmed", persistent="true")
    # the lock is the process's, not a file's existence: a killed broker leaves none
    first.start()
    first.kill()
    first.start()
    first.stop()


@pytest.mark.parametrize(
    "ours, setting",
    [("port", "edge.port"), ("ws_port", "edge.ws_port"), ("admin_port", "admin.port")],
)
def test_port_in_use_is_refused_by_name(tmp_path: Path, ours: str, setting: str):
    broker = Broker(tmp_path)
    with socket.create_server((broker.host, getattr(broker, ours))):
        status, text = refused(broker)
    assert status == 2
    assert f"{getattr(broker, ours)}" in text and setting in text and "in use" in text
    assert "Traceback" not in text
    broker.start()  # nothing was left half done
    assert broker.stop() == 0


def test_data_folder_that_cannot_be_written_is_refused_by_name(tmp_path: Path):
    broker = Broker(tmp_path)
    (tmp_path / "file").write_text("not a folder")
    broker.data = tmp_path / "file" / "data"
    status, text = refused(broker)
    assert status in (1, 2)
    assert str(broker.data) in text
    assert "Traceback" not in text


def test_mistyped_setting_is_refused_with_what_was_meant(tmp_path: Path):
    status, text = refused(Broker(tmp_path, {"edge.max_conections": 5}))
    assert status == 2
    assert "edge.max_connections" in text and "Traceback" not in text


def without_host(broker: Broker) -> Broker:
    """The broker decides itself where to listen."""
    line = broker.command()
    at = line.index("--host")
    del line[at : at + 2]
    broker.command = lambda: line  # type: ignore[method-assign]
    return broker


def test_without_users_only_this_machine_can_connect(tmp_path: Path):
    with without_host(Broker(tmp_path)) as broker:
        broker.http("/readyz")
        assert {address for address, _ in listening(broker)} <= {"127.0.0.1", "::1"}
        assert "stampede user add" in broker.log()
        assert re.search("only this machine", broker.log())


def test_with_users_it_listens_for_everyone_and_asks_for_login(tmp_path: Path):
    broker = without_host(Broker(tmp_path))
    add_user(broker, "alice", "open sesame")
    with broker:
        broker.http("/readyz")
        addresses = {port: address for address, port in listening(broker)}
        assert addresses[broker.port] in ("0.0.0.0", "::")
        assert addresses[broker.admin_port] == "127.0.0.1"
        assert "only this machine" not in broker.log()
        with Client(broker.port) as stranger:
            stranger.send("CONNECT", {"accept-version": "1.2", "host": "localhost"})
            assert stranger.expect("ERROR")["message"].startswith("Login failed")


def test_health_readiness_and_metrics_answer(tmp_path: Path):
    with Broker(tmp_path) as broker:
        assert broker.http("/healthz")[0] == 200
        assert broker.http("/readyz")[0] == 200
        assert broker.http("/nowhere")[0] == 404
        with Client(broker.port) as client:
            client.connect()
            client.publish("/queue/a", b"x")
            metrics = broker.metrics()
        assert metrics['stomp_connections{transport="tcp"}'] == 1
        assert metrics["stomp_messages_accepted_total"] == 1


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_signal_before_anybody_came_ends_it_cleanly(tmp_path: Path, number: signal.Signals):
    broker = Broker(tmp_path)
    broker.start()
    os.kill(broker.pid, number)
    assert broker.wait() == 0
    assert "Traceback" not in broker.log()
