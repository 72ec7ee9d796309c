"""Permissions at work in sessions: what is refused, what may be created, and what a change does to open connections."""

from __future__ import annotations

from typing import Any

import pytest

from broker.config.permissions import OPERATIONS
from broker.core.commands import Publish, Subscribe, SubscribeAll, Transact, Unsubscribe
from broker.core.effects import Refused
from broker.core.errors import Code
from broker.core.message import Blob
from broker.core.reasons import Reason
from broker.edge.session.session import Session
from broker.wire.events import Head

from .bench import Bench, Wire

ALL = dict.fromkeys(OPERATIONS, "*")


def bench_of(permissions: dict[str, dict[str, str]]) -> tuple[Bench, Session, Wire]:
    bench = Bench(permissions=permissions)
    return bench, *bench.session()


def denied(bench: Bench) -> dict[str, int]:
    return bench.edge.counters.denied


def without(*operations: str) -> dict[str, str]:
    return {name: groups for name, groups in ALL.items() if name not in operations}


REFUSED = [
    (b"SEND\ndestination:/queue/q\nreceipt:r\n\nx\0", "send", "q"),
    (b"SEND\ndestination:q\nreceipt:r\ntransaction:t\n\nx\0", "send", "q"),
    (b"SEND\ndestination:/queue/q::p\nreceipt:r\n\nx\0", "send", "q::p"),
    (b"SEND\ndestination:/queue/q\nreceipt:r\ncontent-length:2000\n\n" + b"x" * 2000 + b"\0", "send", "q"),
    (b"SUBSCRIBE\nid:1\ndestination:/queue/q\nreceipt:r\n\n\0", "consume", "q"),
    (b"SUBSCRIBE\nid:1\ndestination:/queue/q\nbrowser:true\nreceipt:r\n\n\0", "browse", "q"),
    (b"SUBSCRIBE\nid:1\ndestination:/topic/q\nreceipt:r\n\n\0", "create_non_durable_queue", "q"),
    (b"SUBSCRIBE\nid:1\ndestination:/topic/#\nreceipt:r\n\n\0", "consume", "#"),
    (
        b"UNSUBSCRIBE\nid:1\ndestination:/topic/q\ndurable-subscriber-name:d\nreceipt:r\n\n\0",
        "delete_durable_queue",
        "q::c.d",
    ),
]


@pytest.mark.parametrize(("frame", "operation", "name"), REFUSED, ids=[f"{o}-{n}" for _, o, n in REFUSED])
async def test_what_is_not_allowed_is_refused_by_name_and_nothing_happens(frame, operation, name):
    bench, session, wire = bench_of({"#": without(operation)})
    session.client_id = "c"
    session.receive(b"BEGIN\ntransaction:t\n\n\0")
    session.receive(frame)
    said = wire.take()
    assert said.startswith(b"ERROR\n") and b"error-code:1203\n" in said and b"receipt-id:r\n" in said
    assert f"user 'anonymous' lacks {operation} at '{name}'".encode() in said and b'edge.permissions."#".' in said
    assert wire.closed is Reason.REFUSED and denied(bench) == {operation: 1}
    assert not [one for one in bench.port.commands if isinstance(one, Publish | Subscribe | SubscribeAll | Unsubscribe)]
    assert not bench.port.writers


@pytest.mark.parametrize("size", [1, 2000])
async def test_a_queue_that_is_not_to_be_made_is_sent_to_by_permission_all_the_same(size):
    """RabbitMQ's /amq/queue/."""
    bench = Bench(permissions={"#": without("send")}, dialect="rabbitmq")
    _, wire = opened = bench.session()
    opened[0].receive(b"SEND\ndestination:/amq/queue/q\ncontent-length:%d\n\n%b\0" % (size, b"x" * size))
    assert b"lacks send at 'q'" in wire.take() and wire.closed is Reason.REFUSED and not bench.port.writers


async def test_an_answer_goes_by_permission_also_where_nothing_is_made_for_it():
    bench, session, wire = bench_of({"#": without("send")})
    bench.edge.management = lambda asked, then: then(None)
    session.entrance.routes.of(Head(b"", {"destination": "q"}, 0, False)).create = False
    session.receive(b"SEND\ndestination:activemq.management\nreply-to:q\n\n\0")
    assert b"lacks send at 'q'" in wire.take() and denied(bench) == {"send": 1}


async def test_what_was_sent_before_the_refused_frame_of_one_read_is_kept():
    bench, session, wire = bench_of({"#": {}, "mine": ALL})
    send = b"SEND\ndestination:/queue/%b\n\nx\0"
    session.receive(send % b"mine" * 3 + send % b"yours" + send % b"mine")
    assert [len(command.run) for command in bench.port.commands] == [3]
    assert b"at 'yours'" in wire.take() and wire.closed is Reason.REFUSED


async def test_a_transaction_is_judged_when_it_is_sent_not_when_it_commits():
    bench, session, wire = bench_of({"#": ALL})
    session.receive(b"BEGIN\ntransaction:t\n\n\0SEND\ndestination:/queue/q\ntransaction:t\n\nx\0")
    bench.edge.permit({"#": {}})
    session.receive(b"COMMIT\ntransaction:t\n\n\0")
    assert len(bench.port.last(Transact).parts) == 1 and wire.closed is None


SEND, SUBSCRIBE = b"SEND\ndestination:%b\n\nx\0", b"SUBSCRIBE\nid:1\ndestination:%b\n\n\0"
BIG = b"SEND\ndestination:%b\ncontent-length:2000\n\n" + b"x" * 2000 + b"\0"
CREATES: list[tuple[bytes, bytes, set[str], set[str]]] = [
    # frame, destination, what is enough to create, what alone is not
    (SEND, b"/queue/q", {"create_address", "create_durable_queue"}, {"create_address"}),
    (SEND, b"/queue/q", {"create_address", "create_durable_queue"}, {"create_durable_queue"}),
    (SEND, b"/topic/q", {"create_address"}, {"create_durable_queue"}),
    (SEND, b"q", {"create_address", "create_durable_queue"}, {"create_address"}),
    (SEND, b"/topic/q::p", {"create_address", "create_durable_queue"}, {"create_address"}),
    (SUBSCRIBE, b"/queue/q", {"create_address", "create_durable_queue"}, {"create_address"}),
    (SUBSCRIBE, b"/topic/q", {"create_address", "create_non_durable_queue"}, {"create_non_durable_queue"}),
    (SUBSCRIBE, b"/topic/q.*", {"create_non_durable_queue"}, set()),
]


@pytest.mark.parametrize(("frame", "destination", "enough", "little"), CREATES)
async def test_who_may_not_create_tells_the_owner_so(frame, destination, enough, little):
    base = {"send": "*", "consume": "*"}
    for operations, create in ((enough, True), (little, False)):
        bench, session, _ = bench_of({"#": base | dict.fromkeys(operations, "*")})
        session.receive(frame % destination)
        kind: Any = Publish if frame is SEND else Subscribe
        asked = [getattr(command, "model", command) for command in bench.port.commands]
        made = [command.create for command in asked if type(command) is kind]
        assert set(made) == ({create} if made else set()) and (made or not create)


async def test_a_large_body_and_a_transaction_are_told_as_well():
    bench, session, _ = bench_of({"#": {"send": "*"}})
    session.receive(BIG % b"/queue/q")
    bench.port.writers[0].finished(Blob(1, 2000), "")
    assert bench.port.last(Publish).create is False
    session.receive(
        b"BEGIN\ntransaction:t\n\n\0SEND\ndestination:/queue/q\ntransaction:t\n\nx\0COMMIT\ntransaction:t\n\n\0"
    )
    assert bench.port.last(Transact).parts[0].create is False


async def test_what_an_owner_may_not_create_is_told_with_the_setting():
    bench, session, wire = bench_of({"#": {"send": "*"}})
    session.receive(b"SEND\ndestination:/queue/q\nreceipt:r\n\nx\0")
    publish = bench.port.last(Publish)
    bench.edge.on_effects([Refused(session.id, publish.seq, Code.NOT_ALLOWED, "'q' does not exist")])
    said = wire.take()
    assert b"receipt-id:r" in said and b"lacks create_address" in said and b"'anonymous'" in said
    assert denied(bench) == {"create": 1}


async def test_without_permissions_nothing_is_asked():
    bench, session, wire = bench_of({})
    assert session.rights is None
    session.receive(SEND % b"/queue/q" + SUBSCRIBE % b"/topic/#")
    assert bench.port.last(Publish).create and bench.port.last(SubscribeAll).model.create and wire.closed is None


# ── live ─────────────────────────────────────────────────────────────────────────────────────────────


async def test_a_change_counts_for_the_next_frame_of_an_open_connection():
    bench, session, wire = bench_of({"#": ALL})
    session.receive(SEND % b"/queue/q")
    bench.edge.permit({"#": without("send")})
    assert wire.closed is None, "who only sent is told when sending again"
    session.receive(SEND % b"/queue/q")
    assert b"lacks send" in wire.take() and wire.closed is Reason.REFUSED


@pytest.mark.parametrize("frame", [SEND, BIG])
async def test_the_last_permission_that_goes_opens_nothing(frame, caplog):
    bench, session, wire = bench_of({"#": ALL})
    bench.edge.permit({})
    session.receive(frame % b"/queue/q")
    assert b"lacks send at 'q'" in wire.take() and wire.closed is Reason.REFUSED
    assert "nobody may do anything" in caplog.text
    bench.edge.permit({})
    session, wire = bench.session()
    session.receive(SUBSCRIBE % b"/queue/q")
    assert b"lacks consume" in wire.take()
    bench.edge.permit({"#": ALL})
    session, wire = bench.session()
    session.receive(SUBSCRIBE % b"/queue/q")
    assert wire.closed is None


async def test_permissions_can_be_required():
    bench = Bench(permissions_required=True)
    session, wire = bench.session()
    session.receive(SUBSCRIBE % b"/queue/q")
    assert b"lacks consume at 'q'" in wire.take() and wire.closed is Reason.REFUSED


DURABLE = b"SUBSCRIBE\nid:1\ndestination:/topic/news\ndurable-subscriber-name:inbox\n\n\0"
CLOSED = [
    # frame, the queue that is not the user's, what it is called in the refusal
    (SUBSCRIBE % b"/queue/orders.eu", "orders.eu::orders.eu"),
    (SUBSCRIBE % b"orders.eu", "orders.eu::orders.eu"),
    (SUBSCRIBE % b"orders.eu::orders.eu", "orders.eu::orders.eu"),
    (b"SUBSCRIBE\nid:1\ndestination:orders.eu\nsubscription-type:ANYCAST\n\n\0", "orders.eu::orders.eu"),
    (DURABLE, "news::ada.inbox"),
    (SUBSCRIBE % b"/topic/news::ada.inbox", "news::ada.inbox"),
    (DURABLE.replace(b"news", b"news.#"), "news.#::ada.inbox"),
    (DURABLE.replace(b"SUB", b"UNSUB").replace(b"id:1", b"id:2"), "news::ada.inbox"),
]


@pytest.mark.parametrize(("frame", "queue"), CLOSED)
async def test_a_queue_is_judged_whatever_name_it_is_given(frame, queue):
    for theirs in ({}, ALL):
        bench, session, wire = bench_of({"#": ALL, queue: theirs})
        session.client_id = "ada"
        session.receive(frame)
        said = wire.take()
        if theirs:
            assert wire.closed is None and bench.port.commands
        else:
            assert f"at '{queue}'".encode() in said and f'edge.permissions."{queue}".'.encode() in said
            assert wire.closed is Reason.REFUSED and not bench.port.commands


async def test_a_topic_is_not_the_queue_of_its_name():
    _bench, session, wire = bench_of({"#": ALL, "orders::orders": {}})
    session.receive(SUBSCRIBE % b"/topic/orders")
    session.receive(SEND % b"/queue/orders")
    assert wire.closed is None, "sending to an address is the address' affair"


@pytest.mark.parametrize(("frame", "queue"), CLOSED[:-1])
async def test_a_subscription_ends_when_its_queue_is_closed(frame, queue):
    bench, session, wire = bench_of({"#": ALL})
    session.client_id = "ada"
    session.receive(frame)
    bench.edge.permit({"#": ALL, queue: without("consume")})
    assert f"lacks consume at '{queue}'".encode() in wire.take() and wire.closed is Reason.REFUSED


@pytest.mark.parametrize("frame", [SEND, BIG])
async def test_what_may_be_created_follows_the_permissions_of_an_open_connection(frame):
    bench, session, _ = bench_of({"#": {"send": "*"}})
    session.receive(SEND % b"/queue/q")
    assert bench.port.last(Publish).create is False
    bench.edge.permit({"#": ALL})
    session.receive(frame % b"/queue/r")
    for writer in bench.port.writers:
        writer.finished(Blob(1, 2000), "")
    published = bench.port.last(Publish)
    assert published.address == "r" and published.create


@pytest.mark.parametrize("destination", [b"/queue/q", b"/topic/q", b"/queue/q::p", b"/topic/q.*"])
async def test_a_subscription_that_lost_its_right_ends(destination):
    bench, session, wire = bench_of({"#": ALL})
    other, kept = bench.session()
    session.receive(SUBSCRIBE % destination)
    other.receive(SUBSCRIBE % b"/queue/other")
    bench.edge.permit({"#": ALL, "q.#": without("consume")})
    said = wire.take()
    assert b"error-code:1203" in said and b"lacks consume" in said and b"has ended" in said
    assert wire.closed is Reason.REFUSED and kept.closed is None and denied(bench) == {"consume": 1}
    bench.edge.permit({"#": without("browse")})
    assert kept.closed is None


async def test_groups_that_no_user_has_are_named_once(caplog):
    bench, _, _ = bench_of({"#": {"send": "ghosts,*"}})
    bench.edge.permit({"#": {"send": "ghosts,*", "consume": "*"}})
    assert caplog.text.count("ghosts") == 1 and "'*'" not in caplog.text


async def test_denials_are_a_metric():
    bench, session, _ = bench_of({"#": {}})
    session.receive(SEND % b"/queue/q")
    found = next(metric for metric in bench.edge.metrics() if metric.name == "stomp_denied_total")
    assert found.samples == [({"operation": "send"}, 1.0)]
