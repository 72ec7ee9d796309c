"""Logins by token: a JWT of an issuer whose keys we have, for an audience that is us, until it ends.

Keys come from the issuer: at the start, from time to time, and when a token names one that is not known, but not more
often than every LEAST_S, whatever tokens ask. A user whose key is gone from there loses his connections. While it
cannot be reached the keys from before stay.

Rule: signatures are checked in threads (external_checks.py), keys fetched in one for each issuer; only public keys
count, and only the algorithms of the settings, whatever a token says of itself. Tokens are never kept, logged or told.
"""

from __future__ import annotations

import asyncio
import base64
import json
import logging
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, NamedTuple

from broker.config.logins.issuer import IssuerSettings
from broker.config.ports import prefixes
from broker.core.errors import ConfigError
from broker.core.virtual_host import HOST, VirtualHost
from broker.seams.clock import Clock
from broker.seams.http_client import fetch
from broker.seams.threads import WaitingThreads

from ..transport.channel import Channel
from .auth import Principal
from .external_checks import ExternalChecks
from .users import TooManyGroupsError, counts_in, is_name, outside_groups

log = logging.getLogger("stampede.edge")

THREADS = 2
"""Signatures checked at a time: 0.05 to 0.2 ms each."""
LEAST_S = 10.0
"""Between two questions for the keys of one issuer that tokens with unknown keys make us ask."""
MOST = 256 * 1024
"""Bytes of an answer of an issuer."""
MOST_KEYS = 100
DISCOVERY = "/.well-known/openid-configuration"


class IssuerKey(NamedTuple):
    """A public key. algorithm   it is for; empty: any of its kind.    mark   of logins that it proves."""

    public: Any
    algorithm: str
    mark: int


class Issuer:
    """One of them, and its keys by their `kid`."""

    def __init__(self, name: str, settings: IssuerSettings) -> None:
        self.name = name
        self.settings = settings
        self.algorithms = list(prefixes(settings.algorithms))
        self.audience = list(prefixes(settings.audience))
        self.keys: dict[str, IssuerKey] = {}
        self.hosts = prefixes(settings.virtual_hosts)

    def key(self, kid: str | None) -> IssuerKey | None:
        """None: it has no such key, or more than one and the token says none."""
        if kid is None:
            return next(iter(self.keys.values())) if len(self.keys) == 1 else None
        return self.keys.get(kid)

    def asked(self) -> dict[str, IssuerKey]:
        """Its keys of now; blocks. Raises OSError or ValueError."""
        said = self.settings
        get = partial(fetch, ca_file=said.ca_file, token_file=said.token_file, seconds=said.timeout_s, most=MOST)
        url = said.jwks_url
        if not url:
            about = json.loads(get(said.issuer.rstrip("/") + DISCOVERY))
            if not isinstance(about, dict) or about.get("issuer") != said.issuer:
                raise ValueError("its discovery document is of another issuer")
            url = str(about.get("jwks_uri", ""))
        return self._read(json.loads(get(url)))

    def _read(self, document: Any) -> dict[str, IssuerKey]:
        from jwt import PyJWK, PyJWTError

        found: dict[str, IssuerKey] = {}
        listed = document.get("keys") if isinstance(document, dict) else None
        if not isinstance(listed, list):
            raise ValueError("its keys are no JWKS")
        for entry in listed[:MOST_KEYS]:
            if not isinstance(entry, dict) or entry.get("kty") not in ("RSA", "EC", "OKP"):
                continue  # a secret that both sides know proves nothing about who has signed
            if entry.get("use", "sig") != "sig" or not isinstance(entry.get("alg", ""), str):
                continue
            try:
                public = PyJWK(entry).key
            except (PyJWTError, ValueError, TypeError):
                continue
            text = json.dumps(entry, sort_keys=True)
            found[str(entry.get("kid", ""))] = IssuerKey(public, str(entry.get("alg", "")), hash((self.name, text)))
        if not found:
            raise ValueError("it has no key that we can use")
        return found


class TokenLogins:
    """See the head of this file. changed: keys are gone, so that logins may not hold any more."""

    def __init__(self, tables: Mapping[str, Mapping[str, Any]], clock: Clock, changed: Callable[[], None]) -> None:
        """Raises ConfigError where the library is missing."""
        try:
            import jwt  # noqa: F401  # 20 ms and 10 MB: only those who need it
        except ImportError:
            raise ConfigError("edge.issuers needs PyJWT: pip install 'stampede-broker[identity]'.") from None
        self._clock = clock
        self._changed = changed
        self._checks = ExternalChecks(clock, THREADS, "token")
        self._issuers = [Issuer(name, IssuerSettings(**table)) for name, table in tables.items()]
        # Each has a thread of its own: one that does not end its answer keeps no keys of another from coming.
        self._fetching = {each.name: WaitingThreads(1, "keys") for each in self._issuers}
        self._asked: dict[str, float] = {}
        self._under_way: dict[str, asyncio.Task[None]] = {}
        self._told: dict[str, str] = {}
        self._marks: frozenset[int] = frozenset()
        self._loops: list[asyncio.Task[None]] = []

    def start(self) -> None:
        """Asks for keys from now on; an issuer that cannot be reached is asked again."""
        self._loops = [asyncio.get_running_loop().create_task(self._follow(issuer)) for issuer in self._issuers]

    def known(self, token: str, host: VirtualHost) -> Principal | None:
        """Whose token this is, if that was found a moment ago."""
        return self._checks.known(token, host.name)

    async def prove(self, token: str, login: str, host: VirtualHost, channel: Channel) -> Principal:
        """Raises RefusedError(LOGIN_FAILED)."""
        issuer, kid, said = self._named(token)
        if issuer is not None and issuer.key(kid) is None:
            await self._ask(issuer, LEAST_S)
        check = partial(self._judge, issuer, kid, token, host)
        return await self._checks.run(login or said, channel, (token, host.name), check)

    def still_valid(self, mark: int) -> bool:
        """Is the key still there that has proven a login (Principal.mark)."""
        return mark in self._marks

    def close(self) -> None:
        """Ends its threads; does not wait for them."""
        for task in (*self._loops, *self._under_way.values()):
            task.cancel()
        self._checks.close()
        for threads in self._fetching.values():
            threads.close()

    # ── one token ──────────────────────────────────────────────────────────────────────────────────

    def _named(self, token: str) -> tuple[Issuer | None, str | None, str]:
        """Whose it says it is, with which key, and the user's name: nothing of it is proven."""
        try:
            head, body, _ = token.split(".")
            header, claims = _decoded(head), _decoded(body)
            kid, iss = header.get("kid"), claims.get("iss")
        except (ValueError, RecursionError):
            return None, None, ""
        issuer = next((each for each in self._issuers if each.settings.issuer == iss), None)
        name = claims.get(issuer.settings.user_claim, "") if issuer is not None else ""
        # It will stand in an ERROR: half a surrogate pair, which JSON can say, would be none that can be written.
        return issuer, kid if isinstance(kid, str) else None, name if isinstance(name, str) and is_name(name) else ""

    def _judge(self, issuer: Issuer | None, kid: str | None, token: str, host: VirtualHost) -> Principal | str:
        """In a thread: who it is, or why it is nobody."""
        import jwt

        if issuer is None:
            return "no issuer of edge.issuers has made the token"
        if not counts_in(issuer.hosts, host.name):
            return f"tokens of {issuer.name} do not count here (edge.issuers.{issuer.name}.virtual_hosts)"
        key = issuer.key(kid)
        if key is None:
            return f"{issuer.name} has no such key"
        said = issuer.settings
        algorithms = issuer.algorithms
        if key.algorithm:
            algorithms = [name for name in algorithms if name == key.algorithm]
        try:
            claims = jwt.decode(
                token, key.public, algorithms=algorithms, audience=issuer.audience, issuer=said.issuer,
                leeway=said.leeway_s, options={"require": ["exp", "iss", "aud"]},
            )  # fmt: skip
        except (jwt.PyJWTError, ValueError, TypeError, RecursionError) as error:
            return f"{type(error).__name__} (edge.issuers.{issuer.name})"
        return self._principal(issuer, key, claims, host)

    def _principal(
        self, issuer: Issuer, key: IssuerKey, claims: Mapping[str, Any], host: VirtualHost
    ) -> Principal | str:
        said = issuer.settings
        name = claims.get(said.user_claim)
        if not isinstance(name, str) or not name:
            return f"the token has no {said.user_claim} (edge.issuers.{issuer.name}.user_claim)"
        name = said.user_prefix + name
        if not is_name(name) or name.startswith(HOST):
            return "its name is no name of a user"
        until = self._clock.monotonic() + float(claims["exp"]) + said.leeway_s - self._clock.wall_ms() / 1000
        try:
            groups = _groups(claims, said.groups_claim)
        except TooManyGroupsError as error:
            return f"{name!r} is {error} (edge.issuers.{issuer.name})"
        return Principal(
            host.inside(name), tuple(said.groups_prefix + group for group in groups), key.mark, until, True
        )

    # ── keys ───────────────────────────────────────────────────────────────────────────────────────

    async def _follow(self, issuer: Issuer) -> None:
        while True:
            await self._ask(issuer, 0.0)
            await asyncio.sleep(issuer.settings.refresh_s if issuer.keys else min(LEAST_S, issuer.settings.refresh_s))

    async def _ask(self, issuer: Issuer, least_s: float) -> None:
        """Its keys of now, unless they were asked for a moment ago; one question at a time."""
        task = self._under_way.get(issuer.name)
        if task is None:
            now = self._clock.monotonic()
            if now - self._asked.get(issuer.name, now - least_s) < least_s:
                return
            self._asked[issuer.name] = now
            task = self._under_way[issuer.name] = asyncio.get_running_loop().create_task(self._fetch(issuer))
            task.add_done_callback(lambda _: self._under_way.pop(issuer.name, None))
        await asyncio.shield(task)

    async def _fetch(self, issuer: Issuer) -> None:
        threads, most_s = self._fetching[issuer.name], 2 * issuer.settings.timeout_s + 1
        try:
            async with asyncio.timeout(most_s):  # a socket's limit begins anew with each byte
                keys = await threads.run(issuer.asked)
        except TimeoutError as error:
            self._not_asked(issuer, str(error) or f"it has not answered within {most_s:g} s")
            return
        except (OSError, ValueError) as error:
            self._not_asked(issuer, str(error))
            return
        except Exception as error:  # whatever it has said: it is asked again, and whoever waits for it goes on
            self._not_asked(issuer, f"{type(error).__name__}: {error}")
            return
        if self._told.pop(issuer.name, None) or not issuer.keys:
            log.info("issuer %s: %d keys", issuer.settings.issuer, len(keys))
        issuer.keys = keys
        before, self._marks = self._marks, frozenset(key.mark for each in self._issuers for key in each.keys.values())
        if before - self._marks:
            self._checks.forget()
            self._changed()

    def _not_asked(self, issuer: Issuer, why: str) -> None:
        if self._told.get(issuer.name) != why:
            self._told[issuer.name] = why
            log.warning(
                "no keys of issuer %s, those from before stay (%d): %s; asked again (edge.issuers.%s)",
                issuer.settings.issuer, len(issuer.keys), why, issuer.name,
            )  # fmt: skip


def _decoded(part: str) -> Mapping[str, Any]:
    """Raises ValueError."""
    found = json.loads(base64.urlsafe_b64decode(part + "=" * (-len(part) % 4)))
    if not isinstance(found, dict):
        raise ValueError("not an object")
    return found


def _groups(claims: Mapping[str, Any], claim: str) -> list[str]:
    """Those that permissions can name. Raises TooManyGroupsError."""
    found: Any = claims.get(claim)
    if found is None:
        found = claims
        for word in claim.split("."):
            found = found.get(word) if isinstance(found, dict) else None
    if isinstance(found, str):
        found = found.split()
    if not isinstance(found, list):
        return []
    return outside_groups(found)
