"""DISCONNECT and what else is no message: in order, and the owner hears how it ended."""

from __future__ import annotations

import pytest

from broker.core.commands import Barrier, Disconnect, Publish, Settle, Subscribe
from broker.core.effects import AddressBlocked, Done
from broker.core.reasons import Reason

from .bench import Bench


@pytest.mark.parametrize("receipt", [b"", b"receipt:r\n"])
async def test_disconnect_is_going_in_order_and_the_end_of_the_stream_is_not(receipt: bytes) -> None:
    bench = Bench()
    for frame, calm in ((b"DISCONNECT\n%b\n\0" % receipt, True), (b"", False)):
        session, wire = bench.session()
        bench.subscribed(session)
        bench.port.commands.clear()
        if frame:
            session.receive(frame)
        else:
            session.eof()
        for command in list(bench.port.commands):
            if type(command) is Barrier:
                bench.edge.on_effects([Done(session.id, command.seq)])
        assert wire.closed is not None
        assert {command.calm for command in bench.port.commands if type(command) is Disconnect} == {calm}


async def test_disconnect_is_answered_behind_the_large_body_that_is_under_way() -> None:
    bench = Bench()
    session, wire = bench.session()
    reader = bench.deliver_large(bench.subscribed(session), 600_000)
    session.receive(b"DISCONNECT\nreceipt:bye\n\n\0")
    assert [whole[0] for whole in bench.port.whole] == [bench.port.last(Subscribe).consumer], "it takes it along"
    bench.edge.on_effects([Done(session.id, command.seq) for command in bench.port.commands if hasattr(command, "seq")])
    while not reader.closed:
        assert wire.closed is None
        reader.turn()
    head, _, rest = wire.sent.partition(b"\n\n")
    assert b"content-length:600000" in head
    assert rest == b"b" * 600_000 + b"\0RECEIPT\nreceipt-id:bye\n\n\0"
    assert wire.closed is Reason.CLIENT_DISCONNECT


@pytest.mark.parametrize("waits", [False, True])
async def test_a_disconnect_behind_a_management_request_waits_for_what_came_between(waits: bool) -> None:
    """The request had asked all slots of the session, and nothing names the slot of an ACK, nor again that of a SEND
    that waited for its full address: the RECEIPT came before they were on disk."""
    bench = Bench()
    session, wire = bench.session()
    bench.edge.management = lambda asked, then: then(None)
    if waits:
        session.receive(b"SEND\ndestination:/queue/a\npersistent:true\n\nfirst\0")
        first = bench.port.last(Publish)
        bench.edge.on_effects([AddressBlocked(session.id, first.slot, first.address, True, False)])
        session.receive(b"SEND\ndestination:/queue/a\npersistent:true\n\nsecond\0")
        slot = first.slot
    else:
        session.receive(b"SUBSCRIBE\nid:1\nack:client\ndestination:/queue/a\n\n\0")
        slot = bench.port.last(Subscribe).slot
        bench.deliver(bench.port.last(Subscribe).consumer, b"x")
        given = wire.take().partition(b"\nack:")[2].partition(b"\n")[0]
    session.receive(b"SEND\ndestination:activemq.management\nreply-to:/queue/r\nreceipt:m\n\n[]\0")
    barrier = bench.port.last(Barrier)
    assert barrier.slot == slot and b"receipt-id:m" not in wire.sent
    bench.edge.on_effects([Done(session.id, barrier.seq)])
    assert b"receipt-id:m" in wire.take()
    bench.port.commands.clear()
    if waits:
        bench.edge.on_effects([AddressBlocked(session.id, first.slot, first.address, False, False)])
        assert b"second" in bench.port.last(Publish).run.records[0]
    else:
        session.receive(b"ACK\nid:%b\n\n\0" % given)
        assert bench.port.last(Settle).slot == slot
    session.receive(b"DISCONNECT\nreceipt:bye\n\n\0")
    (barrier,) = [command for command in bench.port.commands if type(command) is Barrier]
    assert barrier.slot == slot
    bench.edge.on_effects([Done(session.id, c.seq) for c in bench.port.commands if getattr(c, "seq", 0)][:-1])
    assert b"receipt-id:bye" not in wire.sent
    bench.edge.on_effects([Done(session.id, barrier.seq)])
    assert b"receipt-id:bye" in wire.sent
