"""One directory, asked by LDAP: who a user is, whether a passcode is his, and in which groups he is.

Rule: its methods block, for threads. A login never stands in a filter or DN unescaped, and is one user's only as the
directory spells it. Whatever the library raises, a server that cannot be asked is Unreachable.
"""

from __future__ import annotations

import logging
import os
import re
import socket
import ssl
from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from functools import cache
from math import ceil
from typing import Any, NamedTuple

from broker.config.logins.ldap import LdapSettings
from broker.config.ports import prefixes
from broker.seams.entropy import token
from broker.seams.files import read_whole

from .users import MOST_GROUPS, TooManyGroupsError, outside_groups

log = logging.getLogger("stampede.edge")

NO_SUCH, TOO_MANY = 32, 4
"""LDAP's noSuchObject and sizeLimitExceeded (RFC 4511 §4.1.9)."""
SERVER_SIDE = frozenset([3, 8, 10, 13, 51, 52, 80])
"""timeLimitExceeded, strongerAuthRequired, referral, confidentialityRequired, busy, unavailable, other: not the user's
fault."""
_IN_FILTER = re.compile(r"\(([A-Za-z][\w-]*)=([^()*\\]*%u[^()*\\]*)\)")
_IN_DN = re.compile(r"(?:^|[,+]) *([A-Za-z][\w-]*)=(%u)(?=[,+]|$)")
"""An attribute, and what it is for the login that stands for %u."""


class Unreachable(Exception):
    """The directory cannot be asked."""


class UnansweredError(Unreachable):
    """It can, but does not answer this question."""


Entry = Mapping[str, list[bytes]]
"""Attributes."""


class Person(NamedTuple):
    """A user whom a directory has. stamp   the value of changed_attribute."""

    login: str
    dn: str
    groups: tuple[str, ...]
    stamp: str

    def mark(self, directory: str) -> int:
        """Of a login that this was right for."""
        return hash((directory, *self))


class _Question:
    """One that is under way. waited   seconds, as was told.    spare   its socket while TLS begins there."""

    __slots__ = ("connection", "spare", "waited")

    def __init__(self, connection: Any) -> None:
        self.connection = connection
        self.waited = 0.0
        self.spare: socket.socket | None = None


class LdapPatience:
    """Ends questions that a server answers byte by byte: each byte begins the time-out of a socket anew. ask() and
    begins_tls() are called in threads, look() by the loop, which ends the socket under the thread."""

    def __init__(self, timeout_s: float) -> None:
        self._most_s = 2 * timeout_s + 1
        self._asked: dict[int, _Question] = {}

    @contextmanager
    def ask(self, connection: Any) -> Iterator[None]:
        """While it is asked."""
        question = self._asked[id(connection)] = _Question(connection)
        try:
            yield
        finally:
            del self._asked[id(connection)]
            if question.spare is not None:
                question.spare.close()

    def begins_tls(self, connection: Any) -> None:
        """Its socket is about to be another one."""
        question = self._asked.get(id(connection))
        if question is not None:
            question.spare = socket.socket(fileno=os.dup(connection.socket.fileno()))

    def look(self, seconds: float) -> None:
        """So much time has gone by."""
        for question in list(self._asked.values()):
            question.waited += seconds
            if question.waited > self._most_s:
                for each in (question.spare, question.connection.socket):
                    try:
                        if each is not None:
                            each.shutdown(socket.SHUT_RDWR)
                    except OSError:
                        pass  # it is closed already


@cache
def _tls_kind() -> Any:
    from ldap3 import Tls

    class PatientTls(Tls):  # type: ignore[misc]  # ldap3 has no types
        """TLS of a connection whose question can be ended while TLS begins. patience   who does."""

        patience: LdapPatience

        def wrap_socket(self, connection: Any, do_handshake: bool = False) -> Any:
            self.patience.begins_tls(connection)
            return super().wrap_socket(connection, do_handshake)

    return PatientTls


class LdapDirectory:
    """One of edge.ldap. Its methods block, and may be called by several threads: each question has a connection of its
    own while it is asked."""

    def __init__(self, name: str, settings: LdapSettings) -> None:
        self.name = name
        self.settings = settings
        self.hosts = prefixes(settings.virtual_hosts)
        self._urls = list(prefixes(settings.url))
        self._idle: deque[Any] = deque()
        """Bound as bind_dn, as many as were asked by at a time: THREADS and one at most."""
        pairs = _IN_DN.findall(settings.user_dn) if settings.user_dn else _IN_FILTER.findall(settings.user_filter)
        self._spelled: list[tuple[str, str]] = pairs
        self._patience = LdapPatience(settings.timeout_s)
        self._looks = bool(
            not settings.user_dn or settings.bind_dn or settings.group_base or settings.changed_attribute
        )
        """Is anything looked for: with a user_dn alone nobody may be there who could."""

    def person(self, login: str) -> Person | None:
        """Who that is; None: nobody, or not one alone, or spelled otherwise there: for a directory `Ada` is `ada`, so
        one passcode would be that of many users. Raises Unreachable, TooManyGroupsError."""
        said = self.settings
        dn = _filled(said.user_dn, u=_in_dn(login))
        if not self._looks:
            return Person(login, dn, (), "")
        asked = (said.changed_attribute, *(attribute for attribute, _ in self._spelled))
        base, which = (dn, "(objectClass=*)") if dn else (said.user_base, self._which(login))
        found = self._search(base, which, asked, sub=not dn, most=2)
        if len(found) != 1 or not self._as_spelled(login, found[0][1]):
            return None
        return self._with_groups(login, dn or found[0][0], found[0][1])

    def again(self, known: Person) -> Person | None:
        """The same user as he is now; None: he is not there any more, or in too many groups. Raises Unreachable."""
        if not self._looks:
            return known
        which = "(objectClass=*)" if self.settings.user_dn else self._which(known.login)
        found = self._search(known.dn, which, (self.settings.changed_attribute,), sub=False, most=2)
        try:
            return self._with_groups(known.login, known.dn, found[0][1]) if found else None
        except TooManyGroupsError as error:
            log.warning("edge.ldap.%s: %r is %s", self.name, known.login, error)
            return None

    def right(self, dn: str, passcode: str) -> bool:
        """Is that the user's passcode. Raises Unreachable."""
        if not dn or not passcode:
            return False  # that would be nobody in particular
        connection, code = self._bound(dn, passcode)
        _leave(connection)
        return code == 0

    def nobody(self) -> str:
        """A DN that nobody has: to let who is not there take as long as who is."""
        base = self.settings.user_base or self.settings.user_dn.partition(",")[2]
        return f"cn={token(8)},{base}"

    def look(self, seconds: float) -> None:
        """So much time has gone by: what has been asked for too long is given up."""
        self._patience.look(seconds)

    def close(self) -> None:
        """Ends its idle connections; waits for nothing."""
        for connection in list(self._idle):
            connection.socket.close()

    # ── asking ─────────────────────────────────────────────────────────────────────────────────────

    def _which(self, login: str) -> str:
        return _filled(self.settings.user_filter, u=_in_filter(login))

    def _as_spelled(self, login: str, entry: Entry) -> bool:
        """Is a user with these attributes called exactly so. What cannot be read there cannot be told."""
        values = [(text.replace("%u", login), _values(entry, attribute)) for attribute, text in self._spelled]
        there = [each for _, each in values if each]
        if not there or any(text in each for text, each in values):
            return True
        log.info("login by LDAP: %r is spelled %r in edge.ldap.%s", login, there[0][0][:100], self.name)
        return False

    def _with_groups(self, login: str, dn: str, entry: Entry) -> Person:
        said, stamp = self.settings, _first(entry, self.settings.changed_attribute)
        if not said.group_base:
            return Person(login, dn, (), stamp)
        which = _filled(said.group_filter, d=_in_filter(dn), u=_in_filter(login))
        entries = self._search(said.group_base, which, (said.group_attribute,), sub=True, most=MOST_GROUPS, whole=True)
        names = outside_groups(_first(each, said.group_attribute) for _, each in entries)
        return Person(login, dn, tuple(said.groups_prefix + name for name in names), stamp)

    def _search(
        self, base: str, which: str, attributes: Iterable[str], *, sub: bool, most: int, whole: bool = False
    ) -> list[tuple[str, Entry]]:
        """DN and these attributes of what fits, `most` at most. whole: of what fits nothing may be missing. Raises
        Unreachable, TooManyGroupsError."""
        from ldap3 import BASE, SUBTREE

        asked = list(dict.fromkeys(filter(None, attributes))) or ["1.1"]
        for fresh in (False, True):
            # A connection that was quiet for long may have been ended by the server or a firewall: then a new one.
            connection = self._searcher(fresh)
            try:
                with self._patience.ask(connection):
                    _, result, entries, _ = connection.search(
                        base, which, SUBTREE if sub else BASE, attributes=asked, size_limit=most,
                        time_limit=ceil(self.settings.timeout_s),
                    )  # fmt: skip
            except Exception as error:  # of the library: not only its own
                _leave(connection)
                if fresh:
                    raise Unreachable(f"{type(error).__name__}: {error}"[:300]) from None
                continue
            self._idle.append(connection)
            code = result["result"]
            if code == NO_SUCH:
                return []
            if code not in (0, TOO_MANY):
                kind = Unreachable if code in SERVER_SIDE else UnansweredError
                raise kind(f"it answers {result['description']} to a search below {base}")
            if whole and code == TOO_MANY:
                raise TooManyGroupsError(f"more than {min(most, len(entries or ()))}")
            found = [each for each in entries or () if each.get("type") == "searchResEntry"]
            return [(str(each["dn"]), each.get("raw_attributes") or {}) for each in found]
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
        why = ""
        for url in list(self._urls):
            connection = None
            try:
                connection = self._to(url, dn, passcode)
                with self._patience.ask(connection):
                    # Encrypted, unless it is on this machine, before anything is said.
                    connection.open(read_server_info=False)
                    if self.settings.start_tls and not connection.server.ssl:
                        connection.start_tls(read_server_info=False)
                    _, result, _, _ = connection.bind()
            except Exception as error:  # of the library: not only its own
                why = f"{url}: {type(error).__name__}: {error}"[:300]
            else:
                if result["result"] not in SERVER_SIDE:
                    return connection, result["result"]
                why = f"{url} answers {result['description']}"
            if connection is not None:
                _leave(connection)
            self._behind(url)
        raise Unreachable(why)

    def _to(self, url: str, dn: str, passcode: str) -> Any:
        """A connection that is not open yet. The passcode goes there as it is: of a text the library makes another
        one, or an error."""
        from ldap3 import ANONYMOUS, AUTO_BIND_NONE, NONE, SAFE_SYNC, SIMPLE, Connection, Server

        said = self.settings
        # With a version named, ldap3 makes the context itself, nearly as seams/client_tls.py does: what is in ca_file
        # has to be the root of the chain.
        tls = _tls_kind()(
            validate=ssl.CERT_REQUIRED, ca_certs_file=said.ca_file or None, version=ssl.PROTOCOL_TLS_CLIENT
        )
        tls.patience = self._patience
        server = Server(url, get_info=NONE, tls=tls, connect_timeout=said.timeout_s)
        return Connection(
            server, dn or None, passcode.encode() or None, authentication=SIMPLE if dn else ANONYMOUS,
            auto_bind=AUTO_BIND_NONE, client_strategy=SAFE_SYNC, auto_referrals=False, check_names=False,
            receive_timeout=ceil(said.timeout_s),
        )  # fmt: skip

    def _behind(self, url: str) -> None:
        """One that does not answer is asked last from now on."""
        if len(self._urls) > 1:
            self._urls = [each for each in self._urls if each != url] + [url]


def _values(entry: Entry, name: str) -> list[str]:
    return [each.decode(errors="replace") for key in entry if key.lower() == name.lower() for each in entry[key]]


def _first(entry: Entry, name: str) -> str:
    return next(iter(_values(entry, name)), "") if name else ""


def _filled(text: str, **values: str) -> str:
    """In one go: what stands in a value for %u stays what it is."""
    return re.sub("%([ud])", lambda found: values.get(found[1], found[0]), text)


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
