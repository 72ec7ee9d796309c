"""kill -9 while settings are changed: what was answered is there, and nothing is there by half."""

from __future__ import annotations

import json
import os
import random
import signal
import threading
import urllib.error
import urllib.request
from pathlib import Path

from tests.harness import Broker, Client
from tests.harness.waiting import until

KILLS = 3


def patch(broker: Broker, name: str, value: str) -> None:
    """Raises OSError when there is no answer."""
    request = urllib.request.Request(
        f"http://{broker.host}:{broker.admin_port}/api/v1/config/queues/{name}",
        json.dumps({"values": {"selector": value}}).encode(), {"Content-Type": "application/json"}, method="PATCH",
    )  # fmt: skip
    with urllib.request.urlopen(request, timeout=30) as answer:
        assert answer.status == 200


def test_every_change_that_was_answered_is_kept(tmp_path: Path):
    broker = Broker(tmp_path / "broker")
    answered: dict[str, str] = {}
    asked = ""
    number = 0
    for seed in range(KILLS):
        broker.start()
        until(lambda: broker.http("/api/v1/overview")[0] == 200, broker.log)
        killer = threading.Timer(random.Random(seed).random() / 3, broker.kill)
        began = number
        try:
            while True:
                number += 1
                asked = f"q{number % 7}"
                patch(broker, asked, f"n > {number}")
                answered[asked] = f"n > {number}"
                if number == began + 5:
                    killer.start()
        except (OSError, ValueError):
            pass
        killer.join()
        broker.start()
        until(lambda: broker.http("/api/v1/overview")[0] == 200, broker.log)
        _, text = broker.http("/api/v1/config?table=queues&limit=500")
        kept = {row["name"]: row["values"]["selector"] for row in json.loads(text)["items"]}
        for name, value in answered.items():
            assert kept[name] in ((value, f"n > {number}") if name == asked else (value,)), (name, kept)
        answered = dict(kept)
        for name in kept:
            _, text = broker.http(f"/api/v1/queues/{name}")
            assert json.loads(text)["parts"][0]["selector"] == kept[name]
        broker.kill()
    assert number > 5 * KILLS


def test_sighup_has_the_file_read_again_and_ends_nobody(tmp_path: Path):
    file = tmp_path / "broker.toml"
    file.write_text("[engine.queues.orders]\n")
    broker = Broker(tmp_path / "broker", {})
    command = broker.command()
    broker.command = lambda: [*command, "--config", str(file)]  # type: ignore[method-assign]
    with broker, Client(broker.port) as client:
        client.connect()
        file.write_text("[engine.queues.orders]\n[engine.queues.mail]\n[edge]\nmax_connections = 7\n")
        until(lambda: broker.http("/api/v1/overview")[0] == 200, broker.log)
        os.kill(broker.pid, signal.SIGHUP)
        until(lambda: "needs a restart" in broker.log(), broker.log)
        assert "edge.max_connections has changed" in broker.log()
        _, text = broker.http("/api/v1/queues/mail")
        assert json.loads(text)["parts"][0]["declared"]
        client.sync()
        file.write_text("[engine")
        os.kill(broker.pid, signal.SIGHUP)
        until(lambda: "the settings are as they were" in broker.log(), broker.log)
        client.sync()
