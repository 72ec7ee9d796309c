"""What is on its way to another address counts with what it takes, whatever becomes of its run there."""

from __future__ import annotations

from broker.core.effects import Move
from broker.core.memory import MESSAGE, RUN
from broker.core.message import Blob, Run
from broker.engine.queue.leaving import Leaving


def move(*records: bytes, blob: Blob | None = None) -> Move:
    nbytes = sum(map(len, records)) + (blob.length if blob else 0)
    return Move(7, 1, range(1, 1 + len(records)), "dead", Run((), b"", list(records), nbytes, blob=blob))


def test_a_large_body_is_not_in_memory_and_what_leaves_counts_no_more():
    leaving, small, large = Leaving(), move(b"a" * 100, b"b" * 100), move(b"head", blob=Blob(1, 1_000_000))
    leaving.add(small)
    leaving.add(large)
    assert leaving.nbytes == 2 * RUN + 3 * MESSAGE + 204 and leaving.messages == 3 and list(leaving) == [small, large]
    small.run.nbytes += 1000
    leaving.remove(small)
    leaving.remove(small)
    leaving.remove(move(b"of another queue"))
    assert leaving.nbytes == RUN + MESSAGE + 4 and len(leaving) == 1
