"""Messages on their way to another address: their bodies and records last until they are there."""

from __future__ import annotations

import pytest

from broker.core.address import Outcome
from broker.core.commands import Publish
from broker.core.effects import Deliver
from broker.core.message import BLOB, DURABLE, Blob, Run
from broker.core.records import RunRecord, SettleRecord

from .world import ANYCAST, INDIVIDUAL, UNSET, World, ids


@pytest.mark.parametrize("lines", [b"", b"app:v\n\n", b"\n"])
def test_a_dead_letter_that_comes_back_over_and_over_does_not_grow(lines):
    """Nobody may be able to consume it at the dead letter address either, which is its own dead letter address."""
    world = World()
    world.subscribe(1, ack=INDIVIDUAL)
    world.subscribe(2, "DLQ", routing=UNSET, ack=INDIVIDUAL)
    record = b"body\0" if lines else b"app:v\n\nbody\0"
    run = Run(range(1), lines, [record], len(lines) + len(record), DURABLE)
    world.do(Publish(7, 1, 0, "q", ANYCAST, run))
    seen = []
    for consumer in (1, 2, 2, 2):
        (number,) = ids(world.effects, consumer)
        world.effects.clear()
        world.settle(consumer, number, outcome=Outcome.REJECT)
        (dead,) = [e.run for e in world.effects if isinstance(e, Deliver)]
        seen.append(dead.lines + dead.records[0])
        assert dead.nbytes == len(seen[-1])
        assert b"\n_AMQ_ORIG_MESSAGE_ID:%d\n" % number in seen[-1]
    assert [frame.count(b"_AMQ_ORIG_") for frame in seen] == [3, 3, 3, 3]
    app = b"" if lines == b"\n" else b"app:v\n"
    assert seen[-1].startswith(b"_AMQ_ORIG_ADDRESS:DLQ\n_AMQ_ORIG_QUEUE:DLQ\ndead-letter-reason:rejected\n")
    assert all(frame.endswith(b"\n%b\nbody\0" % app) for frame in seen)


def test_a_large_body_keeps_its_file_on_the_way_to_the_dead_letters():
    world = World()
    world.subscribe(1, ack=INDIVIDUAL)
    world.subscribe(2, "DLQ")
    blob = Blob(3, 1000)
    world.do(Publish(7, 1, 0, "q", ANYCAST, Run((), b"", [b"h:v\n\n"], 1006, DURABLE | 32, blob=blob)))
    world.settle(1, *ids(world.effects, 1), outcome=Outcome.REJECT)
    (dead,) = [e.run for e in world.effects if isinstance(e, Deliver) and e.consumer == 2]
    assert dead.blob is blob and dead.nbytes == len(dead.lines) + len(dead.records[0]) + 1001


def test_and_its_record_until_it_is_there_even_if_it_does_not_last():
    """The record keeps the file: a carrier that has to begin again finds nothing else."""
    world = World()
    world.subscribe(1, ack=INDIVIDUAL)
    world.do(Publish(7, 1, 0, "q", ANYCAST, Run((), b"", [b"h:v\n\n"], 1006, BLOB, blob=Blob(3, 1000))))
    world.settle(1, *ids(world.effects, 1), outcome=Outcome.REJECT)
    kept, there, ended = [part for _, part in world.log if isinstance(part, RunRecord | SettleRecord)]
    assert (kept.address, there.address, ended.spans) == ("q", "DLQ", [(kept.run.ids[0], kept.run.ids[0])])
