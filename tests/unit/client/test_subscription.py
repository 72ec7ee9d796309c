"""A subscription: messages in order until its end, whatever ends it."""

from __future__ import annotations

import asyncio

import pytest

from broker.client import ClientError, connect
from broker.client.body import BodyStream
from broker.client.errors import ConnectionLost
from broker.client.message import Message
from broker.client.subscription import MESSAGE_OVERHEAD, Subscription
from broker.wire.versions import Version
from tests.harness.fake_server import FakeServer


async def test_iteration_ends_when_the_client_is_closed():
    async with FakeServer() as server:
        client = await connect(server.url)
        async with client.subscribe("/queue/a") as sub:

            async def take():
                return [message.body async for message in sub]

            taking = asyncio.create_task(take())
            await client.send("/queue/a", b"1", receipt=True)
            await client.close()
            assert await taking in ([b"1"], [])


async def test_browse_ends_at_the_marker():
    async with FakeServer() as server, connect(server.url) as client, client.subscribe("/queue/a", browse=True) as sub:
        assert server.frames("SUBSCRIBE")[0][0]["browser"] == "true"
        server.publish("/queue/a", b"1")
        server.publish("/queue/a", b"", [("browser", "end")])
        assert [message.body async for message in sub] == [b"1"]


async def test_get_with_timeout():
    async with FakeServer() as server, connect(server.url) as client, client.subscribe("/queue/a") as sub:
        assert await sub.get(timeout=0.01) is None
        server.publish("/queue/a", b"1")
        message = await sub.get(timeout=1)
        assert message is not None and message.body == b"1"


async def test_same_subscription_id_twice():
    async with FakeServer() as server, connect(server.url) as client, client.subscribe("/queue/a", id="x"):
        with pytest.raises(ClientError, match="in use"):
            async with client.subscribe("/queue/b", id="x"):
                pass
        assert len(server.frames("SUBSCRIBE")) == 1


class Fed:
    """A connection that only notes what a subscription asks of it."""

    version = Version.V12

    def __init__(self) -> None:
        self.held = 0
        self.said: list[object] = []
        self.refuses = False

    def attach(self, subscription: Subscription) -> None:
        self.said.append("attach")

    def detach(self, subscription: Subscription) -> None:
        self.said.append("detach")

    def account(self, nbytes: int) -> None:
        self.held += nbytes

    def error(self) -> ClientError:
        return ConnectionLost("over")

    async def request(self, command, headers, body=b"", *, receipt=False):
        if self.refuses:
            raise ConnectionLost("refused")
        self.said.append((command, headers, receipt))


def subscription(browse: bool = False, prefetch: int | None = None) -> tuple[Subscription, Fed]:
    client = Fed()
    return Subscription(client, "s", "/q", "client", prefetch, browse, {"k": "v"}), client


def message(of: Subscription, body: bytes = b"", stream: BodyStream | None = None, **headers: str) -> Message:
    return Message(of, headers, body, stream, 1)


async def test_it_comes_and_goes_with_its_block_and_receipts_say_so():
    sub, client = subscription(prefetch=3, browse=True)
    async with sub:
        pass
    await sub.unsubscribe()
    lines = [("id", "s"), ("destination", "/q"), ("ack", "client"), ("prefetch-count", "3"), ("browser", "true")]
    assert client.said == [
        "attach", ("SUBSCRIBE", [*lines, ("k", "v")], True), ("UNSUBSCRIBE", [("id", "s")], True), "detach",
    ]  # fmt: skip


async def test_a_subscription_that_was_refused_is_not_fed_any_more():
    sub, client = subscription()
    client.refuses = True
    with pytest.raises(ConnectionLost):
        await sub.__aenter__()
    assert client.said == ["attach", "detach"]


async def test_what_waits_is_counted_until_it_is_taken_or_dropped():
    sub, client = subscription()
    for body in (b"abc", b"de", b"f"):
        sub.put(message(sub, body))
    assert client.held == 3 * MESSAGE_OVERHEAD + 6
    assert (await anext(sub)).body == b"abc"
    assert client.held == 2 * MESSAGE_OVERHEAD + 3
    sub.drop()
    assert client.held == 0


async def test_what_comes_after_the_end_is_not_kept():
    sub, client = subscription()
    sub.end(None)
    late = BodyStream(lambda _: None)
    sub.put(message(sub, stream=late))
    assert late.discarded and client.held == 0
    with pytest.raises(StopAsyncIteration):
        await anext(sub)


async def test_the_end_of_the_connection_is_raised_behind_what_waits():
    sub, _ = subscription()
    sub.put(message(sub, b"a"))
    sub.end(ConnectionLost("x"))
    sub.end(None)
    assert (await anext(sub)).body == b"a"
    with pytest.raises(ConnectionLost, match="over"):
        await anext(sub)


async def test_a_large_body_nobody_has_begun_is_passed_by_with_the_next_message():
    sub, _ = subscription()
    stream = BodyStream(lambda _: None)
    sub.put(message(sub, stream=stream))
    sub.put(message(sub, b"next"))
    await anext(sub)
    assert not stream.discarded
    await anext(sub)
    assert stream.discarded


async def test_the_mark_at_the_end_means_something_to_browsers_alone():
    for browse, count in ((True, 0), (False, 1)):
        sub, _ = subscription(browse)
        sub.put(message(sub, browser="end"))
        sub.end(None)
        assert len([it async for it in sub]) == count
