"""stampede serve: flags become settings, what is wrong is one line, and the exit status is the broker's."""

from __future__ import annotations

import pytest
from click.testing import CliRunner

from broker.app import cli
from broker.config.catalogue import leaves
from broker.config.load import load


@pytest.fixture
def run(monkeypatch):
    monkeypatch.delenv("STAMPEDE_CONFIG", raising=False)
    return lambda *args, **kw: CliRunner().invoke(cli.main, args, prog_name="stampede", **kw)


@pytest.fixture
def served(monkeypatch):
    """The settings that `serve` was started with."""
    import broker.app.standalone

    seen = []
    monkeypatch.setattr(broker.app.standalone, "run", lambda settings, source: seen.append(settings) or 0)
    return seen


def test_flags_become_settings(run, served):
    done = run("serve", "--port", "0", "--data", "/d", "--set", "edge.max_connections=100", "--log-level", "debug")
    assert done.exit_code == 0, done.output
    assert served[0] == load(
        None, {}, {"edge.port": "0", "data": "/d", "edge.max_connections": "100", "log.level": "DEBUG"}
    )


def test_config_file_from_the_environment(run, served, tmp_path):
    path = tmp_path / "s.toml"
    path.write_text("[edge]\nport = 7000\n")
    assert run("serve", env={"STAMPEDE_CONFIG": str(path), "STAMPEDE_EDGE__WS_PORT": "-1"}).exit_code == 0
    assert (served[0].edge.port, served[0].edge.ws_port) == (7000, -1)


def test_wrong_settings_exit_with_2_and_one_line(run, served):
    done = run("serve", "--set", "edge.prot=1")
    assert done.exit_code == 2
    assert done.stderr.startswith("stampede: Unknown setting edge.prot")
    assert done.stderr.count("\n") == 1
    assert run("serve", "--set", "edge.port").exit_code == 2
    assert served == []


def test_exit_status_of_the_broker_is_ours(run, monkeypatch):
    import broker.app.standalone

    monkeypatch.setattr(broker.app.standalone, "run", lambda settings, source: 1)
    assert run("serve").exit_code == 1


def test_serve_help_explains_every_setting(run):
    text = run("serve", "--help").output
    assert [name for name in leaves() if f"{name}  (" not in text] == []
    assert "--set" in text
