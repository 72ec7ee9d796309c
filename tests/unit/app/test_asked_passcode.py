"""A passcode that is asked for."""

from __future__ import annotations

import click
import pytest
from click.testing import CliRunner

from broker.app.commands.asked_passcode import asked_passcode


def asked(from_stdin: bool, given: str):
    @click.command()
    def command() -> None:
        click.echo(f"<{asked_passcode('ada', from_stdin)}>")

    return CliRunner().invoke(command, input=given)


def test_from_stdin_it_is_the_first_line():
    assert asked(True, "p4ss with spaces \r\nmore\n").stdout == "<p4ss with spaces >\n"


def test_a_prompt_asks_twice_and_shows_nothing_on_stdout():
    done = asked(False, "long enough\nlong enough\n")
    assert done.stdout == "<long enough>\n" and "Passcode for ada" in done.stderr
    assert "long enough" not in done.stderr
    again = asked(False, "one thing\nanother\nlong enough\nlong enough\n")
    assert again.stdout == "<long enough>\n" and "do not match" in again.stderr


@pytest.mark.parametrize(
    "given, status, told", [("\n", 2, "The passcode is empty."), ("x\n", 0, "Warning: 1 characters")]
)
def test_none_is_refused_and_a_weak_one_said_to_be_weak(given, status, told):
    done = asked(True, given)
    assert done.exit_code == status and told in done.stderr
