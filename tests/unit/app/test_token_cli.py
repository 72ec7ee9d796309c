"""stampede token: made once, listed, and revoked, on the command line."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

from click.testing import CliRunner

from broker.app.cli import main
from tests.harness.api import Api, login, running

PASSCODE = "a long passcode"


async def closed(api: Api) -> dict[str, Any]:
    """There are users now: how an administrator asks."""
    await api.call("PUT", "/users/root", passcode=PASSCODE, groups=["admin"])
    return {"headers": login("root", PASSCODE)}


async def test_the_same_on_the_command_line(tmp_path: Path):
    async with running(tmp_path) as api:
        url = f"http://127.0.0.1:{api.broker.admin.port}"

        async def run(*line: str, token: str = "") -> Any:
            return await asyncio.to_thread(CliRunner(env={"STAMPEDE_TOKEN": token}).invoke, main, [*line, "--url", url])

        created = await run("token", "create", "backup", "--group", "admin")
        assert created.exit_code == 0
        token = created.stdout.strip()
        await closed(api)
        assert (await run("queues")).exit_code == 1
        assert (await run("queues", token=token)).exit_code == 0
        assert "backup" in (await run("token", "list", token=token)).stdout
        assert (await run("token", "revoke", "backup", token=token)).exit_code == 0
        assert (await run("queues", token=token)).exit_code == 1
