"""The edge of a process: who comes in, what owners say to whom, and that one session's trouble is nobody else's."""

from __future__ import annotations

import asyncio
import logging
from types import SimpleNamespace
from typing import Any

import pytest

from broker.config.settings import EngineSettings
from broker.core.commands import BLOCK, Grant
from broker.core.effects import AddressBlocked, BrowseEnd, ConsumerClosed, Deliver, Done, Refused
from broker.core.errors import Code
from broker.core.message import Run
from broker.core.reasons import Reason
from broker.edge import edge as subject
from broker.edge.edge import OVERFLOW, one_by_one
from broker.engine.address.address_settings import Matcher

from .bench import Bench, Wire


def come(bench: Bench, peer: str = "10.0.0.1:1") -> tuple[Any, Wire]:
    """A connection that says nothing yet."""
    wire = Wire()
    wire.peer = peer
    return bench.edge.open(wire), wire  # type: ignore[arg-type]


def run(*bodies: bytes, first: int = 1) -> Run:
    records = [body + b"\0" for body in bodies]
    return Run(range(first, first + len(bodies)), b"\n", records, sum(map(len, records)))


# ── who comes in ─────────────────────────────────────────────────────────────────────────────────────


async def test_one_connection_too_many_is_told_so_and_many_more_are_cut():
    """To tell them takes files, too."""
    bench = Bench(max_connections=2)
    for _ in range(2):
        bench.session()
    _, wire = come(bench)
    assert b"max_connections" in wire.take()
    for _ in range(OVERFLOW - 1):
        come(bench)
    _, wire = come(bench)
    assert wire.take() == b"" and wire.closed == "aborted"


async def test_who_has_not_logged_in_gives_way():
    bench = Bench(max_connections=2)
    bench.session()
    stranger, _ = come(bench)
    third, wire = come(bench)
    assert stranger.closed or stranger.leaving
    assert not third.closed and wire.take() == b""


async def test_one_address_has_only_so_many():
    bench = Bench(max_connections_per_ip=1)
    bench.session()
    _, wire = come(bench, "127.0.0.1:9")
    assert b"from this address" in wire.take()
    _, wire = come(bench, "10.0.0.9:1")
    assert wire.take() == b""
    assert bench.edge.open_from("10.0.0.9") == 1 and bench.edge.open_from("10.0.0.8") == 0


async def test_a_connection_that_is_gone_makes_room():
    bench = Bench(max_connections_per_ip=1)
    session, _ = bench.session()
    bench.edge.forget(session)
    bench.edge.forget(session)
    assert bench.edge._per_ip == {} and bench.edge.counters.connections["tcp"] == 0
    bench.session()


async def test_while_it_drains_nobody_comes_in_and_the_last_one_out_is_told():
    bench = Bench()
    bench.session()
    gone: list[bool] = []
    bench.edge.drain(lambda: gone.append(True))
    _, wire = come(bench)
    assert b"connect again in a moment" in wire.take() and gone == []
    for each in list(bench.edge.sessions.values()):
        bench.edge.forget(each)
    assert gone == [True]
    empty = Bench()
    empty.edge.drain(lambda: gone.append(True))
    assert gone == [True, True], "with nobody there at once"


async def test_memory_is_handed_back_when_most_of_many_have_gone(monkeypatch):
    monkeypatch.setattr(subject, "MANY", 8)
    bench, asked = Bench(), []
    monkeypatch.setattr(bench.edge.beats, "deadline", lambda at, call: asked.append(call is subject.hand_back))
    sessions = [come(bench)[0] for _ in range(8)]
    for session in sessions[:6]:
        bench.edge.forget(session)
    assert not any(asked)
    bench.edge.forget(sessions[6])
    assert asked.count(True) == 1
    bench.edge.forget(sessions[7])
    assert asked.count(True) == 1, "once for each full address"


@pytest.mark.parametrize(("reason", "level"), [(Reason.CLIENT_DISCONNECT, "DEBUG"), (Reason.PROTOCOL_ERROR, "INFO")])
async def test_ordinary_ends_are_no_news(caplog, reason, level):
    bench = Bench()
    session, _ = bench.session()
    with caplog.at_level(logging.DEBUG, "stampede.edge"):
        bench.edge.closed(session, reason, "why")
    assert [record.levelname for record in caplog.records if "closed" in record.message] == [level]
    assert bench.edge.counters.closed[reason] == 1


# ── from the owners ──────────────────────────────────────────────────────────────────────────────────


async def test_each_connection_is_written_once_whatever_came_for_it():
    bench = Bench()
    session, wire = bench.session()
    consumer = bench.subscribed(session)
    wire.take()
    writes: list[bytes] = []
    wire.write = writes.append  # type: ignore[method-assign]
    bench.edge.on_effects([Deliver(consumer, run(b"%d" % n, first=n), 2) for n in range(1, 6)])
    assert len(writes) == 1 and writes[0].count(b"MESSAGE\n") == 5


async def test_room_goes_back_in_one_submit_behind_the_writes():
    bench = Bench()
    session, wire = bench.session()
    consumers = [bench.subscribed(session, str(n)) for n in (1, 2)]
    bench.port.commands.clear()
    order: list[str] = []
    write, submit = wire.write, bench.port.submit
    wire.write = lambda data: (order.append("write"), write(data))[1]  # type: ignore[method-assign]
    bench.port.submit = lambda commands: (order.append("submit"), submit(commands))[1]  # type: ignore[method-assign]
    bench.edge.on_effects([Deliver(consumer, run(b"x"), 10**9) for consumer in consumers])
    assert order[-1] == "submit" and order.count("submit") == 1 and "write" in order
    assert [(each.consumer, each.nbytes) for each in bench.port.commands] == [(c, 10**9) for c in consumers]
    assert {type(each) for each in bench.port.commands} == {Grant}


async def test_who_owes_nothing_is_given_nothing():
    bench = Bench()
    session, _ = bench.session()
    sub = bench.edge.consumers[bench.subscribed(session)]
    bench.port.commands.clear()
    bench.edge.grant(sub)
    bench.edge.submit_grants()
    assert bench.port.commands == []


async def test_what_is_for_nobody_here_is_for_who_asks_besides():
    bench, others = Bench(), []
    nobody = [
        Deliver(10**6, run(b"x"), 1), Done(999, 1), Refused(999, 1, Code.INTERNAL),
        ConsumerClosed(10**6, Reason.QUEUE_DELETED), BrowseEnd(10**6),
    ]  # fmt: skip
    bench.edge.on_effects(list(nobody))
    bench.edge.give_others_to(others.append)
    bench.edge.on_effects(list(nobody))
    assert others == nobody
    bench.edge.on_effects([AddressBlocked(999, 1, "a", True)])
    assert len(others) == len(nobody)


async def test_a_session_that_cannot_take_an_effect_ends_alone():
    """The owner who calls must not notice: it would take itself for broken."""
    bench = Bench()
    bad, bad_wire = bench.session()
    good, good_wire = bench.session()
    consumers = [bench.subscribed(bad), bench.subscribed(good)]

    def broken(*_: Any) -> None:
        raise ValueError("what is this?")

    bench.edge.consumers[consumers[0]].sink = type("Sink", (), {"deliver": staticmethod(broken)})()
    bench.edge.on_effects([Deliver(consumer, run(b"x"), 2) for consumer in consumers])
    assert b"MESSAGE\n" in good_wire.take() and not good.closed
    assert bad.closed or bad.leaving or b"ERROR" in bad_wire.take()


async def test_an_outbox_that_cannot_write_ends_alone():
    bench, done = Bench(), []

    class Outbox:
        def __init__(self, broken: bool) -> None:
            self.broken = broken

        def flush(self) -> None:
            if self.broken:
                raise ValueError("what is this?")
            done.append("flushed")

        def fault(self) -> None:
            done.append("fault")

    bench.edge.touched += [Outbox(True), Outbox(False)]  # type: ignore[list-item]
    bench.edge.flush()
    assert done == ["fault", "flushed"] and bench.edge.touched == []


@pytest.mark.parametrize(
    ("reason", "code"), [(Reason.QUEUE_DELETED, Code.QUEUE_DELETED), (Reason.OWNER_STOPPED, Code.INTERNAL)]
)
async def test_the_end_of_a_consumer_is_told_by_its_reason(reason, code):
    bench = Bench()
    session, wire = bench.session()
    consumer = bench.subscribed(session)
    wire.take()
    bench.edge.on_effects([ConsumerClosed(consumer, reason, "why")])
    assert b"%d" % code.number in wire.take()


async def test_a_browser_hears_that_it_has_seen_everything():
    bench = Bench()
    session, wire = bench.session()
    session.receive(b"SUBSCRIBE\nid:1\nbrowser:true\ndestination:/queue/q\n\n\0")
    consumer = next(iter(bench.edge.consumers))
    wire.take()
    bench.edge.on_effects([BrowseEnd(consumer)])
    assert b"browser:end\n" in wire.take()


async def test_refusals_are_counted_and_told():
    bench = Bench()
    session, wire = bench.session()
    session.receive(b"SEND\ndestination:/queue/a\nreceipt:r\n\nx\0")
    command = bench.port.commands[-1]
    bench.edge.on_effects([Refused(session.id, command.seq, Code.ADDRESS_FULL, "full")])
    assert b"ERROR" in wire.take()


async def test_who_is_paused_goes_on_when_the_owner_has_room_for_him():
    bench = Bench()
    holds: list[tuple[int, str]] = []
    first, second = 1, 2
    for id in (first, second):
        bench.edge.pause(
            SimpleNamespace(  # type: ignore[arg-type]
                id=id, pause_reading=lambda why, id=id: holds.append((id, f"hold {why}")),
                resume_reading=lambda why, id=id: holds.append((id, f"release {why}")),
            )
        )  # fmt: skip
    bench.edge.on_relief({first})
    assert len(holds) == 3
    bench.edge.on_relief()
    bench.edge.on_relief()
    assert holds == [
        (first, "hold owner"), (second, "hold owner"), (first, "release owner"), (second, "release owner"),
    ]  # fmt: skip


async def test_an_owner_that_stops_ends_everybody_by_name():
    bench = Bench()
    wires = [bench.session()[1] for _ in range(3)]
    bench.edge.on_stopped("a disk")
    assert all(b"the broker cannot go on" in wire.take() for wire in wires)


# ── names, numbers, settings ─────────────────────────────────────────────────────────────────────────


async def test_numbers_of_consumers_and_blocks_never_meet():
    bench = Bench()
    seen: set[int] = set()
    for _ in range(3):
        number = bench.edge.next_consumer()
        block = range(first := bench.edge.next_block(), first + BLOCK)
        assert first % BLOCK == 0 and number not in seen and not seen & set(block) and number not in block
        seen |= {number, *block}


async def test_ids_of_messages_name_this_start_and_the_consumer():
    bench = Bench()
    assert bench.edge.handle(7) == b"boot-7"
    assert bench.edge.who(10**9) == "session 1000000000" and str(bench.session()[0].id) in bench.edge.who(
        max(bench.edge.sessions)
    )


@pytest.mark.parametrize(
    ("settings", "singly"),
    [
        (EngineSettings(), None),
        (EngineSettings(addresses={"a": {"partitions": 2}}), None),
        (EngineSettings(addresses={"a": {"max_size_messages": 5, "full_policy": "FAIL"}}), {"a"}),
        (EngineSettings(addresses={"a": {"max_size_messages": 5, "full_policy": "BLOCK"}}), set()),
    ],
)
def test_only_what_refuses_takes_messages_one_by_one(settings, singly):
    found = one_by_one(settings, Matcher(settings))
    assert (None if found is None else {name for name in ("a", "b") if found(name)}) == singly


async def test_permissions_that_are_gone_open_nothing(caplog):
    """Who takes the last entry away does not mean to open what it closed."""
    bench = Bench(permissions={"#": {"send": "*"}})
    bench.edge.permit({})
    rights = bench.edge.rights("ada")
    assert (rights is not None and rights.against("send", "a") is not None) or rights is not None
    assert "the last entry of edge.permissions is gone" in caplog.text
    assert Bench().edge.rights("ada") is None


async def test_groups_that_no_user_has_are_told_once(caplog):
    bench = Bench(permissions={"#": {"send": "ops"}})
    bench.edge.authorise()
    assert caplog.text.count("names groups that no user has: ops") == 1
    bench.edge.permit({"#": {"send": "devs"}})
    assert caplog.text.count("no user has: devs") == 1


async def test_messages_follow_new_partitions_when_subscriptions_are_there():
    bench = Bench(engine=EngineSettings(addresses={"a": {"partitions": 1}}))
    one = bench.edge.routes.slots("a")
    bench.edge.configure(EngineSettings(addresses={"a": {"partitions": 4}}))
    for _ in range(200):
        if bench.edge.growth.sent_partitions("a") == 4:
            break
        await asyncio.sleep(0.01)
    assert len(one) == 1 and len(bench.edge.routes.slots("a")) == 4 and bench.edge.growth.sent_partitions("a") == 4
