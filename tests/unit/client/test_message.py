"""A message: its body, large or not, and what may be said of it in each version."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from broker.client import ClientError, connect
from broker.client.body import BodyStream
from broker.client.message import Message
from broker.wire.versions import Version
from tests.harness.fake_server import FakeServer


@pytest.mark.parametrize("version", ["1.2", "1.1", "1.0"])
async def test_send_subscribe_ack_in_every_version(version):
    async with FakeServer() as server, connect(server.url, version=version) as client:
        async with client.subscribe("/queue/a", ack="client", prefetch=5, id="mine") as sub:
            await client.send("/queue/a", "grüße", {"k": "v:w"}, receipt=True)
            message = await anext(sub)
            assert message.body == "grüße".encode()
            assert message.headers["k"] == "v:w"
            assert (message.id, message.destination, message.length) == ("m1", "/queue/a", 7)
            await message.ack(receipt=True)
        assert server.frames("SUBSCRIBE")[0][0]["prefetch-count"] == "5"
        names = [name for name, _, _ in server.seen]
        assert names == ["CONNECT", "SUBSCRIBE", "SEND", "ACK", "UNSUBSCRIBE"]


async def test_ack_and_nack_name_the_ack_header():
    async with FakeServer() as server, connect(server.url) as client:
        async with client.subscribe("/queue/a", ack="client-individual") as sub:
            server.publish("/queue/a", b"1")
            server.publish("/queue/a", b"2")
            await (await anext(sub)).ack()
            await (await anext(sub)).nack(headers={"delay": "10"}, receipt=True)
        assert server.frames("ACK")[0][0]["id"] == "a1"
        assert server.frames("NACK")[0][0] | {"receipt": ""} == {"id": "a2", "delay": "10", "receipt": ""}


async def test_ack_in_auto_mode_is_a_mistake_that_is_told():
    async with FakeServer() as server, connect(server.url) as client, client.subscribe("/queue/a") as sub:
        server.publish("/queue/a", b"1")
        with pytest.raises(ClientError, match="client-individual"):
            await (await anext(sub)).ack()


class Asked:
    """A connection that only notes what is asked of it."""

    def __init__(self, version: Version) -> None:
        self.version = version
        self.frames: list[tuple[str, list[tuple[str, str]], bool]] = []

    async def request(self, command, headers, body=b"", *, receipt=False):
        self.frames.append((command, headers, receipt))


def message(version: Version, stream: BodyStream | None = None, ack: str = "client") -> tuple[Message, Asked]:
    client = Asked(version)
    origin = SimpleNamespace(id="s", ack=ack, client=client)
    return Message(origin, {"message-id": "m", "ack": "a", "destination": "/q"}, b"xyz", stream, 9), client  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("version", "lines"),
    [
        (Version.V12, [("id", "a")]),
        (Version.V11, [("message-id", "m"), ("subscription", "s")]),
        (Version.V10, [("message-id", "m"), ("subscription", "s")]),
    ],
)
async def test_an_ack_names_the_message_as_its_version_does(version, lines):
    it, client = message(version)
    await it.ack(transaction=SimpleNamespace(id="t"), receipt=True)
    assert client.frames == [("ACK", [*lines, ("transaction", "t")], True)]
    if version is Version.V10:
        with pytest.raises(ClientError, match="has no NACK"):
            await it.nack()
    else:
        await it.nack(headers={"requeue": "false"})
        assert client.frames[1] == ("NACK", [*lines, ("requeue", "false")], False)


async def test_a_small_body_is_there_at_once_and_as_often_as_wanted(tmp_path):
    it, _ = message(Version.V12)
    assert (it.body, it.large, it.length, it.held) == (b"xyz", False, 3, 3)
    it.pass_by()
    it.discard()
    assert await it.read() == await it.read() == b"xyz"
    (tmp_path / "f").write_bytes(b"longer than that")
    assert await it.save(tmp_path / "f") == 3 and (tmp_path / "f").read_bytes() == b"xyz"


async def test_a_large_body_can_be_read_once_and_is_dropped_when_it_is_passed_by_unread():
    stream = BodyStream(lambda _: None)
    it, _ = message(Version.V12, stream)
    assert (it.large, it.length) == (True, 9)
    stream.feed(b"ab", False)
    stream.end()
    reading = it.stream()
    assert await anext(reading) == b"ab"
    it.pass_by()
    assert not stream.discarded, "who has begun may go on"
    with pytest.raises(ClientError, match="read or discarded already"):
        await it.read()
    await reading.aclose()
    assert stream.discarded
    other = BodyStream(lambda _: None)
    unread, _ = message(Version.V12, other)
    unread.pass_by()
    assert other.discarded
    with pytest.raises(ClientError, match="read or discarded already"):
        await unread.read()
