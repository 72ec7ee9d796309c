"""Who is ready first stands first, and the sums say what is there."""

from __future__ import annotations

from random import Random

from broker.core.message import Run
from broker.engine.queue.delayed import Delayed


def run(first: int, count: int = 1) -> Run:
    return Run(range(first, first + count), b"", [b"x" * 10] * count, 10 * count)


def test_who_is_ready_first_comes_back_first():
    delayed = Delayed()
    for first, due in ((1, 30), (2, 10), (3, 20)):
        delayed.postpone(run(first), due)
    assert (delayed.runs, delayed.count, delayed.nbytes, delayed.first()) == (3, 3, 30, 10)
    assert [part.ids[0] for part in delayed.ready(20)] == [2, 3]
    delayed.keep([(due, part) for due, part in delayed if part.ids[0] != 1])
    assert (delayed.runs, delayed.count, delayed.nbytes) == (0, 0, 0)


def test_of_the_same_time_the_older_message_comes_first_and_the_sums_hold():
    random = Random(5)
    delayed, model, first = Delayed(), [], 1
    for _ in range(400):
        if random.random() < 0.6 or not model:
            count, due = random.randint(1, 3), random.randint(1, 20)
            delayed.postpone(run(first, count), due)
            model.append((due, first, count))
            first += count
        else:
            now = random.randint(1, 20)
            expected = sorted(entry for entry in model if entry[0] <= now)
            assert [part.ids[0] for part in delayed.ready(now)] == [entry[1] for entry in expected]
            model = [entry for entry in model if entry[0] > now]
        total = sum(count for _, _, count in model)
        assert (delayed.runs, delayed.count, delayed.nbytes) == (len(model), total, 10 * total)
