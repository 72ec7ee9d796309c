"""The load generator speaking NATS: the same traffic, and what it counts must be true."""

import asyncio
import json
import re
import subprocess
import sys
from collections import defaultdict
from pathlib import Path

import pytest

from tests.harness.fake_server import FakeServer
from tests.unit.client.test_bench_load import run

BENCH = Path(__file__).resolve().parents[3] / "bench"
ACK = b'{"stream":"bench","seq":1}'
NOBODY = b"NATS/1.0 503\r\n\r\n"
REFUSAL = b'{"error":{"code":503,"description":"no space left"}}'


class FakeNats:
    """Publications go to all who subscribe to their subject, in pieces; `answer` goes to their inbox.

    published: of each (subject, header lines, body). fault: what happens to the 50th message."""

    def __init__(self, answer=None, fault=None, piece=1 << 20):
        self.answer, self.fault, self.piece = answer, fault, piece
        self.published, self.kept = [], []
        self.subscribers = defaultdict(list)

    async def __aenter__(self):
        self.server = await asyncio.start_server(self.serve, "127.0.0.1", 0)
        self.port = self.server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(self, *_):
        self.server.close()

    async def serve(self, reader, writer):
        writer.write(b'INFO {"server_id":"fake","headers":true}\r\nPING\r\n')
        try:
            while line := await reader.readline():
                verb, *words = line.decode().split()
                if verb == "PING":
                    writer.write(b"PONG\r\n")
                elif verb == "SUB":
                    self.subscribers[words[0]].append(writer)
                elif verb in ("PUB", "HPUB"):
                    data = await reader.readexactly(int(words[-1]) + 2)
                    await self.on_publish(words[: -2 if verb == "HPUB" else -1], words[-2], verb, data, writer)
        except (ConnectionError, asyncio.IncompleteReadError):
            pass
        finally:
            writer.close()

    async def on_publish(self, names, head, verb, data, writer):
        size = int(head) if verb == "HPUB" else 0
        self.published.append((names[0], data[:size].split(b"\r\n")[1:-2], data[size:-2]))
        if len(names) == 2 and self.answer:
            head = b"%d " % len(self.answer) if self.answer.startswith(b"NATS") else b""
            await self.send(writer, names[1], head, self.answer + b"\r\n")
        message = (names[0], b"%d " % size if size else b"", data)
        fault = self.fault if len(self.published) == 50 else None
        if fault == "reordered":
            self.kept = [message]
            return
        again, self.kept = self.kept, []
        for each in [*([] if fault == "lost" else [message]), *([message] if fault == "duplicated" else []), *again]:
            for subscriber in self.subscribers[names[0]]:
                await self.send(subscriber, *each)

    async def send(self, writer, subject, head, data):
        verb = b"HMSG" if head else b"MSG"
        said = b"%b %b 0 %b%d\r\n%b" % (verb, subject.encode(), head, len(data) - 2, data)
        for at in range(0, len(said), self.piece):
            writer.write(said[at : at + self.piece])
            if self.piece < 1000:
                await asyncio.sleep(0)


def nats(*arguments, protocol="nats"):
    return ("--protocol", protocol, *arguments)


@pytest.mark.parametrize(
    "arguments",
    [
        ["--producers", "3", "--consumers", "3", "--destinations", "3"],
        ["--topic", "--consumers", "4", "--destination", "/topic/t"],
        ["--vary", "--header", "a:b"],
        ["--in-turn", "--consumers", "7", "--destinations", "7"],
        ["--traffic", "uniform"],
        ["--traffic", "sparse", "--rate", "3000"],
    ],
    ids=" ".join,
)
async def test_everything_arrives(binary, arguments):
    async with FakeNats() as server:
        status, line = await run(binary, server, "--count", "300", "--verify", "--max-lag", "50", *nats(*arguments))
        assert (status, line["lost"], line["duplicated"], line["reordered"], line["foreign"]) == (0, 0, 0, 0, 0)
        assert line["sent"] == 300 and line["received"] == 300 * (4 if "--topic" in arguments else 1)
        assert line["latency_us"]["p50"] <= line["latency_us"]["p99"] <= line["latency_us"]["max"] * 1.01


async def test_messages_that_come_in_pieces(binary):
    async with FakeNats(piece=7) as server:
        status, line = await run(binary, server, "--count", "60", "--verify", *nats("--vary"))
        assert (status, line["received"], line["lost"]) == (0, 60, 0)


@pytest.mark.parametrize("fault", ["lost", "duplicated", "reordered"])
async def test_a_planted_fault_is_counted(binary, fault):
    async with FakeNats(fault=fault) as server:
        status, line = await run(binary, server, "--count", "100", "--verify", *nats(), idle="2")
        assert status == 1
        counted = {name: line[name] for name in ("lost", "duplicated", "reordered")}
        assert counted == {"lost": 0, "duplicated": 0, "reordered": 0} | {fault: 1}


@pytest.mark.parametrize("traffic", [("--vary", "--header", "a:b"), ("--traffic", "jms"), ("--traffic", "sparse")])
async def test_headers_and_bodies_are_those_of_stomp(binary, traffic):
    """Byte by byte, but for what SEND says in headers and PUB elsewhere; the stamp has run and time."""
    arguments = ("--count", "100", "--produce-only", "--header", "persistent:true", *traffic)
    async with FakeServer() as server:
        await run(binary, server, *arguments)
        stomp = [
            ([f"{k}:{v}".encode() for k, v in head.items() if k not in ("destination", "content-length", "persistent")],
             body[8:22] + body[38:])
            for head, body in server.frames("SEND")
        ]  # fmt: skip
    async with FakeNats() as server:
        await run(binary, server, *arguments, *nats(protocol="jetstream"))
        theirs = [(lines, body[8:22] + body[38:]) for _, lines, body in server.published]
    assert len(theirs) == 100 and theirs == stomp
    assert {subject for subject, _, _ in server.published} == {"queue.bench0"}


async def test_in_turn_is_told_by_the_subject(binary):
    async with FakeNats() as server:
        await run(binary, server, "--count", "6", *nats("--in-turn", "--destinations", "3", "--consumers", "3"))
        assert [subject for subject, _, _ in server.published] == [f"queue.bench00000{n}" for n in (0, 1, 2, 0, 1, 2)]


@pytest.mark.parametrize("traffic", [(), ("--traffic", "jms")])
async def test_what_a_stream_acknowledges_counts_as_receipt(binary, traffic):
    async with FakeNats(answer=ACK) as server:
        asked = ("--count", "200", "--produce-only", "--receipt-every", "1", "--window", "10", *traffic)
        status, line = await run(binary, server, *asked, *nats(protocol="jetstream"))
        assert (status, line["sent"], line["receipts"]) == (0, 200, 200) and line["receipt_us"]["p50"] > 0


@pytest.mark.parametrize("answer", [NOBODY, REFUSAL])
async def test_another_answer_than_an_acknowledgement_fails_the_run(binary, answer):
    async with FakeNats(answer=answer) as server:
        asked = ("--count", "200", "--produce-only", "--receipt-every", "1", "--window", "10")
        status, line = await run(binary, server, *asked, *nats(protocol="jetstream"))
        assert status == 1 and line["receipts"] == 0 and line["errors"] and "503" in line["first_error"]


async def test_an_unanswered_message_fails_the_run(binary):
    async with FakeNats() as server:
        asked = ("--count", "200", "--produce-only", "--receipt-every", "1", "--window", "10")
        status, line = await run(binary, server, *asked, *nats(protocol="jetstream"), idle="1")
        assert status == 1 and line["timed_out"] and (line["sent"], line["receipts"]) == (10, 0)


async def test_idle_connections(binary):
    async with FakeNats() as server:
        status, line = await run(binary, server, "--connections", "50", "--parallel", "7", *nats())
        assert (status, line["connections"]) == (0, 50)


@pytest.mark.parametrize(
    ("protocol", "arguments"),
    [
        ("nats", ["--traffic", "wild"]),
        ("nats", ["--ack", "client"]),
        ("nats", ["--sub-header", "selector:n = 1"]),
        ("nats", ["--body", "65537"]),
        ("nats", ["--websocket"]),
        ("nats", ["--consume-only"]),
        ("nats", ["--receipt-every", "1"]),
        ("nats", ["--header", "persistent:true"]),
        ("jetstream", ["--receipt-every", "2", "--produce-only"]),
        ("jetstream", ["--receipt-every", "1"]),
    ],
)
def test_what_it_has_no_word_for_is_refused_by_name(binary, protocol, arguments):
    line = [binary, "--port", "1", "--count", "1", "--protocol", protocol, *arguments]
    done = subprocess.run(line, capture_output=True, text=True)
    assert done.returncode == 3
    assert re.match(r"load: not with NATS: (--\w[\w-]*|persistent:true|jetstream without --produce-only)", done.stderr)


@pytest.fixture
def bench(monkeypatch):
    monkeypatch.syspath_prepend(str(BENCH))


@pytest.mark.parametrize("peer", ["nats", "jetstream"])
def test_a_real_server_is_started_asked_and_ended(binary, bench, tmp_path, peer):
    from brokers import BROKERS

    if (missing := BROKERS[peer].missing()) is not None:
        pytest.skip(f"no nats-server here: {missing}")
    broker = BROKERS[peer](tmp_path / "scratch")
    broker.start()
    try:
        asked = {"nats": ["--verify"], "jetstream": ["--produce-only", "--receipt-every", "1"]}[peer]
        line = [binary, "--count", "300", *broker.load_arguments(), *asked]
        told = json.loads(subprocess.run(line, capture_output=True, text=True, check=True).stdout)
        assert told["received" if peer == "nats" else "receipts"] == 300
    finally:
        broker.stop()


def test_a_scenario_that_a_peer_cannot_do_is_one_line(bench, tmp_path, monkeypatch):
    import run as bench_run
    from scenarios import Scale, Unsupported

    def scenario(broker, scale: Scale):
        raise Unsupported("no word for it")

    class Peer:
        name, transports = "peer", ("tcp",)

        def __init__(self, folder, transport):
            pass

        start = stop = lambda self: None

    monkeypatch.setitem(bench_run.SCENARIOS, "it", ("it", scenario))
    monkeypatch.setitem(bench_run.BROKERS, "stampede", Peer)
    monkeypatch.setattr(sys, "argv", ["run.py", "--scenarios", "it", "--runs", "3"])
    records = bench_run.run_all(bench_run.arguments(), tmp_path)
    assert bench_run.notes(records) == ["stampede, it: not supported: no word for it"]
