"""Checks of logins elsewhere: how many at a time, what wrong ones earn, and what is remembered."""

from __future__ import annotations

import asyncio
import threading
from types import SimpleNamespace
from typing import Any

import pytest

from broker.core.errors import Code, RefusedError
from broker.edge.access.auth import Principal
from broker.edge.access.external_checks import ExternalChecks

from .clocked import Time

ADA = Principal("ada", outside=True)


def channel(host: str = "10.0.0.1") -> Any:
    return SimpleNamespace(peer=f"{host}:1", id=1)


async def test_no_more_at_a_time_than_threads() -> None:
    checks = ExternalChecks(Time(), 2, "test")
    gate, running, most = threading.Event(), [0], [0]

    def check() -> Principal:
        running[0] += 1
        most[0] = max(most[0], running[0])
        gate.wait(5)
        running[0] -= 1
        return ADA

    asked = [asyncio.ensure_future(checks.run("ada", channel(f"10.0.1.{n}"), (str(n),), check)) for n in range(8)]
    await asyncio.sleep(0.05)
    gate.set()
    assert await asyncio.gather(*asked) == [ADA] * 8 and most[0] <= 2
    checks.close()


async def test_wrong_ones_wait_longer_and_longer_and_the_secret_is_not_told(caplog: pytest.LogCaptureFixture) -> None:
    slept: list[float] = []

    async def sleep(seconds: float) -> None:
        slept.append(seconds)

    checks = ExternalChecks(Time(), 1, "test", sleep=sleep)
    caplog.set_level("INFO")
    for _ in range(6):
        with pytest.raises(RefusedError):
            await checks.run("ada", channel(), ("s3cret",), lambda: "wrong")
    assert slept == [0.5, 1, 2] and "s3cret" not in caplog.text and "login by test failed: wrong" in caplog.text
    checks.close()


async def test_what_was_right_is_remembered_until_it_ends() -> None:
    time = Time()
    checks = ExternalChecks(time, 1, "test")
    long, short = (Principal("ada", (), 0, time.now + seconds, True) for seconds in (20, 5))
    await checks.run("ada", channel(), ("one",), lambda: long)
    await checks.run("ada", channel(), ("two", "x"), lambda: short)
    assert checks.known("one") == long and checks.known("two", "x") == short and checks.known("twox") is None
    time.now += 6
    assert checks.known("one") == long and checks.known("two", "x") is None
    checks.forget()
    assert checks.known("one") is None
    checks.close()


async def test_a_fleet_with_one_login_is_one_check_and_what_cannot_be_asked_earns_no_wait() -> None:
    slept: list[float] = []

    async def sleep(seconds: float) -> None:
        slept.append(seconds)

    time, asked = Time(), 0
    checks = ExternalChecks(time, 1, "test", sleep=sleep)

    def check() -> Principal:
        nonlocal asked
        asked += 1
        return ADA

    together = [checks.run("ada", channel(f"10.0.1.{n}"), ("x",), check, 10.0) for n in range(20)]
    assert await asyncio.gather(*together) == [ADA] * 20 and asked == 1
    time.now += 11
    assert checks.known("x") is None

    def away() -> Principal:
        raise RefusedError(Code.LOGIN_FAILED, "")

    for _ in range(8):
        with pytest.raises(RefusedError):
            await checks.run("ada", channel(), ("y",), away)
    assert not slept
    checks.close()
