"""A passcode that a command needs, asked for.

Rule: it comes from a prompt or stdin, never from the command line, where every process can read it. A weak one is
taken, and said to be weak.
"""

from __future__ import annotations

import sys

import click

from .options import Misuse


def asked_passcode(name: str, from_stdin: bool) -> str:
    """The new passcode of this user."""
    from broker.seams.passcodes import weakness

    if from_stdin:
        passcode = sys.stdin.readline().rstrip("\r\n")
    else:
        passcode = str(click.prompt(f"Passcode for {name}", hide_input=True, confirmation_prompt="Again", err=True))
    if not passcode:
        raise Misuse("The passcode is empty.")
    if weak := weakness(passcode):
        click.echo(weak, err=True)
    return passcode
