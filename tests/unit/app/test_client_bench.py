"""stampede bench: what it counted, as one line of JSON."""

from __future__ import annotations

import asyncio
import json
from types import SimpleNamespace
from typing import Any

from click.testing import CliRunner

from broker.app.commands import client_bench
from broker.app.commands.client_bench import BenchRun, measure
from broker.app.commands.client_cli import bench
from tests.harness.fake_server import FakeServer


async def invoke(command, server, *args, stdin=None):
    url = ["--url", server.url] if server else []
    return await asyncio.to_thread(CliRunner().invoke, command, [*args, *url], stdin)


async def test_bench_prints_one_line_of_json():
    async with FakeServer() as server:
        done = await invoke(bench, server, "--seconds", "0.1")
        assert done.exit_code == 0, done.output
        report = json.loads(done.stdout)
        assert report["sent"] == report["received"] > 0
        assert "client and server" in report["measures"] and report["latency_us"]["p50"] > 0


class Client:
    """kept: how many of what is sent come back. What an earlier run left is in the queue."""

    def __init__(self, kept: int = 10**9) -> None:
        self.queue: asyncio.Queue[Any] = asyncio.Queue()
        self.kept = kept
        self.queue.put_nowait(SimpleNamespace(headers={"x-bench-run": "old"}, body=b"0" * 40))
        self.bodies: list[bytes] = []

    async def __aenter__(self) -> Client:
        return self

    async def __aexit__(self, *_: object) -> None: ...

    def subscribe(self, destination: str) -> Client:
        return self

    async def send(self, destination: str, body: bytes, headers: Any = None, receipt: bool = False) -> None:
        if body:
            self.bodies.append(body)
            if len(self.bodies) <= self.kept:
                self.queue.put_nowait(SimpleNamespace(headers=headers, body=body))
        await asyncio.sleep(0)

    def __aiter__(self) -> Client:
        return self

    async def __anext__(self) -> Any:
        return await self.queue.get()


async def test_a_run_counts_its_own_messages_and_says_what_was_lost(capsys, monkeypatch):
    monkeypatch.setattr(client_bench.asyncio, "wait_for", lambda work, _: _soon(work))
    for client, code in ((Client(), 0), (Client(kept=5), 1)):
        assert await measure(lambda client=client: client, "/queue/a", 0.03, 64, 0.0, 20, {"k": "v"}) == code
        report = json.loads(capsys.readouterr().out)
        assert report["sent"] == len(client.bodies) and report["received"] == (report["sent"] if code == 0 else 5)
        assert {len(body) for body in client.bodies} == {64} and report["rate"] is None


async def _soon(work: Any) -> None:
    done, _ = await asyncio.wait([work], timeout=0.2)
    if not done:
        raise TimeoutError


async def test_without_a_rate_no_more_is_under_way_than_asked_for():
    run, client = BenchRun("/queue/a", 64, 3, {}), Client(kept=0)
    producing = asyncio.create_task(run.produce(client, 0.05, 0.0))  # type: ignore[arg-type]
    await asyncio.sleep(0.02)
    assert run.sent == 3, "until one of them has come"
    run.latencies.append(1)
    run.progress.set()
    await asyncio.sleep(0.005)
    assert run.sent == 4
    producing.cancel()


async def test_with_a_rate_latency_counts_from_when_a_message_was_due():
    """Else a server that stalls would hide its delay: nothing is sent meanwhile."""
    run, client = BenchRun("/queue/a", 64, 1, {}), Client()
    now = [100.0]
    run.clock = lambda: now[0]
    stalled = client.send

    async def stall(*args: Any, **more: Any) -> None:
        now[0] += 0.5
        await stalled(*args, **more)

    client.send = stall  # type: ignore[method-assign]
    await run.produce(client, 1.0, 10.0)  # type: ignore[arg-type]
    assert [int(body[:20]) for body in client.bodies] == [100_000_000_000, 100_100_000_000]


def test_quantiles_are_of_what_was_received():
    run = BenchRun("/queue/a", 64, 1, {})
    run.latencies = [n * 1000 for n in range(100, 0, -1)]
    run.sent = 100
    report = client_bench._report(run, 2.0, 64, 5.0)
    assert report["latency_us"] == {"p50": 51, "p90": 91, "p99": 100, "max": 100}
    assert (report["messages_per_s"], report["rate"]) == (50.0, 5.0)
    run.latencies = []
    assert "latency_us" not in client_bench._report(run, 2.0, 64, 0.0)
