"""DISCONNECT and what else is no message: in order, and the owner hears how it ended."""

from __future__ import annotations

import pytest

from broker.core.commands import Barrier, Disconnect, Subscribe
from broker.core.effects import Done
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
