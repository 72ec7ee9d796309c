"""Notifications and advisories: who comes and goes is told to who subscribes, and to nobody else."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from itertools import count
from pathlib import Path
from types import SimpleNamespace

import pytest

from broker.admin.management import notifications
from broker.admin.management.notifications import Notifications
from broker.client import ServerError, connect
from broker.core.notices import Notice, NoticeKind, is_advisory
from tests.harness.waiting import PATIENCE_S, eventually
from tests.unit.bridge.world import broker, url


def classic(at) -> str:
    return f"stomp://127.0.0.1:{at.listeners.ports['classic']}"


ON = {
    "edge.notifications": "yes", "acceptors.classic.port": 0, "acceptors.classic.host": "127.0.0.1",
    "acceptors.classic.dialect": "activemq", "admin.port": 0,
}  # fmt: skip


async def told(subscription, kind: str):
    """The next one of that type."""
    while (message := await subscription.get(PATIENCE_S)) is not None:
        if message.headers.get("_AMQ_NotifType") == kind:
            return message
    raise AssertionError(kind)


async def test_artemis_clients_hear_of_connections_and_consumers(tmp_path: Path):
    async with (
        broker(tmp_path, **ON) as at, connect(url(at)) as watcher,
        watcher.subscribe("/topic/activemq.notifications") as seen,
    ):  # fmt: skip
        async with connect(url(at), client_id="ada-1") as client, client.subscribe("/queue/orders", id="mine"):
            made = await told(seen, "CONNECTION_CREATED")
            assert made.headers["_AMQ_Client_ID"] == "ada-1" and made.headers["_AMQ_Protocol_Name"] == "STOMP"
            consumer = (await told(seen, "CONSUMER_CREATED")).headers
            assert (consumer["_AMQ_Address"], consumer["_AMQ_ConsumerCount"]) == ("orders", "1")
            assert (consumer["_AMQ_RoutingType"], consumer["_AMQ_SessionName"]) == ("1", "mine")
        assert (await told(seen, "CONSUMER_CLOSED")).headers["_AMQ_ConsumerCount"] == "0"
        await told(seen, "CONNECTION_DESTROYED")


async def test_classic_clients_hear_by_advisories(tmp_path: Path):
    async with (
        broker(tmp_path, **ON) as at, connect(classic(at)) as watcher,
        watcher.subscribe("/topic/ActiveMQ.Advisory.Consumer.Queue.>") as consumers,
        watcher.subscribe("/topic/ActiveMQ.Advisory.Connection") as connections,
        connect(classic(at)) as client, client.subscribe("/queue/orders"),
    ):  # fmt: skip
        message = await consumers.get(PATIENCE_S)
        assert message.headers["consumerCount"] == "1"
        assert message.destination == "/topic/ActiveMQ.Advisory.Consumer.Queue.orders"
        assert json.loads(message.body)["ConsumerInfo"]["destination"] == "queue://orders"
        assert "ConnectionInfo" in json.loads((await connections.get(PATIENCE_S)).body)


@pytest.mark.parametrize("settings", [ON, {"admin.port": 0}], ids=["on", "off"])
async def test_nobody_sends_there_and_without_the_setting_nobody_listens(tmp_path: Path, settings):
    async with broker(tmp_path, **settings) as at:
        async with connect(url(at)) as client:
            with pytest.raises(ServerError, match=r"edge\.notifications"):
                await client.send("/topic/activemq.notifications", b"forged", receipt=True)
        if settings is not ON:
            async with connect(url(at)) as client:
                with pytest.raises(ServerError, match=r"edge\.notifications"):
                    async with client.subscribe("/topic/activemq.notifications"):
                        pass


async def test_what_comes_too_fast_is_dropped_and_counted(tmp_path: Path, monkeypatch):
    monkeypatch.setattr(notifications, "MOST", 2)
    async with broker(tmp_path, **ON) as at:
        (own,) = [each for each in at.admin._sources if isinstance(each, notifications.Notifications)]
        for number in range(5):
            own.notify(Notice(NoticeKind.CONNECTION_CREATED, number, "ada", "peer"))
        found = {metric.name: metric.samples[0][1] for metric in own.metrics()}
        assert found["stomp_notifications_dropped_total"] == 3
        await eventually(lambda: own._told >= 2 and not own._waiting)


async def test_the_consumers_of_a_session_that_ends_are_told_some_a_turn(monkeypatch):
    monkeypatch.setattr(notifications, "MOST", 10)
    made = Notifications(None, "edge-0", lambda: 0)  # type: ignore[arg-type]
    made._something = made._task = SimpleNamespace(set=lambda: None)  # type: ignore[assignment]
    about = Notice(NoticeKind.CONSUMER_CREATED, 1, "ada", "10.0.0.1:5", "", "orders")
    for _ in range(1000):
        made.notify(about)
    drawn = []

    def endings():
        for n in range(1000):
            drawn.append(n)
            yield about._replace(kind=NoticeKind.CONSUMER_CLOSED)
        yield about._replace(kind=NoticeKind.CONNECTION_DESTROYED, address="")

    made.notify(endings())
    assert drawn == []
    most, before = 0, 0
    while made._several:
        await asyncio.sleep(0)
        most, before = max(most, len(drawn) - before), len(drawn)
    assert len(drawn) == 1000 and most == notifications.PIECE and not made._consumers


async def test_who_is_back_at_once_is_told_behind_its_own_end():
    made = Notifications(None, "edge-0", lambda: 0)  # type: ignore[arg-type]
    made._something = made._task = SimpleNamespace(set=lambda: None)  # type: ignore[assignment]
    came = Notice(NoticeKind.CONSUMER_CREATED, 1, "ada", "10.0.0.1:5", "", "orders")
    made.notify(came)
    made.notify(iter([came._replace(kind=NoticeKind.CONSUMER_CLOSED)] * notifications.PIECE))
    for connection in range(2, 2 + 3 * notifications.PIECE):
        made.notify(came._replace(connection=connection))
    turns = 0
    while made._several:
        await asyncio.sleep(0)
        turns += 1
    heard = [(notice.kind.value, notice.connection, count) for notice, count in made._waiting]
    assert heard[:2] == [("CONSUMER_CREATED", 1, 1), ("CONSUMER_CLOSED", 1, 0)]
    assert heard[notifications.PIECE + 1 :][:2] == [("CONSUMER_CREATED", 2, 1), ("CONSUMER_CREATED", 3, 2)]
    # What comes meanwhile is some a turn as well, not one: it could come faster than that.
    assert turns <= 6 and not made._dropped


async def test_the_end_of_a_consumer_is_one_look_however_many_addresses_have_some():
    class Walked(Counter):
        def items(self):
            raise AssertionError("all of them are looked at")

    made = Notifications(None, "edge-0", lambda: 0)  # type: ignore[arg-type]
    made._something = made._task = SimpleNamespace(set=lambda: None)  # type: ignore[assignment]
    made._consumers = Walked()
    about = Notice(NoticeKind.CONSUMER_CREATED, 1, "ada", "10.0.0.1:5", "", "orders")
    for kind in (NoticeKind.CONSUMER_CREATED, NoticeKind.CONSUMER_CLOSED, NoticeKind.CONSUMER_CLOSED):
        made.notify(about._replace(kind=kind))
    assert [count for _, count in made._waiting] == [1, 0, 0] and not made._consumers


async def test_what_happens_in_a_virtual_host_is_told_there_by_its_own_names(tmp_path: Path):
    hosts = {"edge.virtual_hosts.shop.names": "shop.example.com", "edge.virtual_hosts.bank.names": ""}
    topic = "/topic/activemq.notifications"
    async with (
        broker(tmp_path, **ON, **hosts) as at,
        connect(url(at), vhost="shop") as watcher, watcher.subscribe(topic) as seen,
        connect(url(at), vhost="bank") as banker, banker.subscribe(topic) as foreign,
        connect(url(at)) as operator, operator.subscribe(topic) as whole,
        connect(classic(at), vhost="shop") as third,
        third.subscribe("/topic/ActiveMQ.Advisory.Consumer.Queue.>") as advised,
    ):  # fmt: skip
        async with connect(url(at), vhost="shop", client_id="ada-1") as client, client.subscribe("/queue/orders"):
            while (consumer := (await told(seen, "CONSUMER_CREATED")).headers)["_AMQ_Address"] != "orders":
                pass
            assert consumer["_AMQ_Client_ID"] == "ada-1"
            while (consumer := (await told(whole, "CONSUMER_CREATED")).headers).get(
                "_AMQ_Address"
            ) != "$host/shop.orders":
                pass
            assert consumer["_AMQ_Client_ID"] == "$host/shop.ada-1"
            advice = await advised.get(PATIENCE_S)
            assert "queue://orders" in advice.body.decode() and "$host" not in advice.body.decode()
            assert advice.headers["destination"] == "/topic/ActiveMQ.Advisory.Consumer.Queue.orders"
        while (found := await foreign.get(0.2)) is not None:
            assert "shop" not in str(found.headers)


async def test_classic_clients_hear_of_temporary_destinations(tmp_path: Path):
    async with (
        broker(tmp_path, **ON) as at, connect(classic(at)) as watcher,
        watcher.subscribe("/topic/ActiveMQ.Advisory.TempQueue") as temporary,
        watcher.subscribe("/topic/ActiveMQ.Advisory.Producer.Queue.orders") as producers,
        connect(classic(at)) as client,
    ):  # fmt: skip
        async with client.subscribe("/temp-queue/mine"):
            made = json.loads((await temporary.get(PATIENCE_S)).body)["DestinationInfo"]
            assert made["destination"].startswith("temp-queue://$temp.") and made["operationType"] == 0
        gone = json.loads((await temporary.get(PATIENCE_S)).body)["DestinationInfo"]
        assert (gone["destination"], gone["operationType"]) == (made["destination"], 1)
        await client.send("/queue/orders", b"x", receipt=True)
        assert await producers.get(0.05) is None, "as at Classic, where those of STOMP belong to no destination"


async def test_addresses_that_come_are_told_to_both(tmp_path: Path):
    async with (
        broker(tmp_path, **ON) as at, connect(classic(at)) as watcher, connect(url(at)) as artemis,
        watcher.subscribe("/topic/ActiveMQ.Advisory.Queue") as queues,
        artemis.subscribe("/topic/activemq.notifications") as notifications,
    ):  # fmt: skip
        message = None
        for number in count():  # what there is at the first look is not told
            await watcher.send(f"/queue/orders.{number}", b"x", receipt=True)
            if (message := await queues.get(1.5)) is not None:
                break
        assert message is not None
        found = json.loads(message.body)["DestinationInfo"]
        assert found["destination"].startswith("queue://orders.") and found["operationType"] == 0
        added = (await told(notifications, "ADDRESS_ADDED")).headers
        assert added["_AMQ_Address"].startswith("orders.") and added["_AMQ_RoutingType"] == "1"
        assert "_AMQ_User" not in added


@pytest.mark.parametrize(
    ("notice", "place", "kinds"),
    [
        (Notice(NoticeKind.CONSUMER_SLOW, 1, "ada", "p", address="a", topic=True, subscription="s"),
         "ActiveMQ.Advisory.SlowConsumer.Topic.a", ["CONSUMER_SLOW"]),
        (Notice(NoticeKind.FULL, 1, "ada", "p", address="a"), "ActiveMQ.Advisory.FULL.Queue.a", []),
        (Notice(NoticeKind.ADDRESS_REMOVED, 0, "", "", address="a", topic=True), "ActiveMQ.Advisory.Topic",
         ["ADDRESS_REMOVED"]),
        (Notice(NoticeKind.TEMPORARY_REMOVED, 1, "ada", "p", address="$temp.1", topic=True),
         "ActiveMQ.Advisory.TempTopic", []),
    ],
)  # fmt: skip
async def test_where_a_notice_is_told(notice: Notice, place: str, kinds: list[str]):
    desk = SimpleNamespace()
    messages = list(Notifications(desk, "e", lambda: 1)._told_of(notice, 1))  # type: ignore[arg-type]
    assert [headers["_AMQ_NotifType"] for _, headers, body in messages if not body] == kinds
    assert [address for address, _, body in messages if body] == [place]
    assert is_advisory(place)
