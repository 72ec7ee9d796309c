"""Edge processes are kept running, and a broker that cannot keep them says so and ends."""

from __future__ import annotations

import asyncio
import os
import signal
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from broker.app.edges import supervisor as module
from broker.app.edges.control_stream import TALK_SERVICE, ControlStream
from broker.app.edges.registry import IdRegistry, Registry
from broker.app.edges.supervisor import EdgePlace, Supervisor
from broker.config.settings import Settings
from broker.core.errors import BrokerError, ConfigError
from broker.edge.destinations.directory import LocalNames
from broker.edge.subscriptions.rate_limits import LocalTokens
from broker.rpc.framed import FramedDialer
from broker.seams.clock import SystemClock
from tests.harness.waiting import eventually

# Says who it is and that it serves, and ends when something comes in.
SERVES = """
import asyncio, sys, os, time, msgspec
QUIET = False
from broker.app.edges.worker_settings import WorkerStart
from broker.app.edges.control_stream import TALK_SERVICE, ControlStream
from broker.rpc.framed import FramedDialer
start = msgspec.json.decode(sys.stdin.buffer.read(), type=WorkerStart)
async def main():
    async def answer(kind, about):
        if kind == "die":
            os._exit(3)  # at once: an exit by exception lets all tasks end first
        if kind in ("silent", "users" if QUIET else "silent"):
            await asyncio.sleep(60)
        if kind == "hang":
            time.sleep(60)
        return [start.number, kind, about]
    talk = ControlStream(answer, lambda why: sys.exit(1))
    talk.begin(FramedDialer(asyncio.get_running_loop()).dial(start.path, TALK_SERVICE, talk))
    await talk.ask("hello", start.version)
    talk.tell("serving")
    await asyncio.sleep(60)
asyncio.run(main())
"""


class Server:
    """As much of the link server as it needs."""

    def __init__(self) -> None:
        self.gone: list[tuple[str, str]] = []

    def edge_gone(self, edge: str, boot: str) -> None:
        self.gone.append((edge, boot))


@pytest.fixture
async def crew(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    async def manage(_: Any) -> None:
        raise BrokerError("not served")

    monkeypatch.setattr(module, "WORKER", ("-c", SERVES))
    monkeypatch.setattr(module, "FIRST_PAUSE_S", 0.001)
    monkeypatch.setattr(module, "PING_S", 3600.0)  # a test that wants steps takes them itself
    clock, failed, server = SystemClock(), [], Server()
    ids = IdRegistry("refuse", lambda *lost: made.lost_id(*lost))
    registry = Registry(ids, LocalNames(), LocalTokens(clock))
    made = Supervisor(server, registry, clock, str(tmp_path / "s"), lambda number: Settings(), manage, failed.append)
    yield SimpleNamespace(made=made, failed=failed, server=server, path=str(tmp_path / "s"))
    await made.stop(0)


async def test_one_that_ends_is_started_anew_and_its_owner_told(crew):
    await crew.made.start([{}, {}])
    assert crew.made.serving() == 2
    boot = crew.made.members[0].boot
    crew.made.members[0].talk.tell("die")
    await eventually(lambda: crew.made.restarts == 1 and crew.made.serving() == 2)
    assert crew.server.gone == [("edge-1", boot)] and crew.made.members[0].boot != boot
    assert not crew.failed


async def test_all_are_asked_and_who_does_not_answer_is_left_out(crew, monkeypatch, caplog):
    await crew.made.start([{}, {}])
    assert await crew.made.ask_all("echo", 7) == {1: [1, "echo", 7], 2: [2, "echo", 7]}
    monkeypatch.setattr(module, "ANSWER_S", 0.05)
    assert await crew.made.ask_all("silent") == {}
    assert "has not answered" in caplog.text
    assert await crew.made.ask_all("die") == {}


async def step(crew: Supervisor, *well: EdgePlace) -> None:
    """A second is over, and those who are well have answered by then, on however busy a machine."""
    crew._watch()
    await eventually(lambda: all([member._ping is None or member._ping.done() for member in well]))


@pytest.mark.parametrize("how", ["stopped", "hangs"])
async def test_one_that_stands_still_is_replaced_and_said_before_that(crew, caplog, how):
    made = crew.made
    await made.start([{}, {}])
    first, second = made.members
    pid = first.process.pid
    if how == "stopped":
        os.kill(pid, signal.SIGSTOP)
    else:
        first.talk.tell("hang")
    while not first.slow:
        await step(made, second)
    assert made.serving() == 1 and list(made.slow()) == [1]
    assert await made.ask_all("echo") == {2: [2, "echo", None]}, "nobody waits for it"
    for _ in range(module.SILENT - module.SLOW + 1):
        await step(made, second)
    await eventually(lambda: made.restarts == 1 and made.serving() == 2)
    assert first.process.pid != pid and not made.slow()
    told = [line for line in caplog.text.splitlines() if "is replaced" in line]
    assert len(told) == 1 and "edge process 1 is replaced: it has not answered for" in told[0]


async def test_one_that_never_serves_is_replaced_and_ends_the_broker_at_last(crew, monkeypatch, caplog):
    monkeypatch.setattr(module, "PING_S", 0.01)
    monkeypatch.setattr(module, "BEGINS", 3)
    monkeypatch.setattr(module, "MANY", 2)
    monkeypatch.setattr(module, "WORKER", ("-c", "import time; time.sleep(60)"))
    with pytest.raises(ConfigError, match="edge process 1 ends again and again"):
        await crew.made.start([{}])
    assert "is replaced" in caplog.text


async def test_who_does_not_say_that_it_knows_the_users_is_replaced(crew, monkeypatch, caplog):
    """It would go on with those of before, and whoever has changed them was told that they are in use."""
    monkeypatch.setattr(module, "PING_S", 0.05)  # how long it is waited for
    monkeypatch.setattr(crew.made, "_watch", lambda: None)
    monkeypatch.setattr(module, "WORKER", ("-c", SERVES.replace("QUIET = False", "QUIET = True")))
    await crew.made.start([{}])
    await crew.made.heed_users()
    await eventually(lambda: crew.made.restarts == 1 and crew.made.serving() == 1)
    assert "does not say that it uses what was changed" in caplog.text


async def test_what_a_process_had_said_before_it_ended_is_heard(crew, monkeypatch):
    """Its link may be full of what clients have sent when it ends: that is read first, and only then it is gone."""
    told: list[str] = []

    class End:
        def on_message(self, message: bytes) -> None:
            told.append(message.decode())

        def on_closed(self, why: Any) -> None:
            told.append("closed")

    monkeypatch.setattr(crew.server, "accept", lambda service, stream: End(), raising=False)
    monkeypatch.setattr(crew.server, "edge_gone", lambda edge, boot: told.append("gone"))
    says = SERVES.replace(
        '    await talk.ask("hello"',
        """
    global link
    link = FramedDialer(asyncio.get_running_loop()).dial(start.path, "edge", talk)
    await talk.ask("hello\"""",
    ).replace(
        "os._exit(3)",
        """
            for n in range(40):
                link.send(b"%d" % n * 100)
            os._exit(3)""",
    )
    monkeypatch.setattr(module, "WORKER", ("-c", says))
    await crew.made.start([{}])
    crew.made.members[0].talk.tell("die")
    await eventually(lambda: "gone" in told)
    gone = told.index("gone")
    assert told[gone - 1] == "closed" and told[: gone - 1] == [str(n) * 100 for n in range(40)]


@pytest.mark.parametrize("code, tries", [("raise SystemExit(2)", 1), ("raise SystemExit(1)", module.MANY)])
async def test_one_that_cannot_be_kept_running_ends_the_broker(crew, monkeypatch, code, tries):
    monkeypatch.setattr(module, "WORKER", ("-c", code))
    with pytest.raises(ConfigError, match="edge process 1"):
        await crew.made.start([{}])
    assert len(crew.failed) == 1 and crew.made.restarts == tries - 1


async def test_what_python_cannot_run_is_said(crew, monkeypatch):
    monkeypatch.setattr(module.sys, "executable", "/nowhere/python")
    with pytest.raises(ConfigError, match="cannot be started"):
        await crew.made.start([{}])


async def test_a_process_that_does_not_end_is_killed(crew, monkeypatch, caplog):
    stubborn = SERVES.replace(
        "import asyncio, sys", "import signal; signal.signal(15, 0 or signal.SIG_IGN)\nimport asyncio, sys"
    )
    monkeypatch.setattr(module, "WORKER", ("-c", stubborn))
    monkeypatch.setattr(module, "BEYOND_DRAIN_S", 0.1)
    await crew.made.start([{}])
    await crew.made.stop(0)
    assert "were killed" in caplog.text and "s" not in os.listdir(os.path.dirname(crew.path))


async def test_strangers_of_this_user_are_answered_nothing(crew):
    await crew.made.start([{}])

    async def nobody(*_: Any) -> None: ...

    talk = ControlStream(nobody, lambda _: None)
    talk.begin(FramedDialer(asyncio.get_running_loop()).dial(crew.path, TALK_SERVICE, talk))
    with pytest.raises(BrokerError, match="no edge process"):
        await talk.ask("find_name", ("a",))
    assert crew.made.serving() == 1
    talk.close("enough")
