"""Latency against load: the same traffic at one rate after another, for each broker that is here, drawn as SVG.

    .venv/bin/python bench/plots.py                                     measures, prints a table, draws
    .venv/bin/python bench/plots.py --brokers stampede,nats --rates 500,5000 --seconds 1 --runs 1 --to /tmp/a.svg
    .venv/bin/python bench/plots.py --draw bench/results/plots-….json   draws again what was measured

The traffic is that of `real-open-5000`: JMS-like frames one by one, 200 producers, 200 consumers, 200 queues. Latency
counts from the planned time of each message.

Rule: brokers take turns inside each repetition, and figures are medians. A broker's line ends at the first rate that it
does not keep: what waits there grows as long as one measures.
"""

from __future__ import annotations

import argparse
import json
import shutil
import statistics
import sys
import tempfile
from pathlib import Path

from brokers import BROKERS, ROOT
from run import NOISY_CORES, RESULTS, machine, shown
from scenarios import LAG, MANY, Failed, Scale, generator, load, warm_up
from svg import Series, around, chart

DRAWN = ("stampede", "rabbitmq", "activemq", "artemis", "nats")
RATES = (500, 1000, 2000, 5000, 10_000, 20_000, 40_000)
KEPT = 0.9
"""Of the rate that was planned; with less the broker falls behind. Nothing comes to 1: the last one is late, too."""
PICTURE = ROOT / "docs" / "plots" / "latency.svg"
QUANTILES = ("p50", "p99")


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--brokers", default="", help=f"comma list; empty: those that are here of {', '.join(DRAWN)}")
    parser.add_argument("--rates", default=",".join(map(str, RATES)), help="messages/s, comma list")
    parser.add_argument("--runs", type=int, default=3, help="repetitions; the median counts (3)")
    parser.add_argument("--seconds", type=float, default=3.0, help="of production at each rate (3)")
    parser.add_argument("--to", type=Path, default=PICTURE, help="the picture (docs/plots/latency.svg)")
    parser.add_argument("--draw", type=Path, default=None, metavar="FILE", help="of bench/results; measures nothing")
    parser.add_argument("--work", default=None, help="folder for scratch data (default: a temporary one)")
    options = parser.parse_args()
    options.rates = sorted(int(rate) for rate in options.rates.split(","))
    asked = [name for name in options.brokers.split(",") if name]
    for name in asked:
        if name not in BROKERS:
            parser.error(f"no broker '{name}'; there are {', '.join(BROKERS)}")
        if (missing := BROKERS[name].missing()) is not None:
            parser.error(f"{name} is not installed: {missing}")
    options.brokers = asked or [name for name in DRAWN if BROKERS[name].missing() is None]
    return options


def sweep(name: str, options: argparse.Namespace, work: Path) -> list[dict]:
    """One record per rate, ascending, up to the first one that is not kept; with the reason, if there is one."""
    folder = Path(tempfile.mkdtemp(prefix=f"{name}-", dir=work))
    broker = BROKERS[name](folder)
    records: list[dict] = []
    try:
        broker.start()
        warm_up(broker, Scale(options.seconds, 0, 0, 0, []), *LAG, *MANY)
        for rate in options.rates:
            scale = Scale(options.seconds, 0, 0, 0, [])
            line = ["--seconds", str(options.seconds), "--rate", str(rate), "--verify", "--idle-timeout", "30", *MANY]
            told = load(broker, scale, *line)
            kept = told["received_per_s"] >= KEPT * rate
            latency = {quantile: told["latency_us"][quantile] for quantile in QUANTILES}
            records.append({"broker": name, "rate": rate, "kept": kept, **latency, "others_cores": scale.noise[0]})
            if not kept:
                break
    except (Failed, RuntimeError) as reason:
        records.append({"broker": name, "problem": str(reason)})
    finally:
        broker.stop()
        shutil.rmtree(folder, ignore_errors=True)
    return records


def measure(options: argparse.Namespace) -> list[dict]:
    generator()
    records: list[dict] = []
    with tempfile.TemporaryDirectory(prefix="stampede-plots-", dir=options.work) as work:
        for run in range(options.runs):
            for name in reversed(options.brokers) if run % 2 else options.brokers:
                records += (found := sweep(name, options, Path(work)))
                for record in found:
                    print(json.dumps({"run": run, **record}, ensure_ascii=False), file=sys.stderr, flush=True)
    return records


def medians(records: list[dict]) -> dict[str, dict[int, dict]]:
    """By broker and rate: p50, p99, and whether every run has kept the rate. The first one that was not is the last."""
    found: dict[str, dict[int, dict]] = {}
    for name in dict.fromkeys(record["broker"] for record in records):
        measured = [r for r in records if r["broker"] == name and "rate" in r]
        rates = found[name] = {}
        for rate in sorted({r["rate"] for r in measured}):
            runs = [r for r in measured if r["rate"] == rate]
            rates[rate] = {q: statistics.median(r[q] for r in runs) for q in QUANTILES}
            rates[rate]["kept"] = all(r["kept"] for r in runs)
            if not rates[rate]["kept"]:
                break
    return found


def table(found: dict[str, dict[int, dict]]) -> str:
    """Markdown: p50 and p99 in microseconds by rate; in brackets where the broker does not keep it."""
    lines = [["messages/s", *found], ["---:"] * (1 + len(found))]
    for rate in sorted({rate for rates in found.values() for rate in rates}):
        row = [f"{rate:,}"]
        for rates in found.values():
            one = rates.get(rate)
            cell = " / ".join(shown(one[q]) for q in QUANTILES) if one else "–"
            row.append(cell if one is None or one["kept"] else f"({cell})")
        lines.append(row)
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def drawn(found: dict[str, dict[int, dict]]) -> str:
    """The picture."""
    series = [
        Series(
            name, [(rate, one[quantile]) for rate, one in rates.items()],
            dashed=quantile == "p99", cut=not all(one["kept"] for one in rates.values()),
        )
        for name, rates in found.items() if rates for quantile in QUANTILES
    ]  # fmt: skip
    points = [point for each in series for point in each.points]
    x = around("messages a second, planned", [a for a, _ in points], "{:,.0f}".format)
    y = around("latency from the planned time", [b for _, b in points], duration)
    title = "Latency against load: JMS-like messages one by one, 200→200 over 200 queues"
    about = "; ".join(f"{name}: {_told(rates)}" for name, rates in found.items() if rates)
    return chart(title, f"p50 and p99 in microseconds. {about}.", x, y, series, ("p50", "p99", "rate not kept"))


def duration(us: float) -> str:
    """50 µs, 2 ms, 1 s."""
    for unit, one in (("s", 1e6), ("ms", 1e3)):
        if us >= one:
            return f"{us / one:,g} {unit}"
    return f"{us:g} µs"


def _told(rates: dict[int, dict]) -> str:
    return ", ".join(f"{rate:,}/s {one['p50']:,.0f} and {one['p99']:,.0f}" for rate, one in rates.items())


def main() -> int:
    options = arguments()
    if options.draw:
        told = json.loads(options.draw.read_text())
    else:
        told = {"machine": machine(), "seconds": options.seconds, "runs": options.runs, "records": measure(options)}
        RESULTS.mkdir(exist_ok=True)
        path = RESULTS / f"plots-{told['machine']['when'].replace(':', '')}.json"
        path.write_text(json.dumps(told, indent=1))
        print(f"All runs: {path}", file=sys.stderr)
    about, records = told["machine"], told["records"]
    problems = [f"{r['broker']}: {r['problem']}" for r in records if "problem" in r]
    found = medians(records)
    if any(found.values()):
        options.to.parent.mkdir(parents=True, exist_ok=True)
        options.to.write_text(drawn(found))
    print(
        f"{about['cpu']}, {about['cores']} cores, Linux {about['kernel']}, Python {about['python']} "
        f"({about['flags']}), {about['commit']}\nMedians of {told['runs']} runs; p50 / p99 in µs, "
        f"in brackets where the broker does not keep the rate.\n\n{table(found)}"
    )
    noisy = [r["others_cores"] for r in records if r.get("others_cores", 0) > NOISY_CORES]
    if noisy:
        problems.append(
            f"in {len(noisy)} of {len(records)} runs others took more than {NOISY_CORES} cores: repeat them"
        )
    for problem in problems:
        print(f"\n- {problem}")
    return 1 if any("problem" in r for r in records if r["broker"] == "stampede") else 0


if __name__ == "__main__":
    raise SystemExit(main())
