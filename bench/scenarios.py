"""What is measured: one function per scenario, from a fresh broker to a dictionary of figures.

Rule: a scenario says nothing about which broker it meets; a figure whose run lost, duplicated or reordered a
message, or met an ERROR, is no figure (Failed).
"""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from brokers import Broker

HERE = Path(__file__).resolve().parent
SOURCES = ("load.c", "nats.h", "options.h", "report.h", "stats.h", "traffic.h", "transport.h", "verify.h")
INEXPRESSIBLE = 3
"""Exit status of the generator: the broker's protocol has no word for what it is asked to do."""
WARM_UP_S = 2.0
LAG = ("--max-lag", "2000")
HIGHER, LOWER = 1, -1
METRICS: dict[str, tuple[str, int]] = {
    "sent_per_s": ("messages/s in", HIGHER),
    "received_per_s": ("messages/s out", HIGHER),
    "broker_us_per_message": ("CPU µs/message", LOWER),
    "latency_p50_us": ("latency p50 µs", LOWER),
    "latency_p99_us": ("latency p99 µs", LOWER),
    "receipt_p50_us": ("receipt p50 µs", LOWER),
    "receipt_p99_us": ("receipt p99 µs", LOWER),
    "mib_per_s": ("MiB/s", HIGHER),
    "rss_growth_kib": ("memory growth KiB", LOWER),
    "connects_per_s": ("connects/s", HIGHER),
    "rss_per_connection_bytes": ("bytes/connection", LOWER),
    "ready_s": ("start to CONNECTED s", LOWER),
    "recovery_s": ("restart to CONNECTED s", LOWER),
    "fill_per_s": ("durable messages/s in", HIGHER),
    "drain_per_s": ("messages/s drained", HIGHER),
}
Figures = dict[str, float]


class Failed(Exception):
    """The run is not worth a figure; the text says why."""


class Unsupported(Exception):
    """This broker cannot do it by its own limits."""


@dataclass(frozen=True)
class Scale:
    """How much of everything. `noise`: cores that others took, one entry per load run; grows as runs are made."""

    seconds: float
    backlog: int
    large: int
    idle: int
    noise: list[float]


def generator() -> Path:
    """The compiled load generator; built when its sources are newer. Raises Failed with what cc said."""
    binary = HERE / "build" / "load"
    sources = [HERE / name for name in SOURCES]
    if binary.exists() and binary.stat().st_mtime >= max(source.stat().st_mtime for source in sources):
        return binary
    binary.parent.mkdir(exist_ok=True)
    ours = binary.with_suffix(f".{os.getpid()}")  # renamed when whole: others may be running or building it just now
    line = ["cc", "-O2", "-Wall", "-Wextra", "-o", str(ours), str(HERE / "load.c")]
    with_tls = [*line, "-DWITH_TLS", "-lssl", "-lcrypto"]
    try:
        if subprocess.run(with_tls, capture_output=True).returncode:  # no OpenSSL to build with: --tls says so
            subprocess.run(line, check=True, capture_output=True, text=True)
    except FileNotFoundError:
        raise Failed("no C compiler: apt-get install gcc libc6-dev") from None
    except subprocess.CalledProcessError as error:
        raise Failed(f"cc failed:\n{error.stderr}") from error
    ours.replace(binary)
    return binary


def load(broker: Broker, scale: Scale, *arguments: str) -> dict:
    """One run of the generator: its JSON line. Raises Failed unless everything arrived, and Unsupported."""
    line = [str(generator()), *broker.load_arguments(), *arguments]
    done = subprocess.run(line, capture_output=True, text=True)
    if done.returncode == INEXPRESSIBLE:
        raise Unsupported(done.stderr.removeprefix("load: ").strip())
    if done.returncode:
        raise Failed(f"{' '.join(line[1:])}\n{done.stdout}{done.stderr}".strip())
    result = json.loads(done.stdout)
    if "other_cores" in result:
        scale.noise.append(round(max(result["other_cores"], 0) + result["steal_cores"], 2))
    return result


def figures(result: dict, *names: str) -> Figures:
    """The named metrics of a generator's line; latency_p50_us means latency_us.p50."""
    found: Figures = {}
    for name in names:
        group, _, quantile = name.removesuffix("_us").rpartition("_")
        found[name] = result[f"{group}_us"][quantile] if f"{group}_us" in result else result[name]
    return found


def warm_up(broker: Broker, scale: Scale, *arguments: str) -> None:
    """Unmeasured load first: a just-in-time compiler would be measured instead of its program."""
    load(broker, scale, "--seconds", str(min(scale.seconds, WARM_UP_S)), *arguments)
    scale.noise.clear()


def flow(*arguments: str, window: int = 0) -> Callable[[Broker, Scale], Figures]:
    """Closed loop, both sides measured, everything verified."""

    def scenario(broker: Broker, scale: Scale) -> Figures:
        header = ["--sub-header", broker.window % window] if window else []
        warm_up(broker, scale, *arguments, *header)
        result = load(broker, scale, "--seconds", str(scale.seconds), "--verify", *arguments, *header)
        return figures(result, "received_per_s", "broker_us_per_message", "latency_p50_us", "latency_p99_us")

    return scenario


def durable(window: int, *arguments: str) -> Callable[[Broker, Scale], Figures]:
    """Persistent, a receipt each, nobody consumes."""

    def scenario(broker: Broker, scale: Scale) -> Figures:
        kind = [
            *arguments,
            "--produce-only",
            "--header",
            "persistent:true",
            "--receipt-every",
            "1",
            "--window",
            str(window),
        ]
        warm_up(broker, scale, "--destination", "/queue/warm", *kind)
        result = load(broker, scale, "--seconds", str(scale.seconds), *kind)
        return figures(result, "sent_per_s", "broker_us_per_message", "receipt_p50_us", "receipt_p99_us")

    return scenario


def alone(*arguments: str) -> Callable[[Broker, Scale], Figures]:
    """A producer, and nobody who consumes. The two receipts under way bound what the broker has not read yet; they are
    of so few SENDs that the others cost what they do without any."""

    def scenario(broker: Broker, scale: Scale) -> Figures:
        line = ["--produce-only", "--receipt-every", "10000", "--window", "2", *arguments]
        warm_up(broker, scale, *line)
        result = load(broker, scale, "--seconds", str(scale.seconds), *line)
        return figures(result, "sent_per_s", "broker_us_per_message")

    return scenario


def open_loop(rate: int, *arguments: str) -> Callable[[Broker, Scale], Figures]:
    """So many per second, whatever the broker does: latency from the planned time."""

    def scenario(broker: Broker, scale: Scale) -> Figures:
        warm_up(broker, scale, *LAG, *arguments)
        rated = ["--seconds", str(scale.seconds), "--rate", str(rate), "--verify", *arguments]
        result = load(broker, scale, *rated)
        return figures(result, "latency_p50_us", "latency_p99_us", "broker_us_per_message")

    return scenario


def idle(broker: Broker, scale: Scale) -> Figures:
    result = load(broker, scale, "--connections", str(scale.idle), "--hold", "1")
    return figures(result, "connects_per_s", "rss_per_connection_bytes")


def _fill(broker: Broker, scale: Scale) -> dict:
    return load(
        broker, scale, "--count", str(scale.backlog), "--produce-only", "--header", "persistent:true", "--run-id", "ba",
        "--receipt-every", "1", "--window", "1000", "--idle-timeout", "60",
    )  # fmt: skip


def _drain(broker: Broker, scale: Scale) -> dict:
    return load(
        broker, scale, "--count", str(scale.backlog), "--consume-only", "--run-id", "ba", "--verify",
        "--idle-timeout", "60",
    )  # fmt: skip


def backlog(broker: Broker, scale: Scale) -> Figures:
    filled = _fill(broker, scale)
    drained = _drain(broker, scale)
    return {
        "fill_per_s": filled["sent_per_s"],
        "drain_per_s": drained["received_per_s"],
        "rss_growth_kib": filled["rss_peak_kib"] - filled["rss_begin_kib"],
    }


def large(broker: Broker, scale: Scale) -> Figures:
    if scale.large > broker.largest_body:
        raise Unsupported(f"bodies above {broker.largest_body >> 20} MiB are refused")
    result = load(broker, scale, "--count", "1", "--body", str(scale.large), "--idle-timeout", "120")
    growth = result["rss_peak_kib"] - result["rss_begin_kib"]
    return {"mib_per_s": result["mib_per_s"], "rss_growth_kib": growth}


def start(broker: Broker, scale: Scale) -> Figures:
    return {"ready_s": broker.ready_s}


def recovery(broker: Broker, scale: Scale) -> Figures:
    _fill(broker, scale)
    broker.kill()
    broker.start()
    seconds = broker.ready_s
    _drain(broker, scale)
    return {"recovery_s": seconds}


JMS = [
    part
    for line in (
        "JMSCorrelationID:3f2a9c1e-77b0-4d52-9a51-0c8be1f1d2aa", "JMSTimestamp:1764086400123", "JMSType:OrderPlaced",
        "JMSXGroupSeq:17", "tenant:acme-europe", "region:eu-west-1", "content-type:application/json",
    )
    for part in ("--header", line)
]  # fmt: skip
PERSISTENT = ("--header", "persistent:true")

MANY = ("--traffic", "jms", "--producers", "200", "--consumers", "200", "--destinations", "200")

SCENARIOS: dict[str, tuple[str, Callable[[Broker, Scale], Figures]]] = {
    "real-jms": ("1→1, nine JMS-like headers, all values vary, 64 B to 4 KB", flow(*LAG, "--traffic", "jms")),
    "real-sparse": ("1→1, 2 or 3 headers, half without content-length, up to 400 B", flow(*LAG, "--traffic", "sparse")),
    "real-wild": ("1→1, escapes, unknown names in any order, line feeds between", flow(*LAG, "--traffic", "wild")),
    "real-persistent": ("persistent, JMS-like, receipt each, window 100", durable(100, "--traffic", "jms")),
    "real-open-5000": (
        "200→200 over 200 queues, JMS-like, open loop 5,000/s",
        open_loop(5000, *MANY),
    ),
    "real-open-15000": (
        "200→200 over 200 queues, JMS-like, open loop 15,000/s",
        open_loop(15000, *MANY),
    ),
    "real-topic": (
        "topic 1→10, JMS-like (figures per delivery)",
        flow("--max-lag", "1000", "--topic", "--consumers", "10", "--destination", "/topic/bench", "--traffic", "jms"),
    ),
    "topic-500": (
        "topic 1→500 at 40/s, JMS-like (figures per delivery)",
        open_loop(
            40,
            "--topic",
            "--consumers",
            "500",
            "--destination",
            "/topic/bench",
            "--traffic",
            "jms",
        ),
    ),
    "one-to-one": ("1→1, 100 B, non-persistent, auto", flow(*LAG)),
    "receipts": ("the same, a receipt each (those blocks differ)", flow(*LAG, "--receipt-every", "1")),
    "new-headers": ("the same, every header block new", flow(*LAG, "--vary")),
    "jms": ("1→1, nine headers, one value of each message new", flow(*LAG, "--vary", *JMS)),
    "persistent": ("1→1, persistent, no receipts", flow(*LAG, *PERSISTENT)),
    "jms-persistent": ("1→1, nine headers, persistent, no receipts", flow(*LAG, "--vary", *JMS, *PERSISTENT)),
    "in-turn": (
        "one producer, 100 queues in turn",
        flow(*LAG, "--in-turn", "--destinations", "100", "--consumers", "100"),
    ),
    "in-turn-5000": (
        "a producer alone, 120 B, 5,000 queues in turn, nobody consumes",
        alone("--in-turn", "--destinations", "5000", "--body", "120"),
    ),
    "four-to-four": (
        "4→4 over four queues",
        flow(*LAG, "--producers", "4", "--consumers", "4", "--destinations", "4"),
    ),
    "topic": (
        "topic 1→10 (figures per delivery)",
        flow("--max-lag", "1000", "--topic", "--consumers", "10", "--destination", "/topic/bench"),
    ),
    "individual": ("client-individual, window 100", flow(*LAG, "--ack", "client-individual", window=100)),
    "cumulative": ("client, ack every 10, window 100", flow(*LAG, "--ack", "client", "--ack-every", "10", window=100)),
    "selectors": (
        "100 selectors on 100 consumers of one queue, every header block new",
        flow(
            *LAG,
            "--vary",
            "--producers",
            "100",
            "--consumers",
            "100",
            "--header",
            "n:%d",
            "--sub-header",
            "selector:n = %d",
        ),
    ),
    "durable-100": ("persistent, receipt each, window 100, nobody consumes", durable(100)),
    "durable-1": ("the same, window 1", durable(1)),
    "open-1000": ("open loop 1,000/s", open_loop(1000)),
    "open-5000": ("open loop 5,000/s", open_loop(5000)),
    "tls": ("1→1 over TLS", flow(*LAG)),
    "tls-1000": ("open loop 1,000/s over TLS", open_loop(1000)),
    "websocket": ("1→1 over WebSocket", flow(*LAG)),
    "websocket-1000": ("open loop 1,000/s over WebSocket", open_loop(1000)),
    "idle": ("idle connections", idle),
    "backlog": ("durable backlog of 100 B messages, then drained", backlog),
    "large": ("one large message through", large),
    "start": ("start to the first CONNECTED", start),
    "recovery": ("SIGKILL with a durable backlog, restart", recovery),
}
TRANSPORTS = {"tls": "tls", "tls-1000": "tls", "websocket": "websocket", "websocket-1000": "websocket"}
"""Scenarios that come another way than over plain TCP."""
