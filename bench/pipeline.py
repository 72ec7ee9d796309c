"""The archive of many small messages: rows per second of the whole job, after the start of the session.

    .venv/bin/python bench/pipeline.py --messages 2000000     # needs Java 17 and the extra `pipeline`

Rule: a broker of its own, in a folder that is gone afterwards; what is archived is counted by the archive's manifests.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "pipeline")]

from broker_pipeline.archive import Job, run  # noqa: E402
from broker_pipeline.manifests import Archive  # noqa: E402
from broker_pipeline.session import session  # noqa: E402

from broker.client import connect  # noqa: E402


def ports(count: int) -> list[int]:
    sockets = [socket.socket() for _ in range(count)]
    for each in sockets:
        each.bind(("127.0.0.1", 0))
    found = [each.getsockname()[1] for each in sockets]
    for each in sockets:
        each.close()
    return found


def listens(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


async def fill(port: int, messages: int, size: int) -> None:
    body = b"x" * size
    async with connect(f"stomp://127.0.0.1:{port}", receipt_timeout=300) as client, client.pipeline(2000) as sends:
        for n in range(messages):
            await sends.send(f"/queue/bench.{n % 4}", body, {"persistent": "true"})


def seconds(pid: int) -> float:
    """Processor time of a process and of those it has waited for."""
    with open(f"/proc/{pid}/stat") as file:
        fields = file.read().rsplit(")", 1)[1].split()
    return sum(map(int, fields[11:15])) / os.sysconf("SC_CLK_TCK")


def descendants(pid: int) -> list[int]:
    """Of a process, the JVM and its Python workers."""
    found = [pid]
    for each in found:
        try:
            with open(f"/proc/{each}/task/{each}/children") as file:
                found += map(int, file.read().split())
            for task in os.listdir(f"/proc/{each}/task"):
                with open(f"/proc/{each}/task/{task}/children") as file:
                    found += [child for child in map(int, file.read().split()) if child not in found]
        except OSError:
            continue
    return found


def used(server: int) -> dict[str, float]:
    """Who → processor time so far: the broker, the driver, the JVM, Python workers."""
    times = {"broker": seconds(server), "driver": time.process_time(), "JVM": 0.0, "workers": 0.0}
    for pid in set(descendants(os.getpid())) - {os.getpid(), server}:
        try:
            with open(f"/proc/{pid}/comm") as file:
                times["JVM" if file.read().startswith("java") else "workers"] += seconds(pid)
        except OSError:
            continue
    return times


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--messages", type=int, default=2_000_000)
    parser.add_argument("--size", type=int, default=200)
    parser.add_argument("--master", default="local[2]")
    given = parser.parse_args()
    stomp, reads, admin, ws = ports(4)
    with tempfile.TemporaryDirectory(prefix="stampede-bench-") as folder:
        serve = [sys.executable, "-m", "broker.app.cli", "serve", "--port", str(stomp), "--ws-port", str(ws)]
        serve += ["--admin-port", str(admin), "--data", f"{folder}/data", "--log-level", "WARNING"]
        serve += ["--set", f"log_reads.port={reads}"]
        env = os.environ | {"PYTHONPATH": str(ROOT)}
        with subprocess.Popen(serve, env=env, stdout=subprocess.DEVNULL) as server:
            try:
                while not listens(reads) and server.poll() is None:
                    time.sleep(0.1)
                begun = time.monotonic()
                asyncio.run(fill(stomp, given.messages, given.size))
                print(f"sent {given.messages} in {time.monotonic() - begun:.1f} s", flush=True)
                spark = session(given.master, "2g")
                begun, before = time.monotonic(), used(server.pid)
                run(spark, Job(f"{folder}/lake", {"broker": f"127.0.0.1:{reads}"}), print)
                took = time.monotonic() - begun
                spent = {who: after - before.get(who, 0.0) for who, after in used(server.pid).items()}
                spark.stop()
                files = Archive(f"{folder}/lake").load().files.values()
                rows = sum(file.rows for file in files)
                messages = sum(file.rows for file in files if file.view == "messages")
                assert messages == given.messages, messages
                print(f"{rows} rows ({messages} messages) in {took:.1f} s: {rows / took:,.0f} rows/s", flush=True)
                parts = ", ".join(f"{who} {value:.1f}" for who, value in spent.items())
                print(f"processor seconds {sum(spent.values()):.1f}: {parts}; load {os.getloadavg()[0]:.1f}")
            finally:
                server.terminate()


if __name__ == "__main__":
    main()
