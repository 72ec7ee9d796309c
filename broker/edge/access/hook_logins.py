"""Logins that a service or a function of the user judges (a hook).

Both are asked and answer alike:

    asked     {"login": "ada", "passcode": "…", "host": "", "peer": "10.0.0.7:40112"}
    answers   {"allow": true, "groups": ["staff"], "valid_s": 3600}

`groups` and `valid_s` may be missing: in none, and valid until the connection ends. What is not such an answer, or no
answer at all, lets nobody in.

Rule: asked in threads (external_checks.py). Only `allow: true` is a yes. That nobody answers is no wrong passcode: it
earns no wait. Passcodes are never kept, logged or told.
"""

from __future__ import annotations

import importlib
import json
import logging
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from broker.config.logins.hook import HookSettings
from broker.config.ports import prefixes
from broker.core.errors import Code, ConfigError, RefusedError
from broker.core.virtual_host import HOST, VirtualHost
from broker.seams.clock import Clock
from broker.seams.http_client import post

from ..transport.channel import Channel
from ..transport.tcp import peer_host
from .auth import Principal, refusal
from .external_checks import ExternalChecks
from .users import TooManyGroupsError, counts_in, is_name, outside_groups

log = logging.getLogger("stampede.edge")

THREADS = 4
"""Questions under way: each waits for what is not ours."""
MOST = 64 * 1024
"""Bytes of an answer."""
LONGEST_S = 1e9
"""30 years: beyond it valid_s is a mistake."""

Judge = Callable[[Mapping[str, str]], Any]
"""What is asked → what it answers (see the head of this file); may block, and raise."""


class Hook:
    """One of edge.hooks."""

    def __init__(self, name: str, settings: HookSettings) -> None:
        """Raises ConfigError: there is no such function."""
        self.name = name
        self.settings = settings
        self.mark = hash(("hook", name))
        self.hosts = prefixes(settings.virtual_hosts)
        self._judge = _function(name, settings.python) if settings.python else self._posted

    def answer(self, asked: Mapping[str, str]) -> Any:
        """Blocks. Raises whatever the judge raises."""
        return self._judge(asked)

    def described(self, error: Exception) -> str:
        """For the log. What a function says of its failure may have the passcode in it: where it is, is enough."""
        if not self.settings.python:
            return f"{type(error).__name__}: {error}"[:300]
        place = error.__traceback__
        while place is not None and place.tb_next is not None:
            place = place.tb_next
        where = f" ({place.tb_frame.f_code.co_filename}:{place.tb_lineno})" if place is not None else ""
        return f"{type(error).__name__}{where}"

    def _posted(self, asked: Mapping[str, str]) -> Any:
        said = self.settings
        body = json.dumps(asked).encode()
        return json.loads(
            post(said.url, body, ca_file=said.ca_file, token_file=said.token_file, seconds=said.timeout_s, most=MOST)
        )


class HookLogins:
    """See the head of this file."""

    def __init__(self, tables: Mapping[str, Mapping[str, Any]], clock: Clock) -> None:
        """Raises ConfigError."""
        self._clock = clock
        self._checks = ExternalChecks(clock, THREADS, "hook")
        self._hooks = [Hook(name, HookSettings(**table)) for name, table in tables.items()]
        self._marks = frozenset(hook.mark for hook in self._hooks)
        self._told: dict[str, str] = {}

    def start(self) -> None:
        """Nothing is to be looked after."""

    def known(self, login: str, passcode: str, host: VirtualHost, channel: Channel) -> Principal | None:
        """Whose login this is, if that was found a moment ago."""
        return self._checks.known(*_secret(login, passcode, host, channel))

    async def prove(self, login: str, passcode: str, host: VirtualHost, channel: Channel) -> Principal:
        """Raises RefusedError(LOGIN_FAILED)."""
        hook = next((each for each in self._hooks if counts_in(each.hosts, host.name)), None)
        asked = {"login": login, "passcode": passcode, "host": host.name, "peer": channel.peer}
        keep_s = hook.settings.remember_s if hook is not None else 0.0
        check = partial(self._judge, hook, asked, host)
        return await self._checks.run(login, channel, _secret(login, passcode, host, channel), check, keep_s)

    def still_valid(self, mark: int) -> bool:
        """What a hook has let in holds as long as it said (Principal.until)."""
        return mark in self._marks

    def close(self) -> None:
        """Ends its threads; does not wait for them."""
        self._checks.close()

    def _judge(self, hook: Hook | None, asked: Mapping[str, str], host: VirtualHost) -> Principal | str:
        """In a thread: who it is, or why it is nobody."""
        login = asked["login"]
        if hook is None:
            return "no hook of edge.hooks counts here (virtual_hosts)"
        if not is_name(login) or login.startswith(HOST):
            return "its name is no name of a user"
        try:
            answer = hook.answer(asked)
        except Exception as error:  # of a function of the user: anything
            self._tell(hook, hook.described(error))
            raise RefusedError(Code.LOGIN_FAILED, refusal(login)) from None
        if answer is not None and answer is not False and not isinstance(answer, Mapping):
            self._tell(hook, f"it answers with a {type(answer).__name__}, not with an object")
            raise RefusedError(Code.LOGIN_FAILED, refusal(login))
        self._told.pop(hook.name, None)
        if not answer or answer.get("allow") is not True:
            return f"edge.hooks.{hook.name} says no"
        return self._principal(hook, login, answer, host)

    def _principal(self, hook: Hook, login: str, answer: Mapping[str, Any], host: VirtualHost) -> Principal | str:
        said, groups, valid_s = hook.settings, answer.get("groups", []), answer.get("valid_s")
        if not isinstance(groups, list) or not all(isinstance(each, str) for each in groups):
            return f"edge.hooks.{hook.name} answers with groups that are no list of texts"
        if valid_s is not None and not _is_time(valid_s):
            return f"edge.hooks.{hook.name} answers with a valid_s that is no number of seconds"
        name = said.user_prefix + login
        if not is_name(name) or name.startswith(HOST):
            return "its name is no name of a user"
        try:
            fit = outside_groups(groups)
        except TooManyGroupsError as error:
            return f"edge.hooks.{hook.name} says that {login!r} is {error}"
        until = self._clock.monotonic() + valid_s if valid_s is not None else 0.0
        return Principal(host.inside(name), tuple(said.groups_prefix + each for each in fit), hook.mark, until, True)

    def _tell(self, hook: Hook, why: str) -> None:
        if self._told.get(hook.name) != why:
            self._told[hook.name] = why
            log.warning("nobody new can log in by edge.hooks.%s, who is here stays: %s", hook.name, why)


def _secret(login: str, passcode: str, host: VirtualHost, channel: Channel) -> tuple[str, ...]:
    """What a yes is remembered of: all that was asked but the port of the client. It may be a yes for that address."""
    return login, passcode, host.name, peer_host(channel.peer)


def _is_time(value: object) -> bool:
    """A number of seconds. JSON as Python reads it has NaN and Infinity, and numbers that are larger than any float."""
    return isinstance(value, int | float) and not isinstance(value, bool) and 0 < value <= LONGEST_S


def _function(name: str, where: str) -> Judge:
    """Raises ConfigError."""
    module, _, function = where.partition(":")
    try:
        found = getattr(importlib.import_module(module), function)
    except Exception as error:  # of a module of the user: anything
        raise ConfigError(
            f"edge.hooks.{name}.python: {where!r} cannot be loaded ({type(error).__name__}: {error}); it is "
            "MODULE:FUNCTION, and MODULE is on PYTHONPATH."
        ) from None
    if not callable(found):
        raise ConfigError(f"edge.hooks.{name}.python: {where!r} is no function.")
    judge: Judge = found
    return judge
