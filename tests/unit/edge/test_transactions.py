"""What one connection may keep in open transactions."""

from __future__ import annotations

import pytest

from broker.config.settings import EdgeSettings
from broker.core.commands import Settle
from broker.core.errors import Code, RefusedError
from broker.edge.transactions import Transactions


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
