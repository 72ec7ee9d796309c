"""CONNECT: versions, what CONNECTED says, and that nothing else is processed until the login is decided."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from broker.core.commands import Publish
from broker.core.errors import Code, RefusedError
from broker.edge.access.auth import Principal
from broker.edge.requests import connecting
from broker.edge.session.session import Session

from .bench import Bench, Wire

SEND = b"SEND\ndestination:/queue/q\n\nx\0"


def opened(bench: Bench) -> tuple[Session, Wire]:
    wire = Wire()
    return bench.edge.open(wire), wire  # type: ignore[arg-type]


def answered(bench: Bench, headers: bytes) -> Wire:
    session, wire = opened(bench)
    session.receive(b"CONNECT\n" + headers + b"\n\0")
    return wire


@pytest.mark.parametrize(
    ("asked", "version"),
    [(b"1.0,1.1,1.2", b"1.2"), (b"1.1", b"1.1"), (b"1.1,1.0", b"1.1"), (b"1.0", b"1.0"), (b"2.0,1.1", b"1.1")],
)
async def test_the_highest_version_that_both_speak_is_spoken(asked, version):
    wire = answered(Bench(), b"accept-version:%b\n" % asked)
    assert wire.sent.startswith(b"CONNECTED\n") and b"\nversion:%b\n" % version in wire.sent


async def test_a_version_that_nobody_speaks_is_refused_with_those_that_are():
    bench = Bench()
    wire = answered(bench, b"accept-version:3.0\nreceipt:7\n")
    assert wire.sent.startswith(b"ERROR\n") and b"\nversion:1.0,1.1,1.2\n" in wire.sent
    assert b"receipt-id:7\n" in wire.sent and wire.closed is not None


async def test_what_was_asked_for_comes_back():
    wire = answered(Bench(), b"accept-version:1.2\nrequest-id:9\nreceipt:7\n")
    assert b"\nresponse-id:9\n" in wire.sent and b"\nreceipt-id:7\n" in wire.sent and b"\nsession:boot-" in wire.sent
    plain = answered(Bench(), b"accept-version:1.2\n")
    assert b"response-id" not in plain.sent and b"receipt-id" not in plain.sent


async def test_a_client_id_that_begins_like_a_name_of_ours_is_refused():
    wire = answered(Bench(), b"accept-version:1.2\nclient-id:%b\n" % f"{connecting.HOST}x".encode())
    assert wire.sent.startswith(b"ERROR\n") and b"choose another one" in wire.sent and wire.closed is not None


def parked(monkeypatch: pytest.MonkeyPatch) -> asyncio.Future[RefusedError | None]:
    """From now on logins are decided when the future is: refused with it, or taken."""
    decided: asyncio.Future[RefusedError | None] = asyncio.get_running_loop().create_future()
    at_once = connecting.prove

    def prove(session: Session, headers: object) -> Callable[[], Awaitable[Principal]]:
        principal = at_once(session, headers)  # type: ignore[arg-type]
        assert isinstance(principal, Principal)

        async def proof() -> Principal:
            if (refused := await decided) is not None:
                raise refused
            return principal

        return proof

    monkeypatch.setattr(connecting, "prove", prove)
    return decided


async def settled() -> None:
    for _ in range(5):
        await asyncio.sleep(0)


async def test_what_comes_before_the_login_is_decided_waits_and_is_done_then(monkeypatch):
    decided, bench = parked(monkeypatch), Bench()
    session, wire = opened(bench)
    session.receive(b"CONNECT\naccept-version:1.2\n\n\0" + SEND)
    await settled()
    assert wire.sent == b"" and bench.port.commands == []
    decided.set_result(None)
    await settled()
    assert wire.sent.startswith(b"CONNECTED\n") and isinstance(bench.port.last(Publish), Publish)


async def test_nobody_sends_on_while_it_is_not_known_who_he_is(monkeypatch):
    """What comes is kept until then: his socket rests, or he could fill the memory without a login."""
    decided, bench = parked(monkeypatch), Bench()
    session, wire = opened(bench)
    rests: list[bool] = []
    monkeypatch.setattr(wire, "pause_reading", lambda: rests.append(True))
    monkeypatch.setattr(wire, "resume_reading", lambda: rests.append(False))
    session.receive(b"CONNECT\naccept-version:1.2\n\n\0")
    assert rests == [True] and session.inbound.parked
    decided.set_result(None)
    await settled()
    assert rests == [True, False] and not session.inbound.parked


async def test_what_comes_with_a_login_that_is_refused_never_happens(monkeypatch):
    decided, bench = parked(monkeypatch), Bench()
    session, wire = opened(bench)
    session.receive(b"CONNECT\naccept-version:1.2\nreceipt:7\n\n\0" + SEND)
    decided.set_result(RefusedError(Code.LOGIN_FAILED, "no"))
    await settled()
    assert wire.sent.startswith(b"ERROR\n") and b"receipt-id:7\n" in wire.sent and wire.closed is not None
    assert not [command for command in bench.port.commands if isinstance(command, Publish)]


async def test_who_has_gone_meanwhile_is_told_nothing(monkeypatch):
    decided, bench = parked(monkeypatch), Bench()
    session, wire = opened(bench)
    session.receive(b"CONNECT\naccept-version:1.2\n\n\0")
    session.closed = True
    decided.set_result(None)
    await settled()
    assert wire.sent == b""
