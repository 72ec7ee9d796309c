"""The state of a policy alone: what a queue tells it, and when enough consumers have come."""

from __future__ import annotations

import pytest

from broker.config.addressing import AddressSettings
from broker.engine.messages.page_index import PageIndex
from broker.engine.queue.policy_state import QueuePolicy
from tests.unit.engine.world import run_of


def numbered(*ids):
    run = run_of(*[b"x"] * len(ids))
    run.ids = list(ids)
    return run


class Ready:
    """A queue with nothing in memory, and these positions."""

    def __init__(self, *positions, delivering=0):
        self.delivering = delivering
        self.index = PageIndex()
        self.index.extend(positions)

    def in_order(self):
        return []


def policy(queue, **settings):
    made = QueuePolicy()
    made.configure(queue, AddressSettings(**settings), queue.index)
    return made


def test_what_is_paged_unseen_is_read_for_its_keys_and_what_is_seen_is_not():
    made = policy(Ready(3, 4), last_value_key="k")
    made.paged_unseen(5)
    assert list(made.last_value.blind) == [3, 4, 5]
    made.paged_unseen(6)
    run = numbered(9)
    run.position = 6
    made.paged(run)
    assert list(made.last_value.blind) == [3, 4, 5]
    made.unpaged(Ready(3, 4, 5, 6).index, 2)
    assert list(made.last_value.blind) == [5]


def test_messages_that_stay_begin_when_nobody_holds_any_by_the_old_rule():
    made = policy(Ready(delivering=1), non_destructive=True)
    assert made.cursors is None
    made.configure(Ready(), AddressSettings(non_destructive=True), Ready().index)
    assert made.cursors is not None


@pytest.mark.parametrize(
    "consumers, now, again",
    [(0, 5, None), (1, 5, 105), (2, 5, 0), (1, 105, 105 + 100)],
)
def test_when_enough_have_come(consumers, now, again):
    settings = AddressSettings(consumers_before_dispatch=2, delay_before_dispatch_ms=100)
    assert QueuePolicy().enough(consumers, settings, now) == again


def test_the_first_consumer_waits_no_longer_than_the_delay_and_begins_anew_when_all_are_gone():
    made, settings = QueuePolicy(), AddressSettings(consumers_before_dispatch=2, delay_before_dispatch_ms=100)
    assert [made.enough(1, settings, now) for now in (5, 50, 105, 106)] == [105, 105, 0, 0]
    assert made.enough(0, settings, 107) is None and made.enough(1, settings, 200) == 300
    assert QueuePolicy().enough(1, AddressSettings(consumers_before_dispatch=2, delay_before_dispatch_ms=-1), 5) is None
