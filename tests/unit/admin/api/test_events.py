"""What is watched is told as it changes: once for all who watch it, bounded for each of them, to nobody who may not."""

from __future__ import annotations

import asyncio
import json
import socket
from collections.abc import AsyncIterator
from typing import Any

import pytest
from aiohttp import ClientResponse

from broker.admin.api.access import Who
from broker.admin.api.streams import events
from broker.admin.api.streams.events import EventStream
from tests.harness.api import Api, login, running
from tests.harness.waiting import eventually

PASSCODE = "a long passcode"


@pytest.fixture
async def api(tmp_path, monkeypatch) -> AsyncIterator[Api]:
    monkeypatch.setattr(events, "EVERY_S", 0.02)
    async with running(tmp_path) as api:
        yield api


async def watching(api: Api, *paths: str, **more: Any) -> ClientResponse:
    answer = await api.http.get("/api/v1/events", params=[("watch", path) for path in paths], **more)
    assert answer.status == 200 and answer.content_type == "text/event-stream"
    return answer


async def event(answer: ClientResponse) -> tuple[int, Any]:
    """The next one."""
    async with asyncio.timeout(20):
        while not (line := await answer.content.readline()).startswith(b"event: "):
            assert line, "the stream has ended"
        return int(line[7:]), json.loads((await answer.content.readline())[6:])


async def test_who_watches_messages_turns_no_pages(api):
    """A browser was kept for each look, 32 of them, and no answer was like the one before: its token was another."""
    for n in range(3):
        await api.call("POST", "/addresses/orders/messages", 201, body=f"{n}")
    answer = await watching(api, "/queues/orders/messages?limit=2")
    _, first = await event(answer)
    assert [row["body"] for row in first["items"]] == ["0", "1"] and first["next"] is None
    await asyncio.sleep(0.2)
    await api.call("POST", "/queues/orders/purge", selector="AMQMessageID = 1")
    _, then = await event(answer)
    assert [row["body"] for row in then["items"]] == ["1", "2"], "told anew when it is another, and not before"
    answer.close()
    (part,) = (await api.get("/queues/orders"))["parts"]
    assert part["browsers"] <= 1, "of the look that is under way"


async def test_a_stream_tells_what_is_there_and_then_what_has_changed(api):
    answer = await watching(api, "/queues?sort=-messages&limit=5", "/queues/none")
    nth, told = await event(answer)
    assert (nth, told["items"]) == (0, [])
    nth, told = await event(answer)
    assert nth == 1 and told["type"] == "urn:stampede:problem:no-such-queue"
    await api.call("POST", "/queues", 201, address="orders")
    nth, told = await event(answer)
    assert nth == 0 and told == await api.get("/queues", sort="-messages", limit=5)
    await api.call("POST", "/addresses/orders/messages", 201, body="x")
    assert (await event(answer))[1]["items"][0]["messages"] == 1
    answer.close()
    await eventually(lambda: not api.broker.admin._api.events._streams)


async def test_what_many_watch_is_asked_once(api, monkeypatch):
    monkeypatch.setattr(events, "EVERY_S", 60)
    asked: list[str] = []
    ask = api.broker.admin._api.events._ask

    async def noted(op: Any, *rest: Any) -> Any:
        asked.append(op.name)
        return await ask(op, *rest)

    monkeypatch.setattr(api.broker.admin._api.events, "_ask", noted)
    streams = [await watching(api, "/overview", "/queues?limit=3") for _ in range(5)]
    for answer in streams:
        assert {(await event(answer))[0] for _ in range(2)} == {0, 1}
        answer.close()
    assert sorted(asked) == ["overview", "queues"]


def test_a_stream_keeps_the_newest_answer_only():
    stream = EventStream(Who("ada", "", None, True), ["/a", "/b"])
    for n in range(1000):
        stream.tell("/a", b"%d" % n)
    assert stream.news == {0: b"999"}
    stream.news.clear()
    stream.tell("/a", b"999")
    assert stream.news == {}


@pytest.mark.parametrize(
    ("watch", "named"),
    [
        ([], "watch"),
        (["/overview"] * 7, "1 to 6"),
        (["/nothing"], "'/nothing'"),
        (["/queues?nope=1"], "'nope'"),
        (["/events?watch=/overview"], "/events"),
        (["/config/reload"], "/config/reload"),
    ],
)
async def test_what_cannot_be_watched_is_refused_by_name(api, watch, named):
    async with api.http.get("/api/v1/events", params=[("watch", path) for path in watch]) as answer:
        told = await answer.json(content_type="application/problem+json")
        assert answer.status == 400 and named in told["detail"] + told["fix"]


async def test_streams_are_bounded(api, monkeypatch):
    monkeypatch.setattr(events, "MOST_STREAMS", 2)
    streams = [await watching(api, "/overview") for _ in range(2)]
    async with api.http.get("/api/v1/events", params={"watch": "/overview"}) as answer:
        assert answer.status == 503
        assert (await answer.json(content_type=None))["type"] == "urn:stampede:problem:too-many-streams"
    for stream in streams:
        stream.close()


async def test_a_reader_that_takes_nothing_has_gone_with_its_socket_and_what_waited_for_it(api, monkeypatch):
    monkeypatch.setattr(events, "PATIENCE_S", 0.3)
    for number in range(40):
        await api.call("POST", "/queues", 201, address="q" * 3000 + str(number))
    others = list(api.broker.admin._runner.server.connections)
    loop = asyncio.get_running_loop()
    with socket.socket() as reader:
        reader.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        reader.setblocking(False)
        await loop.sock_connect(reader, ("127.0.0.1", api.broker.admin.port))
        watched = "&".join(f"watch=/queues?sort={by}" for by in ("name", "-name", "messages", "-messages"))
        await loop.sock_sendall(reader, b"GET /api/v1/events?%b HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n" % watched.encode())
        streams = api.broker.admin._api.events._streams
        await eventually(lambda: bool(streams))
        own = {served for served in api.broker.admin._runner.server.connections if served not in others}
        assert len(own) == 1
        while streams:
            for number in range(40):  # every answer is another one
                await api.call("POST", f"/addresses/{'q' * 3000}{number}/messages", 201, body="x")
        await eventually(lambda: own.isdisjoint(api.broker.admin._runner.server.connections))
    await eventually(lambda: not api.broker.admin._api.events._known)


async def test_who_may_not_any_more_hears_no_more(api):
    await api.call("PUT", "/users/root", passcode=PASSCODE, groups=["admin"])
    root = {"headers": login("root", PASSCODE)}
    assert (await api.raw("PUT", "/users/ada", json={"passcode": PASSCODE, "groups": ["eu"]}, **root))[0] == 200
    permit = {"values": {"manage": "eu", "send": "*"}}
    assert (await api.raw("PATCH", "/config/permissions/eu.%23", json=permit, **root))[0] == 200
    ada = {"headers": login("ada", PASSCODE)}
    async with api.http.get("/api/v1/events", params={"watch": "/overview"}, **ada) as refused:
        assert refused.status == 403
    for address in ("eu.a", "us.a"):
        assert (await api.raw("POST", "/queues", json={"address": address}, **root))[0] == 201
    answer = await watching(api, "/queues", **ada)
    assert [row["name"] for row in (await event(answer))[1]["items"]] == ["eu.a"]
    assert (await api.raw("PUT", "/users/ada", json={"groups": []}, **root))[0] == 200
    assert (await api.raw("POST", "/queues", json={"address": "eu.b"}, **root))[0] == 201
    async with asyncio.timeout(20):
        assert b"eu.b" not in await answer.content.read()


async def test_an_open_stream_does_not_hold_up_the_end(tmp_path):
    async with running(tmp_path) as api:
        answer = await watching(api, "/overview")
        await event(answer)
        async with asyncio.timeout(5):
            await api.broker.stop()
        assert b"event" not in await answer.content.read()
