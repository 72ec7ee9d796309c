"""The command line up to the point where a broker would start."""

from __future__ import annotations

import subprocess
import sys

import pytest
from click.testing import CliRunner

from broker.app import cli
from broker.config.load import load


@pytest.fixture
def run(monkeypatch):
    monkeypatch.delenv("STAMPEDE_CONFIG", raising=False)
    return lambda *args, **kw: CliRunner().invoke(cli.main, args, prog_name="stampede", **kw)


def test_settings_prints_a_config_file(run, tmp_path):
    printed = run("settings", "--port", "7001").output
    path = tmp_path / "s.toml"
    path.write_text(printed)
    assert load(str(path), {}, {}).edge.port == 7001


def test_version_and_commands(run):
    assert run("--version").output.startswith("stampede, version ")
    text = run("--help").output
    assert [
        c for c in ("serve", "settings", "user", "journal", "send", "receive", "browse", "bench") if c not in text
    ] == []
    assert "docs" not in text
    assert run("nonsense").exit_code == 2


def test_serve_does_not_load_what_it_does_not_need():
    """`listening` well under a second: aiohttp and prometheus_client come later, client and tools never."""
    code = (
        "import sys, broker.app.cli, broker.app.standalone;"
        "print([m for m in ('aiohttp', 'prometheus_client', 'broker.client', 'yaml') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=50, check=True)
    assert done.stdout.strip() == "[]"
