"""stampede bench: what it counted, as one line of JSON."""

import asyncio
import json

from click.testing import CliRunner

from broker.app.commands.client_cli import bench
from tests.harness.fake_server import FakeServer


async def invoke(command, server, *args, stdin=None):
    url = ["--url", server.url] if server else []
    return await asyncio.to_thread(CliRunner().invoke, command, [*args, *url], stdin)


async def test_bench_prints_one_line_of_json():
    async with FakeServer() as server:
        done = await invoke(bench, server, "--seconds", "0.1")
        assert done.exit_code == 0, done.output
        report = json.loads(done.stdout)
        assert report["sent"] == report["received"] > 0
        assert "client and server" in report["measures"] and report["latency_us"]["p50"] > 0
