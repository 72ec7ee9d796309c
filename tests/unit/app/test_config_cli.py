"""stampede config: what is changed live, taken back and read again, on the command line."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from broker.app.cli import main
from broker.config.load import SettingsSource
from tests.harness.api import Api, running

FILE = """
[edge]
host = "127.0.0.1"
port = 0
ws_port = -1
[admin]
port = 0
[journal]
min_free_bytes = 0
[engine.queues.orders]
selector = "n > 1"
[engine.addresses."orders"]
max_delivery_attempts = 3
partitions = 2
"""


@pytest.fixture
def source(tmp_path: Path) -> SettingsSource:
    (tmp_path / "broker.toml").write_text(FILE)
    return SettingsSource(str(tmp_path / "broker.toml"), {}, {"data": str(tmp_path / "data")})


@pytest.fixture
async def api(tmp_path: Path, source: SettingsSource):
    async with running(tmp_path, source) as api:
        yield api


def write(source: SettingsSource, text: str) -> None:
    assert source.config_file is not None
    Path(source.config_file).write_text(text)


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
