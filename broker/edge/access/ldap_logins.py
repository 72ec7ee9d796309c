"""Logins that a directory judges (LDAP): the user is looked for, then the passcode is tried by a bind as that user.

A user who is logged in is looked for again from time to time. One who is gone from there, does not fit the filter any
more (a disabled account), is in other groups or has another passcode (`changed_attribute`) loses his connections; while
the directory cannot be reached all sessions stay, and no user comes in whose passcode was not found right a moment ago.

Rule: the directory is asked in threads (external_checks.py). A login never stands in a filter or DN unescaped, and an
empty passcode never reaches a server, as LDAP takes that for "nobody in particular" and says yes. That a server is away
is no wrong passcode: it earns no wait. Passcodes are never kept, logged or told.
"""

# Example. user_base `ou=people,dc=x`, user_filter `(uid=%u)`, group_base `ou=groups,dc=x`; ada logs in:
#     as bind_dn     search ou=people,dc=x for (uid=ada): one entry, uid=ada,ou=people,dc=x
#     as that entry  bind with her passcode: right
#     as bind_dn     search ou=groups,dc=x for (member=uid=ada,ou=people,dc=x): cn=staff
# She is Principal("ada", ("staff",)). 15 s later the two searches are made again: the same answers, or she has to come
# in anew.

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Collection, Mapping
from functools import partial
from typing import Any

from broker.config.logins.ldap import LdapSettings
from broker.core.errors import Code, ConfigError, RefusedError
from broker.core.virtual_host import HOST, VirtualHost
from broker.seams.clock import Clock
from broker.seams.threads import WaitingThreads

from ..transport.channel import Channel
from .auth import Principal, refusal
from .external_checks import ExternalChecks
from .ldap_directory import LdapDirectory, Person, UnansweredError, Unreachable
from .users import TooManyGroupsError, counts_in, is_name

log = logging.getLogger("stampede.edge")

THREADS = 4
"""Questions to directories under way: each is two or three waits for a server, and hardly any work."""
PATIENCE_S = 1.0
"""So often what a directory does not end to answer is looked at."""
AT_ONCE = 20
"""Of them looked for in one piece of work of the thread, between which it can be ended."""
PAUSE_S = 0.05
"""Between two pieces: a directory of others is not to be flooded by us."""


class LdapLogins:
    """See the head of this file. changed: a user is gone or in other groups, so that logins may not hold any more."""

    def __init__(
        self, tables: Mapping[str, Mapping[str, Any]], clock: Clock, changed: Callable[[], None],
        here: Callable[[], Collection[int]],
    ) -> None:  # fmt: skip
        """here: marks of who is connected. Raises ConfigError where the library is missing."""
        try:
            import ldap3  # noqa: F401  # 80 ms and 15 MB: only those who need it
        except ImportError:
            raise ConfigError("edge.ldap needs ldap3: pip install 'stampede-broker[identity]'.") from None
        self._changed = changed
        self._here = here
        self._checks = ExternalChecks(clock, THREADS, "LDAP")
        self._directories = [LdapDirectory(name, LdapSettings(**table)) for name, table in tables.items()]
        self._people: dict[int, tuple[LdapDirectory, Person]] = {}
        """By their marks: who is connected, or remembered, or was so when his directory was last looked at."""
        self._unused: set[int] = set()
        """Marks of those who were neither then."""
        self._told: dict[str, str] = {}
        # Each has a thread of its own: one that hangs keeps nobody of another from being looked for.
        self._again = {each.name: WaitingThreads(1, "ldap-again") for each in self._directories}
        self._following: list[asyncio.Task[None]] = []

    def start(self) -> None:
        """Looks again for those who came in, from now on."""
        loop = asyncio.get_running_loop()
        self._following = [loop.create_task(self._follow(each)) for each in self._directories]
        self._following.append(loop.create_task(self._end_late()))

    def known(self, login: str, passcode: str, host: VirtualHost, channel: Channel) -> Principal | None:
        """Whose login this is, if that was found a moment ago."""
        found = self._checks.known(login, passcode, host.name)
        return found if found is not None and self.still_valid(found.mark) else None

    async def prove(self, login: str, passcode: str, host: VirtualHost, channel: Channel) -> Principal:
        """Raises RefusedError(LOGIN_FAILED)."""
        check = partial(self._judge, login, passcode, host)
        asked = [each.settings.remember_s for each in self._directories if counts_in(each.hosts, host.name)]
        secret = (login, passcode, host.name)
        found = await self._checks.run(login, channel, secret, check, min(asked, default=0.0))
        # Here, not in the thread that judged: to whoever asks for marks meanwhile he is there all the time.
        known = self._people.pop(found.mark, None)
        if known is None:
            # Looked for while his login was on its way, and not as he was: nobody would look for him any more.
            self._checks.forget()
            raise RefusedError(Code.LOGIN_FAILED, refusal(login))
        self._people[found.mark] = known
        return found

    def still_valid(self, mark: int) -> bool:
        """Is that login's user still there, as he was (Principal.mark)."""
        return mark in self._people

    def close(self) -> None:
        """Ends its threads; does not wait for them."""
        for task in self._following:
            task.cancel()
        self._checks.close()
        for each in self._directories:
            self._again[each.name].close()
            each.close()

    def _judge(self, login: str, passcode: str, host: VirtualHost) -> Principal | str:
        """In a thread: who it is, or why it is nobody. Of several directories the first that has the user decides."""
        if not passcode or "\0" in passcode or not is_name(login) or login.startswith(HOST):
            return "no login and passcode that a directory could have"
        asked = [each for each in self._directories if counts_in(each.hosts, host.name)]
        if not asked:
            return "no directory of edge.ldap counts here (virtual_hosts)"
        try:
            for directory in asked:
                person = directory.person(login)
                if person is not None:
                    return self._judged(directory, person, passcode, host)
            asked[-1].right(asked[-1].nobody(), passcode)
        except TooManyGroupsError as error:
            self._tell(asked, f"{login!r} is {error}")
            raise RefusedError(Code.LOGIN_FAILED, refusal(login)) from None
        except Unreachable as error:
            self._tell(asked, str(error))
            # Not for want of a right passcode: it costs whoever logs in no wait, and he may try again at once.
            raise RefusedError(Code.LOGIN_FAILED, refusal(login)) from None
        return "no directory has exactly one such user"

    def _judged(self, directory: LdapDirectory, person: Person, passcode: str, host: VirtualHost) -> Principal | str:
        if not directory.right(person.dn, passcode):
            return f"edge.ldap.{directory.name} does not take the passcode"
        self._told.pop(directory.name, None)
        name = directory.settings.user_prefix + person.login
        if not is_name(name) or name.startswith(HOST):
            return "its name is no name of a user"
        mark = person.mark(directory.name)
        self._people[mark] = directory, person
        return Principal(host.inside(name), person.groups, mark, 0.0, True)

    def _tell(self, asked: list[LdapDirectory], why: str) -> None:
        name = asked[0].name if len(asked) == 1 else ", ".join([each.name for each in asked])
        if self._told.get(name) != why:
            self._told[name] = why
            log.warning("nobody new can log in by LDAP, who is here stays: %s (edge.ldap.%s)", why, name)

    # ── again ──────────────────────────────────────────────────────────────────────────────────────

    async def _follow(self, directory: LdapDirectory) -> None:
        while True:
            await asyncio.sleep(directory.settings.refresh_s)
            try:
                await self._look(directory)
            except Exception:
                log.exception(
                    "edge.ldap.%s: who came in is looked for again in %g s",
                    directory.name,
                    directory.settings.refresh_s,
                )

    async def _end_late(self) -> None:
        while True:
            await asyncio.sleep(PATIENCE_S)
            for each in self._directories:
                each.look(PATIENCE_S)

    def _present(self, directory: LdapDirectory) -> list[int]:
        """Marks of those of it who are to be looked for again. One that has been neither connected nor remembered since
        the last look is forgotten: the directory is asked again when he comes back."""
        used = {*self._here(), *self._checks.marks()}
        marks = [mark for mark, (where, _) in self._people.copy().items() if where is directory]
        for mark in marks:
            if mark in used:
                self._unused.discard(mark)
            elif mark in self._unused:
                self._unused.discard(mark)
                del self._people[mark]
            else:
                self._unused.add(mark)  # his login may be on its way
        return [mark for mark in marks if mark in used]

    async def _look(self, directory: LdapDirectory) -> None:
        """Once for everybody who came in by it; in pieces. Ends logins that do not hold any more."""
        marks, gone = self._present(directory), list[int]()
        threads = self._again[directory.name]
        for start in range(0, len(marks), AT_ONCE):
            piece = [(mark, self._people[mark][1]) for mark in marks[start : start + AT_ONCE] if mark in self._people]
            try:
                found, why = await threads.run(partial(_changed, directory, piece))
            except Unreachable as error:
                self._tell([directory], str(error))
                break
            gone += found
            if why:
                self._tell([directory], why)
            await asyncio.sleep(PAUSE_S)
        if gone:
            for mark in gone:
                self._people.pop(mark, None)
            self._checks.forget()
            self._changed()


def _changed(directory: LdapDirectory, people: list[tuple[int, Person]]) -> tuple[list[int], str]:
    """In a thread: whose login does not hold any more, and why a user could not be looked for: he stays, and keeps
    nobody from being looked for. Raises Unreachable."""
    gone, why = [], ""
    for mark, person in people:
        try:
            if directory.again(person) != person:
                gone.append(mark)
        except UnansweredError as error:
            why = str(error)
    return gone, why
