"""What looking costs: a broker with very many queues and connections, its console, its API, and `stampede top`.

    .venv/bin/python bench/console.py look     # first paint, API, and a message's p99 beside five open consoles
    .venv/bin/python bench/console.py top      # processor of `stampede top` and of the broker it asks

`--queues`, `--connections`, `--seconds` set the size; a process needs a file for each connection (`ulimit -n`). Prints
one line of JSON. first_paint_ms: a fresh headless Chromium, from the navigation to its first contentful paint;
figures_ms: until the busiest queues are on the page.
api_cpu_ms: of the broker's processor, for one question.
A console is the stream of events that its overview watches; who reads it is a process behind the broker and the client
that is measured, which (as root) come before all else, and no core rests (tests/harness/priorities.py): on two cores of
a virtual machine one would else measure who waits for a processor.
p99_us: open loop, `--rate` a second, in turns without and with consoles, medians of `--turns`.

Rule: the broker is a process of its own, asked through its ports alone.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import statistics
import subprocess
import sys
import tempfile
import threading
import time
import urllib.parse
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))
sys.path.insert(0, str(Path(__file__).resolve().parent))

from scenarios import generator  # noqa: E402

from tests.harness import Broker, Client, build  # noqa: E402
from tests.harness.browser import browser  # noqa: E402
from tests.harness.priorities import awake, behind, go_first  # noqa: E402

BATCH = 500
WATCHED = ("/overview", "/queues?sort=-messages&limit=8")
"""By the console's overview (console.js)."""
ASKED = ("/overview", "/queues?sort=-messages&limit=50", "/queues?q=77&limit=50", "/connections?limit=50")
CONSOLES = 5


def fill(broker: Broker, queues: int) -> None:
    """A message in each, so that they are there."""
    with Client(broker.port, timeout=120) as client:
        client.connect()
        for at in range(0, queues, BATCH):
            client.raw(b"".join(
                build("SEND", {"destination": f"/queue/q.{n}"}, b"x") for n in range(at, min(at + BATCH, queues))
            ))  # fmt: skip
            client.sync()


@contextmanager
def connected(broker: Broker, connections: int) -> Iterator[None]:
    """So many idle clients."""
    line = [str(generator()), "--port", str(broker.port), "--connections", str(connections), "--hold", "600"]
    with subprocess.Popen(line, stdout=subprocess.DEVNULL) as process:
        try:
            while ask(broker, "/connections?limit=1")[1]["total"] < connections:
                assert process.poll() is None, "the generator has ended"
                time.sleep(0.5)
            yield
        finally:
            process.kill()


def ask(broker: Broker, path: str) -> tuple[float, dict]:
    """(seconds, answer)."""
    began = time.monotonic()
    with urllib.request.urlopen(f"http://127.0.0.1:{broker.admin_port}/api/v1{path}", timeout=60) as reply:
        told = reply.read()
    return time.monotonic() - began, json.loads(told)


@contextmanager
def consoles(broker: Broker, count: int) -> Iterator[None]:
    """So many that show the overview, in a process of their own: browsers are on other machines."""
    watch = "&".join(f"watch={urllib.parse.quote(path, safe='')}" for path in WATCHED)
    url = f"http://127.0.0.1:{broker.admin_port}/api/v1/events?{watch}"
    line = [*behind(0), sys.executable, __file__, "read", "--url", url, "--streams", str(count)]
    with subprocess.Popen(line, stdout=subprocess.PIPE) as process:
        try:
            assert process.stdout is not None and process.stdout.readline(), "the consoles have ended"
            time.sleep(3)
            yield
        finally:
            process.kill()


def read(options: argparse.Namespace) -> None:
    """The streams of so many consoles, until it is killed; says so when all are open."""
    streams = [urllib.request.urlopen(options.url, timeout=60) for _ in range(options.streams)]
    print("open", flush=True)
    readers = [threading.Thread(target=_read, args=(stream,)) for stream in streams]
    for reader in readers:
        reader.start()


def _read(stream: object) -> None:
    while stream.read1(1 << 16):  # type: ignore[attr-defined]
        pass


def p99(broker: Broker, options: argparse.Namespace) -> float:
    line = [str(generator()), "--port", str(broker.port), "--destination", "/queue/measured", "--verify"]
    line += ["--rate", str(options.rate), "--seconds", str(options.seconds)]
    told = json.loads(subprocess.run(line, check=True, capture_output=True, text=True).stdout.splitlines()[-1])
    return float(told["latency_us"]["p99"])


async def painted(folder: Path, url: str) -> tuple[float, float]:
    """(ms to the first contentful paint, ms until the figures are there)."""
    async with browser(folder, url) as page:
        await page.until("document.getElementById('page').innerText.includes('q.')")
        figures = await page.value("performance.now()")
        paint = await page.value("performance.getEntriesByName('first-contentful-paint')[0].startTime")
    return paint, figures


def look(broker: Broker, options: argparse.Namespace, folder: Path) -> dict[str, object]:
    fill(broker, options.queues)
    with connected(broker, options.connections):
        used = broker.cpu()
        times = sorted(ask(broker, ASKED[n % len(ASKED)])[0] for n in range(options.asked))
        used = broker.cpu() - used
        paint, figures = asyncio.run(painted(folder, f"http://127.0.0.1:{broker.admin_port}/console"))
        alone, beside = [], []
        for _ in range(options.turns):
            alone.append(p99(broker, options))
            with consoles(broker, CONSOLES):
                beside.append(p99(broker, options))
    return {
        "queues": options.queues, "connections": options.connections, "asked": options.asked,
        "api_p50_ms": round(times[len(times) // 2] * 1000, 1),
        "api_p99_ms": round(times[len(times) * 99 // 100] * 1000, 1),
        "api_cpu_ms": round(used / options.asked * 1000, 1),
        "first_paint_ms": round(paint), "figures_ms": round(figures),
        "p99_us": round(statistics.median(alone)), "p99_us_five_consoles": round(statistics.median(beside)),
        "p99_each": [[round(a), round(b)] for a, b in zip(alone, beside, strict=True)],
    }  # fmt: skip


def top(broker: Broker, options: argparse.Namespace, _: Path) -> dict[str, object]:
    fill(broker, options.queues)
    time.sleep(3)
    resting = broker.cpu()
    time.sleep(options.seconds)
    resting = broker.cpu() - resting
    line = [sys.executable, "-m", "broker.app.cli", "top", "--url", f"http://127.0.0.1:{broker.admin_port}"]
    with subprocess.Popen(line, stdout=subprocess.DEVNULL, cwd=ROOT) as process:
        time.sleep(3)  # its start is not what it costs to look
        began, mine, its = time.monotonic(), broker.cpu(), _cpu(process.pid)
        time.sleep(options.seconds)
        took, mine, its = time.monotonic() - began, broker.cpu() - mine, _cpu(process.pid) - its
        process.kill()
    return {
        "queues": options.queues, "seconds": options.seconds, "top_percent": round(100 * its / took, 2),
        "broker_percent": round(100 * max(mine - resting, 0) / took, 2),
        "broker_resting_percent": round(100 * resting / took, 2),
    }  # fmt: skip


def _cpu(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("scenario", choices=("look", "top", "read"), help="read: what `look` starts as consoles")
    parser.add_argument("--queues", type=int, help="100,000; of top 10,000")
    parser.add_argument("--connections", type=int, default=19_000)
    parser.add_argument("--asked", type=int, default=200)
    parser.add_argument("--seconds", type=int, default=10)
    parser.add_argument("--rate", type=int, default=1000)
    parser.add_argument("--turns", type=int, default=3)
    parser.add_argument("--url", help="of read")
    parser.add_argument("--streams", type=int, default=CONSOLES, help="of read")
    options = parser.parse_args()
    if options.scenario == "read":
        read(options)
        return
    first = go_first()
    options.queues = options.queues or {"look": 100_000, "top": 10_000}[options.scenario]
    settings = {
        "engine.max_queues": 1_000_000, "edge.max_connections": 100_000, "edge.max_connections_per_ip": 100_000,
    }  # fmt: skip
    with awake(first), tempfile.TemporaryDirectory() as folder, Broker(Path(folder) / "broker", settings) as broker:
        told = {"look": look, "top": top}[options.scenario](broker, options, Path(folder))
        print(json.dumps({**told, "broker_first": first}))


if __name__ == "__main__":
    main()
