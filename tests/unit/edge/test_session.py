"""Sessions against an owner and a socket turned by hand: ends, large bodies, faults, bounds."""

from __future__ import annotations

import gc
from typing import Any

import pytest

from broker.core.commands import Disconnect, Publish
from broker.core.effects import Deliver, Done, Refused
from broker.core.errors import Code
from broker.core.message import Run
from broker.core.reasons import Reason

from .bench import Bench


@pytest.mark.parametrize("reason", Reason)
async def test_the_owner_hears_whether_a_client_has_failed_or_gone_in_order(reason: Reason) -> None:
    bench = Bench()
    session, _ = bench.session()
    bench.subscribed(session)
    session.abort(reason)
    calm = {Reason.CLIENT_DISCONNECT, Reason.SHUTDOWN, Reason.OWNER_STOPPED, Reason.DISK_FULL}
    assert bench.port.last(Disconnect).calm == (reason in calm)


@pytest.mark.parametrize(("code", "calm"), [(Code.DISK_FULL, True), (Code.ADDRESS_FULL, False)])
async def test_a_full_disk_is_no_failure_of_who_holds_messages(code: Code, calm: bool) -> None:
    """53 messages of a real cluster became dead letters in 10 s: who consumes them sends what it makes of them."""
    bench = Bench()
    session, wire = bench.session()
    bench.subscribed(session)
    session.receive(b"SEND\ndestination:/queue/other\nreceipt:r\n\nx\0")
    bench.edge.on_effects([Refused(session.id, bench.port.last(Publish).seq, code, "retry later")])
    assert b"error-code:%d" % code.number in wire.take() and wire.closed is code.reason
    assert bench.port.last(Disconnect).calm is calm


@pytest.mark.parametrize("where", ["deliver", "done", "write"])
async def test_a_mistake_of_ours_ends_one_connection_and_not_the_owner(where: str, caplog: Any) -> None:
    bench = Bench()
    (bad, bad_wire), (good, good_wire) = bench.session(), bench.session()
    consumers = bench.subscribed(bad), bench.subscribed(good)

    seqs = [session.answers.ask([b"r"]) for session in (bad, good)]
    broken: Any = None
    if where == "deliver":
        bench.edge.consumers[consumers[0]]._plain = broken
    elif where == "done":
        bad.answers = broken
    else:
        bad_wire.write = broken  # type: ignore[method-assign]
    run = Run(range(1, 2), b"\n", [b"body\0"], 6)
    effects: list[Any] = []
    for session, consumer, seq in zip((bad, good), consumers, seqs, strict=True):
        effects += [Deliver(consumer, run, 6), Done(session.id, seq)]
    bench.edge.on_effects(effects)
    assert bad_wire.closed == "aborted"
    assert bench.edge.counters.closed == {Reason.INTERNAL: 1}
    assert "internal error" in caplog.text and "Traceback" in caplog.text
    assert good_wire.sent.count(b"body") == 1 and b"RECEIPT" in good_wire.sent
    assert good_wire.closed is None


async def test_the_memory_of_a_connection_is_free_when_it_is_over() -> None:
    """And not when the collector comes by: thousands may go at once."""
    bench = Bench()
    session, wire = bench.session()
    bench.subscribed(session)
    session.receive(b"SEND\ndestination:/queue/q\n\nbody\0")
    gc.collect()
    gc.disable()
    try:
        session.lost()
        known, parts = id(session), {id(session.inbound), id(session.outbound), id(session.wire)}
        del session
        left = set(map(id, gc.get_objects()))  # nothing is made before they are listed: it could get such an id anew
    finally:
        gc.enable()
    assert known not in left
    assert not parts & left
    assert wire.closed is None
