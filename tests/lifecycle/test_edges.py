"""`stampede serve --edges`: as with one process; one that is killed comes back, and nothing confirmed is lost."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.harness import Broker, Client, until
from tests.harness.secrets import add_user

EDGES = {"edge.processes": "2"}


OPEN: list[Client] = []


@pytest.fixture(autouse=True)
def _closed() -> Iterator[None]:
    """Connections end with their test."""
    yield
    while OPEN:
        OPEN.pop().close()


def dial(broker: Broker) -> Client:
    client = Client(broker.port)
    OPEN.append(client)
    return client


def workers(broker: Broker) -> list[int]:
    return [int(pid) for pid in Path(f"/proc/{broker.pid}/task/{broker.pid}/children").read_text().split()]


def process_of(client: Client, broker: Broker) -> int:
    """Which process has the other end of its socket."""
    port = client.socket.getsockname()[1]
    rows = [line.split() for line in Path(f"/proc/{broker.pid}/net/tcp").read_text().splitlines()[1:]]
    inode = next(row[9] for row in rows if row[2].endswith(f":{port:04X}"))
    for pid in workers(broker):
        for fd in os.listdir(f"/proc/{pid}/fd"):
            if os.readlink(f"/proc/{pid}/fd/{fd}") == f"socket:[{inode}]":
                return pid
    raise AssertionError("nobody has it")


def alive(pid: int) -> bool:
    try:
        return " Z " not in Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return False


def two_at(broker: Broker) -> tuple[Client, Client]:
    """Connections to the two processes."""
    first = dial(broker)
    first.connect()
    for _ in range(60):
        other = dial(broker)
        other.connect()
        if process_of(other, broker) != process_of(first, broker):
            return first, other
        other.leave()
    raise AssertionError("the kernel gives all connections to one")


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory):
    with Broker(tmp_path_factory.mktemp("edges"), EDGES) as broker:
        until(lambda: broker.http("/readyz")[0] == 200, "it is not ready")
        yield broker
        assert "Traceback" not in broker.log()


def test_clients_of_all_processes_share_queues_topics_and_names(broker: Broker) -> None:
    one, two = two_at(broker)
    one.subscribe("/queue/a", ack="client-individual")
    one.subscribe("/topic/t", id="t")
    two.subscribe("/topic/t", id="t")
    one.sync()
    two.sync()
    two.publish("/queue/a", b"x", persistent="true")
    message = one.expect("MESSAGE")
    assert message.body == b"x"
    one.ack(message)
    one.sync()
    assert broker.messages("a") == 0
    one.publish("/topic/t", b"y")
    assert [each.messages(1)[0].body for each in (one, two)] == [b"y", b"y"]
    assert broker.metrics()["stomp_edge_processes"] == 2


def test_a_killed_edge_comes_back_and_what_was_confirmed_is_there(broker: Broker) -> None:
    one, two = two_at(broker)
    one.subscribe("/queue/k", ack="client-individual")
    one.sync()
    for n in range(20):
        two.publish("/queue/k", b"%d" % n, persistent="true")
    two.sync()
    for message in one.messages(20)[:5]:
        one.ack(message)
    one.sync()
    before = workers(broker)
    os.kill(process_of(one, broker), signal.SIGKILL)
    one.ended()
    # The other's clients notice nothing, and have at once what the dead one held.
    two.subscribe("/queue/k", id="k")
    got = two.messages(15)
    assert sorted(int(message.body) for message in got) == list(range(5, 20))
    until(lambda: "2 of 2" in broker.http("/readyz")[1], broker.log)
    assert len(set(workers(broker)) & set(before)) == 1
    for each in two_at(broker):
        each.ask("DISCONNECT")
    assert broker.metrics()["stomp_edge_process_restarts_total"] == 1


def test_the_parent_killed_ends_all_and_a_restart_has_everything(tmp_path: Path) -> None:
    with Broker(tmp_path, EDGES) as broker:
        client = dial(broker)
        client.connect()
        for n in range(10):
            client.publish("/queue/a", b"%d" % n, persistent="true")
        client.sync()
        left = workers(broker)
        broker.kill()
        client.ended()
        until(lambda: not any(alive(pid) for pid in left), "edge processes go on without their owner")
        broker.settings = {}  # the same folder, without edge processes
        broker.start()
        again = dial(broker)
        again.connect()
        again.subscribe("/queue/a")
        assert [int(message.body) for message in again.messages(10)] == list(range(10))


def test_sigterm_drains_all_of_them(tmp_path: Path) -> None:
    with Broker(tmp_path, EDGES) as broker:
        clients = two_at(broker)
        for client in clients:
            client.publish("/queue/a", b"x", persistent="true")
        began = time.monotonic()
        broker.terminate()
        for client in clients:
            frame = client.read()
            while frame.command != "ERROR":
                frame = client.read()
            assert "connect again" in frame.body.decode() + frame.get("message", "")
        assert broker.wait() == 0
        assert time.monotonic() - began < 10
        assert sorted(os.listdir(broker.data)) == ["journal"]


def refused(broker: Broker, **headers: str) -> str:
    """What a CONNECT is refused with."""
    client = dial(broker)
    client.send("CONNECT", {"accept-version": "1.2", "host": "localhost", **headers})
    return client.expect("ERROR").get("message", "")


def test_users_and_client_ids_hold_in_all_processes(tmp_path: Path) -> None:
    broker = Broker(tmp_path, EDGES | {"edge.client_id_in_use": "refuse", "edge.client_ids": "*"})
    tmp_path.mkdir(exist_ok=True)
    add_user(broker, "ada", "a long passcode", "staff")
    login = {"login": "ada", "passcode": "a long passcode"}
    with broker:
        assert "ada" in refused(broker, **{**login, "passcode": "wrong"})
        first = dial(broker)
        first.connect({**login, "client-id": "c"})
        for _ in range(6):
            assert "client-id" in refused(broker, **login, **{"client-id": "c"})
        first.ask("DISCONNECT")
        again = dial(broker)
        again.connect({**login, "client-id": "c"})
        again.subscribe("/topic/news", id="n", durable="true", **{"durable-subscription-name": "s"})


@pytest.mark.parametrize("name", ["edge.notifications=true", "edge.max_connections_per_ip=10", "edge.processes=some"])
def test_what_it_cannot_do_is_refused_by_name(tmp_path: Path, name: str) -> None:
    setting, _, value = name.partition("=")
    broker = Broker(tmp_path, EDGES | {setting: value})
    with pytest.raises(RuntimeError, match=setting):
        broker.start()
    assert not broker.data.exists()
