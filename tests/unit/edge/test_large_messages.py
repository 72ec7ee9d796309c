"""Large bodies of a session: both ways, behind what is under way, and whose fault it is when they fail."""

from __future__ import annotations

import pytest

from broker.core.commands import Publish
from broker.core.effects import Done
from broker.core.errors import Code
from broker.core.message import Blob
from broker.core.reasons import Reason
from broker.link.owner_port import Away

from .bench import Bench


async def test_a_half_close_behind_a_large_send_still_ends_the_connection() -> None:
    bench = Bench()
    session, wire = bench.session()
    session.receive(b"SEND\ndestination:/queue/q\nreceipt:r\ncontent-length:2000\n\n" + b"x" * 2000 + b"\0")
    session.eof()
    assert wire.closed is None
    finished = bench.port.writers[0].finished
    assert finished is not None
    finished(Blob(1, 2000), "")
    publish = bench.port.last(Publish)
    bench.edge.on_effects([Done(session.id, publish.seq)])
    assert b"receipt-id:r" in wire.sent
    assert wire.closed is Reason.CLIENT_GONE


@pytest.mark.parametrize(
    ("why", "code"),
    [
        ("no space left", 1601),
        (Away("nothing heard for 500 ms"), 1607),
        (Away("no owner has served it for 30 s", Code.OWNER_UNAVAILABLE), 1605),
    ],
)
async def test_a_large_send_that_fails_says_whether_it_was_the_disk_or_the_owner(why: str, code: int) -> None:
    bench = Bench()
    session, wire = bench.session()
    session.receive(b"SEND\ndestination:/queue/q\nreceipt:r\ncontent-length:2000\n\n" + b"x" * 2000 + b"\0")
    finished = bench.port.writers[0].finished
    assert finished is not None
    finished(None, why)
    assert b"error-code:%d\n" % code in wire.sent and b"receipt-id:r\n" in wire.sent
    assert why.encode() in wire.sent


async def test_a_large_delivery_that_its_owner_left_is_no_fault_of_the_edge() -> None:
    for why, reason in (("cannot read", Reason.INTERNAL), (Away("nothing heard for 500 ms"), Reason.OWNER_STOPPED)):
        bench = Bench()
        session, wire = bench.session()
        reader = bench.deliver_large(bench.subscribed(session), 600_000)
        reader.turn()
        assert reader.waiting is not None
        reader.waiting[1](None, why)
        assert wire.closed == "aborted"
        assert bench.edge.counters.closed == {reason: 1}
