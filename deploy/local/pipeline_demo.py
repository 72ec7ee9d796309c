"""`make pipeline-demo`: a broker, traffic, its archive, and an hour of it sent again. Everything in one folder.

Rule: only commands that a user would type; ends what it has started. What is missing is said before anything starts,
and a command that fails has said why: its exit code is ours.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from broker.client import connect

ROOT = Path(__file__).resolve().parents[2]
sys.path.append(str(ROOT / "pipeline"))

from broker_pipeline.errors import PipelineError  # noqa: E402
from broker_pipeline.session import check_spark, java_home  # noqa: E402

ENV = os.environ | {"PYTHONPATH": f"{ROOT}:{ROOT / 'pipeline'}"}


def free_ports(count: int) -> list[int]:
    with contextlib.ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(count)]
        for each in sockets:
            each.bind(("127.0.0.1", 0))
        return [each.getsockname()[1] for each in sockets]


def listens(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


def pipeline(*arguments: str) -> None:
    print("$ stampede-pipeline", *arguments, flush=True)
    begin = time.monotonic()
    done = subprocess.run([sys.executable, "-m", "broker_pipeline.cli", *arguments], env=ENV)
    if done.returncode:
        raise SystemExit(done.returncode)
    print(f"  ({time.monotonic() - begin:.0f} s)", flush=True)


async def traffic(port: int) -> None:
    """Orders that are taken, and invoices that wait."""
    async with connect(f"stomp://127.0.0.1:{port}") as client:
        async with client.pipeline(200) as sends:
            for n in range(2000):
                headers = {"persistent": "true", "kind": "book" if n % 3 else "film"}
                await sends.send("/queue/orders", b"order %d" % n, headers)
                if n % 10 == 0:
                    await sends.send("/queue/invoices", b"invoice %d" % n * 20, headers)
        async with client.subscribe("/queue/orders", ack="client-individual", prefetch=200) as orders:
            taken = aiter(orders)
            for _ in range(1500):
                await (await anext(taken)).ack()


async def again(port: int) -> int:
    count = 0
    async with (
        connect(f"stomp://127.0.0.1:{port}") as client,
        client.subscribe("/queue/again", browse=True) as messages,
    ):
        async for _ in messages:
            count += 1
    return count


def main() -> None:
    try:
        check_spark()
        java_home()
    except PipelineError as error:
        raise SystemExit(str(error)) from None
    begin = time.monotonic()
    folder = Path(sys.argv[1] if len(sys.argv) > 1 else tempfile.mkdtemp(prefix="stampede-demo-"))
    stomp, reads, admin, ws = free_ports(4)
    lake = str(folder / "lake")
    serve = [sys.executable, "-m", "broker.app.cli", "serve", "--port", str(stomp), "--ws-port", str(ws)]
    serve += ["--admin-port", str(admin), "--data", str(folder / "data"), "--set", f"log_reads.port={reads}"]
    source = ["--broker", f"127.0.0.1:{reads}", "--master", "local[2]"]
    with subprocess.Popen([*serve, "--log-level", "WARNING"], env=ENV) as server:
        try:
            end = time.monotonic() + 60
            while not listens(reads):
                if server.poll() is not None or time.monotonic() > end:
                    raise SystemExit("the broker did not start; what it said stands above")
                time.sleep(0.1)
            asyncio.run(traffic(stomp))
            print(f"a broker, 2200 messages sent, 1500 taken ({time.monotonic() - begin:.0f} s)", flush=True)
            pipeline("archive", lake, *source)
            pipeline("verify", lake)
            pipeline("report", lake, "--out", str(folder / "report"), "--master", "local[2]")
            hour = time.strftime("%Y-%m-%d %H:00", time.gmtime(time.time() - 3600))
            wanted = [lake, "--id", "demo", "--addresses", "orders", "--into", "/queue/again", "--from", hour]
            wanted += ["--where", "headers['kind'] = 'book'", "--url", f"stomp://127.0.0.1:{stomp}", *source]
            pipeline("replay", *wanted)
            pipeline("replay", *wanted, "--send")
            pipeline("replay", *wanted, "--send")
            print(f"{time.monotonic() - begin:.0f} s in all")
            print(f"/queue/again holds {asyncio.run(again(stomp))} messages")
            print(f"archive: {lake}, report: {folder}/report.html")
        finally:
            server.terminate()


if __name__ == "__main__":
    main()
