"""What is told of clients, and that it is made only where somebody listens."""

from __future__ import annotations

from typing import Any

import pytest

from broker.core.notices import Notice, NoticeKind

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
