"""Plain ACKs: few commands for many ids, and an id that is not ours is refused by name."""

from __future__ import annotations

from typing import Any

import pytest

from broker.core.commands import Settle
from broker.core.effects import Done
from broker.core.reasons import Reason
from broker.edge.requests.acks import MOST_IDS
from broker.edge.session.session import Session

from .bench import Bench, Wire


def opened(bench: Bench, version: bytes) -> tuple[Session, Wire]:
    wire = Wire()
    session = bench.edge.open(wire)  # type: ignore[arg-type]
    session.receive(b"CONNECT\naccept-version:%b\nhost:h\n\n\0" % version)
    assert wire.take().startswith(b"CONNECTED")
    return session, wire


def subscribed(bench: Bench, session: Session, id: str = "1", **headers: str) -> int:
    lines = "".join(f"{name}:{value}\n" for name, value in headers.items())
    frame = f"SUBSCRIBE\nid:{id}\ndestination:/queue/q{id}\nack:client-individual\n{lines}\n\0"
    session.receive(frame.encode())
    bench.port.commands.clear()
    return max(bench.edge.consumers)


def ack(consumer: int, *numbers: int, header: str = "id", receipt: str = "", **more: str) -> bytes:
    lines = "".join(f"{name}:{value}\n" for name, value in more.items())
    asked = f"receipt:{receipt}%d\n" if receipt else ""
    frame = f"ACK\n{header}:boot-{consumer}-%d\n{lines}{asked}\n\0"
    return b"".join((frame % ((number, number) if receipt else number)).encode() for number in numbers)


def settled(bench: Bench) -> list[tuple[int, list[int]]]:
    found = [(each.consumer, list(each.ids)) for each in bench.port.commands if type(each) is Settle]
    bench.port.commands.clear()
    return found


async def test_neighbours_of_one_consumer_are_one_command_in_their_order():
    bench = Bench()
    session, _ = bench.session()
    one, other = subscribed(bench, session, "1"), subscribed(bench, session, "2")
    session.receive(ack(one, 5, 3, 4) + ack(other, 9) + ack(one, 6))
    assert settled(bench) == [(one, [5, 3, 4]), (other, [9]), (one, [6])]


async def test_a_command_has_only_so_many():
    """An owner carries it out whole."""
    bench = Bench()
    session, _ = bench.session()
    consumer = subscribed(bench, session)
    session.receive(ack(consumer, *range(1, MOST_IDS + 3)))
    found = settled(bench)
    assert max(len(ids) for _, ids in found) <= MOST_IDS
    assert [i for _, ids in found for i in ids] == list(range(1, MOST_IDS + 3))


async def test_receipts_come_when_the_last_of_a_read_is_settled():
    bench = Bench()
    session, wire = bench.session()
    one, other = subscribed(bench, session, "1"), subscribed(bench, session, "2")
    session.receive(ack(one, 1, receipt="r") + ack(other, 2, receipt="s"))
    commands = [each for each in bench.port.commands if type(each) is Settle]
    assert wire.take() == b""
    bench.edge.on_effects([Done(session.id, each.seq) for each in commands if each.seq])
    told = wire.take()
    assert b"receipt-id:r1\n" in told and b"receipt-id:s2\n" in told


async def test_what_a_browser_was_shown_is_nobodys_to_settle():
    bench = Bench()
    session, wire = bench.session()
    consumer = subscribed(bench, session, browser="true")
    session.receive(ack(consumer, 1, receipt="r"))
    assert settled(bench) == [] and b"receipt-id:r1\n" in wire.take(), "and that is so already"


@pytest.mark.parametrize(
    ("version", "given", "right"),
    [
        (b"1.1", "1", True), (b"1.1", "2", False), (b"1.1", "undefined", True), (b"1.1", "", True),
        (b"1.2", "2", True), (b"1.0", "2", True),
    ],
)  # fmt: skip
async def test_a_subscription_is_looked_at_where_it_says_something(version, given, right):
    """C49: in 1.1 it must be the right one; what stands for nothing in a client's language is taken as that."""
    bench = Bench()
    session, wire = opened(bench, version)
    consumer = subscribed(bench, session)
    header = "id" if version == b"1.2" else "message-id"
    session.receive(ack(consumer, 4, header=header, subscription=given))
    assert (settled(bench) == [(consumer, [4])]) is right
    assert (b"error-code:1309" in wire.sent) is not right


async def test_a_subscription_that_is_called_undefined_is_one():
    bench = Bench()
    session, wire = opened(bench, b"1.1")
    consumer = subscribed(bench, session)
    subscribed(bench, session, "undefined")
    session.receive(ack(consumer, 4, header="message-id", subscription="undefined"))
    assert settled(bench) == [] and b"error-code:1309" in wire.sent


@pytest.mark.parametrize(
    "id",
    [
        b"boot-99-1",
        b"1",
        b"-",
        b"boot-%d-x",
        b"boot-%d-",
        b"other-%d-1",
        b"boot-%d-1_0",
        b"boot-%d-+1",
        b"boot-%d- 1",
        b"boot-%d-1\t",
        b"boot-%d-\xd9\xa3",
        b"boot-%d-\xc2\xb2",
    ],
)
@pytest.mark.parametrize("command", [b"ACK", b"NACK"])
async def test_an_id_that_is_not_ours_is_refused_by_name(id, command):
    bench = Bench()
    session, wire = bench.session()
    consumer = subscribed(bench, session)
    session.receive(b"%b\nid:%b\n\n\0" % (command, id % consumer if b"%" in id else id))
    assert settled(bench) == [] and b"error-code:1309" in wire.sent and b"is not the id of a message" in wire.sent


@pytest.mark.parametrize("frame", [b"ACK\nid:%b\n\n\0", b"NACK\nid:%b\n\n\0", b"ACK\nid:%b\ntransaction:t\n\n\0"])
async def test_an_ack_of_a_number_with_thousands_of_digits_is_refused(frame: bytes) -> None:
    bench = Bench()
    session, wire = bench.session()
    consumer = bench.subscribed(session)
    session.receive(b"BEGIN\ntransaction:t\n\n\0" + frame % (b"boot-%d-%b" % (consumer, b"1" * 5000)))
    assert b"error-code:1309" in wire.sent
    assert wire.closed is Reason.REFUSED


@pytest.mark.parametrize(("digits", "right"), [(18, True), (19, False)])
@pytest.mark.parametrize("command", [b"ACK", b"NACK"])
async def test_a_number_that_a_message_could_have_is_taken(digits, right, command):
    bench = Bench()
    session, wire = bench.session()
    consumer = subscribed(bench, session)
    session.receive(b"%b\nid:boot-%d-%b\n\n\0" % (command, consumer, b"1" * digits))
    assert bool(settled(bench)) is right and (b"error-code:1309" in wire.sent) is not right


async def test_what_comes_behind_a_wrong_one_is_not_done():
    bench = Bench()
    session, wire = bench.session()
    consumer = subscribed(bench, session)
    session.receive(ack(consumer, 1) + b"ACK\nid:boot-99-1\n\n\0" + ack(consumer, 2))
    assert settled(bench) in ([(consumer, [1])], []) and wire.closed is Reason.REFUSED


async def test_acknowledgements_over_parts_go_to_the_parts_they_cover():
    bench = Bench()
    session, _ = bench.session()
    consumer = subscribed(bench, session)
    flowed: list[bool] = []

    class Order:
        """Of a subscription over two slots: 4 covers 2 of the other."""

        def settle(self, sub: Any, numbers: Any) -> list[tuple[Any, Any]]:
            other = type("Part", (), {"slot": 77, "consumer": 88})()
            return [(sub, numbers), (other, [2])]

        def flow(self) -> None:
            flowed.append(True)

    bench.edge.consumers[consumer].order = Order()
    session.receive(ack(consumer, 4, receipt="r"))
    commands = [each for each in bench.port.commands if type(each) is Settle]
    assert [(each.slot, each.consumer, list(each.ids)) for each in commands][1] == (77, 88, [2])
    assert all(each.seq for each in commands) and flowed == [True]
