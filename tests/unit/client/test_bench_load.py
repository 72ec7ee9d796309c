"""The load generator: what it counts as delivered, lost, duplicated and reordered must be true."""

import asyncio
import json
import subprocess

import pytest

from tests.harness.fake_server import FakeServer


async def run(binary, server, *arguments, idle="10"):
    """idle: seconds after which it takes for lost what does not come; a busy machine connects slowly, too."""
    process = await asyncio.create_subprocess_exec(
        binary, "--port", str(server.port), "--idle-timeout", idle, *arguments, stdout=subprocess.PIPE
    )
    output, _ = await process.communicate()
    return process.returncode, json.loads(output)


class Tampering(FakeServer):
    """Does something wrong with the 50th message."""

    def __init__(self, fault):
        super().__init__()
        self.fault = fault
        self.count = 0
        self.kept = None

    def route(self, destination, lines):
        self.count += 1
        if self.count == 50 and self.fault == "lost":
            return
        if self.count == 50 and self.fault == "reordered":
            self.kept = lines
            return
        super().route(destination, lines)
        if self.count == 50 and self.fault == "duplicated":
            super().route(destination, lines)
        if self.kept is not None:
            kept, self.kept = self.kept, None
            super().route(destination, kept)


CASES = [
    ["--producers", "3", "--consumers", "3", "--destinations", "3"],
    ["--topic", "--consumers", "4", "--destination", "/topic/t"],
    ["--receipt-every", "1", "--window", "10", "--vary"],
    ["--receipt-every", "7", "--header", "a:b"],
    ["--ack", "client-individual"],
    ["--ack", "client", "--ack-every", "10", "--sub-header", "x:y"],
    ["--rate", "3000"],
]


@pytest.mark.parametrize("arguments", CASES, ids=" ".join)
async def test_everything_arrives(binary, arguments):
    async with FakeServer() as server:
        status, line = await run(binary, server, "--count", "300", "--verify", "--max-lag", "50", *arguments)
        assert (status, line["lost"], line["duplicated"], line["reordered"]) == (0, 0, 0, 0)
        assert line["sent"] == 300 and line["received"] == 300 * (4 if "--topic" in arguments else 1)
        assert line["latency_us"]["p50"] <= line["latency_us"]["p99"] <= line["latency_us"]["max"] * 1.01
        if "--ack" in arguments:
            assert line["acks"] == (300 if "client-individual" in arguments else 30)


@pytest.mark.parametrize("fault", ["lost", "duplicated", "reordered"])
async def test_a_planted_fault_is_counted(binary, fault):
    async with Tampering(fault) as server:
        status, line = await run(binary, server, "--count", "100", "--verify", "--ack", "client", idle="2")
        assert status == 1
        counted = {name: line[name] for name in ("lost", "duplicated", "reordered")}
        assert counted == {"lost": 0, "duplicated": 0, "reordered": 0} | {fault: 1}


async def test_large_bodies_are_streamed_both_ways(binary):
    async with FakeServer() as server:
        status, line = await run(binary, server, "--count", "2", "--body", "1000000", "--verify")
        assert (status, line["received"], line["lost"]) == (0, 2, 0)
        assert {len(body) for _, body in server.frames("SEND")} == {1_000_000}


async def test_an_error_frame_fails_the_run(binary):
    async with FakeServer() as server:
        server.refuse.add("SUBSCRIBE")
        status, line = await run(binary, server, "--count", "1")
        assert status == 1 and line["errors"] == 1 and "refused" in line["first_error"]


async def test_idle_connections(binary):
    async with FakeServer() as server:
        status, line = await run(binary, server, "--connections", "50", "--parallel", "7")
        assert (status, line["connections"], len(server.frames("CONNECT"))) == (0, 50, 50)
