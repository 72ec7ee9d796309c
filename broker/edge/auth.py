"""Who is logging in. Nobody has to say (no users), or login and passcode of a table: a file's, or the cluster's.

A right passcode is remembered as an HMAC under a key of this process, so that a reconnecting fleet costs one
argon2 check per user, not per connection. A wrong one costs the same as an unknown user, gets the same text, and
from the fourth failure on its address has to wait.

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

from broker.config.ports import hosts
from broker.config.settings import Settings
from broker.core.errors import Code, ConfigError, RefusedError
from broker.seams.clock import Clock, SystemClock
from broker.seams.entropy import token
from broker.seams.files import fingerprint, mode
from broker.seams.passcodes import verify

from .channel import Channel
from .tcp import peer_host
from .users import User, load_users

log = logging.getLogger("stampede.edge")

THREADS = 2
"""argon2 checks at a time: 19 MiB each; it lets other threads run meanwhile."""
MAX_WAITING = 1000
"""Checks waiting for a thread; beyond it logins are refused at once (20 s of work for two threads)."""
MAX_REMEMBERED = 10_000
"""Right passcodes remembered, 150 bytes each."""
FREE_FAILURES = 3
"""Wrong passcodes of one address that have no consequence: people mistype."""
MAX_PENALTY_S = 5.0
"""Longest wait before an answer; less than login_timeout_s, so that the client still gets its ERROR frame."""
FORGET_S = 300.0
"""Failures of an address are forgotten after this time without another."""
MAX_ADDRESSES = 10_000
"""Addresses whose failures are counted; the longest unseen goes first."""

MAX_SHOWN = 100
"""Characters of a login that are shown to who sent it."""
BUSY = "too many logins at once; try again in a few seconds"
# Of a random passcode that nobody kept: what unknown users are checked against, so that they take as long.
NOBODY = "$argon2id$v=19$m=19456,t=2,p=1$CMSi/7T1O4+zMepg9erLiA$Otn1HF/Z7t6wMYJiul1uao9mRTrY0XTm7Rf7zGA2ZC8"


@dataclass(frozen=True, slots=True)
class Principal:
    """Somebody who may use the broker."""

    name: str
    groups: tuple[str, ...] = ()
    mark: int = field(default=0, compare=False, repr=False)
    """Of the hash that the passcode was right for: see Authenticator.holds. Means nothing in another process."""


ANONYMOUS = Principal("anonymous")


class Authenticator(Protocol):
    @property
    def has_users(self) -> bool:
        """Logins are checked."""
        ...

    def try_now(self, login: str | None, passcode: str | None) -> Principal | None:
        """The principal if that can be said without waiting, else None: then ask authenticate()."""
        ...

    async def authenticate(self, login: str | None, passcode: str | None, channel: Channel) -> Principal:
        """Raises RefusedError(LOGIN_FAILED)."""
        ...

    def holds(self, user: str, mark: int) -> bool:
        """Would this login (Principal.mark) still be right."""
        ...

    def groups(self, user: str) -> tuple[str, ...]:
        """Of a user who has logged in; none of one who is not known any more."""
        ...

    def known_groups(self) -> frozenset[str]:
        """Of all users together."""
        ...

    def close(self) -> None:
        """Ends its threads; does not wait for them."""
        ...


class OpenAuthenticator:
    """Without users everyone is `anonymous`, whatever they call themselves. Only for loopback listeners."""

    has_users = False

    def try_now(self, login: str | None, passcode: str | None) -> Principal:
        return ANONYMOUS

    async def authenticate(self, login: str | None, passcode: str | None, channel: Channel) -> Principal:
        return ANONYMOUS

    def holds(self, user: str, mark: int) -> bool:
        return True

    def groups(self, user: str) -> tuple[str, ...]:
        return ANONYMOUS.groups

    def known_groups(self) -> frozenset[str]:
        return frozenset()

    def close(self) -> None:
        pass


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
        self._open_when_empty = open_when_empty
        self._shared = shared
        self._key = token(32).encode()
        self._right: dict[bytes, Principal] = {}
        self._checks: dict[bytes, asyncio.Future[Principal | None]] = {}
        self._penalties = Penalties(clock, sleep)
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
        self._right.clear()
        # A check under way is of the old users; nobody new may join it.
        self._checks.clear()
        if not self.has_users:
            return before.keys() - {ANONYMOUS.name}
        return {
            name for name, known in before.items()
            if name not in self._users or known - set(_hashes(self._users[name]))
        }  # fmt: skip

    def try_now(self, login: str | None, passcode: str | None) -> Principal | None:
        if not self.has_users:
            return ANONYMOUS
        if login is None or passcode is None:
            return None
        return self._right.get(self._digest(login, passcode))

    async def authenticate(self, login: str | None, passcode: str | None, channel: Channel) -> Principal:
        address = peer_host(channel.peer)
        await self._penalties.serve(address)
        principal = None
        if login is not None and passcode is not None:
            principal = await self._check(login, passcode)
        if principal is None:
            self._penalties.failed(address)
            log.info("%s #%d: login failed", channel.peer, channel.id)
            raise RefusedError(Code.LOGIN_FAILED, refusal(login))
        self._penalties.forgive(address)
        return principal

    def holds(self, user: str, mark: int) -> bool:
        if not self.has_users:
            return user == ANONYMOUS.name
        found = self._users.get(user)
        return found is not None and any(hash(known) == mark for known in _hashes(found))

    def groups(self, user: str) -> tuple[str, ...]:
        found = self._users.get(user)
        return found.groups if found is not None else ()

    def known_groups(self) -> frozenset[str]:
        return frozenset(group for user in self._users.values() for group in user.groups)

    def close(self) -> None:
        self._pool.shutdown(wait=False, cancel_futures=True)

    async def _check(self, login: str, passcode: str) -> Principal | None:
        """One argon2 check per login and passcode at a time; whoever asks for the same waits for it."""
        digest = self._digest(login, passcode)
        known = self._right.get(digest)
        if known is not None:
            return known
        check = self._checks.get(digest)
        if check is None:
            if len(self._checks) >= MAX_WAITING:
                raise RefusedError(Code.LOGIN_FAILED, BUSY)
            # A task of its own: the connection that asked first may go while others wait for the answer.
            check = asyncio.ensure_future(self._verify(digest, self._users, login, passcode))
            self._checks[digest] = check
            check.add_done_callback(lambda done: self._checked(digest, done))
        return await asyncio.shield(check)

    def _checked(self, digest: bytes, check: asyncio.Future[Principal | None]) -> None:
        # After a change of the users there may be a newer one in its place.
        if self._checks.get(digest) is check:
            del self._checks[digest]

    async def _verify(self, digest: bytes, users: dict[str, User], login: str, passcode: str) -> Principal | None:
        user, rounds = users.get(login), self._rounds
        matches, right = False, ""
        # After a change of the passcode the one from before may stay valid for a while: another check. A wrong passcode
        # costs as many for every name, or one could tell by the time who is being changed.
        hashes = _hashes(user) if user else ()
        for known in hashes + (NOBODY,) * (rounds - len(hashes)):
            matches = await self._matches(known, login, passcode)
            if matches:
                right = known
                break
        if self._users is not users:
            return await self._check(login, passcode)  # it was one of users who may not be any more
        if user is None or right not in hashes:
            return None
        if len(self._right) >= MAX_REMEMBERED:
            del self._right[next(iter(self._right))]
        principal = self._right[digest] = Principal(user.name, user.groups, hash(right))
        return principal

    async def _matches(self, hash: str, login: str, passcode: str) -> bool:
        proof = _proof(hash, login, passcode)
        if self._shared is not None and await self._shared.known(proof):
            return True
        matches = await asyncio.get_running_loop().run_in_executor(self._pool, verify, hash, passcode)
        if matches and self._shared is not None and hash != NOBODY:
            self._shared.remember(proof)
        return matches

    def _digest(self, login: str, passcode: str) -> bytes:
        return hmac.digest(self._key, _together(login, passcode), "sha256")


class FileAuthenticator(TableAuthenticator):
    """Users of a file, which may change while we run: its Edge asks changed() from time to time."""

    def __init__(
        self, path: str, clock: Clock, sleep: Callable[[float], Awaitable[None]] = asyncio.sleep, threads: int = THREADS
    ) -> None:
        """Raises ConfigError when the file cannot be used."""
        self._path = path
        self._seen = fingerprint(path)
        super().__init__(load_users(path), clock, sleep, threads)
        self._warn()
        self._gone: set[str] | None = None
        """Whose logins may not hold any more, since changed() was asked; None: it is as it was."""

    async def _check(self, login: str, passcode: str) -> Principal | None:
        # A check costs so much that a look at the file is free: who was added a moment ago can come in.
        self._look()
        return await super()._check(login, passcode)

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


class Penalties:
    """Failed logins by address, and the waits they earn: 0.5 s doubling up to MAX_PENALTY_S, one login at a time."""

    def __init__(self, clock: Clock, sleep: Callable[[float], Awaitable[None]]) -> None:
        self._clock = clock
        self._sleep = sleep
        self._failures: dict[str, tuple[int, float]] = {}
        """Address → (how many, when last); oldest first."""
        self._waiting: set[str] = set()

    async def serve(self, address: str) -> None:
        """Waits as long as `address` has earned. Raises RefusedError while another of its logins is waiting."""
        count, last = self._failures.get(address, (0, 0.0))
        if count < FREE_FAILURES:
            return
        if self._clock.monotonic() - last > FORGET_S:
            del self._failures[address]
            return
        if address in self._waiting:
            raise RefusedError(Code.LOGIN_FAILED, BUSY)
        self._waiting.add(address)
        try:
            await self._sleep(min(0.5 * 2.0 ** min(count - FREE_FAILURES, 10), MAX_PENALTY_S))
        finally:
            self._waiting.discard(address)

    def failed(self, address: str) -> None:
        count, _ = self._failures.pop(address, (0, 0.0))
        if len(self._failures) >= MAX_ADDRESSES:
            del self._failures[next(iter(self._failures))]
        self._failures[address] = (count + 1, self._clock.monotonic())

    def forgive(self, address: str) -> None:
        self._failures.pop(address, None)


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


def make_authenticator(settings: Settings) -> Authenticator:
    """By the settings: the users file named there, else DATA/users.toml if it exists, else nobody has to log in,
    which is refused for a host that others can reach. Raises ConfigError."""
    named = settings.edge.users_file
    path = named or os.path.join(settings.data, "users.toml")
    if named or fingerprint(path) is not None:
        return FileAuthenticator(path, SystemClock())
    for setting, host in hosts(settings).items():
        if not is_loopback(host):
            raise ConfigError(
                f"{setting} is {host} but there are no users, so anyone who reaches it could read and send; add one "
                f"with `stampede user add NAME`, or leave {setting} empty to listen on this machine only."
            )
    return OpenAuthenticator()


def is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
