"""What scheduled messages cost: bytes of memory and microseconds each, in one engine with a journal in memory.

    .venv/bin/python bench/schedules.py [MESSAGES]

Half of them are due in one second, the others over an hour. Prints one line of JSON."""

from __future__ import annotations

import gc
import json
import sys
import time
import tracemalloc

from broker.config.settings import EngineSettings
from broker.core.address import Routing
from broker.core.commands import Publish
from broker.core.effects import Turn
from broker.core.message import DURABLE, Run
from broker.engine.engine import Engine

START = 1_000_000_000_000
BODY = b"\n" + b"x" * 100 + b"\0"


def post(engine: Engine, number: int, now: int, due: int) -> None:
    run = Run((), b"", [BODY], len(BODY), DURABLE, due=due)
    turn = Turn(now, number)
    engine.handle(Publish(0, 1, 0, "q", Routing.ANYCAST, run), turn)
    for record in turn.appends:
        for part in getattr(record, "records", [record]):
            if hasattr(part, "run"):
                part.run.position = number << 20
    engine.flush(turn)
    engine.release(number, Turn(now, number + 1))


def main() -> None:
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 1_000_000
    engine = Engine(0, EngineSettings())
    post(engine, 1, START, START + 1)
    gc.collect()
    tracemalloc.start(1)
    for number in range(2, 20_002):
        post(engine, number, START, START + 1000 + number % 2 * (number % 3_600_000))
    gc.collect()
    nbytes = tracemalloc.get_traced_memory()[0] / 20_000
    tracemalloc.stop()
    begin = time.perf_counter()
    for number in range(20_002, count + 2):
        post(engine, number, START, START + 1000 + number % 2 * (number % 3_600_000))
    took_in = time.perf_counter() - begin
    number, longest, ticks, begin = count + 2, 0.0, 0, time.perf_counter()
    while engine.next_due():
        now, ticks, number = START + 3_700_000, ticks + 1, number + 1
        before = time.perf_counter()
        turn = Turn(now, number)
        engine.tick(turn)
        engine.release(number, turn)
        longest = max(longest, time.perf_counter() - before)
    print(
        json.dumps(
            {
                "messages": count,
                "bytes_each": round(nbytes, 1),
                "in_us_each": round(took_in / count * 1e6, 2),
                "out_us_each": round((time.perf_counter() - begin) / count * 1e6, 2),
                "longest_step_ms": round(longest * 1000, 1),
                "steps": ticks,
            }
        )
    )


if __name__ == "__main__":
    main()
