"""A step that does not end is named while it lasts: slot, command and place."""

from __future__ import annotations

import asyncio
import signal
import threading

import pytest

from broker.app.process.stall_detector import NUMBER, STILL_S, StallDetector
from broker.config.settings import EngineSettings
from broker.core.address import Routing
from broker.core.commands import Publish
from broker.core.effects import Turn
from broker.core.message import Run
from broker.engine.engine import Engine
from broker.owner.shard.fault_attribution import NoEnd, at_fault, step_of
from broker.seams.clock import burnt_by


async def test_a_standstill_is_told_once_with_what_the_engine_is_at(monkeypatch, caplog):
    now = 100.0
    engine = Engine(42, EngineSettings())
    witness = StallDetector(asyncio.get_running_loop(), lambda: now, lambda: [engine])

    def stuck(*_):
        nonlocal now
        witness.look()
        now += STILL_S + 1
        witness.look()
        witness.look()

    monkeypatch.setattr("broker.engine.publishing.numbered.publish", stuck)
    command = Publish(42, 17, 0, "orders", Routing.ANYCAST, Run((), b"", [b"x"], 1))
    engine.handle(command, Turn(1, 1))
    (line,) = [record.getMessage() for record in caplog.records]
    assert "slot 42, Publish of session 17 for 'orders'" in line
    assert "stuck" in line, "the stack"
    assert step_of([engine]) is None


@pytest.mark.parametrize("steps", [1, 40])
async def test_a_step_without_end_throws_and_many_that_end_do_not(monkeypatch, caplog, steps):
    """By CPU, not by time, and only one and the same call into an engine."""
    # Not less: a machine that is so busy that each wait takes twice as long passes for one that was frozen.
    monkeypatch.setattr("broker.app.process.stall_detector.EVERY_S", 0.2)
    monkeypatch.setattr("broker.app.process.stall_detector.HANG_S", 1.0)
    burnt = burnt_by(threading.get_ident())
    engine = Engine(42, EngineSettings())

    def busy(*_):
        end = burnt() + (60.0 if steps == 1 else 2.0 / steps)
        while burnt() < end:
            pass

    monkeypatch.setattr("broker.engine.publishing.numbered.publish", busy)
    witness = StallDetector(asyncio.get_running_loop(), asyncio.get_running_loop().time, lambda: [engine])
    witness.start()
    try:
        for at in range(steps):
            command = Publish(42, 17, at, "orders", Routing.ANYCAST, Run((), b"", [b"x"], 1))
            if steps > 1:
                engine.handle(command, Turn(1, 1))
                continue
            with pytest.raises(NoEnd) as thrown:
                engine.handle(command, Turn(1, 1))
            assert at_fault(thrown.value, [engine])[0] == 42 and "slot 42, Publish of session 17" in str(thrown.value)
    finally:
        witness.stop()
    assert signal.getsignal(NUMBER) == signal.SIG_DFL


async def test_a_loop_that_goes_on_is_not_told_of_and_its_thread_ends(monkeypatch, caplog):
    witness = StallDetector(asyncio.get_running_loop(), asyncio.get_running_loop().time, lambda: [])
    witness.start()
    await asyncio.sleep(0)
    witness.look()
    witness.stop()
    assert caplog.records == []
