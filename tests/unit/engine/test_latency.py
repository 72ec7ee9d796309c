"""How long messages took, from their taking to their consumers and to their ACKs."""

from __future__ import annotations

from broker.core.message import DURABLE, Run
from broker.engine.messages.unloaded import Stub
from broker.engine.queue.latency import BOUNDS_MS, EXAMPLE_MS, Latency

LINE = b"traceparent:00-" + b"a" * 32 + b"-" + b"1" * 16 + b"-01\n"


def run(time: int, due: int = 0, lines: bytes = b"\n") -> Run:
    return Run(range(1, 2), lines, [b"x\0"], 2, DURABLE, time=time, due=due)


def test_each_acknowledged_message_is_in_its_bucket():
    latency = Latency()
    runs = [run(1000), run(999), run(998), run(900), run(100, due=995), run(2000)]
    latency.settled(runs, 1000)
    found = {BOUNDS_MS[at]: count for at, count in enumerate(latency.acked[:-1]) if count}
    assert found == {1: 3, 2: 1, 5: 1, 100: 1}, "what is due later has not waited before; the future counts as nothing"
    assert latency.sums == [0, 1 + 2 + 100 + 5]
    latency.settled([run(1)], 10**9)
    assert latency.acked[-1] == 1


def test_what_is_known_by_number_only_does_not_count():
    latency = Latency()
    latency.settled([Stub(range(1, 3), 7, 10)], 1000)
    assert sum(latency.acked) == 0


def test_an_example_now_and_then():
    latency = Latency()
    latency.came(run(4990, lines=LINE + b"\n"), 5000)
    ((bucket, example),) = latency.examples.items()
    assert (BOUNDS_MS[bucket], example.trace, example.took_ms, example.at_ms) == (10, "a" * 32, 10, 5000)
    latency.came(run(4000, lines=LINE + b"\n"), 5000 + EXAMPLE_MS - 1)
    assert len(latency.examples) == 1
    latency.came(run(4000, lines=LINE.replace(b"-01\n", b"-00\n") + b"\n"), 5000 + EXAMPLE_MS)
    latency.came(run(4000, lines=LINE + b"\n"), 5000 + 2 * EXAMPLE_MS)
    assert len(latency.examples) == 2
    latency.came(Stub(range(1, 2)), 10**9)
    assert len(latency.examples) == 2
