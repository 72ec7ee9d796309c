"""What traces cost: microseconds of the broker's processor a message, without them and with one in a hundred traced.

    .venv/bin/python bench/tracing.py              # needs the extra `otel`
    .venv/bin/python bench/tracing.py --rate 2000  # messages a second; what is traced of them is capped at 100 a second

Prints one line of JSON. Two brokers that differ in `tracing.endpoint` alone (and the ratio, 0.01), measured in turns:
durable messages with receipts, each consumed and acknowledged. percent: the median of the turns' ratios, less 1; with
`--uncapped` `tracing.most_per_s` keeps nothing back.

Rule: processor time, not time: it holds on a busy machine as long as both have the same beside them.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))
sys.path.insert(0, str(Path(__file__).resolve().parent))

from scenarios import generator  # noqa: E402

from tests.harness import Broker  # noqa: E402
from tests.harness.collector import collecting  # noqa: E402


def one(broker: Broker, options: argparse.Namespace) -> float:
    """Microseconds a message."""
    line = [str(generator()), "--port", str(broker.port), "--destination", "/queue/measured"]
    line += [
        "--header",
        "persistent:true",
        "--ack",
        "client-individual",
        "--rate",
        str(options.rate),
        "--seconds",
        str(options.seconds),
        "--receipt-every",
        "1",
    ]
    began = broker.cpu()
    told = json.loads(subprocess.run(line, check=True, capture_output=True, text=True).stdout.splitlines()[-1])
    return 1e6 * (broker.cpu() - began) / float(told["received"])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rate", type=int, default=10_000)
    parser.add_argument("--seconds", type=int, default=4)
    parser.add_argument("--turns", type=int, default=7)
    parser.add_argument("--uncapped", action="store_true")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder, collecting() as collector:
        traced = {"tracing.endpoint": f"http://127.0.0.1:{collector.port}", "tracing.ratio": 0.01}
        if options.uncapped:
            traced["tracing.most_per_s"] = 1_000_000
        with Broker(Path(folder) / "off", {}) as off, Broker(Path(folder) / "on", traced) as on:
            pairs = []
            for turn in range(options.turns + 1):
                first, second = (off, on) if turn % 2 else (on, off)
                took = {first: one(first, options), second: one(second, options)}
                if turn:  # the first one warms up
                    pairs.append((took[off], took[on]))
            spans = len(collector.spans)
    print(json.dumps({
        "rate": options.rate, "off_us": round(statistics.median([a for a, _ in pairs]), 2),
        "on_us": round(statistics.median([b for _, b in pairs]), 2),
        "percent": round(100 * (statistics.median([b / a for a, b in pairs]) - 1), 1),
        "each": [round(100 * (b / a - 1), 1) for a, b in pairs], "spans": spans,
    }))  # fmt: skip


if __name__ == "__main__":
    main()
