"""What is used is the smaller one of what is counted and of what the process has grown by."""

from __future__ import annotations

from broker.core.memory import NEVER, Memory


def test_growth_is_asked_for_only_when_the_count_is_near_the_bound():
    asked = []

    def grown() -> int:
        asked.append(1)
        return 500

    memory = Memory(1000, grown)
    memory.queues, memory.sessions = 400, 100
    assert memory.used() == 500 and not asked
    memory.queues = 900
    assert memory.used() == 500 and asked, "a message in many queues is counted many times"
    memory.queues = 300
    memory.sessions = 400
    assert memory.used() == 500 and memory.counted == 700


def test_marks_stand_in_their_order():
    memory = Memory(1000)
    assert 0 < memory.low < memory.near < memory.limit < memory.wall


def test_it_says_so_near_the_bound_only():
    memory = Memory(1000)
    memory.queues = memory.near
    assert memory.details() == {}
    memory.queues = memory.near + 1
    assert memory.details()["memory"].startswith("short: ")
    memory.queues = memory.limit
    assert memory.details()["memory"].startswith("full: ") and "memory.limit_bytes" in memory.details()["memory"]
    states = {metric.name: metric.samples for metric in memory.metrics()}
    assert states["stomp_memory_state"] == [({}, 2.0)] and states["stomp_memory_limit_bytes"] == [({}, 1000.0)]


def test_no_bound_is_shown_as_none():
    memory = Memory()
    memory.queues = 1 << 50
    assert memory.limit == NEVER and memory.details() == {}
    assert memory.metrics()[0].samples == [({}, 0.0)] and memory.metrics()[1].samples == [({}, 0.0)]
