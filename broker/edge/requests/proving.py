"""How a client proves who it is: the ways of the acceptor (or of the virtual host), in order; the first that has
something to go by decides.

    certificate   of TLS: a name in it is a user of the table
    token         a JWT, in the header `authorization: Bearer …` or as passcode
    passcode      of the table of users (auth.py); with one of those below behind it, of users whom the table has
    ldap          login and passcode, of a directory (ldap_logins.py, ldap_directory.py)
    hook          login and passcode, of a function or a server that is asked (hook_logins.py)

A login that says another name than the certificate or token is refused, whatever else would let it in.

Rule: what a client is asked for is decided here, whether it is right by the modules above. Refusals look alike to the
client; the log has the reason. Nothing of a secret is kept.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import replace
from functools import partial

from broker.config.logins.login_ways import JUDGES
from broker.core.errors import Code, RefusedError
from broker.core.virtual_host import HOST
from broker.wire.events import Frame

from ..access.auth import Principal, refusal
from ..access.token_logins import TokenLogins
from ..session.session import Session
from ..transport.channel import Channel
from ..transport.websockets.upgrade import basic

log = logging.getLogger("stampede.edge")

SAYS_WHO = ("login", "passcode", "authorization")
"""Headers of CONNECT."""
Answer = Principal | Callable[[], Awaitable[Principal]]
"""Who it is, or what says so later (it may raise RefusedError(LOGIN_FAILED))."""


def of_upgrade(channel: Channel, frame: Frame) -> Frame:
    """The CONNECT as it counts: over WebSocket a port may take the login of the HTTP request (ws_http_auth)."""
    said = channel.take_authorization()
    if said is None:
        return frame
    headers = {name: value for name, value in frame.headers.items() if name not in SAYS_WHO}
    if (pair := basic(said)) is not None:
        headers["login"], headers["passcode"] = pair
    elif said:
        headers["authorization"] = said
    return Frame(frame.command, headers, frame.body, frame.receipt)


def prove(session: Session, headers: Mapping[str, str]) -> Answer:
    """Raises RefusedError(LOGIN_FAILED)."""
    if inside := session.channel.user:
        return _of_table(session, inside)
    login, passcode = headers.get("login"), headers.get("passcode")
    if login is not None and login.startswith(HOST):
        raise RefusedError(Code.LOGIN_FAILED, refusal(login))
    ways = session.entrance.ways
    name = _certified(session) if "certificate" in ways else None
    token = _token(headers, passcode) if "token" in ways else None
    if name is not None and login not in (None, "", name):
        raise _mismatch(session, "certificate", name, login or "")
    auth, host = session.edge.auth, session.host
    unproven = name is None and token is None
    if unproven and (shown := _shown(headers, passcode)) and (login is None or passcode is None or not auth.has_users):
        raise _not_taken(session, shown, "token" in ways)
    if (user := session.acceptor.default_user) and login is None and unproven:
        return _of_table(session, user)
    for way in ways:
        if way == "certificate" and name is not None:
            return _by_certificate(session, name)
        if way == "token" and token is not None:
            return _by_token(session, token, login)
        if token is None and login is not None and passcode is not None:
            inside = host.inside(login)
            if way in JUDGES:
                return _elsewhere(session, way, login, passcode)
            # Whoever is in the table is judged by it alone: a directory that has the same name lets nobody in as him.
            if way == "passcode" and (auth.knows(inside) or JUDGES.isdisjoint(ways)):
                known = auth.try_now(inside, passcode, session.channel.peer)
                return known or partial(auth.authenticate, inside, passcode, session.channel)
    if not auth.has_users and (anybody := auth.try_now(None, None)) is not None:
        return anybody
    return partial(auth.authenticate, None if login is None else host.inside(login), None, session.channel)


def _of_table(session: Session, user: str) -> Principal:
    found = session.edge.auth.trusted(session.host.inside(user))
    if found is None:
        log.info("%s #%d: login failed: there is no user %r", session.channel.peer, session.id, user[:100])
        raise RefusedError(Code.LOGIN_FAILED, refusal(user))
    return found


def _by_certificate(session: Session, name: str) -> Principal:
    certificate, clock = session.channel.certificate, session.edge.clock
    assert certificate is not None
    left = certificate.not_after - clock.wall_ms() / 1000
    return replace(_of_table(session, name), until=clock.monotonic() + left if certificate.not_after else 0.0)


def _by_token(session: Session, token: str, login: str | None) -> Answer:
    outside, host = session.edge.outside, session.host
    if outside is None or outside.tokens is None:
        raise RefusedError(Code.LOGIN_FAILED, refusal(login))
    known = outside.tokens.known(token, host)
    if known is not None:
        return _named(session, known, login)
    return partial(_when_proven, session, outside.tokens, token, login)


def _elsewhere(session: Session, way: str, login: str, passcode: str) -> Answer:
    outside, host = session.edge.outside, session.host
    judge = outside.by_passcode.get(way) if outside is not None else None
    if judge is None:
        raise RefusedError(Code.LOGIN_FAILED, refusal(login))
    known = judge.known(login, passcode, host, session.channel)
    return known or partial(judge.prove, login, passcode, host, session.channel)


async def _when_proven(session: Session, tokens: TokenLogins, token: str, login: str | None) -> Principal:
    return _named(session, await tokens.prove(token, login or "", session.host, session.channel), login)


def _named(session: Session, proven: Principal, login: str | None) -> Principal:
    if login and session.host.inside(login) != proven.name:
        raise _mismatch(session, "token", proven.name, login)
    return proven


def _mismatch(session: Session, what: str, name: str, login: str) -> RefusedError:
    log.info(
        "%s #%d: login failed: the %s is that of %r, the login says %r",
        session.channel.peer, session.id, what, name[:100], login[:100],
    )  # fmt: skip
    return RefusedError(Code.LOGIN_FAILED, refusal(login))


def _certified(session: Session) -> str | None:
    """The user that its certificate names."""
    certificate = session.channel.certificate
    name = certificate.name(session.acceptor.certificate_user) if certificate is not None else None
    if name is not None and name.startswith(HOST):
        raise RefusedError(Code.LOGIN_FAILED, refusal(name))  # a user of another virtual host
    return name


def _token(headers: Mapping[str, str], passcode: str | None) -> str | None:
    scheme, _, secret = headers.get("authorization", "").partition(" ")
    if scheme.lower() == "bearer" and secret.strip():
        return secret.strip()
    return passcode if _like_a_token(passcode) else None


def _like_a_token(passcode: str | None) -> bool:
    # Three parts, of which the first is JSON: nobody has such a passcode.
    return passcode is not None and passcode.startswith("eyJ") and passcode.count(".") == 2


def _shown(headers: Mapping[str, str], passcode: str | None) -> str:
    """Where it says who it is in a way that is none of those here; "": nowhere."""
    if headers.get("authorization"):
        return "the header authorization"
    return "a token as passcode" if _like_a_token(passcode) else ""


def _not_taken(session: Session, shown: str, tokens: bool) -> RefusedError:
    """A client that says who it is must not become another user in silence: default_user, or anonymous."""
    way = "is taken as 'Bearer TOKEN' alone" if tokens else "is not taken at this port: its login_by has no 'token'"
    log.info("%s #%d: login failed: %s %s", session.channel.peer, session.id, shown, way)
    return RefusedError(Code.LOGIN_FAILED, f"{shown[0].upper()}{shown[1:]} {way}")
