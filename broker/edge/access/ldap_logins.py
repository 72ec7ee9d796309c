"""Logins that a directory judges (LDAP): the user is looked for, then the passcode is tried by a bind as that user.

Who came in is looked for again from time to time. Whoever is gone from there, does not fit the filter any more (a
disabled account), is in other groups or has another passcode (`changed_attribute`) loses his connections; while the
directory cannot be reached everybody stays, and nobody comes in whose passcode was not found right a moment ago.

Rule: the directory is asked in threads (outside_checks.py). A login never stands in a filter or DN unescaped, and an
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
import ssl
from collections import deque
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from math import ceil
from typing import Any, NamedTuple

from broker.config.ldap import LdapSettings
from broker.config.ports import prefixes
from broker.core.errors import Code, ConfigError, RefusedError
from broker.core.virtual_host import HOST, VirtualHost
from broker.seams.clock import Clock
from broker.seams.entropy import token
from broker.seams.files import read_whole

from ..transport.channel import Channel
from .auth import MAX_REMEMBERED, Principal, refusal
from .outside_checks import OutsideChecks
from .users import MAX_NAME, is_name

log = logging.getLogger("stampede.edge")

THREADS = 4
"""Questions to directories under way: each is two or three waits for a server, and hardly any work."""
MOST_GROUPS = 200
MOST_PEOPLE = 10 * MAX_REMEMBERED
"""Who came in and is looked for again, 400 bytes each; beyond it whoever came in longest ago has to come in anew."""
AT_ONCE = 20
"""Of them looked for in one piece of work of the thread, between which it can be ended."""
PAUSE_S = 0.05
"""Between two pieces: a directory of others is not to be flooded by us."""
NO_SUCH, TOO_MANY = 32, 4
"""LDAP's noSuchObject and sizeLimitExceeded (RFC 4511 §4.1.9)."""
SERVER_SIDE = frozenset([3, 51, 52, 80])
"""timeLimitExceeded, busy, unavailable, other: not the user's fault."""


class Unreachable(Exception):
    """The directory cannot be asked."""


class Person(NamedTuple):
    """Somebody whom a directory has. stamp   the value of changed_attribute."""

    login: str
    dn: str
    groups: tuple[str, ...]
    stamp: str

    def mark(self, directory: str) -> int:
        """Of a login that this was right for."""
        return hash((directory, *self))


class LdapDirectory:
    """One of edge.ldap. Its methods block, and may be called by several threads: each question has a connection of its
    own while it is asked."""

    def __init__(self, name: str, settings: LdapSettings) -> None:
        self.name = name
        self.settings = settings
        self._hosts = prefixes(settings.virtual_hosts)
        self._urls = list(prefixes(settings.url))
        self._idle: deque[Any] = deque()
        """Bound as bind_dn, as many as were asked by at a time: THREADS and one at most."""

    def counts_in(self, host: str) -> bool:
        """Do its users count in this virtual host."""
        return not host if not self._hosts else "*" in self._hosts or host in self._hosts

    def person(self, login: str) -> Person | None:
        """Who that is; None: nobody, or not one alone. Raises Unreachable."""
        said = self.settings
        if said.user_dn:
            dn = said.user_dn.replace("%u", _in_dn(login))
            return self._described(login, dn, "(objectClass=*)") if said.group_base or said.changed_attribute else (
                Person(login, dn, (), ""))  # fmt: skip
        found = self._search(said.user_base, said.user_filter.replace("%u", _in_filter(login)), sub=True, most=2)
        return self._with_groups(login, *found[0]) if len(found) == 1 else None

    def again(self, known: Person) -> Person | None:
        """The same user as he is now; None: he is not there any more. Raises Unreachable."""
        said = self.settings
        which = "(objectClass=*)" if said.user_dn else said.user_filter.replace("%u", _in_filter(known.login))
        return self._described(known.login, known.dn, which)

    def right(self, dn: str, passcode: str) -> bool:
        """Is that the user's passcode. Raises Unreachable."""
        connection, code = self._bound(dn, passcode)
        _leave(connection)
        return code == 0

    def nobody(self) -> str:
        """A DN that nobody has: to let who is not there take as long as who is."""
        base = self.settings.user_base or self.settings.user_dn.partition(",")[2]
        return f"cn={token(8)},{base}"

    def close(self) -> None:
        """Ends its idle connections; waits for nothing."""
        for connection in list(self._idle):
            connection.socket.close()

    # ── asking ─────────────────────────────────────────────────────────────────────────────────────

    def _described(self, login: str, dn: str, which: str) -> Person | None:
        found = self._search(dn, which, sub=False, most=2)
        return self._with_groups(login, dn, found[0][1]) if found else None

    def _with_groups(self, login: str, dn: str, stamp: str) -> Person:
        said = self.settings
        if not said.group_base:
            return Person(login, dn, (), stamp)
        which = said.group_filter.replace("%d", _in_filter(dn)).replace("%u", _in_filter(login))
        entries = self._search(said.group_base, which, sub=True, most=MOST_GROUPS, attribute=said.group_attribute)
        names = {name for _, name in entries if is_name(name) and "," not in name and name != "*"}
        return Person(login, dn, tuple(said.groups_prefix + name for name in sorted(names)), stamp)

    def _search(
        self, base: str, which: str, *, sub: bool, most: int, attribute: str | None = None
    ) -> list[tuple[str, str]]:
        """DN and one attribute (changed_attribute) of what fits, `most` at most."""
        from ldap3 import BASE, SUBTREE
        from ldap3.core.exceptions import LDAPException

        attribute = self.settings.changed_attribute if attribute is None else attribute
        for fresh in (False, True):
            # A connection that was quiet for long may have been ended by the server or a firewall: then a new one.
            connection = self._searcher(fresh)
            try:
                _, result, entries, _ = connection.search(
                    base, which, SUBTREE if sub else BASE, attributes=[attribute or "1.1"], size_limit=most,
                    time_limit=ceil(self.settings.timeout_s),
                )  # fmt: skip
            except (LDAPException, OSError) as error:
                _leave(connection)
                if fresh:
                    raise Unreachable(f"{type(error).__name__}: {error}"[:300]) from None
                continue
            self._idle.append(connection)
            code = result["result"]
            if code == NO_SUCH:
                return []
            if code not in (0, TOO_MANY):
                raise Unreachable(f"it answers {result['description']} to a search below {base}")
            found = [each for each in entries or () if each.get("type") == "searchResEntry"]
            return [(str(each["dn"]), _first(each.get("raw_attributes"), attribute)) for each in found]
        raise AssertionError("unreachable")

    def _searcher(self, fresh: bool) -> Any:
        """A connection bound as bind_dn, one from before or a fresh one. Raises Unreachable."""
        if not fresh:
            try:
                return self._idle.pop()
            except IndexError:  # another thread may have taken the last one meanwhile
                pass
        said = self.settings
        try:
            passcode = read_whole(said.bind_passcode_file).decode().strip() if said.bind_passcode_file else ""
        except (OSError, ValueError) as error:
            raise Unreachable(f"edge.ldap.{self.name}.bind_passcode_file: {error}") from None
        connection, code = self._bound(said.bind_dn, passcode)
        if code:
            _leave(connection)
            raise Unreachable(f"it does not take edge.ldap.{self.name}.bind_dn with its passcode (LDAP {code})")
        return connection

    def _bound(self, dn: str, passcode: str) -> tuple[Any, int]:
        """A new connection, and LDAP's code for the bind: 0, or why it is refused. Raises Unreachable."""
        from ldap3.core.exceptions import LDAPException

        why = ""
        for url in list(self._urls):
            connection = self._to(url, dn, passcode)
            try:
                # Encrypted, unless it is on this machine, before anything is said.
                connection.open(read_server_info=False)
                if self.settings.start_tls and url.startswith("ldap://"):
                    connection.start_tls(read_server_info=False)
                _, result, _, _ = connection.bind()
            except (LDAPException, OSError) as error:
                why = f"{url}: {type(error).__name__}: {error}"[:300]
            else:
                if result["result"] not in SERVER_SIDE:
                    return connection, result["result"]
                why = f"{url} answers {result['description']}"
            _leave(connection)
            self._behind(url)
        raise Unreachable(why)

    def _to(self, url: str, dn: str, passcode: str) -> Any:
        """A connection that is not open yet."""
        from ldap3 import ANONYMOUS, AUTO_BIND_NONE, NONE, SAFE_SYNC, SIMPLE, Connection, Server, Tls

        said = self.settings
        tls = Tls(validate=ssl.CERT_REQUIRED, ca_certs_file=said.ca_file or None)
        server = Server(url, get_info=NONE, tls=tls, connect_timeout=said.timeout_s)
        return Connection(
            server, dn or None, passcode or None, authentication=SIMPLE if dn else ANONYMOUS, auto_bind=AUTO_BIND_NONE,
            client_strategy=SAFE_SYNC, auto_referrals=False, check_names=False, receive_timeout=ceil(said.timeout_s),
        )  # fmt: skip

    def _behind(self, url: str) -> None:
        """One that does not answer is asked last from now on."""
        if len(self._urls) > 1:
            self._urls = [each for each in self._urls if each != url] + [url]


class LdapLogins:
    """See the head of this file. changed: somebody is gone or in other groups, so that logins may not hold any more."""

    def __init__(self, tables: Mapping[str, Mapping[str, Any]], clock: Clock, changed: Callable[[], None]) -> None:
        """Raises ConfigError where the library is missing."""
        try:
            import ldap3  # noqa: F401  # 80 ms and 15 MB: only those who need it
        except ImportError:
            raise ConfigError("edge.ldap needs ldap3: pip install 'stampede-broker[identity]'.") from None
        self._changed = changed
        self._checks = OutsideChecks(clock, THREADS, "LDAP")
        self._directories = [LdapDirectory(name, LdapSettings(**table)) for name, table in tables.items()]
        self._people: dict[int, tuple[LdapDirectory, Person]] = {}
        """By their marks; who came in last is the last."""
        self._told: dict[str, str] = {}
        self._again = ThreadPoolExecutor(1, thread_name_prefix="ldap-again")
        self._following: list[asyncio.Task[None]] = []

    def start(self) -> None:
        """Looks again for those who came in, from now on."""
        loop = asyncio.get_running_loop()
        self._following = [loop.create_task(self._follow(each)) for each in self._directories]

    def known(self, login: str, passcode: str, host: VirtualHost) -> Principal | None:
        """Whose login this is, if that was found a moment ago."""
        return self._checks.known(login, passcode, host.name)

    async def prove(self, login: str, passcode: str, host: VirtualHost, channel: Channel) -> Principal:
        """Raises RefusedError(LOGIN_FAILED)."""
        check = partial(self._judge, login, passcode, host)
        asked = [each.settings.remember_s for each in self._directories if each.counts_in(host.name)]
        secret = (login, passcode, host.name)
        return await self._checks.run(login, channel, secret, check, min(asked, default=0.0))

    def holds(self, mark: int) -> bool:
        """Is that login's user still there, as he was (Principal.mark)."""
        return mark in self._people

    def close(self) -> None:
        """Ends its threads; does not wait for them."""
        for task in self._following:
            task.cancel()
        self._checks.close()
        self._again.shutdown(wait=False, cancel_futures=True)
        for each in self._directories:
            each.close()

    def _judge(self, login: str, passcode: str, host: VirtualHost) -> Principal | str:
        """In a thread: who it is, or why it is nobody. Of several directories the first that has the user decides."""
        if not passcode or not is_name(login) or len(login) > MAX_NAME or login.startswith(HOST):
            return "no login and passcode that a directory could have"
        asked = [each for each in self._directories if each.counts_in(host.name)]
        if not asked:
            return "no directory of edge.ldap counts here (virtual_hosts)"
        try:
            for directory in asked:
                person = directory.person(login)
                if person is not None:
                    return self._judged(directory, person, passcode, host)
            asked[-1].right(asked[-1].nobody(), passcode)
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
        # One assignment each: another thread may be here, too.
        self._people.pop(mark, None)
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
            await self._look(directory)

    async def _look(self, directory: LdapDirectory) -> None:
        """Once for everybody who came in by it; in pieces. Ends logins that do not hold any more."""
        marks = [mark for mark, (where, _) in list(self._people.items()) if where is directory]
        gone = marks[: max(0, len(marks) - MOST_PEOPLE)]
        loop = asyncio.get_running_loop()
        for start in range(len(gone), len(marks), AT_ONCE):
            piece = [(mark, self._people[mark][1]) for mark in marks[start : start + AT_ONCE] if mark in self._people]
            try:
                gone += await loop.run_in_executor(self._again, _changed, directory, piece)
            except Unreachable as error:
                self._tell([directory], str(error))
                break
            await asyncio.sleep(PAUSE_S)
        if gone:
            for mark in gone:
                self._people.pop(mark, None)
            self._checks.forget()
            self._changed()


def _changed(directory: LdapDirectory, people: list[tuple[int, Person]]) -> list[int]:
    """In a thread: whose login does not hold any more. Raises Unreachable."""
    return [mark for mark, person in people if directory.again(person) != person]


def _first(attributes: Mapping[str, list[bytes]] | None, name: str) -> str:
    for key, values in (attributes or {}).items():
        if key.lower() == name.lower() and values:
            return values[0].decode(errors="replace")
    return ""


def _leave(connection: Any) -> None:
    """Says good-bye and does not mind whether anybody hears it."""
    from ldap3.core.exceptions import LDAPException

    if connection.closed:
        if connection.socket is not None:
            connection.socket.close()  # of a server that was not there
        return
    try:
        connection.unbind()
    except (LDAPException, OSError):
        pass


def _in_filter(text: str) -> str:
    """RFC 4515 §3: what would mean something in a filter means itself."""
    from ldap3.utils.conv import escape_filter_chars

    return str(escape_filter_chars(text))


def _in_dn(text: str) -> str:
    """RFC 4514 §2.4."""
    from ldap3.utils.dn import escape_rdn

    return str(escape_rdn(text))
