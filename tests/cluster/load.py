"""Traffic for cluster tests: the C generator of bench/, and what it says of it."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any, ClassVar

ROOT = Path(__file__).resolve().parents[2]


def generator() -> Path:
    """Builds the generator if need be."""
    sys.path.insert(0, str(ROOT / "bench"))
    try:
        from scenarios import generator as build
    finally:
        sys.path.pop(0)
    found: Path = build()
    return found


class Load:
    """A run of the generator in the background: persistent messages, a receipt each, checked one by one.

    lost, duplicated, reordered, closed_early, errors and latency_us are in the result."""

    begun: ClassVar[list[Load]] = []
    """Those that may still run: a test that fails must not leave them behind."""

    def __init__(self, port: int, *arguments: str) -> None:
        self.process = subprocess.Popen(
            [str(generator()), "--port", str(port), *arguments],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        self.begun.append(self)

    def result(self, seconds: float = 120.0) -> dict[str, Any]:
        out, err = self.process.communicate(timeout=seconds)
        assert out.strip(), err
        answer: dict[str, Any] = json.loads(out.strip().splitlines()[-1])
        return answer

    @classmethod
    def end_all(cls) -> None:
        while cls.begun:
            process = cls.begun.pop().process
            process.kill()
            process.communicate()

    def running(self) -> bool:
        return self.process.poll() is None


def persistent(seconds: float, rate: int, destination: str = "/queue/load%d", destinations: int = 4) -> list[str]:
    """Arguments: an open loop of `rate` persistent messages/s over some queues."""
    return [
        "--producers", str(destinations), "--consumers", str(destinations), "--destination", destination,
        "--destinations", str(destinations), "--rate", str(rate), "--seconds", str(seconds), "--receipt-every", "1",
        "--window", "1000", "--header", "persistent:true", "--body", "100", "--verify", "--idle-timeout", "30",
    ]  # fmt: skip


def consumed_again(port: int, produced: dict[str, Any], destination: str) -> dict[str, Any]:
    """What a run with `--produce-only` has left in its queues, read by others and checked."""
    return Load(
        port, "--consume-only", "--producers", "4", "--consumers", "4", "--destinations", "4",
        "--destination", destination, "--count", str(produced["sent"]), "--run-id", produced["run"], "--verify",
        "--body", "100", "--idle-timeout", "60",
    ).result()  # fmt: skip


def assert_nothing_lost(result: dict[str, Any], duplicates: int = 0) -> None:
    """No loss, no client disconnect, no ERROR frame, nothing out of order."""
    told = {name: result.get(name) for name in ("lost", "duplicated", "reordered", "foreign", "errors", "closed_early")}
    assert result["lost"] == 0, told
    assert result["foreign"] == 0, told
    assert result["errors"] == 0, result.get("first_error")
    assert result["closed_early"] == 0, told
    assert not result["timed_out"], told
    assert result["duplicated"] <= duplicates, told
