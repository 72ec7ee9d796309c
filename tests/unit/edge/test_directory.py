"""Client-ids and names of durable subscriptions: who has them, answers that come late, answers that never come."""

from __future__ import annotations

import asyncio

import pytest

from broker.core.client_id_holders import in_use
from broker.core.commands import Subscribe, Unsubscribe
from broker.core.effects import Done, Refused
from broker.core.errors import Code, RefusedError
from broker.core.reasons import Reason
from broker.edge.destinations.directory import AskedNames, Directory, LocalClientIds, LocalNames
from broker.metadata.port import MetadataUnavailable

from .bench import Bench, Wire

CONNECT = b"CONNECT\naccept-version:1.2\nhost:h\nclient-id:me\n\n\0"
SUBSCRIBE = b"SUBSCRIBE\nid:%b\ndestination:/topic/%b\ndurable-subscription-name:d\nreceipt:r\n\n\0"
DELETE = b"UNSUBSCRIBE\nid:1\ndestination:/topic/%b\ndurable-subscription-name:d\nreceipt:u\n\n\0"


class Later:
    """Keeps every question until the test answers it."""

    def __init__(self) -> None:
        self.open = []
        self.released = []

    def claim(self, name, value, done):
        self.open.append(done)

    def release(self, name, value=None):
        self.released.append(name)


def says(data: bytes, code: Code) -> bool:
    return data.startswith(b"ERROR") and b"error-code:%d\n" % code.number in data


def dialled(bench: Bench):
    wire = Wire()
    session = bench.edge.open(wire)
    session.receive(CONNECT)
    return session, wire


async def test_any_number_of_connections_may_have_a_client_id():
    bench = Bench()
    for _ in range(3):
        assert dialled(bench)[1].take().startswith(b"CONNECTED")


async def test_a_client_id_in_use_is_refused_until_its_connection_has_gone():
    bench = Bench(client_id_in_use="refuse")
    first, wire = dialled(bench)
    assert wire.take().startswith(b"CONNECTED")
    _, second = dialled(bench)
    assert says(second.take(), Code.CLIENT_ID_IN_USE) and second.closed is Reason.REFUSED
    assert wire.closed is None
    first.receive(b"DISCONNECT\n\n\0")
    assert dialled(bench)[1].take().startswith(b"CONNECTED")


async def test_a_client_id_is_taken_over_and_not_lost_when_the_old_connection_ends():
    bench = Bench(client_id_in_use="takeover")
    first, wire = dialled(bench)
    wire.take()
    _, second = dialled(bench)
    assert second.take().startswith(b"CONNECTED")
    assert says(wire.take(), Code.CLIENT_ID_IN_USE) and wire.closed is Reason.REFUSED
    first.lost()
    dialled(bench)
    assert says(second.take(), Code.CLIENT_ID_IN_USE)


async def test_a_connection_waits_for_the_answer_about_its_client_id():
    bench, later = Bench(), Later()
    bench.edge.directory = Directory(later, LocalNames())
    session, wire = dialled(bench)
    session.receive(b"SUBSCRIBE\nid:1\ndestination:/queue/a\n\n\0")
    assert not wire.take() and not bench.port.commands
    later.open[0](None)
    assert wire.take().startswith(b"CONNECTED") and bench.port.last(Subscribe).address == "a"
    session.lost()
    assert later.released == ["me"]


async def test_a_client_id_refused_late_ends_the_connection():
    bench, later = Bench(), Later()
    bench.edge.directory = Directory(later, LocalNames())
    _, wire = dialled(bench)
    later.open[0](in_use("me"))
    assert says(wire.take(), Code.CLIENT_ID_IN_USE) and wire.closed


async def test_a_client_id_granted_after_the_end_is_given_back():
    bench, later = Bench(), Later()
    bench.edge.directory = Directory(later, LocalNames())
    session, _ = dialled(bench)
    session.abort(Reason.CLIENT_GONE)
    later.open[0](None)
    assert later.released == ["me"]


async def test_a_durable_subscription_belongs_to_one_address_in_whatever_slot():
    bench = Bench()
    session, wire = dialled(bench)
    wire.take()
    session.receive(SUBSCRIBE % (b"1", b"a"))
    bench.edge.on_effects([Done(session.id, bench.port.last(Subscribe).seq)])
    assert b"RECEIPT" in wire.take()
    session.receive(SUBSCRIBE % (b"2", b"b"))
    reply = wire.take()
    assert says(reply, Code.SUBSCRIPTION_CONFLICT) and b"receipt-id:r" in reply and b"'me.d' belongs to 'a'" in reply


async def test_a_deleted_subscription_gives_its_name_back_before_the_receipt():
    bench, names = Bench(), LocalNames()
    bench.edge.directory = Directory(LocalClientIds("allow"), names)
    session, wire = dialled(bench)
    session.receive(SUBSCRIBE % (b"1", b"a"))
    bench.edge.on_effects([Done(session.id, bench.port.last(Subscribe).seq)])
    session.receive(DELETE % b"a")
    wire.take()
    bench.edge.on_effects([Done(session.id, bench.port.last(Unsubscribe).seq)])
    assert b"receipt-id:u" in wire.take()
    answers: list[RefusedError | None] = []
    names.claim("me.d", "b", answers.append)
    assert answers == [None]


async def test_a_name_without_a_queue_can_be_freed():
    bench, names = Bench(), LocalNames()
    names.learn({"me.d": "a"})
    bench.edge.directory = Directory(LocalClientIds("allow"), names)
    session, wire = dialled(bench)
    wire.take()
    session.receive(DELETE % b"a")
    bench.edge.on_effects([Refused(session.id, bench.port.last(Unsubscribe).seq, Code.NO_SUCH_SUBSCRIPTION)])
    assert says(wire.take(), Code.NO_SUCH_SUBSCRIPTION)
    answers: list[RefusedError | None] = []
    names.claim("me.d", "b", answers.append)
    assert answers == [None]


@pytest.mark.parametrize("there", [True, False], ids=["another subscription ends", "no such subscription"])
async def test_unsubscribing_elsewhere_does_not_free_the_name(there):
    """The queue stays where it is: whoever took the name would keep its owner out (1313)."""
    bench, names = Bench(), LocalNames()
    names.learn({"me.d": "a"})
    bench.edge.directory = Directory(LocalClientIds("allow"), names)
    session, _wire = dialled(bench)
    if there:
        session.receive(b"SUBSCRIBE\nid:1\ndestination:/topic/b\n\n\0")
        session.receive(b"UNSUBSCRIBE\nid:1\ndurable-subscriber-name:d\nreceipt:u\n\n\0")
        answer: Done | Refused = Done(session.id, bench.port.last(Unsubscribe).seq)
    else:
        session.receive(DELETE % b"b")
        answer = Refused(session.id, bench.port.last(Unsubscribe).seq, Code.NO_SUCH_SUBSCRIPTION)
    bench.edge.on_effects([answer])
    answers: list[RefusedError | None] = []
    names.claim("me.d", "b", answers.append)
    assert answers[0] is not None and answers[0].code is Code.SUBSCRIPTION_CONFLICT
    names.claim("me.d", "a", answers.append)
    assert answers[1] is None


class Shared:
    """A metadata store that has one name."""

    def __init__(self) -> None:
        self.down = False

    async def claim(self, name, address):
        if self.down:
            raise MetadataUnavailable("etcd does not answer")
        return None if address == "a" else "a"

    async def release(self, name, address):
        await self.claim(name, address)


@pytest.mark.parametrize(
    ("address", "down", "code"),
    [("a", False, None), ("b", False, Code.SUBSCRIPTION_CONFLICT), ("a", True, Code.DIRECTORY_UNAVAILABLE)],
)
async def test_the_clusters_names_are_waited_for(address, down, code):
    shared = Shared()
    shared.down = down
    bench = Bench()
    bench.edge.directory = Directory(LocalClientIds("allow"), AskedNames(shared))
    session, wire = dialled(bench)
    wire.take()
    session.receive(SUBSCRIBE % (b"1", address.encode()))
    assert not [c for c in bench.port.commands if isinstance(c, Subscribe)]
    await asyncio.sleep(0.01)
    if code is None:
        assert bench.port.last(Subscribe).queue == "me.d"
    else:
        reply = wire.take()
        assert says(reply, code) and b"receipt-id:r" in reply
