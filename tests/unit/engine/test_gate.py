"""What waits for the log goes out by the way it came in."""

from __future__ import annotations

from broker.core.message import Run
from broker.engine.queue.gate import CommitGate


def run(first: int, count: int = 1) -> Run:
    return Run(range(first, first + count), b"", [b"x" * 10] * count, 10 * count)


def test_what_waits_for_the_log_goes_out_by_the_way_it_came():
    gate = CommitGate()
    gate.wait(run(1, 2), paged=False)
    gate.wait(run(3), paged=True)
    gate.wait_for_pages([run(0), run(1, 4)])
    assert (gate.entries, gate.nbytes, gate.pages) == (4, 20, 3)
    assert (gate.messages, gate.paged_bytes) == (8, 60)
    gate.release(run(1, 2), paged=False)
    for left in (run(3), run(0), run(1, 4)):
        gate.release(left, paged=True)
    assert (gate.entries, gate.nbytes, gate.pages, gate.messages, gate.paged_bytes) == (0, 0, 0, 0, 0)
