"""A damaged data folder, `stampede journal salvage`, and the broker goes on with the rest."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

from tests.harness import Broker, Client, build

SETTINGS = {"journal.segment_bytes": 1 << 20}
QUEUES, EACH = 4, 1500


def stampede(broker: Broker, *args: str) -> tuple[int, str]:
    """Exit status and output of a command on the broker's data folder."""
    command = [*broker.command()[: broker.command().index("serve")], *args]
    done = subprocess.run(
        command, env=broker.environment(), capture_output=True, text=True, timeout=120, check=False
    )  # fmt: skip
    return done.returncode, done.stdout + done.stderr


def fill(broker: Broker) -> None:
    with Client(broker.port) as client:
        client.connect({"client-id": "me"})
        client.ask("SUBSCRIBE", {"id": "1", "destination": "/topic/news", "durable-subscription-name": "news"})
    with Client(broker.port) as client:
        client.connect()
        for at in range(0, EACH, 100):
            for n in range(QUEUES):
                frames = [
                    build("SEND", {"destination": f"/queue/q{n}", "persistent": "true"}, b"%d " % i + b"x" * 600)
                    for i in range(at, at + 100)
                ]
                client.raw(b"".join(frames))
            client.sync()
        for i in range(10):
            client.ask("SEND", {"destination": "/topic/news", "persistent": "true"}, b"news %d" % i)


def test_a_journal_with_a_missing_segment_and_without_identity_starts_again(tmp_path: Path) -> None:
    with Broker(tmp_path, SETTINGS) as broker:
        fill(broker)
        broker.stop()
        journal = broker.data / "journal"
        segments = sorted(journal.glob("*.log"))
        assert len(segments) > 3
        segments[1].unlink()
        (journal / "identity").unlink()
        assert stampede(broker, "journal", "verify", "--data", str(broker.data))[0] == 1
        status, text = stampede(broker, "journal", "salvage", "--data", str(broker.data))
        assert status == 3, text
        assert "the segment is missing" in text and "journal.damaged" in text
        kept = {name: int(n) for n, name in re.findall(r"kept: (\d+) messages of (\S+)", text)}
        assert kept["me.news"] == 10 and all(0 < kept[f"q{n}"] < EACH for n in range(QUEUES))
        lost = sum(int(n) for n in re.findall(r"records \d+–\d+ \((\d+):", text))
        assert lost > 0
        assert (broker.data / "journal.damaged" / segments[0].name).exists()
        broker.start()
        with Client(broker.port) as client:
            client.connect()
            for n in range(QUEUES):
                client.subscribe(f"/queue/q{n}", id=str(n + 1))
                bodies = [client.expect("MESSAGE").body for _ in range(kept[f"q{n}"])]
                numbers = [int(body.split()[0]) for body in bodies]
                assert numbers == sorted(set(numbers))
                client.ask("SEND", {"destination": f"/queue/q{n}", "persistent": "true"}, b"new")
                assert client.expect("MESSAGE").body == b"new"
        broker.stop()
        assert stampede(broker, "journal", "verify", "--data", str(broker.data))[0] == 0


def test_a_dump_of_all_that_lives_is_loaded_into_a_new_folder(tmp_path: Path) -> None:
    with Broker(tmp_path, SETTINGS) as broker:
        with Client(broker.port) as client:
            client.connect()
            for i in range(20):
                client.ask("SEND", {"destination": "/queue/a", "persistent": "true"}, b"%d" % i)
            head = {"destination": "/queue/a", "persistent": "true", "content-length": 700_000}
            client.ask("SEND", head, b"L" * 700_000)
        broker.stop()
        dump = tmp_path / "all.json"
        status, text = stampede(broker, "journal", "dump", "--live", "--data", str(broker.data))
        assert status == 0
        dump.write_text(text)
        journal = broker.data / "journal"
        journal.rename(tmp_path / "old")
        status, text = stampede(broker, "journal", "load", str(dump), str(journal), "--data", str(broker.data))
        assert status == 0 and "21 messages" in text, text
        broker.start()
        with Client(broker.port) as client:
            client.connect()
            client.subscribe("/queue/a")
            assert [client.expect("MESSAGE").body for _ in range(20)] == [b"%d" % i for i in range(20)]
            assert client.expect("MESSAGE").body == b"L" * 700_000
