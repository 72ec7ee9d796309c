"""What has changed since when; and that nobody is told less than has changed."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from broker.engine.state import queue_changes
from broker.engine.state.queue_changes import QueueChanges

from .world import World


def queue(id: int, hidden: bool = False) -> Any:
    return SimpleNamespace(id=id, hidden=hidden)


def test_the_last_change_of_each_the_oldest_first():
    changes = QueueChanges()
    changes.mark(queue(1))
    assert changes.count == 0 and changes.since(0) is None, "nobody looks: nothing is marked"
    began = changes.begin()
    for id in (3, 5, 3):
        changes.mark(queue(id))
    assert changes.since(began) == [(2, 5), (3, 3)]
    assert changes.since(2) == [(3, 3)] and changes.since(3) == []
    assert changes.begin() == 3, "another one looks as well"


def test_too_many_are_not_marked(monkeypatch):
    monkeypatch.setattr(queue_changes, "MOST", 3)
    changes = QueueChanges()
    began = changes.begin()
    changes.mark_all(map(queue, range(3)))
    assert len(changes.since(began) or ()) == 3
    changes.mark_all(map(queue, range(1000)))
    assert not changes.on and changes.count == 3 + 3 + 1 + 1, "the first that is too many ends it, and the end counts"
    assert changes.since(began) is None
    again = changes.begin()
    assert changes.since(began) is None and changes.since(again) == [], "of what was not marked nobody knows"
    changes.mark(queue(7))
    assert changes.since(again) == [(9, 7)]


def test_addresses_are_counted_whether_somebody_looks_or_not():
    world = World(auto_delete=False)
    changed = world.engine.shown.changed
    before = changed.addresses
    world.publish("new", b"x")
    assert changed.addresses == before + 1
    world.publish("new", b"x")
    assert changed.addresses == before + 1


def test_whoever_had_seen_everything_before_the_end_reads_all_again():
    changes = QueueChanges()
    seen = changes.begin()
    changes.off()
    changes.mark(queue(1))  # nobody notes it
    changes.begin()
    assert changes.since(seen) is None


def test_a_hidden_queue_is_nobodys_news():
    """A COMMIT over several slots makes one in each, and ends it."""
    changes = QueueChanges()
    began = changes.begin()
    changes.came_or_went(queue(7, hidden=True))
    assert changes.addresses == 0 and changes.since(began) == []
