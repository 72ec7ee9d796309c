"""Plots: what is drawn is what was measured, and a line ends where a broker falls behind."""

import argparse
import json
import sys
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest

BENCH = Path(__file__).resolve().parents[3] / "bench"
sys.path.insert(0, str(BENCH))
import plots  # noqa: E402
import svg  # noqa: E402

sys.path.remove(str(BENCH))
SVG = "{http://www.w3.org/2000/svg}"


def record(broker, rate, p50, p99, kept=True):
    return {"broker": broker, "rate": rate, "kept": kept, "p50": p50, "p99": p99, "others_cores": 0.0}


RECORDS = [
    record("stampede", 500, 100, 200), record("stampede", 1000, 110, 300), record("stampede", 1000, 130, 500),
    record("stampede", 1000, 120, 400), record("nats <x>", 500, 70, 90), record("nats <x>", 1000, 90_000, 2e6, False),
    record("nats <x>", 2000, 1, 1), {"broker": "artemis", "problem": "failed"},
]  # fmt: skip


def test_medians_end_at_the_first_rate_that_is_not_kept():
    found = plots.medians(RECORDS)
    assert found["stampede"][1000] == {"p50": 120, "p99": 400, "kept": True}
    assert list(found["nats <x>"]) == [500, 1000] and found["artemis"] == {}


def test_the_table_has_brackets_where_a_rate_is_not_kept():
    _, _, *rows = plots.table(plots.medians(RECORDS)).split("\n")
    assert rows == ["| 500 | 100 / 200 | 70 / 90 | – |", "| 1,000 | 120 / 400 | (90,000 / 2,000,000) | – |"]


def test_the_picture_is_whole_and_says_what_it_shows():
    root = ET.fromstring(plots.drawn(plots.medians(RECORDS)))
    style = root.findtext(f"{SVG}style")
    assert style.count("prefers-color-scheme: dark") == 1 and style.count("{") == style.count("}")
    assert "nats <x>: 500/s 70 and 90, 1,000/s 90,000 and 2,000,000" in root.findtext(f"{SVG}desc")
    told = [text.text for text in root.iter(f"{SVG}text")]
    assert {"stampede", "nats <x>", "p50", "p99", "rate not kept", "500", "100 µs", "10 ms", "1 s"} <= set(told)
    lines = [path for path in root.iter(f"{SVG}path") if path.get("d").count(" L")]
    assert [line.get("class") for line in lines] == ["line s0", "line s0 dashed", "line s1", "line s1 dashed"]
    hollow = [path for path in root.iter(f"{SVG}path") if path.get("class") == "hollow s1"]
    assert len(hollow) == 2


def test_more_load_is_more_to_the_right_and_more_latency_is_higher():
    x, y = (svg.around("", [500, 40_000], str) for _ in range(2))
    assert (x.least, x.most) == (500, 50_000) and (x.at(500), x.at(50_000)) == (0, 1)
    assert svg._across(x, 5000) == pytest.approx((svg._across(x, 500) + svg._across(x, 50_000)) / 2)
    assert svg._down(y, 5000) < svg._down(y, 500)
    assert [value for value, _ in x.ticks()] == [500, 1000, 2000, 5000, 10_000, 20_000, 50_000]


def test_an_axis_over_many_powers_names_these_alone():
    said = [text for _, text in svg.around("", [90, 2e6], plots.duration).ticks()]
    assert [text for text in said if text] == ["100 µs", "1 ms", "10 ms", "100 ms", "1 s"]
    assert svg.around("", [100, 100], str).most == 200


def test_a_sweep_ends_where_the_broker_falls_behind(monkeypatch, tmp_path):
    class Slow:
        def __init__(self, folder):
            pass

        start = stop = lambda self: None

    def load(broker, scale, *arguments):
        scale.noise.append(0.0)
        rate = int(arguments[arguments.index("--rate") + 1])
        return {"received_per_s": min(rate, 1000.0), "latency_us": {"p50": 1.0, "p99": 2.0}}

    monkeypatch.setitem(plots.BROKERS, "slow", Slow)
    monkeypatch.setattr(plots, "load", load)
    monkeypatch.setattr(plots, "warm_up", lambda *_: None)
    options = argparse.Namespace(rates=[500, 1000, 2000, 4000], seconds=1)
    found = plots.sweep("slow", options, tmp_path)
    assert [(r["rate"], r["kept"]) for r in found] == [(500, True), (1000, True), (2000, False)]


def test_what_was_measured_is_drawn_again(monkeypatch, tmp_path, capsys):
    about = dict.fromkeys(("cpu", "cores", "kernel", "python", "flags", "commit"), "x")
    (tmp_path / "told.json").write_text(json.dumps({"machine": about, "runs": 3, "records": RECORDS}))
    line = ["plots.py", "--draw", str(tmp_path / "told.json"), "--to", str(tmp_path / "new" / "a.svg")]
    monkeypatch.setattr(sys, "argv", line)
    assert plots.main() == 0
    assert (tmp_path / "new" / "a.svg").read_text() == plots.drawn(plots.medians(RECORDS))
    assert "- artemis: failed" in capsys.readouterr().out


def test_a_real_broker_is_swept(binary, tmp_path):
    found = plots.sweep("stampede", argparse.Namespace(rates=[400], seconds=0.2), tmp_path)
    assert [r["rate"] for r in found] == [400] and 0 < found[0]["p50"] <= found[0]["p99"]
