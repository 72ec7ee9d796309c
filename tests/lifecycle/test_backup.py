"""`stampede backup` of a broker under traffic, `stampede restore`, a second broker from that: message by message."""

from __future__ import annotations

import subprocess
import threading
from pathlib import Path

import pytest

from tests.harness import Broker, Client
from tests.lifecycle.test_salvage import stampede

SETTINGS = {"journal.segment_bytes": 1 << 20, "journal.min_free_bytes": 0, "wire.large_body_bytes": 64 << 10}
QUEUES = 3


class Traffic:
    """Durable messages with receipts into some queues, each fifth large; one consumer per queue acknowledges two of
    three. What is known of each message: receipted, or its ACK asked for and receipted."""

    def __init__(self, port: int) -> None:
        self.port = port
        self.stop = threading.Event()
        self.sending: set[tuple[int, int]] = set()
        self.receipted: set[tuple[int, int]] = set()
        self.acking: set[tuple[int, int]] = set()
        self.acked: set[tuple[int, int]] = set()
        self.errors: list[BaseException] = []
        self.threads = [threading.Thread(target=self._run, args=(work, q)) for q in range(QUEUES)
                        for work in (self._produce, self._consume)]  # fmt: skip

    def _run(self, work, queue: int) -> None:
        try:
            with Client(self.port) as client:
                client.connect()
                work(client, queue)
        except BaseException as error:
            self.errors.append(error)
            self.stop.set()

    def _produce(self, client: Client, queue: int) -> None:
        n = 0
        while not self.stop.is_set():
            for _ in range(10):
                n += 1
                self.sending.add((queue, n))
                client.ask("SEND", {"destination": f"/queue/q{queue}", "persistent": "true"}, body(queue, n))
                self.receipted.add((queue, n))

    def _consume(self, client: Client, queue: int) -> None:
        client.subscribe(f"/queue/q{queue}", ack="client-individual")
        while not self.stop.is_set():
            try:
                message = client.expect("MESSAGE", timeout=0.2)
            except TimeoutError:
                continue
            n = int(message.body.split()[1])
            if n % 3:
                self.acking.add((queue, n))
                client.ask("ACK", {"id": message["ack"]})
                self.acked.add((queue, n))

    def until(self, count: int) -> None:
        """So many have been acknowledged."""
        while len(self.acked) < count and not self.stop.wait(0.01):
            pass

    def __enter__(self) -> Traffic:
        for thread in self.threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop.set()
        for thread in self.threads:
            thread.join()


def body(queue: int, n: int) -> bytes:
    return b"%d %d " % (queue, n) + (b"%d" % n * 200_000)[: 150_000 if n % 5 == 0 else 500]


def left(broker: Broker) -> dict[tuple[int, int], bytes]:
    """All that is in the queues, each once."""
    found: dict[tuple[int, int], bytes] = {}
    with Client(broker.port) as client:
        client.connect()
        for queue in range(QUEUES):
            client.ask("SEND", {"destination": f"/queue/q{queue}"}, b"0 0 end")
            client.subscribe(f"/queue/q{queue}", id=str(queue + 1))
            while (message := client.expect("MESSAGE")).body != b"0 0 end":
                name, number = message.body.split()[:2]
                key = int(name), int(number)
                assert key not in found
                found[key] = message.body
    return found


@pytest.mark.parametrize("target", ["copy", "copy.tar"])
def test_a_backup_under_traffic_is_restored_message_by_message(tmp_path: Path, target: str) -> None:
    copy = str(tmp_path / target)
    with Broker(tmp_path / "one", SETTINGS) as broker:
        with Traffic(broker.port) as traffic:
            traffic.until(60)
            receipted, acked = set(traffic.receipted), set(traffic.acked)
            status, text = stampede(broker, "backup", copy, "--data", str(broker.data), "--rate", "20")
            sending, acking = set(traffic.sending), set(traffic.acking)
            assert status == 0, text
            traffic.until(len(traffic.acked) + 60)
        assert not traffic.errors
        # The broker is none the worse for it.
        assert {key for key in left(broker) if key not in traffic.acking} == traffic.sending - traffic.acking
        broker.stop()
    with_it = Broker(tmp_path / "two", SETTINGS)
    status, text = stampede(with_it, "restore", copy, "--data", str(with_it.data))
    assert status == 0 and "restored into" in text, text
    with with_it as broker:
        found = left(broker)
    assert receipted - acking <= found.keys(), "receipted before, not acknowledged by then"
    assert found.keys() <= sending - acked, "later ones, or such as had been acknowledged before"
    assert all(content == body(*key) for key, content in found.items())
    assert any(len(content) > 100_000 for content in found.values())


def test_a_backup_to_stdout_and_back_from_stdin(tmp_path: Path) -> None:
    """As through `kubectl exec`."""
    with Broker(tmp_path / "one", SETTINGS) as broker:
        with Client(broker.port) as client:
            client.connect()
            for n in range(1, 20):
                client.ask("SEND", {"destination": "/queue/q0", "persistent": "true"}, body(0, n))
        line = [*broker.command()[: broker.command().index("serve")], "backup", "-", "--data", str(broker.data)]
        done = subprocess.run(line, env=broker.environment(), capture_output=True, timeout=120, check=True)
        assert b"19 messages" in done.stderr
        again = Broker(tmp_path / "two", SETTINGS)
        line = [*line[: line.index("backup")], "restore", "-", "--data", str(again.data)]
        subprocess.run(line, input=done.stdout, env=broker.environment(), capture_output=True, timeout=120, check=True)
    with again:
        assert set(left(again)) == {(0, n) for n in range(1, 20)}


def test_what_cannot_be_done_is_said_in_one_line(tmp_path: Path) -> None:
    with Broker(tmp_path / "one", SETTINGS) as broker:
        data = str(broker.data)
        assert "There is no journal" in stampede(broker, "backup", str(tmp_path / "x"), "--data", str(tmp_path))[1]
        assert stampede(broker, "backup", str(tmp_path / "x"), "--data", data)[0] == 0
        status, text = stampede(broker, "backup", str(tmp_path / "x"), "--data", data)
        assert status == 1 and "is not empty" in text
        status, text = stampede(broker, "restore", str(tmp_path / "x"), "--data", data)
        assert status == 1 and "is not empty" in text
        (tmp_path / "no.tar").write_bytes(b"no tar at all")
        status, text = stampede(broker, "restore", str(tmp_path / "no.tar"), "--data", str(tmp_path / "new"))
        assert status == 1 and "Traceback" not in text and not (tmp_path / "new" / "journal").exists()
