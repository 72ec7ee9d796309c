"""stampede config: what is changed live, taken back and read again, on the command line."""

from __future__ import annotations

import asyncio

from click.testing import CliRunner, Result

from broker.app.cli import main
from tests.harness.api import Api
from tests.harness.configured import FILE, api, source, write

__all__ = ["api", "source"]  # fixtures


async def run(api: Api, *line: str) -> Result:
    url = f"http://127.0.0.1:{api.broker.admin.port}"
    return await asyncio.to_thread(CliRunner().invoke, main, ["config", *line, "--url", url])


async def test_the_same_on_the_command_line(api, source):
    assert (await run(api, "set", "queues", "bills", "selector=n > 3")).exit_code == 0
    listed = await run(api, "list", "queues", "--live")
    assert "selector=n > 3" in listed.stdout and "orders" not in listed.stdout
    write(source, FILE.replace("ws_port = -1", "ws_port = -1\nmax_connections = 7"))
    told = await run(api, "reload")
    assert told.exit_code == 1 and "edge.max_connections needs a restart" in told.stderr
    assert (await run(api, "reset", "queues", "bills")).exit_code == 0
    assert (await run(api, "reset", "queues", "bills")).exit_code == 4
    assert (await run(api, "set", "queues", "bills", "selector")).exit_code == 2
