"""Growth curves: each is measured at its smallest through real sockets, and what cannot be measured is said."""

import argparse
import asyncio
import sys
from pathlib import Path

import pytest

from tests.harness.fake_server import FakeServer

BENCH = Path(__file__).resolve().parents[3] / "bench"
sys.path.insert(0, str(BENCH))
from brokers import BROKERS, Broker  # noqa: E402
from growth import CURVES, Curve, beyond, measure, notes, table, watching  # noqa: E402
from scenarios import Failed, Scale  # noqa: E402

sys.path.remove(str(BENCH))
LEAST = {"backlog": 1000}
"""Where the first value is too little to test."""


def record(value, us, broker="stampede", **more):
    figures = {"per_s": 1e6 / us, "us": us, "mb": 60.0}
    return {"curve": "body", "value": value, "broker": broker, "run": 0, "others_cores": 0, "figures": figures} | more


@pytest.mark.parametrize("name", CURVES)
def test_the_least_of_each(binary, tmp_path, name):
    curve, scale = CURVES[name], Scale(0.05, 0, 0, 0, [])
    found = measure(BROKERS["stampede"], curve, LEAST.get(name, curve.values[0]), scale, tmp_path)
    assert not isinstance(found, str), found
    assert found["per_s"] > 100 and found["us"] >= 0 and found["mb"] > 20
    assert not list(tmp_path.iterdir())


def test_more_than_one_who_subscribes(binary, tmp_path):
    """By an address, a selector, a wildcard of their own: what suits none of them comes to none."""
    for name in ("connections", "in-turn", "consumers", "subscribers", "equality", "ranges", "wildcards"):
        found = measure(BROKERS["stampede"], CURVES[name], 20, Scale(0.05, 0, 0, 0, []), tmp_path)
        assert not isinstance(found, str), (name, found)


def test_nats_hears_wildcards_in_its_own_words(binary, tmp_path):
    if (missing := BROKERS["nats"].missing()) is not None:
        pytest.skip(f"no nats-server here: {missing}")
    found = measure(BROKERS["nats"], CURVES["wildcards"], 20, Scale(0.05, 0, 0, 0, []), tmp_path)
    assert not isinstance(found, str), found


async def test_refused_wildcards_are_no_figure(tmp_path):
    async with FakeServer() as server:
        server.refuse.add("SUBSCRIBE")
        broker = Broker(tmp_path)
        broker.load_port = server.port

        def subscribe():
            with watching(broker, ["/topic/a.*"]):
                pass

        with pytest.raises(Failed, match="refused: b'ERROR"):
            await asyncio.to_thread(subscribe)


def test_too_few_open_files_are_said():
    curve = Curve("", (), lambda *_: {}, connected=1)
    assert beyond(curve, 936, 1000) is None and beyond(CURVES["body"], 1 << 20, 100) is None
    assert beyond(curve, 5000, 1024) == (
        "5,000 wants 5,064 open files of one process, and it may have 1,024: raise `ulimit -n`"
    )


def test_the_table_says_how_a_message_has_grown():
    records = [record(64, 2.0), record(1024, 3.0), record(1024, 5.0, run=1), record(1024, 4.0, run=2)]
    records += [record(64, 10.0, "nats"), record(1024, 20.0, "nats")]
    _, _, first, second = table(records, argparse.Namespace(only=["body"], peers=["nats"])).split("\n")
    assert first == "| bytes of a body | 64 | 500,000 | 2 | 1.00 | 60 | 100,000 | 10 | 1.00 |"
    assert second == "|  | 1,024 | 250,000 | 4 | 2.00 | 60 | 50,000 | 20 | 2.00 |"


def test_notes_have_each_reason_once_and_the_neighbours():
    cannot = [record(value, 1.0, "nats", problem="not supported: no word") for value in (64, 1024)]
    found = notes([*cannot, record(64, 1.0, others_cores=0.5), record(64, 1.0, problem="failed: lost", run=2)])
    assert found[:2] == ["nats, body: not supported: no word", "stampede, body 64, run 3: failed: lost"]
    assert found[2].startswith("in 1 of 4 runs others took") and len(found) == 3
