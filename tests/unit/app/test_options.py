"""From flags to settings: a flag is only another spelling of a setting."""

from __future__ import annotations

import click
import pytest

from broker.app.commands.options import _DATA, _FLAGS, Failure, Misuse, settings_of, source_of
from broker.config.catalogue import leaves


def test_every_flag_is_a_setting_that_there_is():
    for flag, setting, metavar, text in (*_FLAGS, _DATA):
        assert setting in leaves(), flag
        assert metavar.isupper() and text.endswith(".")


def test_flags_and_sets_are_the_same_and_a_flag_wins(monkeypatch):
    monkeypatch.setenv("STAMPEDE_EDGE__PORT", "1")
    assert settings_of(None, ()).edge.port == 1
    assert settings_of(None, (" edge.port = 2 ",)).edge.port == 2
    found = settings_of(None, ("edge.port=2", "edge.ws_port=3"), edge__port="4")
    assert (found.edge.port, found.edge.ws_port) == (4, 3)
    assert settings_of(None, (), edge__port=None).edge.port == 1


def test_what_is_wrong_is_said_as_such():
    with pytest.raises(click.UsageError, match=r"NAME=VALUE, not 'edge\.port'"):
        source_of(None, ("edge.port",))
    with pytest.raises(Misuse, match=r"edge\.prot") as wrong:
        settings_of(None, ("edge.prot=1",))
    assert (wrong.value.exit_code, Failure("x").exit_code) == (2, 1)


def test_a_failure_is_one_line_on_stderr(capsys):
    Failure("it did not work").show()
    assert capsys.readouterr() == ("", "stampede: it did not work\n")
