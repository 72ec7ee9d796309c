"""The admin port while the journal is read: alive, not ready, and handed over without anybody being refused."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from broker.admin.startup_server import EarlyServer, cannot_listen
from broker.config.settings import AdminSettings
from broker.core.errors import ConfigError

STATE: tuple[bool, dict[str, Any]] = (False, {"journal": "3 of 9"})


async def ask(port: int, path: str) -> tuple[str, dict[str, str], bytes]:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(f"GET {path} HTTP/1.1\r\nHost: x\r\n\r\n".encode())
    answer = await reader.read()
    writer.close()
    head, _, body = answer.partition(b"\r\n\r\n")
    status, *lines = head.decode().split("\r\n")
    headers = dict(line.lower().split(": ", 1) for line in lines)
    assert int(headers["content-length"]) == len(body)
    return status.split(" ", 1)[1], headers, body


def server(state: tuple[bool, dict[str, Any]] = STATE, port: int = 0) -> EarlyServer:
    return EarlyServer(AdminSettings(host="127.0.0.1", port=port), lambda: state)


async def test_it_is_alive_not_ready_and_anything_else_is_to_be_asked_again():
    early = server()
    await early.start()
    try:
        assert (await ask(early.port, "/healthz"))[::2] == ("200 OK", b"alive\n")
        status, _, body = await ask(early.port, "/readyz")
        assert status == "503 Service Unavailable"
        assert json.loads(body) == {"ready": False, "journal": "3 of 9"}
        status, headers, body = await ask(early.port, "/api/v1/queues")
        assert (status, headers["retry-after"], headers["content-type"]) == (
            "503 Service Unavailable", "1", "application/problem+json",
        )  # fmt: skip
        assert json.loads(body)["status"] == 503 and "journal: 3 of 9" in json.loads(body)["detail"]
    finally:
        await early.stop()
        await early.stop()


async def test_ready_is_said_when_it_is_so():
    early = server((True, {}))
    await early.start()
    assert (await ask(early.port, "/readyz"))[::2] == ("200 OK", b'{"ready": true}\n')
    assert (await ask(early.port, "/x"))[0] == "503 Service Unavailable"
    await early.stop()


async def test_who_comes_while_it_is_handed_over_is_served_by_the_next():
    early = server()
    await early.start()
    taken = await early.hand_over()
    assert taken is not None and taken.getsockname()[1] == early.port
    asking = asyncio.create_task(ask(early.port, "/healthz"))
    await asyncio.sleep(0.01)
    assert not asking.done()
    later = server()
    following = await asyncio.start_server(later._talk, sock=taken)
    assert (await asking)[2] == b"alive\n"
    following.close()
    assert await early.hand_over() is None
    await early.stop()


async def test_a_client_that_says_nothing_holds_nothing_up():
    early = server()
    await early.start()
    _, writer = await asyncio.open_connection("127.0.0.1", early.port)
    await asyncio.sleep(0.01)
    async with asyncio.timeout(10):
        await early.stop()
    writer.close()


async def test_a_port_that_is_off_or_taken():
    off = server(port=-1)
    await off.start()
    assert off.port == -1 and await off.hand_over() is None
    first = server()
    await first.start()
    with pytest.raises(ConfigError, match=rf"127\.0\.0\.1:{first.port}: .*admin\.port"):
        await server(port=first.port).start()
    await first.stop()
    assert "*:5" in str(cannot_listen(AdminSettings(host="", port=5), OSError(1, "no")))
