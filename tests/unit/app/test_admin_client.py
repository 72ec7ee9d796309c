"""Requests of commands to the API: every end has its exit code."""

from __future__ import annotations

import asyncio

import pytest
from click.testing import CliRunner, Result

from broker.app.cli import main
from tests.harness.api import Api, running


@pytest.fixture
async def api(tmp_path):
    async with running(tmp_path, engine={"addresses": {"#": {"dead_letter_address": "DLQ"}}}) as api:
        yield api


async def run(api: Api, *line: str, input: str | None = None) -> Result:
    """`stampede LINE --url …`, in a thread: the broker is in this loop."""
    url = f"http://127.0.0.1:{api.broker.admin.port}"
    return await asyncio.to_thread(CliRunner().invoke, main, [*line, "--url", url], input)


async def test_exit_codes(api):
    missing = await run(api, "queue", "show", "nothing")
    assert missing.exit_code == 4 and "'nothing'" in missing.stderr and "ADDRESS::NAME" in missing.stderr
    assert (await run(api, "queues", "--sort", "colour")).exit_code == 1
    assert (await run(api, "queues", "--colour")).exit_code == 2
    away = await asyncio.to_thread(CliRunner().invoke, main, ["queues", "--url", "http://127.0.0.1:9"])
    assert away.exit_code == 3 and "stampede serve" in away.stderr
