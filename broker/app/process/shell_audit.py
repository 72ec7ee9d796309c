"""What commands of the shell change by themselves, without a broker: a line in the audit log that its settings name.

    @changes("user.add", "name")     below the options of a command: who, which action, the arguments that say on what

Rule: one line each time, whether it worked or not, where `log.audit_file` is a file; after the work, which it cannot
stop. What a command asks of a broker's API the broker has a line of. Never a passcode: only the arguments named.
"""

from __future__ import annotations

import json
import logging
import os
import pwd
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import wraps
from typing import Any, Final

import click

LOG: Final = "stampede.log"
"""In the context of a command, once it has read its settings: those of the log."""
ACTION: Final = "stampede_action"
"""Attribute of the function of such a command: its action."""
MISUSE: Final = 2
"""Exit status of what was asked for wrongly."""


def changes(action: str, *about: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """about: names of the arguments that say on what."""

    def decorate(command: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(command)
        def run(**given: Any) -> Any:
            outcome = "failed"
            try:
                answer = command(**given)
                outcome = "done"
            except SystemExit as end:
                outcome = "done" if not end.code else f"exit-{end.code}"
                raise
            except click.ClickException as error:
                outcome = "refused" if error.exit_code == MISUSE else "failed"
                raise
            finally:
                _note(action, " ".join(_text(given[name]) for name in about if given[name]), outcome)
            return answer

        setattr(run, ACTION, action)
        return run

    return decorate


def _text(value: Any) -> str:
    """Of NAME=VALUE the name: values may be passcodes."""
    return " ".join(str(each).partition("=")[0] for each in (value if isinstance(value, tuple) else (value,)))


def _note(action: str, target: str, outcome: str) -> None:
    """Where there were no settings yet nothing has been done."""
    settings = click.get_current_context().meta.get(LOG)
    path = settings.audit_file if settings is not None else ""
    if not path or path == "-":
        return
    from broker.seams.line_file import LineFile

    from .logs import AUDIT, AuditWriter

    entry = {"who": _who(), "from": os.uname().nodename, "action": action, "target": target, "outcome": outcome}
    try:
        with _as_owner_of(os.path.dirname(path) or "."):
            file = LineFile(path)  # which the broker puts aside, not we
            AuditWriter(file).emit(logging.makeLogRecord({"name": AUDIT, "msg": json.dumps(entry, ensure_ascii=False)}))
            file.close()
    except OSError as error:
        click.echo(f"stampede: log.audit_file {path} cannot be written: {error.strerror}", err=True)


@contextmanager
def _as_owner_of(folder: str) -> Iterator[None]:
    """Root is whom the folder belongs to meanwhile, usually the broker: a new file is the broker's, and a link that it
    has put there reaches nothing that it could not write itself. Raises OSError."""
    if os.geteuid() != 0 or (owner := os.stat(folder)).st_uid == 0:
        yield
        return
    group, groups = os.getegid(), os.getgroups()
    os.setgroups([])
    os.setegid(owner.st_gid)
    os.seteuid(owner.st_uid)
    try:
        yield
    finally:
        os.seteuid(0)
        os.setegid(group)
        os.setgroups(groups)


def _who() -> str:
    """shell:NAME; of sudo also who has used it, as far as that can be believed."""
    user = os.getuid()
    try:
        name = pwd.getpwuid(user).pw_name
    except KeyError:
        name = str(user)
    behind = os.environ.get("SUDO_USER", "") if user == 0 else ""
    return f"shell:{name} (sudo: {behind[:100]})" if behind else f"shell:{name}"
