"""What a slot keeps of a transaction over several slots comes back from the log as it was."""

from __future__ import annotations

import msgspec

from broker.engine.state.tx_parts import Claim, Parked, Prepared


def test_it_comes_back_from_the_log_but_for_what_only_memory_has():
    prepared = Prepared("tx-1", coordinator=7, since=1000)
    prepared.rests_in(queue=9)
    prepared.publishes = [
        Parked(1, 3, "orders", None, 1, True, True),
        Parked(4, 4, "a", "q", 2, False, False, unique=True),
    ]
    prepared.claims = [Claim(5, [(1, 2), (9, 9)], 1, 250, {1: None})]
    data = msgspec.json.decode(msgspec.json.encode(prepared.data()))
    found = Prepared.restored(data)
    assert found.data() == prepared.data()
    assert (found.tx, found.coordinator, found.queue, found.since, found.commit) == ("tx-1", 7, 9, 0, None)
    assert found.claims[0].spans == [(1, 2), (9, 9)] and found.claims[0].messages == {}
    found.revive(2000)
    found.decide(False, calm=False)
    assert (found.since, found.commit) == (2000, False)
