"""stampede rights: who may do what, and why, with an exit code of its own."""

from __future__ import annotations

from click.testing import CliRunner

from broker.app.cli import main


def test_the_command_says_why(monkeypatch):
    told = {
        "open": False, "groups": ["eu"],
        "rights": [{"operation": "send", "allowed": False, "entry": "orders.#", "groups": ["ops"]}],
    }  # fmt: skip
    monkeypatch.setattr("broker.app.commands.explain_cli.AdminApi.get", lambda *_, **__: told)
    result = CliRunner().invoke(main, ["rights", "alice", "orders.eu", "send"])
    assert result.exit_code == 1 and "the entry orders.# says ops; alice is in eu" in result.output
    told["open"] = True
    assert "every user may do everything" in CliRunner().invoke(main, ["rights", "alice", "orders.eu"]).output
