"""The writing half: in order behind large bodies, and bounded whatever a client does not read."""

from __future__ import annotations

from broker.core.commands import Publish, Subscribe
from broker.core.effects import Deliver, Done
from broker.core.message import Run
from broker.core.reasons import Reason

from .bench import Bench


async def test_an_error_comes_behind_the_large_body_and_nothing_behind_the_error() -> None:
    bench = Bench()
    session, wire = bench.session()
    consumer = bench.subscribed(session)
    first = bench.deliver_large(consumer, 2000)
    second = bench.deliver_large(consumer, 3000)
    session.receive(b"NONSENSE\n\n\0")
    third = bench.deliver_large(consumer, 4000)
    assert third.closed, "its file is not kept open"
    first.turn()
    second.turn()
    assert wire.sent.count(b"MESSAGE\n") == 2
    assert wire.sent.rindex(b"ERROR\n") > wire.sent.rindex(b"MESSAGE\n")
    assert wire.closed is Reason.PROTOCOL_ERROR


async def test_small_messages_behind_a_large_body_give_no_room_back_before_they_leave() -> None:
    """Else a slow download lets everything of the other queues gather in memory."""
    bench = Bench(consumer_room_bytes=1000)
    session, wire = bench.session()
    slow, other = bench.subscribed(session), bench.subscribed(session, "2")
    reader = bench.deliver_large(slow, 2000)
    bench.port.commands.clear()
    bench.deliver(other, b"small", cost=900)
    assert bench.port.commands == []
    reader.turn()
    assert b"small" in wire.sent
    assert sorted((g.consumer, g.nbytes) for g in bench.port.commands) == [(slow, 2000), (other, 900)]


async def test_what_waits_behind_a_large_body_is_bounded() -> None:
    bench = Bench(max_outbox_bytes=10_000)
    session, wire = bench.session()
    reader = bench.deliver_large(bench.subscribed(session), 2000)
    for _ in range(200):
        session.receive(b"SEND\ndestination:/queue/q\nreceipt:%b\n\n\0" % (b"r" * 100))
        bench.edge.on_effects([Done(session.id, bench.port.last(Publish).seq)])
        if wire.closed:
            break
    assert wire.closed == "aborted"
    assert reader.closed
    assert bench.edge.counters.closed == {Reason.SLOW_CONSUMER: 1}


async def test_one_turn_cannot_fill_the_memory_of_a_client_that_does_not_read() -> None:
    bench = Bench(max_outbox_bytes=3 << 20)
    session, wire = bench.session()
    consumers = [bench.subscribed(session, str(n)) for n in range(8)]
    session.pause_writing()
    run = Run(range(1, 2), b"\n", [b"x" * 500_000 + b"\0"], 500_002)
    wire.waiting = 4 << 20
    bench.edge.on_effects([Deliver(consumer, run, run.nbytes) for consumer in consumers])
    assert wire.closed == "aborted"
    assert len(wire.sent) < 3 << 20


async def test_the_rooms_of_many_subscriptions_together_fit_the_outbox() -> None:
    bench = Bench(max_outbox_bytes=1 << 26, consumer_room_bytes=1 << 20)
    session, _ = bench.session()
    for n in range(2000):
        bench.subscribed(session, str(n))
    rooms = [c.room for c in bench.port.commands if type(c) is Subscribe]
    assert rooms[0] == 1 << 20
    assert min(rooms) > 0
    assert sum(rooms) < 1 << 26
