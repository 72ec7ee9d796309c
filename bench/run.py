"""Runs the scenarios against this tree and, when asked, other brokers, side by side; prints a table of ratios.

    .venv/bin/python bench/run.py                                    everything, Stampede alone
    .venv/bin/python bench/run.py --peers rabbitmq,activemq          side by side
    .venv/bin/python bench/run.py --compare COMMIT                   is this tree slower than that commit?
    .venv/bin/python bench/run.py --quick --scenarios one-to-one     a smoke test

Rule: brokers take turns inside every repetition, so that a slow minute of the machine hits all of them; each
scenario gets a fresh process and a fresh folder; figures are medians.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
from contextlib import ExitStack
from datetime import UTC, datetime
from pathlib import Path

from brokers import BROKERS, ROOT, Broker
from compare import SCENARIOS_COMPARED, checkout, flags, judged
from scenarios import METRICS, SCENARIOS, TRANSPORTS, Failed, Figures, Scale, Unsupported, generator

RESULTS = Path(__file__).resolve().parent / "results"
NOISY_CORES = 0.3
CANNOT = "not supported"
"""So begins what a broker cannot do by its own limits."""
PEERS = ", ".join(name for name in BROKERS if name != "stampede")


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--peers", default="", help=f"comma list of {PEERS}")
    parser.add_argument("--compare", default="", metavar="COMMIT", help="measures that commit in turns with this tree")
    parser.add_argument("--scenarios", default="", help="comma list; empty: all (--list shows them)")
    parser.add_argument("--runs", type=int, default=3, help="repetitions; the median counts (3)")
    parser.add_argument("--seconds", type=float, default=4.0, help="of production per run (4)")
    parser.add_argument("--backlog", type=int, default=1_000_000, help="messages (1,000,000)")
    parser.add_argument("--large", type=int, default=4 << 30, help="bytes of the large message (4 GiB)")
    parser.add_argument("--idle", type=int, default=5000, help="idle connections (5000)")
    parser.add_argument("--quick", action="store_true", help="a smoke test: one short run of everything")
    parser.add_argument("--work", default=None, help="folder for scratch data (default: a temporary one)")
    parser.add_argument("--list", action="store_true", help="name the scenarios and stop")
    options = parser.parse_args()
    if options.quick:
        options.runs, options.seconds, options.backlog, options.large, options.idle = 1, 0.5, 5000, 8 << 20, 200
    options.peers = [name for name in options.peers.split(",") if name]
    options.scenarios = [name for name in options.scenarios.split(",") if name] or list(
        SCENARIOS_COMPARED if options.compare else SCENARIOS
    )
    for name in options.scenarios:
        if name not in SCENARIOS:
            parser.error(f"no scenario '{name}'; there are {', '.join(SCENARIOS)}")
    for name in options.peers:
        if name not in BROKERS:
            parser.error(f"no peer '{name}'; there are {PEERS}")
        if (missing := BROKERS[name].missing()) is not None:
            parser.error(f"{name} is not installed: {missing}")
    return options


def measure(kind: type[Broker], scenario: str, scale: Scale, work: Path) -> Figures | str:
    """The figures of one run, or why there are none."""
    transport = TRANSPORTS.get(scenario, "tcp")
    if transport not in kind.transports:
        return f"{CANNOT}: {kind.name} is set up for {', '.join(kind.transports)} only"
    folder = Path(tempfile.mkdtemp(prefix=f"{kind.name}-{scenario}-", dir=work))
    broker = kind(folder, transport)
    try:
        broker.start()
        return SCENARIOS[scenario][1](broker, scale)
    except Unsupported as reason:
        return f"{CANNOT}: {reason}"
    except (Failed, RuntimeError) as reason:
        return f"failed: {reason}"
    finally:
        broker.stop()
        shutil.rmtree(folder, ignore_errors=True)


def cannot(record: dict) -> bool:
    return record.get("problem", "").startswith(CANNOT)


def run_all(options: argparse.Namespace, work: Path) -> list[dict]:
    """One record per scenario, repetition and broker; only one of what a broker cannot do."""
    records: list[dict] = []
    for scenario in options.scenarios:
        for repetition in range(options.runs):
            names = ["stampede", *options.peers]
            for name in reversed(names) if repetition % 2 else names:
                if any(r["scenario"] == scenario and r["broker"] == name and cannot(r) for r in records):
                    continue
                scale = Scale(options.seconds, options.backlog, options.large, options.idle, [])
                outcome = measure(BROKERS[name], scenario, scale, work)
                record = {
                    "scenario": scenario,
                    "run": repetition,
                    "broker": name,
                    "others_cores": max(scale.noise, default=0),
                }
                record |= {"problem": outcome} if isinstance(outcome, str) else {"figures": outcome}
                records.append(record)
                print(json.dumps(record, ensure_ascii=False), file=sys.stderr, flush=True)
    return records


def medians(records: list[dict], scenario: str, broker: str) -> Figures:
    runs = [r["figures"] for r in records if r["scenario"] == scenario and r["broker"] == broker and "figures" in r]
    return {name: statistics.median(run[name] for run in runs) for name in runs[0]} if runs else {}


def shown(value: float) -> str:
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"


def ratio(name: str, ours: float, theirs: float) -> str:
    """How many times better we are; below 1 we are worse."""
    above, below = (ours, theirs) if METRICS[name][1] > 0 else (theirs, ours)
    return f"{above / below:.1f}×" if below > 0 else "–"


def table(records: list[dict], options: argparse.Namespace) -> str:
    """Markdown. Ratios say how many times better Stampede is."""
    head = ["scenario", "figure", "stampede"]
    for peer in options.peers:
        head += [peer, "ratio"]
    lines = [head, ["---"] * 2 + ["---:"] * (len(head) - 2)]
    for scenario in options.scenarios:
        ours = medians(records, scenario, "stampede")
        theirs = {peer: medians(records, scenario, peer) for peer in options.peers}
        title = SCENARIOS[scenario][0]
        for name in ours or next((f for f in theirs.values() if f), {}) or {"": 0.0}:
            row = [title, METRICS[name][0] if name else "–", shown(ours[name]) if name in ours else "–"]
            for peer in options.peers:
                value = theirs[peer].get(name)
                row.append("–" if value is None else shown(value))
                row.append("–" if value is None or name not in ours else ratio(name, ours[name], value))
            lines.append(row)
            title = ""
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def machine() -> dict[str, str | int | None]:
    model = next(
        (x.split(":")[1].strip() for x in Path("/proc/cpuinfo").read_text().splitlines() if "model name" in x), ""
    )
    commit = subprocess.run(["git", "rev-parse", "--short", "HEAD"], cwd=ROOT, capture_output=True, text=True).stdout
    return {
        "cpu": model, "cores": os.cpu_count(), "kernel": platform.release(), "python": platform.python_version(),
        "flags": flags(),
        "commit": commit.strip(), "when": datetime.now(UTC).isoformat(timespec="seconds"),
    }  # fmt: skip


def notes(records: list[dict]) -> list[str]:
    """Problems, and runs that measured the neighbours."""
    found = []
    for r in records:
        if "problem" in r:
            run = "" if cannot(r) else f", run {r['run'] + 1}"
            found.append(f"{r['broker']}, {r['scenario']}{run}: {r['problem']}")
    for r in records:
        if r["others_cores"] > NOISY_CORES:
            run = f"{r['broker']}, {r['scenario']}, run {r['run'] + 1}"
            found.append(f"{run}: others took {r['others_cores']:.1f} cores; repeat it")
    return found


def main() -> int:
    options = arguments()
    if options.list:
        print("\n".join(f"{name:14} {text}" for name, (text, _) in SCENARIOS.items()))
        return 0
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    generator()
    with tempfile.TemporaryDirectory(prefix="stampede-bench-", dir=options.work) as work, ExitStack() as stack:
        if options.compare:
            BROKERS[options.compare] = stack.enter_context(checkout(options.compare, Path(work)))
            options.peers = [options.compare]
        records = run_all(options, Path(work))
    RESULTS.mkdir(exist_ok=True)
    about = machine()
    path = RESULTS / f"{about['when'].replace(':', '')}.json"
    path.write_text(json.dumps({"machine": about, "options": vars(options), "records": records}, indent=1))
    print(
        f"{about['cpu']}, {about['cores']} cores, Linux {about['kernel']}, Python {about['python']} "
        f"({about['flags']}), {about['commit']}"
    )
    slower: list[str] = []
    if options.compare:
        shown_as, slower = judged(records, options.scenarios, options.compare)
        print(f"Medians of {options.runs} runs in turns; a ratio below 1 means less than {options.compare}.\n")
        print(shown_as)
    else:
        print(f"Medians of {options.runs} runs; a ratio above 1 means Stampede is better.\n")
        print(table(records, options))
    for line in slower:
        print(f"\n- slower: {line}")
    for note in notes(records):
        print(f"\n- {note}")
    print(f"\nAll runs: {path}", file=sys.stderr)
    return 1 if slower or any(r["broker"] == "stampede" and "problem" in r for r in records) else 0


if __name__ == "__main__":
    raise SystemExit(main())
