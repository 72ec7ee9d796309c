"""What the pipeline does in a second, what it costs, and whom. Needs Java 17, the extra `pipeline` and a C compiler.

    .venv/bin/python bench/pipeline.py --part archive --messages 2000000   # rows/s of a whole archive, memory meanwhile
    .venv/bin/python bench/pipeline.py --part beside                        # the broker while an archive runs
    .venv/bin/python bench/pipeline.py --part sink                          # rows/s into a durable queue
    .venv/bin/python bench/pipeline.py --part hand-outs                     # what record_deliveries costs a message

Rule: a broker of its own, in a folder that is gone afterwards; what is archived is counted by the archive's manifests,
what is written by the broker.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import shutil
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "pipeline")]

from broker_pipeline.jobs.archive import Job, run  # noqa: E402
from broker_pipeline.session import session  # noqa: E402
from broker_pipeline.store.manifests import Archive  # noqa: E402
from scenarios import generator  # noqa: E402


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


def load(port: int, *arguments: str) -> dict:
    """One run of the generator: its JSON line."""
    line = [str(generator()), "--port", str(port), *arguments, "--idle-timeout", "60"]
    done = subprocess.run(line, capture_output=True, text=True)
    assert done.stdout.strip(), done.stderr
    return json.loads(done.stdout.strip().splitlines()[-1])


def fill(port: int, messages: int, size: int) -> None:
    begun = time.monotonic()
    produce = ["--produce-only", "--producers", "4", "--destination", "/queue/bench.%d", "--destinations", "4"]
    more = ["--header", "persistent:true", "--receipt-every", "100", "--window", "20"]
    load(port, *produce, "--count", str(messages), "--body", str(size), *more)
    print(f"sent {messages} of {size} bytes in {time.monotonic() - begun:.1f} s", flush=True)


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


def tell(pid: int, what: signal.Signals) -> None:
    """A process and all that it has started."""
    for each in descendants(pid):
        with contextlib.suppress(ProcessLookupError):
            os.kill(each, what)


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


def megabytes(pid: int) -> float:
    """In memory now."""
    try:
        with open(f"/proc/{pid}/status") as file:
            return next((int(line.split()[1]) / 1024 for line in file if line.startswith("VmRSS")), 0.0)
    except OSError:
        return 0.0


class Memory:
    """What the JVM, the largest Python worker and the broker hold at most, looked at twice a second."""

    def __init__(self, server: int) -> None:
        self.most: dict[str, float] = {}
        self._server = server
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)

    def _watch(self) -> None:
        while not self._over.wait(0.5):
            for pid in set(descendants(os.getpid())) - {os.getpid()}:
                try:
                    with open(f"/proc/{pid}/comm") as file:
                        who = "JVM" if file.read().startswith("java") else "worker"
                except OSError:
                    continue
                who = "broker" if pid == self._server else who
                self.most[who] = max(self.most.get(who, 0.0), megabytes(pid))

    def __enter__(self) -> Memory:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()

    def __str__(self) -> str:
        return ", ".join(f"{who} {value:.0f} MB" for who, value in sorted(self.most.items()))


class Server:
    """A broker in a folder. `stomp`, `reads`: its ports."""

    def __init__(self, folder: str, *settings: str) -> None:
        self.stomp, self.reads, self.admin, ws = ports(4)
        self.source = {"broker": f"127.0.0.1:{self.reads}"}
        serve = [sys.executable, "-m", "broker.app.cli", "serve", "--port", str(self.stomp), "--ws-port", str(ws)]
        serve += ["--admin-port", str(self.admin), "--data", f"{folder}/data", "--log-level", "WARNING"]
        serve += ["--set", f"log_reads.port={self.reads}"]
        serve += [part for setting in settings for part in ("--set", setting)]
        self.process = subprocess.Popen(serve, env=os.environ | {"PYTHONPATH": str(ROOT)}, stdout=subprocess.DEVNULL)
        self.pid = self.process.pid
        while not listens(self.reads) and self.process.poll() is None:
            time.sleep(0.1)

    def metric(self, name: str, label: str = "") -> int:
        """Sum of its samples, of those with this value of a label."""
        with urllib.request.urlopen(f"http://127.0.0.1:{self.admin}/metrics", timeout=30) as answer:
            lines = answer.read().decode().splitlines()
        found = [line for line in lines if line.startswith(name) and f'"{label}"' in line + '""']
        return sum(int(float(line.rsplit(" ", 1)[1])) for line in found)


@contextlib.contextmanager
def serving(*settings: str) -> Iterator[tuple[Server, str]]:
    folder = tempfile.mkdtemp(prefix="stampede-bench-")
    server = Server(folder, *settings)
    try:
        yield server, folder
    finally:
        server.process.terminate()
        server.process.wait()
        shutil.rmtree(folder)


def archive(given: argparse.Namespace) -> None:
    with serving() as (server, folder):
        fill(server.stomp, given.messages, given.size)
        spark = session(given.master, given.memory)
        begun, before = time.monotonic(), used(server.pid)
        with Memory(server.pid) as memory:
            run(spark, Job(f"{folder}/lake", server.source), print)
        took = time.monotonic() - begun
        spent = {who: after - before.get(who, 0.0) for who, after in used(server.pid).items()}
        spark.stop()
        files = Archive(f"{folder}/lake").load().files.values()
        rows = sum(file.rows for file in files)
        messages = sum(file.rows for file in files if file.view == "messages")
        assert messages == given.messages, messages
        print(f"{rows} rows ({messages} messages) in {took:.1f} s: {rows / took:,.0f} rows/s")
        parts = ", ".join(f"{who} {value:.1f}" for who, value in spent.items())
        print(f"processor seconds {sum(spent.values()):.1f}: {parts}; load {os.getloadavg()[0]:.1f}")
        print(f"memory at most: {memory}")


def beside(given: argparse.Namespace) -> None:
    """Everything on one machine: the archive runs in the background, as a batch job beside a broker would."""
    flow = ["--destination", "/queue/live.%d", "--destinations", "4", "--producers", "4", "--consumers", "4"]
    flow += ["--header", "persistent:true", "--body", str(given.size), "--receipt-every", "1", "--window", "200"]

    def full(server: Server) -> float:
        """Messages a second as fast as it goes."""
        return float(load(server.stomp, *flow, "--max-lag", "5000", "--seconds", str(given.seconds))["received_per_s"])

    def calm(server: Server) -> float:
        """p99 in ms at 1,000 a second."""
        latency = load(server.stomp, *flow, "--rate", "1000", "--seconds", str(given.seconds))["latency_us"]
        return float(latency["p99"]) / 1000

    with serving() as (server, _), tempfile.TemporaryDirectory(dir=given.lake) as lake:
        fill(server.stomp, given.messages, given.size)
        alone = full(server)
        line = [sys.executable, "-m", "broker_pipeline.cli", "archive", f"{lake}/lake", "--background"]
        line += ["--continuous", "--every", "1", "--broker", server.source["broker"], "--master", given.master]
        env = os.environ | {"PYTHONPATH": f"{ROOT}:{ROOT / 'pipeline'}"}
        with subprocess.Popen(line, env=env, stdout=subprocess.PIPE, text=True) as job:
            try:
                assert job.stdout is not None
                while not server.metric("stomp_log_scanned_bytes_total"):
                    time.sleep(0.2)
                    assert job.poll() is None
                together = full(server)
                # In turn, as a machine is never twice the same: the archive stands still, the archive goes on.
                turns: dict[signal.Signals, list[float]] = {signal.SIGSTOP: [], signal.SIGCONT: []}
                read = dict.fromkeys(turns, 0)
                for _ in range(given.turns):
                    for told, found in turns.items():
                        tell(job.pid, told)
                        time.sleep(0.3)
                        before = server.metric("stomp_log_scanned_bytes_total")
                        found.append(calm(server))
                        read[told] += server.metric("stomp_log_scanned_bytes_total") - before
            finally:
                tell(job.pid, signal.SIGCONT)
                job.terminate()
                job.communicate()
        rows = sum(file.rows for file in Archive(f"{lake}/lake").load().files.values())
    fall = 100 * (1 - together / alone)
    print(f"throughput: {alone:,.0f}/s alone, {together:,.0f}/s beside an archive: {fall:.0f} % less")
    for told, found in turns.items():
        each = " ".join(f"{one:.1f}" for one in found)
        said = "stands still" if told == signal.SIGSTOP else "goes on"
        print(f"p99 at 1,000/s while the archive {said}: median {statistics.median(found):.1f} ms of {each}; ", end="")
        print(f"{read[told] / 1e6:.1f} MB of the log read meanwhile")
    print(f"{rows} rows archived meanwhile")


def sink(given: argparse.Namespace) -> None:
    with serving() as (server, _):
        spark = session(given.master, given.memory)
        options = {"url": f"stomp://127.0.0.1:{server.stomp}", "destination": "/queue/sink"}
        body = "x" * given.size
        for messages in (1000, given.messages):  # the first one starts the workers
            rows = spark.range(0, messages, 1, 2).selectExpr(f"concat('{body}', id) as body")
            begun = time.monotonic()
            rows.write.format("stampede").mode("append").options(**options).save()
            took = time.monotonic() - begun
        spark.stop()
        held = server.metric("stomp_queue_messages", "sink")
        assert held == given.messages + 1000, held
        print(f"{given.messages} rows into a durable queue in {took:.1f} s: {given.messages / took:,.0f} rows/s")


def logged(journal: Path) -> int:
    """Bytes that the log has taken so far, freed segments included."""
    *_, last = sorted(journal.glob("*.log"))
    return (int(last.stem, 16) - 1) * last.stat().st_size + len(last.read_bytes().rstrip(b"\0"))


def hand_outs(given: argparse.Namespace) -> None:
    """Durable messages to consumers that acknowledge each, with and without a record of what was handed out: in turn,
    as a machine is never twice the same."""
    flow = ["--destination", "/queue/live.%d", "--destinations", "4", "--producers", "4", "--consumers", "4"]
    flow += ["--header", "persistent:true", "--body", str(given.size), "--ack", "client-individual"]
    ways = {
        "1,000/s": ["--rate", "1000"],
        "as fast as it goes": ["--receipt-every", "10", "--window", "200", "--max-lag", "5000"],
    }
    for name, more in ways.items():
        costs: dict[str, list[tuple[float, float]]] = {"false": [], "true": []}
        for _ in range(3):
            for wanted, found in costs.items():
                with serving(f"engine.address.record_deliveries={wanted}") as (server, folder):
                    line = [*flow, *more, "--seconds", str(given.seconds)]
                    before = seconds(server.pid)
                    count = load(server.stomp, *line)["received"]
                    spent = seconds(server.pid) - before
                    found.append((spent * 1e6 / count, logged(Path(folder, "data", "journal")) / count))
        off, on = (sorted(found)[1] for found in costs.values())
        rise = 100 * (on[0] / off[0] - 1)
        print(
            f"{name}: {off[0]:.1f} µs of the broker and {off[1]:.0f} bytes of log a message, with record_deliveries "
            f"{on[0]:.1f} µs ({rise:+.0f} %) and {on[1]:.0f} bytes",
            flush=True,
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--part", choices=("archive", "beside", "sink", "hand-outs"), default="archive")
    parser.add_argument("--messages", type=int, default=0, help="2,000,000 of an archive, 400,000 of a sink")
    parser.add_argument("--size", type=int, default=200)
    parser.add_argument("--seconds", type=float, default=10.0, help="of each measurement beside an archive")
    parser.add_argument("--master", default="local[2]")
    parser.add_argument("--memory", default="1g", help="of the driver")
    parser.add_argument("--turns", type=int, default=5, help="of p99 with an archive that stands still, and goes on")
    parser.add_argument("--lake", help="folder of the archive beside a broker: /dev/shm leaves the disk out")
    given = parser.parse_args()
    given.messages = given.messages or (400_000 if given.part == "sink" else 2_000_000)
    {"archive": archive, "beside": beside, "sink": sink, "hand-outs": hand_outs}[given.part](given)


if __name__ == "__main__":
    main()
