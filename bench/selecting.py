"""What a selector costs: one evaluation, and a message of a queue or topic with many selectors, in microseconds of CPU.

    .venv/bin/python bench/selecting.py

Rule: in-process and single-threaded, so that the figures hold on a busy machine.
"""

from __future__ import annotations

import time
from collections.abc import Callable

from broker.config.settings import EngineSettings
from broker.core.address import AckMode, Routing
from broker.core.commands import UNLIMITED, Publish, Subscribe
from broker.core.effects import Turn
from broker.core.message import NO_IDS, Run
from broker.engine.engine import Engine
from broker.selector import compile

HEADERS = b"destination:/queue/q\ncontent-type:text/plain\nname:James\nrank:123\ntype:t%d\ntimestamp:1\n\nbody\0"
TEXTS = ["name = 'James'", "name = 'James' AND rank > 100", "rank BETWEEN 100 AND 150", "name LIKE 'J%s'",
         "type IN ('t1', 't2', 't3')", "rank + 1 = 124"]  # fmt: skip
SINGLE = "type = 't%d'"
CONSUMERS, BATCH, ROUNDS = 100, 200, 5


def best(work: Callable[[], None], count: int) -> float:
    """Microseconds per message, the best of several goes."""
    times = []
    for _ in range(9):
        start = time.process_time()
        work()
        times.append(time.process_time() - start)
    return min(times) / count * 1e6


def evaluation(text: str) -> float:
    predicate, run = compile(text), Run(range(1), b"", [HEADERS % 1], len(HEADERS))

    def work() -> None:
        for _ in range(5000):
            predicate(run, 0, "q")

    return best(work, 5000)


def fan(routing: Routing, selector: str | None, consumers: int) -> float:
    """A batch of messages to that many consumers of a queue or topic that take everything they may have."""
    engine, turn = Engine(1, EngineSettings()), Turn(1, 1)
    for n in range(consumers):
        text = None if selector is None else selector.replace("%d", str(n))
        engine.handle(Subscribe(1, n + 1, 0, n + 1, "q", routing, AckMode.AUTO, selector=text), turn)
    engine.flush(turn)
    engine.release(1, Turn(1, 2))
    records = [HEADERS % (n % CONSUMERS) for n in range(BATCH)]
    size = sum(map(len, records))

    def work() -> None:
        for _ in range(ROUNDS):
            turn = Turn(1, 3)
            engine.handle(Publish(1, 999, 0, "q", routing, Run(NO_IDS, b"", records, size)), turn)
            engine.flush(turn)
            while engine.unfinished:
                engine.flush(turn)
            assert sum(len(effect.run) for effect in turn.effects) == BATCH  # type: ignore[union-attr]
            for consumer in engine._slot.consumers.values():
                consumer.room = UNLIMITED

    return best(work, ROUNDS * BATCH)


if __name__ == "__main__":
    for text in TEXTS:
        print(f"{evaluation(text):8.2f} µs  {text}")
    print(f"{fan(Routing.ANYCAST, None, CONSUMERS):8.2f} µs  a message to {CONSUMERS} consumers in turn")
    for selector in ("type = 't%d'", "type = 't%d' AND rank > 100", "rank > 100 AND type LIKE 't%d'"):
        print(f"{fan(Routing.ANYCAST, selector, CONSUMERS):8.2f} µs  a message to one of {CONSUMERS} by {selector}")
    for many in (1000, 5000):
        print(f"{fan(Routing.MULTICAST, SINGLE, many):8.2f} µs  a message to one of {many} of a topic")
    for selector in ("type = 't%d' AND rank BETWEEN 100 AND 200", "type = 't%d' AND rank < 500"):
        print(f"{fan(Routing.MULTICAST, selector, 1000):8.2f} µs  … of 1,000 by {selector}")
