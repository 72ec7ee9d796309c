"""Settings of one judge of logins that the user brings along: an HTTP service, or a function in Python.

Rule: as settings.py: plain frozen dataclasses, nothing read from anywhere.
"""

from __future__ import annotations

from dataclasses import dataclass

from ..fields import setting


@dataclass(frozen=True, slots=True)
class HookSettings:
    """A service or a function of yours that is asked whether a login and its passcode are right, and for groups.

    What it is asked and answers: docs/security.md. Where `login_by` of a port has `hook`. Read at start only."""

    url: str = setting("", "URL", "POST with JSON; https, or http on this machine")
    python: str = setting("", "MODULE:FUNCTION", "called in a thread instead of a URL; has to return in time")
    ca_file: str = setting("", "path", "PEM CAs of its server; empty: those of the system")
    token_file: str = setting("", "path", "what to ask it with, as a bearer token; empty: nothing")
    user_prefix: str = setting("", "text", "in front of the login: users of two hooks, or of the table, differ")
    groups_prefix: str = setting("", "text", "in front of each group")
    virtual_hosts: str = setting("", "list", "where its users count; empty: the default host only; *: everywhere")
    remember_s: float = setting(60.0, "seconds", "a right passcode is not asked for again (kept as an HMAC)", least=0)
    timeout_s: float = setting(5.0, "seconds", "for one answer of a URL")
