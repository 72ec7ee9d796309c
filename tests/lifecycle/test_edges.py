"""`stampede serve --edges`: as with one process; one that is killed comes back, and nothing confirmed is lost."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.harness import Broker, Client, edges, until
from tests.harness.edges import alive, process_of, workers
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


def join(broker: Broker) -> Client:
    client = dial(broker)
    client.connect()
    return client


def two_at(broker: Broker) -> tuple[Client, Client]:
    """Connections to the two processes."""
    return edges.two_at(broker, lambda: join(broker))


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


def test_one_that_stands_still_is_replaced_and_nothing_is_lost(broker: Broker) -> None:
    one, two = two_at(broker)
    one.subscribe("/queue/s", ack="client-individual")
    one.sync()
    for n in range(20):
        two.publish("/queue/s", b"%d" % n, persistent="true")
    assert len(one.messages(20)) == 20
    still = process_of(one, broker)
    restarts = broker.metrics()["stomp_edge_process_restarts_total"]
    os.kill(still, signal.SIGSTOP)
    until(lambda: "1 of 2; edge process" in broker.http("/readyz")[1], broker.log)
    assert max(value for name, value in broker.metrics().items() if "process_silence_seconds" in name) >= 3
    one.ended()
    two.subscribe("/queue/s", id="s")
    assert sorted(int(message.body) for message in two.messages(20)) == list(range(20))
    until(lambda: "2 of 2" in broker.http("/readyz")[1], broker.log)
    assert not alive(still) and "has not answered for 10 s" in broker.log()
    assert broker.metrics()["stomp_edge_process_restarts_total"] == restarts + 1
    for each in two_at(broker):
        each.ask("DISCONNECT")


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
        came: list[Client] = []

        def comes_in_again() -> bool:
            came.append(dial(broker))
            came[-1].send("CONNECT", {"accept-version": "1.2", "host": "x", **login, "client-id": "c"})
            return came[-1].read().command == "CONNECTED"

        # At once, where it comes to the same process; the other one may be asked before it has heard of the end.
        until(comes_in_again, broker.log)
        again = came[-1]
        again.subscribe("/topic/news", id="n", durable="true", **{"durable-subscription-name": "s"})


@pytest.mark.parametrize("name", ["edge.notifications=true", "edge.max_connections_per_ip=10", "edge.processes=some"])
def test_what_it_cannot_do_is_refused_by_name(tmp_path: Path, name: str) -> None:
    setting, _, value = name.partition("=")
    broker = Broker(tmp_path, EDGES | {setting: value})
    with pytest.raises(RuntimeError, match=setting):
        broker.start()
    assert not broker.data.exists()


def test_what_is_on_its_way_at_sigterm_is_answered(tmp_path: Path) -> None:
    """SENDs with receipts, one behind the other: each that was answered is there after a restart, and the end comes as
    an ERROR, not as a cut."""
    with Broker(tmp_path, EDGES) as broker:
        clients = two_at(broker)
        answered = [0, 0]
        ends: list[str] = ["", ""]

        def send(nth: int) -> None:
            client = clients[nth]
            n = 0
            while True:
                head = {"destination": f"/queue/{nth}", "persistent": "true", "receipt": str(n)}
                client.send("SEND", head, b"%d" % n)
                frame = client.read()
                if frame.command != "RECEIPT":
                    ends[nth] = frame.command
                    return
                n += 1
                answered[nth] = n

        threads = [threading.Thread(target=send, args=(nth,)) for nth in (0, 1)]
        for thread in threads:
            thread.start()
        until(lambda: min(answered) > 20, broker.log)
        broker.terminate()
        for thread in threads:
            thread.join(30)
        assert ends == ["ERROR", "ERROR"]
        assert broker.wait() == 0
        broker.start()
        reader = join(broker)
        for nth in (0, 1):
            reader.subscribe(f"/queue/{nth}", id=str(nth))
            got = [int(message.body) for message in reader.messages(answered[nth])]
            assert got == list(range(answered[nth]))
