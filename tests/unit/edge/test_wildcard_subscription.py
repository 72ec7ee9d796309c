"""A wildcard is one command and one part of its connection, and has more of them only where something came."""

from __future__ import annotations

from broker.core.commands import Disconnect, DisconnectAll, Settle, Subscribe, SubscribeAll, UnsubscribeAll
from broker.core.effects import ConsumerClosed, Deliver, Done, Refused
from broker.core.errors import Code
from broker.core.message import Run
from broker.core.reasons import Reason

from .bench import Bench


def commands(bench: Bench, kind: type) -> list:
    found = [command for command in bench.port.commands if type(command) is kind]
    bench.port.commands.clear()
    return found


def subscribe(bench: Bench, session, headers: bytes = b"", id: int = 1) -> SubscribeAll:
    session.receive(b"SUBSCRIBE\nid:%d\ndestination:/topic/a.#\n%b\n\0" % (id, headers))
    assert not [command for command in bench.port.commands if type(command) is Subscribe]
    [command] = commands(bench, SubscribeAll)
    return command


def deliver(bench: Bench, command: SubscribeAll, slot: int, *ids: int) -> None:
    run = Run(range(ids[0], ids[-1] + 1), b"\n", [b"x\0"] * len(ids), 3 * len(ids))
    cost = run.nbytes + len(run) * command.model.overhead
    bench.edge.on_effects([Deliver(command.model.consumer + slot, run, cost)])


async def test_it_costs_one_part_until_a_slot_delivers() -> None:
    bench = Bench(max_wildcard_subscriptions=2)
    session, wire = bench.session()
    for id in range(300):
        command = subscribe(bench, session, b"receipt:r%d\n" % id, id)
        assert command.slot < 0 and not command.model.consumer % 256
        bench.edge.on_effects([Done(session.id, command.seq)])
        assert b"receipt-id:r%d\n" % id in wire.take()
    assert len(session.handles) == len(bench.edge.consumers) == 300
    deliver(bench, command, 7, 1)
    deliver(bench, command, 7, 2)
    deliver(bench, command, 255, 1)
    first = command.model.consumer
    assert wire.take().count(b"MESSAGE") == 3 and len(session.handles) == 301
    assert {first + 7, first + 255} <= set(bench.edge.consumers)


async def test_an_ack_finds_the_slot_that_delivered() -> None:
    bench = Bench()
    session, wire = bench.session()
    command = subscribe(bench, session, b"ack:client-individual\n")
    deliver(bench, command, 9, 4)
    assert b"message-id:boot-%d-4\n" % (command.model.consumer + 9) in wire.take()
    session.receive(b"ACK\nid:boot-%d-4\n\n\0" % (command.model.consumer + 9))
    [settle] = commands(bench, Settle)
    assert (settle.slot, settle.consumer, list(settle.ids)) == (9, command.model.consumer + 9, [4])
    assert session.unsettled() == [9, 255]


async def test_ends_are_one_command_and_leave_nothing() -> None:
    bench = Bench()
    session, wire = bench.session()
    command = subscribe(bench, session)
    deliver(bench, command, 3, 1)
    session.receive(b"UNSUBSCRIBE\nid:1\nreceipt:u\n\n\0")
    [end] = commands(bench, UnsubscribeAll)
    assert (end.consumer, end.address) == (command.model.consumer, "a.#")
    wire.take()
    deliver(bench, command, 3, 2)
    deliver(bench, command, 4, 1)
    assert not wire.take(), "what was on its way is for nobody"
    bench.edge.on_effects([Done(session.id, end.seq)])
    assert b"receipt-id:u" in wire.take() and not bench.edge.consumers and not bench.edge.wildcards
    command = subscribe(bench, session)
    deliver(bench, command, 3, 1)
    bench.subscribed(session, "2")
    bench.port.commands.clear()
    session.abort(Reason.CLIENT_GONE)
    assert [type(command) for command in bench.port.commands] == [Disconnect, DisconnectAll]
    assert not bench.edge.consumers and not bench.edge.wildcards


async def test_what_ends_a_part_that_has_delivered_nothing_ends_the_connection() -> None:
    for effect in ("closed", "refused"):
        bench = Bench()
        session, wire = bench.session()
        command = subscribe(bench, session)
        told = ConsumerClosed(command.model.consumer + 5, Reason.SLOW_CONSUMER)
        bench.edge.on_effects([told if effect == "closed" else Refused(session.id, 0, Code.OWNER_UNAVAILABLE, "why")])
        assert b"ERROR" in wire.take() and wire.closed is not None and not bench.edge.wildcards


async def test_other_settings_of_addresses_do_not_concern_it() -> None:
    bench = Bench()
    session, wire = bench.session()
    subscribe(bench, session)
    bench.edge.configure(bench.edge.settings.engine)
    assert wire.closed is None and len(session.subscriptions) == 1
