"""UNSUBSCRIBE: what it names, and what it ends."""

from __future__ import annotations

from dataclasses import replace

from broker.config.settings import EngineSettings
from broker.core.commands import Subscribe, Unsubscribe
from broker.core.effects import Done
from broker.wire.versions import Version

from .bench import Bench


async def test_a_10_client_may_unsubscribe_by_destination_what_it_subscribed_with_an_id():
    bench = Bench()
    session, wire = bench.session()
    session.wire.version = Version.V10
    for id in (b"1", b"2"):
        session.receive(b"SUBSCRIBE\nid:%b\ndestination:/queue/q%b\n\n\0" % (id, id))
    second = bench.port.last(Subscribe).consumer
    session.receive(b"UNSUBSCRIBE\ndestination:/queue/q2\n\n\0")
    assert bench.port.last(Unsubscribe).consumer == second and list(session.subscriptions) == ["1"]
    session.receive(b"UNSUBSCRIBE\ndestination:/queue/q2\n\n\0")
    assert b"error-code:1307" in wire.sent


async def test_all_parts_of_a_split_address_end_and_the_receipt_waits_for_the_last():
    bench = Bench()
    bench.edge.configure(replace(EngineSettings(), addresses={"q": {"partitions": 3}}))
    session, wire = bench.session()
    session.receive(b"SUBSCRIBE\nid:1\ndestination:q\n\n\0")
    begun = {(it.slot, it.consumer) for it in bench.port.commands if isinstance(it, Subscribe)}
    bench.edge.on_effects([Done(session.id, it.seq) for it in bench.port.commands if isinstance(it, Subscribe)])
    bench.port.commands.clear()
    wire.take()
    session.receive(b"UNSUBSCRIBE\nid:1\nreceipt:u\n\n\0")
    ends = [it for it in bench.port.commands if isinstance(it, Unsubscribe)]
    assert {(it.slot, it.consumer) for it in ends} == begun and len(begun) == 3
    for part in ends:
        assert b"RECEIPT" not in wire.take()
        bench.edge.on_effects([Done(session.id, part.seq)])
    assert b"receipt-id:u" in wire.take() and not session.handles


async def test_what_is_not_subscribed_is_named():
    session, wire = Bench().session()
    session.receive(b"UNSUBSCRIBE\nid:other\nreceipt:u\n\n\0")
    assert b"error-code:1307" in wire.sent and b"'other' is not subscribed on this connection" in wire.sent
