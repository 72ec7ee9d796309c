"""Who is logging in. Nobody has to say (no users), or login and passcode of a table: a file's, or the cluster's.

A right passcode is remembered as an HMAC under a key of this process, so that a reconnecting fleet costs one
argon2 check per user, not per connection. A wrong one costs the same as an unknown user and gets the same text; from
the fourth failure on that name has to wait, from that address. Whose check is next, and who waits: login_queue.py.

Rule: passcodes are never kept, logged, or part of an exception. Knows the channel's peer and nothing else of it.
"""

from __future__ import annotations

import asyncio
import hmac
import ipaddress
import logging
import os
from collections.abc import Awaitable, Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Protocol

from broker.config.ports import hosts, logins_elsewhere
from broker.config.settings import Settings
from broker.core.errors import Code, ConfigError, RefusedError
from broker.seams.clock import Clock, SystemClock
from broker.seams.entropy import token
from broker.seams.files import fingerprint, mode
from broker.seams.passcodes import verify

from ..transport.channel import Channel
from ..transport.fair_places import network
from ..transport.tcp import peer_host
from .login_queue import MAX_PENALTY_S, Check, LoginQueue, Pair, Penalties
from .users import MAX_NAME, User, load_users

log = logging.getLogger("stampede.edge")

THREADS = 2
"""argon2 checks at a time: 19 MiB each; it lets other threads run meanwhile."""
MAX_WAITING = 1000
"""Checks waiting for a thread; beyond it those of the address with the most are refused (20 s of work for two)."""
MAX_REMEMBERED = 10_000
"""Right passcodes remembered, 150 bytes each."""
TRY_S = 0.05
"""What a try before its turn takes with nobody in front, until there was one (login_queue.py)."""
MAX_SHOWN = 100
"""Characters of a login that are shown to who sent it."""
# Of a random passcode that nobody kept: what unknown users are checked against, so that they take as long.
NOBODY = "$argon2id$v=19$m=19456,t=2,p=1$CMSi/7T1O4+zMepg9erLiA$Otn1HF/Z7t6wMYJiul1uao9mRTrY0XTm7Rf7zGA2ZC8"


@dataclass(frozen=True, slots=True)
class Principal:
    """A user who may use the broker."""

    name: str
    groups: tuple[str, ...] = ()
    mark: int = field(default=0, compare=False, repr=False)
    """Of the hash that the passcode was right for: see Authenticator.still_valid. BY_NAME: of none, the name alone
    counts. Means nothing in another process."""
    until: float = field(default=0.0, compare=False)
    """When the login ends by itself, on the monotonic clock; 0: never."""
    outside: bool = field(default=False, compare=False)
    """Of no table of users: the groups are those that are said here, and the mark is external_logins.py's."""


BY_NAME = 0
"""Principal.mark of who came in without a passcode of ours, by a certificate or as default_user."""
ANONYMOUS = Principal("anonymous")


class Authenticator(Protocol):
    @property
    def has_users(self) -> bool:
        """Logins are checked."""
        ...

    def try_now(self, login: str | None, passcode: str | None, peer: str = "") -> Principal | None:
        """The principal if that can be said without waiting, else None: then ask authenticate()."""
        ...

    async def authenticate(self, login: str | None, passcode: str | None, channel: Channel) -> Principal:
        """Raises RefusedError(LOGIN_FAILED)."""
        ...

    def trusted(self, user: str) -> Principal | None:
        """This user, for who need not say a passcode (default_user of an acceptor). None: there is none."""
        ...

    def still_valid(self, user: str, mark: int) -> bool:
        """Would this login (Principal.mark) still be right."""
        ...

    def groups(self, user: str) -> tuple[str, ...]:
        """Of a user who has logged in; none of one who is not known any more."""
        ...

    def knows(self, user: str) -> bool:
        """Is there such a user."""
        ...

    def known_groups(self) -> frozenset[str]:
        """Of all users together."""
        ...

    def close(self) -> None:
        """Ends its threads; does not wait for them."""
        ...


class SharedLogins(Protocol):
    """What edges tell each other of right passcodes, so that a user who comes back to another edge costs no argon2
    check. A proof is no secret and no passcode can be found from it without the user's argon2 hash."""

    async def known(self, proof: str) -> bool:
        """Has another edge found it right. False as well when that cannot be asked; never raises, never takes long."""
        ...

    def remember(self, proof: str) -> None: ...


class TableAuthenticator:
    """Users of a table, which may be replaced while we run.

    open_when_empty   without users everyone is `anonymous` (loopback listeners only); else nobody can log in.
    shared            what other edges know, or None."""

    def __init__(
        self,
        users: Mapping[str, User],
        clock: Clock,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
        threads: int = THREADS,
        *,
        open_when_empty: bool = False,
        shared: SharedLogins | None = None,
    ) -> None:
        self._users = dict(users)
        self._rounds = _rounds(self._users)
        self._groups: frozenset[str] | None = None
        """Of all users, once one has been asked for."""
        self._open_when_empty = open_when_empty
        self._shared = shared
        self._key = token(32).encode()
        self._right: dict[bytes, Principal] = {}
        self._checks: dict[bytes, tuple[Check, asyncio.Future[Principal | None]]] = {}
        self._clock = clock
        self._sleep = sleep
        self._penalties = penalties = Penalties(clock, sleep)
        self._turns = LoginQueue(threads, MAX_WAITING, penalties.blocked, penalties.suspect, penalties.may_try)
        self._try_pace = self._try_took = TRY_S / 2
        """Of the tries before their turn: seconds that each one in front costs, and that its own check takes."""
        self._threads = threads
        self._pool = ThreadPoolExecutor(threads, thread_name_prefix="login")

    @property
    def has_users(self) -> bool:
        return bool(self._users) or not self._open_when_empty

    def replace(self, users: Mapping[str, User]) -> set[str]:
        """These are the users from now on, for every login that is not decided yet. Returns who is not among them any
        more, or has passcodes less: Edge.expel() ends the connections of whom that concerns."""
        before = {name: set(_hashes(user)) for name, user in self._users.items()}
        if not self.has_users:
            before = {ANONYMOUS.name: set()}
        self._users = dict(users)
        self._rounds = _rounds(self._users)
        self._groups = None
        # Who is still right need not be asked again: a new user must not cost a check of everybody.
        self._right = {
            digest: Principal(known.name, self.groups(known.name), known.mark)
            for digest, known in self._right.items()
            if self.still_valid(known.name, known.mark)
        }
        # A check under way is of the old users; nobody new may join it.
        self._checks.clear()
        if not self.has_users:
            return before.keys() - {ANONYMOUS.name}
        return {
            name for name, known in before.items()
            if name not in self._users or known - set(_hashes(self._users[name]))
        }  # fmt: skip

    def try_now(self, login: str | None, passcode: str | None, peer: str = "") -> Principal | None:
        if not self.has_users:
            return ANONYMOUS
        if login is None or passcode is None:
            return None
        found = self._right.get(self._digest(login, passcode))
        if found is not None and peer:
            self._penalties.succeeded(_pair(peer, login))
        return found

    async def authenticate(self, login: str | None, passcode: str | None, channel: Channel) -> Principal:
        pair = _pair(channel.peer, login or "")
        paid = await self._penalties.serve(pair)
        principal = None
        if login is not None and passcode is not None:
            principal = await self._check(login, passcode, pair, paid)
        if principal is None:
            self._penalties.failed(pair)
            log.info("%s #%d: login failed", channel.peer, channel.id)
            raise RefusedError(Code.LOGIN_FAILED, refusal(login))
        self._penalties.succeeded(pair)
        return principal

    def trusted(self, user: str) -> Principal | None:
        if not self.has_users:
            return ANONYMOUS
        found = self._users.get(user)
        return Principal(found.name, found.groups, BY_NAME) if found is not None else None

    def still_valid(self, user: str, mark: int) -> bool:
        if not self.has_users:
            return user == ANONYMOUS.name
        found = self._users.get(user)
        return found is not None and (mark == BY_NAME or mark in map(hash, _hashes(found)))

    def groups(self, user: str) -> tuple[str, ...]:
        found = self._users.get(user)
        return found.groups if found is not None else ()

    def knows(self, user: str) -> bool:
        return user in self._users

    def known_groups(self) -> frozenset[str]:
        if self._groups is None:
            self._groups = frozenset(group for user in self._users.values() for group in user.groups)
        return self._groups

    def close(self) -> None:
        self._turns.close()
        self._pool.shutdown(wait=False, cancel_futures=True)

    async def _check(self, login: str, passcode: str, pair: Pair, paid: bool) -> Principal | None:
        """One argon2 check per login and passcode at a time; a login that asks for the same waits for it. paid: the
        pair has served a penalty for it."""
        digest = self._digest(login, passcode)
        known = self._right.get(digest)
        if known is not None:
            return known
        address, name = pair
        if self._turns.busy and self._turns.can_try and not self._penalties.proven(pair):
            known = await self._try_first(digest, login, passcode, pair)
            if known is not None:
                return known
        waiting = self._checks.get(digest)
        if waiting is None:
            check = Check(name)
            self._turns.wait(check, address, self._penalties.proven(pair), paid)
            # A task of its own: the connection that asked first may go while others wait for the answer.
            answer = asyncio.ensure_future(self._verify(check, digest, self._users, login, passcode, pair))
            waiting = self._checks[digest] = check, answer
            answer.add_done_callback(lambda done: self._checked(digest, check, done))
        else:
            self._turns.wait(waiting[0], address, self._penalties.proven(pair), paid)
        return await asyncio.shield(waiting[1])

    async def _try_first(self, digest: bytes, login: str, passcode: str, pair: Pair) -> Principal | None:
        """Who has the right passcode need not wait behind a storm of names that nobody has (login_queue.py). None: it
        was not tried, or is wrong, and has its turn as if nobody had looked. So that this takes as long for a name that
        nobody has, such a login waits for what a try would take that comes now; it takes no place in their lane."""
        if not self._penalties.may_try(pair):
            return None
        user = self._users.get(login)
        if user is None:
            # No turn comes sooner than the threads check, whatever the last one had to wait: it may have met one's end.
            pace = max(self._try_pace, self._try_took / self._threads)
            foretold = (self._turns.ahead(pair[0]) + 1) * pace + self._try_took
            await self._sleep(min(foretold, MAX_PENALTY_S))
            self._penalties.tried(pair)
            return None
        # Who hangs up meanwhile has tried all the same.
        return await asyncio.shield(asyncio.ensure_future(self._try_known(digest, user, login, passcode, pair)))

    async def _try_known(self, digest: bytes, user: User, login: str, passcode: str, pair: Pair) -> Principal | None:
        users, began = self._users, self._clock.monotonic()
        check, ahead = Check(pair[1]), self._turns.ahead(pair[0])
        self._turns.try_first(check, pair[0])
        right, loop = "", asyncio.get_running_loop()
        hashes, shared = _hashes(user), self._shared
        try:
            for each in hashes:
                if shared is not None and await shared.known(_proof(each, login, passcode)):
                    return self._found(digest, user, each) if self._users is users else None
            await check.granted
            granted = self._clock.monotonic()
            self._try_pace = (granted - began) / (ahead + 1)
            if (known := self._right.get(digest)) is not None:
                return known  # many came at once
            # As many for every name (see _verify).
            for each in hashes + (NOBODY,) * (self._rounds - len(hashes)):
                if await loop.run_in_executor(self._pool, verify, each, passcode):
                    right = each
                    break
        except RefusedError:
            return None
        finally:
            self._turns.over(check)
        self._try_took = self._clock.monotonic() - granted
        if right not in hashes:
            self._penalties.tried(pair)
        elif self._users is users:
            if shared is not None:
                shared.remember(_proof(right, login, passcode))
            return self._found(digest, user, right)
        return None

    def _found(self, digest: bytes, user: User, right: str) -> Principal:
        """The passcode is right, by that hash."""
        if len(self._right) >= MAX_REMEMBERED:
            del self._right[next(iter(self._right))]
        principal = self._right[digest] = Principal(user.name, user.groups, hash(right))
        return principal

    def _checked(self, digest: bytes, check: Check, answer: asyncio.Future[Principal | None]) -> None:
        # After a change of the users there may be a newer one in its place.
        if self._checks.get(digest, (None,))[0] is check:
            del self._checks[digest]
        if not answer.cancelled():
            answer.exception()  # those who asked may all have gone

    async def _verify(
        self, check: Check, digest: bytes, users: dict[str, User], login: str, passcode: str, pair: Pair
    ) -> Principal | None:
        user, rounds = users.get(login), self._rounds
        # After a change of the passcode the one from before may stay valid for a while: another check. A wrong passcode
        # costs as many for every name, or one could tell by the time who is being changed.
        hashes = _hashes(user) if user else ()
        right = await self._find(check, hashes + (NOBODY,) * (rounds - len(hashes)), login, passcode)
        if self._users is not users:
            # It was one of users who may not be any more. It has had its turn: no penalty again.
            return await self._check(login, passcode, pair, True)
        if user is None or right not in hashes:
            return None
        return self._found(digest, user, right)

    async def _find(self, check: Check, hashes: tuple[str, ...], login: str, passcode: str) -> str:
        """Which of these hashes the passcode is right for, "" of none. Other edges are asked before its turn comes."""
        loop, shared = asyncio.get_running_loop(), self._shared
        try:
            if shared is not None:
                for known in hashes:
                    if await shared.known(_proof(known, login, passcode)):
                        return known
            await check.granted
            for known in hashes:
                if await loop.run_in_executor(self._pool, verify, known, passcode):
                    if shared is not None and known != NOBODY:
                        shared.remember(_proof(known, login, passcode))
                    return known
            return ""
        finally:
            self._turns.over(check)

    def _digest(self, login: str, passcode: str) -> bytes:
        return hmac.digest(self._key, _together(login, passcode), "sha256")


class FileAuthenticator(TableAuthenticator):
    """Users of a file, which may change while we run: its Edge asks changed() from time to time."""

    def __init__(
        self,
        path: str,
        clock: Clock,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
        threads: int = THREADS,
        *,
        open_without: bool = False,
        closed_without: bool = False,
    ) -> None:
        """open_without: there may be no such file, and until there is one everyone is `anonymous`. closed_without: …
        nobody is a user of it. Raises ConfigError when the file cannot be used."""
        self._path = path
        self._seen = fingerprint(path)
        none = (open_without or closed_without) and self._seen is None
        super().__init__({} if none else load_users(path), clock, sleep, threads, open_when_empty=none and open_without)
        self._warn()
        self._gone: set[str] | None = None
        """Whose logins may not hold any more, since changed() was asked; None: it is as it was."""

    async def _check(self, login: str, passcode: str, pair: Pair, paid: bool) -> Principal | None:
        # A check costs so much that a look at the file is free: who was added a moment ago can come in.
        self._look()
        return await super()._check(login, passcode, pair, paid)

    def changed(self) -> set[str] | None:
        """Has the file changed since this was asked last: who is gone since then, or has another passcode; None: it
        has not."""
        self._look()
        gone, self._gone = self._gone, None
        return gone

    def _look(self) -> None:
        """Takes a changed users file; one that cannot be used changes nothing."""
        seen = fingerprint(self._path)
        if seen == self._seen:
            return
        self._seen = seen
        try:
            users = load_users(self._path)
        except ConfigError as error:
            log.error("the changed users file is not usable, the users from before stay: %s", error)
            return
        self._gone = (self._gone or set()) | self.replace(users)
        # An operator who has users does not mean to open the broker when he takes the last one away.
        self._open_when_empty = self._open_when_empty and not users
        log.info("users reloaded from %s: %d", self._path, len(users))
        self._warn()

    def _warn(self) -> None:
        bits = mode(self._path)
        if bits & 0o077:
            log.warning(
                "%s has mode %04o: others on this machine can read or change its hashes; chmod 600 %s",
                self._path, bits, self._path,
            )  # fmt: skip


def _hashes(user: User) -> tuple[str, ...]:
    return (user.hash, *user.previous)


def _rounds(users: Mapping[str, User]) -> int:
    """Checks that a wrong passcode costs."""
    return max((len(_hashes(user)) for user in users.values()), default=1)


def refusal(login: str | None) -> str:
    """In Artemis' words; the same whatever was wrong."""
    return f"Security Error occurred: User name [{(login or '')[:MAX_SHOWN]}] or password is invalid"


def _pair(peer: str, login: str) -> Pair:
    return network(peer_host(peer)), login[:MAX_NAME]


def _together(login: str, passcode: str) -> bytes:
    name = login.encode()
    # The length keeps ("ab", "c") and ("a", "bc") apart.
    return b"%d:%b%b" % (len(name), name, passcode.encode())


def _proof(hash: str, login: str, passcode: str) -> str:
    """What says to another edge that the passcode is right. Its key is the user's argon2 hash, with the salt in it:
    who can read proofs only cannot even try passcodes, who can write them only cannot make one, and a changed passcode
    (or user) makes all earlier ones worthless."""
    key = hmac.digest(hash.encode(), b"stampede: a right passcode", "sha256")
    return hmac.digest(key, _together(login, passcode), "sha256").hex()


def users_file(settings: Settings) -> str:
    """Where the users stand."""
    return settings.edge.users_file or os.path.join(settings.data, "users.toml")


def make_authenticator(settings: Settings) -> FileAuthenticator:
    """By the settings: the users file named there, else DATA/users.toml; until that exists nobody has to log in, which
    is refused for a host that others can reach. Raises ConfigError."""
    path = users_file(settings)
    if settings.edge.users_file or fingerprint(path) is not None:
        return FileAuthenticator(path, SystemClock())
    if logins_elsewhere(settings):
        return FileAuthenticator(path, SystemClock(), closed_without=True)
    for setting, host in hosts(settings).items():
        if not is_loopback(host):
            raise ConfigError(
                f"{setting} is {host} but there are no users, so anyone who reaches it could read and send; add one "
                f"with `stampede user add NAME`, or leave {setting} empty to listen on this machine only."
            )
    return FileAuthenticator(path, SystemClock(), open_without=True)


def is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
