"""What a restart costs: a standalone broker with much behind it, stopped and started again.

    .venv/bin/python bench/restart.py away     # durable subscriptions that are away, all with the same messages waiting
    .venv/bin/python bench/restart.py queues   # many queues, one message in each

`--subscriptions`, `--messages`, `--queues` set the size, `--memory` the memory of the broker's machine in MiB. Prints
one line of JSON. Memory is resident memory as the kernel counts it: running, when it is ready after the restart, and
its peak until the first subscriber has drained all. `ready_cpu_s`: processor time of the new process until then,
without that of one that starts with nothing (`empty_cpu_s`): it holds on a busy machine, where `ready_s` does not.

Rule: the broker is a process of its own, asked through its ports alone.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from tests.harness import Broker, Client, build  # noqa: E402

TOPIC = "/topic/news"
BODY = b"x" * 100
BATCH = 100
WAIT_S = 300.0


def status(broker: Broker, name: str) -> float:
    """A line of the kernel's account of the process, in MB."""
    text = Path(f"/proc/{broker.pid}/status").read_text()
    return round(int(re.search(rf"{name}:\s+(\d+) kB", text)[1]) * 1024 / 1e6, 1)  # type: ignore[index]


def sent(client: Client, frames: list[bytes]) -> None:
    """In batches that are durable before the next one goes."""
    for at in range(0, len(frames), BATCH):
        client.raw(b"".join(frames[at : at + BATCH]))
        if not at // BATCH % 10:
            client.sync()
    client.sync()


def subscribe(number: int) -> dict[str, object]:
    return {"id": str(number), "destination": TOPIC, "durable-subscription-name": f"s{number}", "ack": "auto"}


def restarted(broker: Broker) -> dict[str, float]:
    """Stops it, starts it, and waits until it is ready."""
    broker.stop(WAIT_S)
    began = time.monotonic()
    broker.start(WAIT_S)
    while broker.http("/readyz")[0] != 200:
        time.sleep(0.005)
    return {"ready_s": round(time.monotonic() - began, 2), "cpu_s": round(broker.cpu(), 2)}


def away(broker: Broker, options: argparse.Namespace) -> dict[str, float]:
    subscriptions, messages = options.subscriptions, options.messages
    with Client(broker.port, timeout=WAIT_S) as client:
        client.connect({"client-id": "away"})
        for number in range(subscriptions):
            client.ask("SUBSCRIBE", subscribe(number))
    with Client(broker.port, timeout=WAIT_S) as client:
        client.connect()
        sent(client, [build("SEND", {"destination": TOPIC, "persistent": "true"}, BODY)] * messages)
    running = status(broker, "VmRSS")
    times = restarted(broker)
    ready = status(broker, "VmRSS")
    with Client(broker.port, timeout=WAIT_S) as client:
        client.connect({"client-id": "away"})
        began = time.monotonic()
        client.send("SUBSCRIBE", subscribe(0))
        frames = 0
        while frames < messages:
            frames += client.socket.recv(1 << 20).count(b"\0")  # each ends with one, and the bodies have none
        took = time.monotonic() - began
    return {
        "subscriptions": subscriptions, "messages": messages, "running_mb": running, "ready_mb": ready,
        "peak_mb": status(broker, "VmHWM"), "drained_per_s": round(messages / took), **times,
    }  # fmt: skip


def queues(broker: Broker, options: argparse.Namespace) -> dict[str, float]:
    with Client(broker.port, timeout=WAIT_S) as client:
        client.connect()
        sent(client, [
            build("SEND", {"destination": f"/queue/q{number}", "persistent": "true"}, BODY)
            for number in range(options.queues)
        ])  # fmt: skip
    running = status(broker, "VmRSS")
    times = restarted(broker)
    return {"queues": options.queues, "running_mb": running, "ready_mb": status(broker, "VmRSS"), **times}


def measured(scenario: Callable[[Broker, argparse.Namespace], dict[str, float]], options: argparse.Namespace) -> None:
    settings = {
        "memory.limit_bytes": options.memory << 19,  # half of it, as in a container of that size
        "engine.max_queues": 1_000_000, "edge.max_subscriptions": 1_000_000,
    }  # fmt: skip
    with tempfile.TemporaryDirectory(dir=options.dir) as folder:
        with Broker(Path(folder) / "empty", settings) as broker:
            empty = restarted(broker)["cpu_s"]
        with Broker(Path(folder) / "broker", settings) as broker:
            found = scenario(broker, options)
    own = found.pop("cpu_s")
    print(json.dumps({**found, "ready_cpu_s": round(own - empty, 2), "empty_cpu_s": empty}))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("scenario", choices=("away", "queues"))
    parser.add_argument("--subscriptions", type=int, default=1_000)
    parser.add_argument("--messages", type=int, default=20_000)
    parser.add_argument("--queues", type=int, default=100_000)
    parser.add_argument("--memory", type=int, default=512, help="MiB")
    parser.add_argument("--dir", help="where the data is")
    options = parser.parse_args()
    measured({"away": away, "queues": queues}[options.scenario], options)


if __name__ == "__main__":
    main()
