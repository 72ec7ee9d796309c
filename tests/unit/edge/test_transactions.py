"""What one connection may keep in open transactions."""

from __future__ import annotations

import pytest

from broker.config.settings import EdgeSettings
from broker.core.address import Routing
from broker.core.commands import Publish, Settle
from broker.core.errors import Code, RefusedError
from broker.core.message import NO_IDS, Run
from broker.edge.transactions import Transaction, Transactions


def part() -> Settle:
    return Settle(1, 1, 0, 1, [1])


@pytest.mark.parametrize("frames, nbytes", [(4, 0), (1, 400)])
def test_bounds_hold_for_all_open_transactions_together_and_what_ends_gives_back(frames: int, nbytes: int) -> None:
    open_ones = Transactions(EdgeSettings(max_transaction_frames=10, max_transaction_bytes=1000))
    for id in ("a", "b"):
        open_ones.begin(id)
        open_ones.add(id, part(), frames, nbytes)
    open_ones.begin("c")
    open_ones.end("a")
    open_ones.add("c", part(), frames, nbytes)
    with pytest.raises(RefusedError) as refused:
        open_ones.add("b", part(), frames, nbytes)
    assert refused.value.code is Code.TRANSACTION_LIMIT


def test_ended_means_gone() -> None:
    open_ones = Transactions(EdgeSettings())
    open_ones.begin("a")
    open_ones.end("a")
    assert len(open_ones) == 0
    with pytest.raises(RefusedError) as refused:
        open_ones.end("a")
    assert refused.value.code is Code.NO_SUCH_TRANSACTION


def test_what_a_transaction_has_waited_counts():
    """By the clock of the edge alone; what has passed is as good as now."""
    transaction = Transaction()
    for ttl, delay in ((10_000, 0), (0, 6_000), (1_000, 500), (0, 0)):
        run = Run(NO_IDS, b"", [b"x"], 1, expires=50_000 + ttl if ttl else 0, due=50_000 + delay if delay else 0)
        publish = Publish(1, 1, 0, "a", Routing.ANYCAST, run)
        publish.ttl, publish.delay = ttl, delay
        transaction.parts.append(publish)
    transaction.age(55_000)
    assert [(p.ttl, p.delay) for p in transaction.parts if isinstance(p, Publish)] == [
        (5000, 0),
        (0, 1000),
        (1, 1),
        (0, 0),
    ]
