"""What an operator does while the third owner is down: finds out why a queue is stuck, and sends its dead letters
back, in a browser and on the command line."""

from __future__ import annotations

import asyncio
import json
import time
from pathlib import Path

from click.testing import CliRunner

from broker.app.cli import main
from broker.client import connect
from tests.harness.browser import browser
from tests.harness.cluster import HOST, Cluster, Process

TEXT = "document.getElementById('page').innerText"


def stampede(edge: Process, *line: str) -> str:
    result = CliRunner().invoke(main, [*line, "--url", f"http://{HOST}:{edge.admin_port}"])
    assert result.exit_code == 0, (result.stdout, result.stderr)
    return result.stdout


def while_missing(edge: Process, *line: str) -> str:
    """The same, asked again for as long as the answer is that an owner or slots are missing: never that what is there
    does not exist."""
    end = time.monotonic() + 60
    while True:
        result = CliRunner().invoke(main, [*line, "--url", f"http://{HOST}:{edge.admin_port}"])
        if result.exit_code == 0:
            return result.stdout
        assert "An owner is missing" in result.stderr and time.monotonic() < end, (result.stdout, result.stderr)
        time.sleep(0.1)


def under_replicated(cluster: Cluster) -> int:
    """What StampedeSlotsUnderReplicated asks for: the most that somebody says."""
    found = [
        line.rpartition(" ")[2]
        for process in cluster.processes
        if process.running
        for line in process.metrics().splitlines()
        if line.startswith("stomp_slots_under_replicated ")
    ]
    return max([int(float(value)) for value in found], default=0)


async def dead_letters(edge: Process, queue: str, count: int) -> None:
    async with connect(f"stomp://{HOST}:{edge.port}") as client:
        for n in range(count):
            await client.send(
                queue, f"{queue} {n}", {"destination-type": "ANYCAST", "persistent": "true"}, receipt=True
            )
        async with client.subscribe(queue, ack="client-individual") as failing:
            for _ in range(count):
                await (await anext(aiter(failing))).nack(headers={"requeue": "false"}, receipt=True)


async def test_a_stuck_queue_and_its_dead_letters(shared: Cluster, tmp_path: Path):
    edge, victim = shared.edges[0], shared.owners[2]
    for queue in ("bills", "books"):
        await dead_letters(edge, queue, 3)
    await asyncio.to_thread(stampede, edge, "queue", "pause", "DLQ")
    victim.kill()
    try:
        shared.wait(lambda: victim.id not in shared.leaders(), 60, lambda: "its slots were not led")
        shared.wait(
            lambda: under_replicated(shared) == 256, 60, lambda: f"of {under_replicated(shared)} slots it is said"
        )
        shown = await asyncio.to_thread(while_missing, edge, "queue", "show", "DLQ")
        assert "paused by an operator" in shown
        await asyncio.to_thread(while_missing, edge, "queue", "resume", "DLQ")
        groups = json.loads(await asyncio.to_thread(while_missing, edge, "dlq", "DLQ", "-o", "json"))
        assert {group["address"]: group["count"] for group in groups} == {"bills": 3, "books": 3}
        told = await asyncio.to_thread(while_missing, edge, "queue", "retry", "DLQ", "--address", "bills")
        assert told.startswith("3 messages")
        async with browser(tmp_path, f"http://{HOST}:{edge.admin_port}/console#queue/bills") as page:
            await page.until(f"{TEXT}.includes('Nobody consumes it') && {TEXT}.includes('bills 2')")
            await page.value("location.hash = '#cluster'")
            await page.until(f"{TEXT}.includes('{victim.id}') && {TEXT}.includes('{victim.id} is not in sync')")
            await page.value("location.hash = '#dead'")
            await page.until("document.querySelector('[aria-label^=\"Retry books\"]')")
            await page.value("document.querySelector('[aria-label^=\"Retry books\"]').click()")
            await page.until("document.getElementById('form').open")
            await page.value("document.getElementById('form-yes').click()")
            await page.until("document.getElementById('problem').innerText.includes('3 messages are back in books')")
            assert page.errors == []
        rows = json.loads(await asyncio.to_thread(while_missing, edge, "messages", "books", "-o", "json"))
        assert [row["body"] for row in rows] == ["books 0", "books 1", "books 2"]
    finally:
        victim.start()
        victim.wait_ready()
    # "Start the owner that is away; it is sent what it missed." (docs/runbooks/StampedeSlotsUnderReplicated.md)
    shared.wait(lambda: not under_replicated(shared), 120, lambda: f"{under_replicated(shared)} slots are not in sync")
