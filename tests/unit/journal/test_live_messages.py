"""What of a run lives at the place where it was found."""

from __future__ import annotations

from types import SimpleNamespace

from broker.journal.recovery.live_messages import Living
from tests.unit.journal.nodes import Node
from tests.unit.journal.support import (
    maintain,
    sent,
    settled,
)


def test_settled_tells_of_a_run_wherever_it_is():
    a = Node(1, compact_below=0.6)
    kept = sent(1, b"a", b"b", b"c", queues=(1, 2))
    a.put(kept, settled(2, 2), settled(1, 3, queue=2))
    assert a.journal.settled(kept) == {1: [(2, 2)], 2: [(1, 3)]}
    a.put(*[sent(i, b"z" * 900, queues=[3]) for i in range(10, 20)], settled(10, 19, queue=3))
    maintain(a.journal)
    assert a.journal.settled(kept) == {1: [(2, 2)], 2: [(1, 3)]}
    a.put(settled(1, 3))
    assert a.journal.settled(kept) is None


def test_what_lives_in_another_segment_is_not_whole_here():
    where = SimpleNamespace(range_at=lambda first: (1, 9, 2))
    living = Living(SimpleNamespace(queues={(7, 1): where}))
    assert living.whole(7, 1, 3, 9, segment=2) and living.whole(7, 1, 1, 9, segment=2)
    assert not living.whole(7, 1, 3, 9, segment=1) and not living.whole(7, 1, 3, 10, segment=2)
    assert not living.whole(7, 2, 3, 9, segment=2)
