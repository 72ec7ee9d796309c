"""A connection and its login as states: the way of each kind of CONNECT, and what may not follow what."""

from __future__ import annotations

import asyncio

import pytest

from broker.core.client_id_holders import ClientIdHolder
from broker.core.errors import Code, RefusedError
from broker.core.reasons import Reason
from broker.core.states import IllegalMove
from broker.edge.access.auth import ANONYMOUS, Principal, TableAuthenticator
from broker.edge.destinations.directory import Directory, Done, LocalNames
from broker.edge.session.session import Session
from broker.edge.session.session_state import SESSION, SessionLife, SessionState
from broker.edge.transport.channel import Channel
from broker.seams.clock import SystemClock
from broker.wire.versions import Version

from .bench import Bench, Wire

NEW, CHECKING, CLAIMING = SessionState.NEW, SessionState.CHECKING, SessionState.CLAIMING
OPEN, LEAVING, CLOSED = SessionState.OPEN, SessionState.LEAVING, SessionState.CLOSED
CONNECT = b"CONNECT\naccept-version:1.2\nhost:h\nlogin:ada\npasscode:x\nclient-id:c\n\n\0"


class SlowLogins(TableAuthenticator):
    """Passcodes are right when the test says so."""

    def __init__(self) -> None:
        super().__init__({}, SystemClock(), open_when_empty=True)
        self.right: asyncio.Future[Principal] = asyncio.get_running_loop().create_future()

    def try_now(self, login: str | None, passcode: str | None, peer: str = "") -> Principal | None:
        return None

    async def authenticate(self, login: str | None, passcode: str | None, channel: Channel) -> Principal:
        return await self.right


class SlowClientIds:
    """Client-ids that are said to be free when the test says so."""

    def __init__(self) -> None:
        self.asked: list[Done] = []
        self.released: list[str] = []

    def claim(self, client_id: str, holder: ClientIdHolder, done: Done) -> None:
        self.asked.append(done)

    def release(self, client_id: str, holder: ClientIdHolder) -> None:
        self.released.append(client_id)


class Slow(Bench):
    def __init__(self) -> None:
        super().__init__()
        self.logins, self.ids = SlowLogins(), SlowClientIds()
        self.edge.auth = self.logins
        self.edge.directory = Directory(self.ids, LocalNames())

    def connecting(self) -> tuple[Session, Wire]:
        wire = Wire()
        session = self.edge.open(wire)  # type: ignore[arg-type]
        assert session.state is NEW
        session.receive(CONNECT)
        assert session.state is CHECKING and session.inbound.parked
        return session, wire

    async def pass_check(self) -> None:
        self.logins.right.set_result(ANONYMOUS)
        for _ in range(3):
            await asyncio.sleep(0)


async def test_a_login_goes_by_its_passcode_and_its_client_id() -> None:
    bench = Slow()
    session, wire = bench.connecting()
    await bench.pass_check()
    assert session.state is CLAIMING and not session.connected and not wire.take()
    bench.ids.asked.pop()(None)
    assert session.state is OPEN and session.connected and wire.take().startswith(b"CONNECTED")
    session.receive(b"DISCONNECT\nreceipt:r\n\n\0")
    assert session.state is CLOSED and session.leaving and bench.ids.released == ["c"]


async def test_a_known_login_without_a_client_id_is_open_at_once() -> None:
    session, _ = Bench().session()
    assert session.state is OPEN
    session.abort(Reason.SHUTDOWN)
    assert session.state is CLOSED and not session.leaving


async def test_who_has_gone_does_not_come_in_with_an_answer_that_is_late() -> None:
    bench = Slow()
    session, _ = bench.connecting()
    session.lost()
    await bench.pass_check()
    assert session.state is CLOSED and not session.connected
    bench = Slow()
    session, _ = bench.connecting()
    await bench.pass_check()
    session.lost()
    bench.ids.asked.pop()(None)
    assert session.state is CLOSED and not session.connected and bench.ids.released[-1:] == ["c"]


async def test_who_leaves_before_the_login_is_decided_is_not_let_in() -> None:
    bench = Slow()
    session, wire = bench.connecting()
    session._leaves()  # an end that waits for something
    await bench.pass_check()
    assert session.state is LEAVING and not session.connected and not bench.ids.asked and not wire.take()


async def test_a_refused_client_id_ends_it() -> None:
    bench = Slow()
    session, wire = bench.connecting()
    await bench.pass_check()
    bench.ids.asked.pop()(RefusedError(Code.CLIENT_ID_IN_USE, "another has it"))
    assert session.state is CLOSED and not session.connected and wire.take().startswith(b"ERROR")


async def test_nobody_logs_in_twice_or_after_the_end() -> None:
    session, _ = Bench().session()
    before = session.edge.counters.logins
    with pytest.raises(IllegalMove, match="OPEN does not follow OPEN"):
        session.logged_in(Principal("eve"), Version.V12)
    with pytest.raises(IllegalMove, match="CHECKING does not follow OPEN"):
        session.is_checked()
    with pytest.raises(IllegalMove, match="CLAIMING does not follow OPEN"):
        session.claims()
    assert session.principal == ANONYMOUS.name and session.edge.counters.logins == before
    session.close(Reason.SHUTDOWN)
    with pytest.raises(IllegalMove, match="OPEN does not follow CLOSED"):
        session.logged_in(Principal("eve"), Version.V12)
    with pytest.raises(IllegalMove, match="LEAVING does not follow CLOSED"):
        session._leaves()


@pytest.mark.parametrize("state", SessionState)
def test_the_flags_say_what_the_state_says(state: SessionState) -> None:
    ways = {NEW: [], CHECKING: ["is_checked"], CLAIMING: ["claims"], OPEN: ["_opens"], LEAVING: ["_leaves"]}
    ways[CLOSED] = ["_opens", "_leaves", "_closes"]
    life = SessionLife()
    for step in ways[state]:
        getattr(life, step)()
    assert life.state is state
    assert (life.leaving, life.closed) == (state in (LEAVING, CLOSED), state is CLOSED)
    assert life.connected is (state in (OPEN, CLOSED))
    if CLOSED in SESSION.moves.get(state, {}):
        life._closes()
        assert life.closed
    else:
        with pytest.raises(IllegalMove):
            life._closes()
