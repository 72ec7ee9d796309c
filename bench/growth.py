"""What a message costs while one thing grows: connections, queues, consumers, selectors, wildcards, backlog, body.

    .venv/bin/python bench/growth.py                                            every curve, Stampede alone
    .venv/bin/python bench/growth.py --only connections,body --peers artemis    two of them, side by side
    .venv/bin/python bench/growth.py --most 100 --seconds 0.2 --runs 1          a smoke test

Rule: one size grows and all else stays; each value meets a fresh broker, and all that the size consists of is there
before the clock starts. What a run loses, duplicates or reorders makes it no figure.
"""

from __future__ import annotations

import argparse
import json
import resource
import shutil
import socket
import statistics
import sys
import tempfile
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from brokers import BROKERS, Broker, Nats
from nats_server import HELLO
from run import CANNOT, NOISY_CORES, PEERS, RESULTS, cannot, machine, shown
from scenarios import LAG, Failed, Figures, Scale, Unsupported, generator, load, warm_up

RATE = ("--rate", "5000")
PERSISTENT = ("--header", "persistent:true", "--receipt-every", "1", "--produce-only")
DELIVERIES = 1000
"""Of a topic, under way at most: as many for one subscriber as for 500."""
BYTES = 8 << 20
"""Of bodies under way at most."""
OTHER_FILES = 64
"""That a process has open beside its connections."""
PATIENT = ("--idle-timeout", "60")
NUMBERS = {"artemis": "convert_string_expressions\\c"}
"""How a selector begins that takes a header for a number, where it does not by itself. RabbitMQ has no selectors."""


def outcome(result: dict) -> Figures:
    """A generator's line: messages/s that came out (or in, where nobody consumes), CPU of one, memory at the start."""
    return {
        "per_s": result["received_per_s"] if "received_per_s" in result else result["sent_per_s"],
        "us": result["broker_us_per_message"],
        "mb": result["rss_begin_kib"] / 1024,
    }


def through(broker: Broker, scale: Scale, *arguments: str) -> Figures:
    """Sent and received, the same load before it unmeasured."""
    warm_up(broker, scale, *PATIENT, *LAG, *arguments)
    return outcome(load(broker, scale, "--seconds", str(scale.seconds), "--verify", *PATIENT, *LAG, *arguments))


def connections(broker: Broker, scale: Scale, count: int) -> Figures:
    pairs = str(count // 2)
    line = ["--traffic", "jms", "--producers", pairs, "--consumers", pairs, "--destinations", pairs]
    return through(broker, scale, *RATE, *line)


def queues(broker: Broker, scale: Scale, count: int) -> Figures:
    """A message in each of them, and another queue that is used."""
    load(broker, scale, "--count", str(count), "--in-turn", "--destinations", str(count), "--produce-only",
         "--destination", "/queue/standing%d", "--receipt-every", "1", *PATIENT)  # fmt: skip
    return through(broker, scale, "--traffic", "jms")


def in_turn(broker: Broker, scale: Scale, count: int) -> Figures:
    """Nobody consumes; two receipts under way bound what the broker has not read yet."""
    line = ["--in-turn", "--destinations", str(count), "--body", "120", "--produce-only"]
    line += ["--receipt-every", "10000", "--window", "2", *PATIENT]
    warm_up(broker, scale, *line)
    return outcome(load(broker, scale, "--seconds", str(scale.seconds), *line))


def consumers(broker: Broker, scale: Scale, count: int) -> Figures:
    return through(broker, scale, "--traffic", "jms", "--consumers", str(count))


def subscribers(broker: Broker, scale: Scale, count: int) -> Figures:
    few = ("--max-lag", str(max(1, DELIVERIES // count)))
    line = ["--traffic", "jms", "--topic", "--destination", "/topic/bench", "--consumers", str(count)]
    return through(broker, scale, *line, *few)


def _selecting(broker: Broker, scale: Scale, count: int, header: str, selector: str) -> Figures:
    """A topic: each subscriber has a selector of its own, and each message suits one of the first ten."""
    if broker.name == "rabbitmq":
        raise Unsupported("it has no selectors")
    line = ["--destination", "/topic/bench", "--vary", "--producers", str(min(count, 10)), "--consumers", str(count)]
    return through(broker, scale, *line, "--header", header, "--sub-header", f"selector:{selector}")


def equality(broker: Broker, scale: Scale, count: int) -> Figures:
    return _selecting(broker, scale, count, "kind:k%d", "kind = 'k%d'")


def ranges(broker: Broker, scale: Scale, count: int) -> Figures:
    begin = NUMBERS.get(broker.name, "")
    return _selecting(broker, scale, count, "rank:%d.5", f"{begin}rank >= %d.0 AND rank < %d.9")


def wildcards(broker: Broker, scale: Scale, count: int) -> Figures:
    """A client has so many, and a message suits one of them; another client subscribes to its very address."""
    with watching(broker, [f"/topic/growth.{number}.*" for number in range(count)]):
        return through(broker, scale, "--vary", "--destination", "/topic/growth.0.x")


def backlog(broker: Broker, scale: Scale, count: int) -> Figures:
    """Persistent, into a queue in which so many wait, and nobody consumes."""
    line = [*PERSISTENT, "--window", "100", *PATIENT]
    warm_up(broker, scale, "--destination", "/queue/warm", *line)
    if count:
        load(broker, scale, "--count", str(count), *PERSISTENT, *PATIENT)
    return outcome(load(broker, scale, "--seconds", str(scale.seconds), *line))


def drained(broker: Broker, scale: Scale, count: int) -> Figures:
    """By a consumer that comes when all of them wait."""
    warm_up(broker, scale, "--destination", "/queue/warm", *LAG, "--header", "persistent:true", *PATIENT)
    load(broker, scale, "--count", str(count), "--run-id", "ba", *PERSISTENT, *PATIENT)
    line = ["--count", str(count), "--run-id", "ba", "--consume-only", "--verify", *PATIENT]
    return outcome(load(broker, scale, *line))


def body(broker: Broker, scale: Scale, size: int) -> Figures:
    if size > broker.largest_body:
        raise Unsupported(f"bodies above {broker.largest_body >> 20} MiB are refused")
    return through(broker, scale, "--body", str(size), "--max-lag", str(max(2, min(2000, BYTES // size))))


@dataclass(frozen=True)
class Curve:
    """`connected`: connections of the generator, and of the broker, for one of the value."""

    title: str
    values: tuple[int, ...]
    measure: Callable[[Broker, Scale, int], Figures]
    connected: int = 0


CURVES = {
    "connections": Curve("connections, each in use: 5,000/s one by one, a queue for two of them",
                         (10, 100, 1000, 5000), connections, 1),
    "queues": Curve("queues that stand by with a message each, 1→1 over another", (1, 100, 1000, 10_000), queues),
    "in-turn": Curve("queues that a producer writes in turn, nobody consumes", (1, 100, 1000, 5000), in_turn),
    "consumers": Curve("consumers of one queue", (1, 10, 100, 500), consumers, 1),
    "subscribers": Curve("subscribers of one topic (figures per delivery)", (1, 10, 100, 500), subscribers, 1),
    "equality": Curve("subscribers of one topic by `kind = 'k7'`, one gets it", (1, 10, 100, 1000, 5000), equality, 1),
    "ranges": Curve("… by `rank >= 7.0 AND rank < 7.9`, one gets it", (1, 10, 100, 1000), ranges, 1),
    "wildcards": Curve("wildcard subscriptions of one client, one gets it", (1, 10, 100, 1000), wildcards),
    "backlog": Curve("messages that wait, persistent, into their queue", (0, 1000, 100_000, 1_000_000), backlog),
    "drained": Curve("messages that wait, persistent, out of their queue", (100_000, 1_000_000), drained),
    "body": Curve("bytes of a body", (64, 1024, 16_384, 65_536, 262_144, 1 << 20), body),
}  # fmt: skip


@contextmanager
def watching(broker: Broker, patterns: Iterable[str]) -> Iterator[None]:
    """A client that has subscribed to them all, and throws away what it gets."""
    if isinstance(broker, Nats):
        hello, greeted, done = HELLO, b"PONG", b"PONG"
        lines = [b"SUB %s %d\r\n" % (p[1:].replace("/", ".").encode(), n) for n, p in enumerate(patterns)]
        asked, answers = [*lines, b"PING\r\n"], 1
    else:
        login = f"login:{broker.login[0]}\npasscode:{broker.login[1]}\n" if broker.login else ""
        hello = f"CONNECT\naccept-version:1.2\nhost:{broker.vhost or '127.0.0.1'}\n{login}\n\0".encode()
        greeted, done = b"CONNECTED", b"RECEIPT\n"
        frame = "SUBSCRIBE\nid:{0}\ndestination:{1}\nreceipt:r{0}\n\n\0"
        asked = [frame.format(n, p).encode() for n, p in enumerate(patterns)]
        answers = len(asked)
    with socket.create_connection(("127.0.0.1", broker.load_port), timeout=60) as connection:
        connection.sendall(hello)
        _hear(connection, greeted, 1)
        asking = threading.Thread(target=connection.sendall, args=(b"".join(asked),))
        asking.start()  # neither side waits for the other
        _hear(connection, done, answers)
        asking.join()
        connection.settimeout(None)
        reading = threading.Thread(target=_throw_away, args=(connection,))
        reading.start()
        try:
            yield
        finally:
            connection.shutdown(socket.SHUT_RDWR)
            reading.join()


def _hear(connection: socket.socket, what: bytes, times: int) -> None:
    """Waits for so many of these. Raises Failed where it is refused."""
    heard = b""
    while heard.count(what) < times:
        more = connection.recv(65536)
        if not more or b"ERR" in more:
            raise Failed(f"refused: {more[:200]!r}")
        heard += more


def _throw_away(connection: socket.socket) -> None:
    room = bytearray(1 << 18)
    try:
        while connection.recv_into(room):
            pass
    except OSError:
        pass  # the broker has gone


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default="", help=f"comma list of {', '.join(CURVES)}; empty: all")
    parser.add_argument("--peers", default="", help=f"comma list of {PEERS}")
    parser.add_argument("--runs", type=int, default=3, help="repetitions; the median counts (3)")
    parser.add_argument("--seconds", type=float, default=2.0, help="of production per run (2)")
    parser.add_argument("--most", type=int, default=1 << 30, help="leaves out larger values")
    parser.add_argument("--work", default=None, help="folder for scratch data (default: a temporary one)")
    options = parser.parse_args()
    options.only = [name for name in options.only.split(",") if name] or list(CURVES)
    options.peers = [name for name in options.peers.split(",") if name]
    for name in options.only:
        if name not in CURVES:
            parser.error(f"no curve '{name}'; there are {', '.join(CURVES)}")
    for name in options.peers:
        if name not in BROKERS:
            parser.error(f"no peer '{name}'; there are {PEERS}")
        if (missing := BROKERS[name].missing()) is not None:
            parser.error(f"{name} is not installed: {missing}")
    return options


def beyond(curve: Curve, value: int, files: int) -> str | None:
    """Why a process that may open so many files cannot do it."""
    wanted = curve.connected * value + OTHER_FILES
    if not curve.connected or wanted <= files:
        return None
    return f"{value:,} wants {wanted:,} open files of one process, and it may have {files:,}: raise `ulimit -n`"


def measure(kind: type[Broker], curve: Curve, value: int, scale: Scale, work: Path) -> Figures | str:
    """The figures of one run, or why there are none."""
    folder = Path(tempfile.mkdtemp(prefix=f"{kind.name}-", dir=work))
    broker = kind(folder)
    try:
        broker.start()
        return curve.measure(broker, scale, value)
    except Unsupported as reason:
        return f"{CANNOT}: {reason}"
    except (Failed, RuntimeError, OSError) as reason:
        return f"failed: {reason}"
    finally:
        broker.stop()
        shutil.rmtree(folder, ignore_errors=True)


def run_all(options: argparse.Namespace, work: Path, files: int) -> list[dict]:
    """One record per curve, value, repetition and broker; brokers take turns inside a repetition."""
    records: list[dict] = []
    for name in options.only:
        curve = CURVES[name]
        for run, value in ((run, value) for run in range(options.runs) for value in curve.values):
            brokers = ["stampede", *options.peers]
            for broker in reversed(brokers) if run % 2 else brokers:
                about = {"curve": name, "value": value, "broker": broker}
                known = (r for r in records if about.items() <= r.items())
                if value > options.most or any(cannot(r) for r in known):
                    continue
                scale = Scale(options.seconds, 0, 0, 0, [])
                told = beyond(curve, value, files)
                found = f"{CANNOT}: {told}" if told else measure(BROKERS[broker], curve, value, scale, work)
                record = {**about, "run": run, "others_cores": max(scale.noise, default=0)}
                record |= {"problem": found} if isinstance(found, str) else {"figures": found}
                records.append(record)
                print(json.dumps(record, ensure_ascii=False), file=sys.stderr, flush=True)
    return records


def medians(records: list[dict], curve: str, broker: str) -> dict[int, Figures]:
    """By value, those that were measured."""
    found: dict[int, Figures] = {}
    for value in CURVES[curve].values:
        about = {"curve": curve, "value": value, "broker": broker}
        runs = [r["figures"] for r in records if "figures" in r and about.items() <= r.items()]
        if runs:
            found[value] = {name: statistics.median(run[name] for run in runs) for name in runs[0]}
    return found


def table(records: list[dict], options: argparse.Namespace) -> str:
    """Markdown. × is the CPU of a message beside that of the curve's first value."""
    head = ["what grows", "to", "messages/s", "CPU µs/message", "×", "resident MB"]
    for peer in options.peers:
        head += [f"{peer} messages/s", "CPU µs/message", "×"]
    lines = [head, ["---"] + ["---:"] * (len(head) - 1)]
    for name in options.only:
        found = {broker: medians(records, name, broker) for broker in ("stampede", *options.peers)}
        title = CURVES[name].title
        for value in (value for value in CURVES[name].values if any(value in each for each in found.values())):
            row = [title, f"{value:,}"]
            for broker, each in found.items():
                row += _cells(each, value)[: 4 if broker == "stampede" else 3]
            lines.append(row)
            title = ""
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def _cells(found: dict[int, Figures], value: int) -> list[str]:
    if value not in found:
        return ["–"] * 4
    one, first = found[value], next(iter(found.values()))
    grown = f"{one['us'] / first['us']:.2f}" if first["us"] else "–"
    return [shown(one["per_s"]), shown(one["us"]), grown, shown(one["mb"])]


def notes(records: list[dict]) -> list[str]:
    """Problems, and whether runs have measured the neighbours."""
    found = []
    for r in (r for r in records if "problem" in r):
        value = "" if cannot(r) else f" {r['value']:,}, run {r['run'] + 1}"
        found.append(f"{r['broker']}, {r['curve']}{value}: {r['problem']}")
    found = list(dict.fromkeys(found))
    noisy = [r["others_cores"] for r in records if r["others_cores"] > NOISY_CORES]
    if noisy:
        found.append(
            f"in {len(noisy)} of {len(records)} runs others took more than {NOISY_CORES} cores, "
            f"{statistics.median(noisy):.1f} of them in the middle: believe no figure, and a × only if it is large"
        )
    return found


def main() -> int:
    options = arguments()
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    generator()
    with tempfile.TemporaryDirectory(prefix="stampede-growth-", dir=options.work) as work:
        records = run_all(options, Path(work), hard)
    RESULTS.mkdir(exist_ok=True)
    about = machine()
    path = RESULTS / f"growth-{about['when'].replace(':', '')}.json"
    path.write_text(json.dumps({"machine": about, "options": vars(options), "records": records}, indent=1))
    print(
        f"{about['cpu']}, {about['cores']} cores, Linux {about['kernel']}, Python {about['python']} "
        f"({about['flags']}), {about['commit']}\nMedians of {options.runs} runs.\n"
    )
    print(table(records, options))
    for note in notes(records):
        print(f"\n- {note}")
    print(f"\nAll runs: {path}", file=sys.stderr)
    return 1 if any(r["broker"] == "stampede" and "problem" in r and not cannot(r) for r in records) else 0


if __name__ == "__main__":
    raise SystemExit(main())
