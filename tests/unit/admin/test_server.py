"""The admin port as a probe or a scraper sees it."""

from __future__ import annotations

import asyncio
import json
import time

import pytest
from aiohttp import ClientSession

from broker.admin.server import AdminServer
from broker.config.settings import AdminSettings
from broker.core.errors import ConfigError
from broker.core.metrics import Metric
from broker.seams.loop_watchdog import PORTION_S


class Source:
    def metrics(self):
        return [Metric("stomp_connections", "gauge", "Open.", [({}, 7.0)])]


class State:
    ready = False

    def __call__(self):
        return self.ready, {"owner": "ok" if self.ready else "recovering"}


@pytest.fixture
async def state():
    return State()


@pytest.fixture
async def get(state):
    server = AdminServer(AdminSettings(port=0), [Source()], state)
    await server.start()
    async with ClientSession(f"http://127.0.0.1:{server.port}") as http:

        async def get(path):
            async with http.get(path) as answer:
                return answer.status, answer.headers["Content-Type"], await answer.text()

        yield get
    await server.stop()
    assert server.port == -1


async def test_alive_and_ready_are_different_things(get, state):
    assert (await get("/healthz"))[0] == 200
    status, kind, body = await get("/readyz")
    assert (status, kind, json.loads(body)) == (503, "application/json", {"ready": False, "owner": "recovering"})
    state.ready = True
    status, _, body = await get("/readyz")
    assert (status, json.loads(body)["ready"]) == (200, True)


async def test_metrics_and_index(get):
    status, kind, body = await get("/metrics")
    assert status == 200
    assert kind.startswith("text/plain")
    assert "stomp_connections 7.0" in body
    status, _, body = await get("/")
    assert status == 200
    assert all(path in body for path in ("/metrics", "/healthz", "/readyz"))
    assert (await get("/nothing"))[0] == 404


async def test_off_means_off():
    server = AdminServer(AdminSettings(port=-1), [], lambda: (True, {}))
    await server.start()
    assert server.port == -1
    await server.stop()


async def test_a_taken_port_is_named_with_the_setting_to_change():
    holder = await asyncio.start_server(lambda r, w: None, "127.0.0.1", 0)
    port = holder.sockets[0].getsockname()[1]
    with pytest.raises(ConfigError, match=rf"127.0.0.1:{port}.*admin.port"):
        await AdminServer(AdminSettings(port=port), [], lambda: (True, {})).start()
    holder.close()
    await holder.wait_closed()


@pytest.mark.parametrize(
    "sent",
    [b"GET / HTTP/1.1\r\n\r\n", b"\x16\x03\x01\r\n\r\n", b"GET / HTTP/1.1\r\nHost: x\r\nA\r\n\r\n", b"A" * 70_000],
)
async def test_what_is_not_http_is_refused_without_a_stack_trace(state, caplog, sent):
    caplog.set_level("INFO")
    server = AdminServer(AdminSettings(port=0), [Source()], state)
    await server.start()
    reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
    writer.write(sent)
    assert (await reader.readline()).split()[1] == b"400"
    writer.close()
    await writer.wait_closed()
    await server.stop()
    assert not [record for record in caplog.records if record.exc_info]


async def test_a_fault_of_ours_keeps_its_stack_trace(state, caplog):
    def broken():
        raise RuntimeError("a fault")

    server = AdminServer(AdminSettings(port=0), [Source()], broken)
    await server.start()
    async with ClientSession(f"http://127.0.0.1:{server.port}") as http, http.get("/readyz") as answer:
        assert answer.status == 500
    await server.stop()
    assert [record for record in caplog.records if record.exc_info and isinstance(record.exc_info[1], RuntimeError)]


async def test_a_scrape_leaves_the_loop_between_its_pieces_and_two_do_not_mix():
    at_work, most, ran = 0, 0, 0

    def survey():
        nonlocal at_work, most
        at_work += 1
        most = max(most, at_work)
        for _ in range(50):
            time.sleep(2 * PORTION_S)
            yield
        at_work -= 1

    async def others():
        nonlocal ran
        while True:
            ran += 1
            await asyncio.sleep(0)

    server = AdminServer(AdminSettings(port=0), [Source()], lambda: (True, {}), surveys=[survey])
    await server.start()
    beside = asyncio.create_task(others())
    async with ClientSession(f"http://127.0.0.1:{server.port}") as http:

        async def scrape():
            async with http.get("/metrics") as answer:
                return await answer.text()

        bodies = await asyncio.gather(*[scrape() for _ in range(3)])
    beside.cancel()
    await server.stop()
    assert all("stomp_connections 7.0" in body and 'stomp_step_seconds_count{step="scrape"}' in body for body in bodies)
    assert most == 1
    assert ran > 150


async def test_depths_are_looked_at_in_pieces():
    def depths(match):
        for n in range(1000):
            yield {"address": match, "queue": str(n)} if n % 2 else None

    server = AdminServer(AdminSettings(port=0), [], lambda: (True, {}), depths)
    await server.start()
    async with ClientSession(f"http://127.0.0.1:{server.port}") as http, http.get("/api/depth?match=a") as answer:
        text = await answer.text()
        queues = json.loads(text)["queues"]
    await server.stop()
    assert text == json.dumps({"queues": queues}) + "\n", "row by row it is the same text"
    assert len(queues) == 500 and queues[0] == {"address": "a", "queue": "1"}


async def test_what_goes_on_at_addresses_is_told_in_lines_as_it_is_read():
    def busy():
        for n in range(1000):
            yield {"address": f"a{n}", "came": n} if n % 2 else None

    server = AdminServer(AdminSettings(port=0), [], lambda: (True, {}), busy=busy)
    await server.start()
    async with ClientSession(f"http://127.0.0.1:{server.port}") as http, http.get("/api/busy") as answer:
        lines = [json.loads(line) async for line in answer.content]
        assert answer.content_type == "application/x-ndjson" and answer.headers["Cache-Control"] == "no-store"
    await server.stop()
    assert len(lines) == 501 and lines[0] == {"address": "a1", "came": 1}
    assert lines[-1] == {"end": True}, "an answer that is cut short is not taken for a whole one"
