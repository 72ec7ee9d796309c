"""A standalone broker with a config file that is changed while it runs, and its API: fixtures to import."""

from __future__ import annotations

from pathlib import Path

import pytest

from broker.config.load import SettingsSource

from .api import running

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
    """Its file says something else from now on."""
    assert source.config_file is not None
    Path(source.config_file).write_text(text)
