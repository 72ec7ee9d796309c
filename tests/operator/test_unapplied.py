"""Who waits for members to apply a revision."""

from __future__ import annotations

import time

from broker_operator.etcd.unapplied import SPARE, Unapplied
from broker_operator.spec.names import ADDRESS, Id


def one(number: int) -> Id:
    return Id(ADDRESS, "shop", f"a-{number}")


def test_each_is_told_once_by_its_last_revision():
    waiting = Unapplied()
    waiting.wait(one(1), 5)
    waiting.wait(one(2), 7)
    waiting.wait(one(1), 9)
    assert waiting.up_to(6) == []
    assert waiting.up_to(8) == [one(2)]
    assert waiting.up_to(9) == [one(1)]
    assert waiting.up_to(100) == []
    waiting.wait(one(1), 9)
    assert waiting.up_to(100) == [one(1)]


def test_nobody_hears_of_who_has_gone():
    waiting = Unapplied()
    waiting.wait(one(1), 5)
    waiting.forget(one(1))
    waiting.forget(one(2))
    assert waiting.up_to(10) == [] and not waiting.revisions


def test_what_changes_while_nobody_applies_it_is_kept_once():
    waiting = Unapplied()
    for revision in range(10_000):
        waiting.wait(one(revision % 3), revision)
    assert len(waiting._first) <= 2 * 3 + SPARE
    assert sorted(waiting.up_to(10_000)) == [one(0), one(1), one(2)]


def test_a_question_costs_by_what_it_tells():
    """Members answer hundreds of times while ten thousand wait."""
    waiting = Unapplied()
    for number in range(10_000):
        waiting.wait(one(number), 1000 + number)
    began = time.process_time()
    for _ in range(10_000):
        assert not waiting.up_to(999)
    assert time.process_time() - began < 1.0  # 3 ms; 10,000 looks at all of them were 10 s
