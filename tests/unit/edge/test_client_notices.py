"""What is told of clients, and that it is made only where somebody listens."""

from __future__ import annotations

from typing import Any

import pytest

from broker.config.settings import EngineSettings
from broker.core.effects import AddressBlocked, Done
from broker.core.notices import Notice, NoticeKind
from broker.core.reasons import Reason
from broker.edge.session.told.client_notices import filled

from .bench import Bench


def told(bench: Bench) -> list[Notice]:
    found: list[Notice] = []

    def notify(what: Any) -> None:
        found.extend([what] if isinstance(what, Notice) else what)

    bench.edge.notified_by(notify)
    return found


@pytest.mark.parametrize(
    ("destination", "headers", "topic"),
    [("/topic/a", b"", True), ("/queue/a", b"", False), ("/queue/a", b"browser:true\n", False)],
)
async def test_a_subscription_is_told_with_what_it_is_to(destination: str, headers: bytes, topic: bool) -> None:
    bench = Bench()
    found = told(bench)
    session, _ = bench.session()
    session.receive(b"SUBSCRIBE\nid:7\ndestination:%b\n%b\n\0" % (destination.encode(), headers))
    created, subscribed = found
    assert (created.kind, created.connection, created.address) == (NoticeKind.CONNECTION_CREATED, session.id, "")
    assert (subscribed.kind, subscribed.address, subscribed.topic, subscribed.subscription) == (
        NoticeKind.CONSUMER_CREATED, "a", topic, "7",
    )  # fmt: skip
    session.receive(b"UNSUBSCRIBE\nid:7\n\n\0")
    assert found[2] == subscribed._replace(kind=NoticeKind.CONSUMER_CLOSED)


async def test_its_end_comes_behind_those_of_its_subscriptions() -> None:
    bench = Bench()
    found = told(bench)
    session, _ = bench.session()
    for n in (1, 2):
        session.receive(b"SUBSCRIBE\nid:%d\ndestination:/queue/q%d\n\n\0" % (n, n))
    found.clear()
    session.receive(b"DISCONNECT\n\n\0")
    assert [(each.kind.name, each.address) for each in found] == [
        ("CONSUMER_CLOSED", "q1"), ("CONSUMER_CLOSED", "q2"), ("CONNECTION_DESTROYED", ""),
    ]  # fmt: skip
    assert {each.connection for each in found} == {session.id}


ENDS = [
    (NoticeKind.CONSUMER_CLOSED, "a", False), (NoticeKind.CONSUMER_CLOSED, "$temp.", True),
    (NoticeKind.TEMPORARY_REMOVED, "$temp.", False), (NoticeKind.CONNECTION_DESTROYED, "", False),
]  # fmt: skip
SLOW = [(NoticeKind.CONSUMER_SLOW, *each[1:]) for each in ENDS[:2]]


def listened() -> tuple[Bench, list[tuple[NoticeKind, str, bool]]]:
    bench, told = Bench(dialect="activemq"), []

    def take(notices: object) -> None:
        for each in [notices] if isinstance(notices, Notice) else notices:  # type: ignore[attr-defined]
            told.append((each.kind, each.address[:6], each.topic))

    bench.edge.notified_by(take)
    return bench, told


@pytest.mark.parametrize("reason", [Reason.CLIENT_GONE, Reason.SLOW_CONSUMER])
async def test_its_end_and_everything_that_ends_with_it(reason: Reason) -> None:
    bench, told = listened()
    session, _ = bench.session()
    session.receive(b"SUBSCRIBE\nid:1\ndestination:/queue/a\n\n\0SUBSCRIBE\nid:2\ndestination:/temp-queue/t\n\n\0")
    assert told[-3:] == [
        (NoticeKind.CONSUMER_CREATED, "a", False), (NoticeKind.TEMPORARY_ADDED, "$temp.", False),
        (NoticeKind.CONSUMER_CREATED, "$temp.", True),
    ]  # fmt: skip
    told.clear()
    session.abort(reason)
    slow = [each for pair in zip(SLOW, ENDS, strict=False) for each in pair] + ENDS[2:]
    assert told == (ENDS if reason is Reason.CLIENT_GONE else slow)


async def test_a_temporary_destination_goes_with_its_last_subscription() -> None:
    bench, told = listened()
    session, _ = bench.session()
    session.receive(b"SUBSCRIBE\nid:1\ndestination:/temp-topic/t\n\n\0SUBSCRIBE\nid:2\ndestination:/temp-topic/t\n\n\0")
    session.receive(b"UNSUBSCRIBE\nid:1\n\n\0")
    assert [kind for kind, *_ in told].count(NoticeKind.TEMPORARY_ADDED) == 1
    assert NoticeKind.TEMPORARY_REMOVED not in [kind for kind, *_ in told]
    session.receive(b"UNSUBSCRIBE\nid:2\n\n\0")
    assert (NoticeKind.TEMPORARY_REMOVED, "$temp.", True) in told


async def test_who_begins_to_wait_for_a_full_address() -> None:
    bench, told = listened()
    session, _ = bench.session()
    session.receive(b"SEND\ndestination:/queue/a\n\nx\0")
    told.clear()
    bench.edge.on_effects([AddressBlocked(session.id, 0, "a", True)])
    bench.edge.on_effects(
        [AddressBlocked(session.id, 0, "a", False), AddressBlocked(session.id, 0, "a", True, passing=True)]
    )
    bench.edge.on_effects([Done(session.id, 0)])
    assert [kind for kind, *_ in told] == [NoticeKind.FULL] and told[0][1] == "a"


async def test_an_address_of_topics_alone_is_told_as_a_topic() -> None:
    """Its default may say otherwise, and does not count there (routing_types)."""
    bench = Bench(engine=EngineSettings(addresses={"a": {"routing_types": "MULTICAST"}}))
    session, _ = bench.session()
    assert filled(session, "a", bench.edge.match).topic
