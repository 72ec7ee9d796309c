"""Connecting the two ends."""

from __future__ import annotations

from pathlib import Path

import pytest

from broker.bridge.ends import there
from broker.bridge.kinds import STAMPEDE
from broker.client import ConnectFailed
from broker.config.bridges import BridgeSettings

from .world import broker, url


async def test_the_other_end_is_known_by_what_it_says(tmp_path: Path):
    async with broker(tmp_path) as other:
        end = await there(BridgeSettings(url=url(other), source="/queue/q"), "")
        assert end.kind is STAMPEDE
        await end.client.close()


async def test_files_that_are_not_there_are_named(tmp_path: Path):
    missing = str(tmp_path / "missing.pem")
    with pytest.raises(ConnectFailed, match=r"missing\.pem"):
        await there(BridgeSettings(url="stomp://127.0.0.1:1", source="q", login="a", passcode_file=missing), "")
    with pytest.raises(ConnectFailed, match="ca_file"):
        await there(BridgeSettings(url="stomp+ssl://127.0.0.1:1", source="q", ca_file=missing), "")


@pytest.mark.parametrize(
    "text", ["secret\nhost:other", "a\n\nb\0SEND", "x" * 4097, "-----BEGIN KEY-----\nAA\n", "a\0b"]
)
async def test_a_passcode_is_one_line(tmp_path: Path, text: str):
    (tmp_path / "passcode").write_text(text)
    bridge = BridgeSettings(url="stomp://127.0.0.1:1", source="q", login="a", passcode_file=str(tmp_path / "passcode"))
    with pytest.raises(ConnectFailed, match="is no passcode: it must be one line") as told:
        await there(bridge, "")
    assert text not in str(told.value)
