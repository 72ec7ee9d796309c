"""CONNECT and STOMP: version, login, client-id, heart-beats, CONNECTED.

Rule: nothing else is processed until the login is decided; passcodes are looked at here and forgotten.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from broker import __version__
from broker.core.errors import Code, RefusedError
from broker.core.notices import Notice, NoticeKind
from broker.core.reasons import Reason
from broker.core.virtual_host import HOST, split
from broker.wire.events import IMPLIED, Frame
from broker.wire.versions import SUPPORTED, Version, negotiate
from broker.wire.writer import connected_frame, error_frame

from ..access.acceptor import unknown_host
from ..access.auth import Principal, refusal
from ..access.client_ids import check_client_id
from ..destinations.asking import ask
from ..destinations.directory import Done
from ..quotas.quotas import Resource, Usage
from ..session import heartbeat
from ..session.session import Session
from ..session.told import audit_trail
from ..transport.tcp import peer_host
from .proving import of_upgrade, prove

SERVER = f"stampede/{__version__}"


def connect(session: Session, frame: Frame) -> None:
    """Decides at once when it can, else parks the connection until the login thread has decided."""
    frame = of_upgrade(session.channel, frame)
    headers = frame.headers
    version = negotiate(headers.get("accept-version"))
    if version is None:
        _mismatch(session, frame)
        return
    _enter_host(session, headers.get("host"))
    try:
        proof = prove(session, headers)
    except RefusedError as refused:
        _failed(session, frame, refused)
        raise
    if isinstance(proof, Principal):
        _identify(session, frame, version, proof)
        return
    usage = _usage(session, None)
    if usage is not None:
        usage.charge(Resource.LOGINS)
    session.inbound.park()
    task = asyncio.get_running_loop().create_task(_login(session, frame, version, proof))
    session.is_checked_by(task)
    if usage is not None:
        task.add_done_callback(lambda _: usage.leave())


def _usage(session: Session, user: str | None) -> Usage | None:
    """Where it counts among edge.quotas. user: None: it has not logged in."""
    quotas = session.edge.quotas
    return quotas.usage(user, session.host.name, peer_host(session.channel.peer)) if quotas.active else None


def _enter_host(session: Session, host: str | None) -> None:
    """Raises RefusedError(UNKNOWN_HOST). Who names none gets the one of the port."""
    hosts = session.entrance.hosts
    if hosts and host is not None and host not in hosts:
        raise unknown_host(host)
    session.enters(session.edge.entrances.to_host(session.entrance, host, session.channel.tls_name))


async def _login(session: Session, frame: Frame, version: Version, proof: Callable[[], Awaitable[Principal]]) -> None:
    try:
        principal = await proof()
    except RefusedError as refused:
        _failed(session, frame, refused)
        session.check_is_over()
        session.fail(refused.code, refused.detail, frame.receipt)
        return
    session.check_is_over()
    if session.closed or session.leaving:
        return
    try:
        _identify(session, frame, version, principal)
    except RefusedError as refused:
        session.fail(refused.code, refused.detail, frame.receipt)
        return
    if session.connected:
        session.outbound.flush()
        session.inbound.unpark()


def _failed(session: Session, frame: Frame, refused: RefusedError) -> None:
    """A login was refused: counted, and told to who keeps watch."""
    edge = session.edge
    edge.counters.login(False)
    login = session.host.inside(frame.headers.get("login", ""))
    # What is nobody's name is not told: it may be a passcode in the wrong place.
    who = login if edge.auth.knows(login) else ""
    if (notify := edge.notify) is not None:
        violation = NoticeKind.SECURITY_AUTHENTICATION_VIOLATION
        notify(Notice(violation, session.id, who, session.channel.peer, host=session.host))
    if edge.settings.edge.audit != "off":
        audit_trail.note(session, session.channel.peer, "login", refused.code.name.lower().replace("_", "-"), who)


def _identify(session: Session, frame: Frame, version: Version, principal: Principal) -> None:
    """Accepts the login once the client-id, if there is one, is this connection's. Raises RefusedError."""
    client_id = frame.headers.get("client-id", "")
    if not client_id:
        _accept(session, frame, version, principal)
        return
    if client_id.startswith(HOST):
        raise RefusedError(Code.BAD_HEADER, f"client-id:{client_id[:50]} begins with {HOST}; choose another one")
    _own(session, principal, client_id)
    client_id = session.host.inside(client_id)
    client_ids = session.edge.directory.client_ids
    session.claims()

    def question(done: Done) -> None:
        def answered(answer: RefusedError | None) -> None:
            if answer is None and session.closed:
                client_ids.release(client_id, session)
            done(answer)

        client_ids.claim(client_id, session, answered)

    def then() -> None:
        session.has_client_id(client_id)
        _accept(session, frame, version, principal)

    ask(session, frame.receipt, question, then)


def _own(session: Session, principal: Principal, client_id: str) -> None:
    """Raises RefusedError for a client-id that may be another user's."""
    auth, host = session.edge.auth, session.host
    if auth.has_users:
        user = split(principal.name).local
        check_client_id(session.acceptor.client_ids, user, client_id, lambda name: auth.knows(host.inside(name)))


def _accept(session: Session, frame: Frame, version: Version, principal: Principal) -> None:
    headers = frame.headers
    edge = session.edge
    outside = edge.outside if principal.outside else None
    if not (
        edge.auth.still_valid(principal.name, principal.mark)
        if outside is None
        else outside.still_valid(principal.mark)
    ):
        # Users, or keys of an issuer, were replaced while it was asked whose the client-id is.
        raise RefusedError(Code.LOGIN_FAILED, refusal(headers.get("login")))
    # Here, so that logins that were checked side by side do not all come in, and strangers learn nothing of it.
    if (members := session.entrance.members).full:
        raise RefusedError(
            Code.CONNECTION_LIMIT, f"{members.most} are open in '{session.host.name}' (its max_connections)"
        )
    usage = _usage(session, principal.name)
    if usage is not None:
        usage.charge(Resource.CONNECTIONS)
    session.logged_in(principal, version, usage)
    if frame.command == IMPLIED:
        session.watch.connected(heartbeat.negotiate(None, session.acceptor, edge.settings.edge.heartbeat_min_ms))
        return
    wanted = headers.get("heart-beat") if version is not Version.V10 else None
    beat = heartbeat.negotiate(wanted, session.acceptor, edge.settings.edge.heartbeat_min_ms)
    reply: list[tuple[str, str]] = [("session", f"{edge.boot}-{session.id}")]
    dialect = session.entrance.dialect
    full = version is not Version.V10 or session.acceptor.full_connected_v10 or dialect.full_v10
    if full or "accept-version" in headers:
        reply.insert(0, ("version", version.value))
    if full:
        if beat.reply is not None:
            reply.append(("heart-beat", beat.reply))
        elif version is Version.V10:
            reply.append(("heart-beat", f"{beat.send_ms},0"))
        if session.acceptor.server_header:
            reply.append(("server", session.acceptor.server_name or f"{dialect.server} {SERVER}".lstrip()))
    if "request-id" in headers:
        reply.append(("response-id", headers["request-id"]))
    if frame.receipt is not None:
        reply.append(("receipt-id", headers["receipt"]))
    session.outbound.write(connected_frame(reply))
    session.watch.connected(beat)


def _mismatch(session: Session, frame: Frame) -> None:
    """C25: ERROR with the versions we speak, then close."""
    supported = ",".join(v.value for v in SUPPORTED)
    detail = "Supported protocol versions are " + " ".join(f"v{v.value}" for v in SUPPORTED)
    session.edge.counters.error("VERSION_MISMATCH")
    session.outbound.write(
        error_frame(
            session.version,
            Code.VERSION_MISMATCH,
            detail,
            frame.receipt,
            [("version", supported)],
            session.entrance.dialect.texts.get(Code.VERSION_MISMATCH),
        )
    )
    session.outbound.flush()
    session.close(Reason.PROTOCOL_ERROR, "VERSION_MISMATCH")
