"""Strangers and mistakes at the component ports: each is refused with a named reason, and a client that sends and
receives meanwhile loses nothing."""

from __future__ import annotations

import itertools
import random
import socket
import struct
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress

import grpc
import pytest

from broker.rpc.v1 import link_pb2, replica_pb2
from tests.abuse.innocent import Innocent
from tests.harness.broker import free_ports
from tests.harness.cluster import HOST, Cluster, Process

SETTINGS = {"cluster.lease_s": 8, "cluster.dead_after_ms": 10_000}
"""Not about fail-over: a busy machine must not cause one."""
pytestmark = pytest.mark.alone  # the innocent client sees any change of leaders, and a busy machine causes some
PREFIX = "/stampede/test"
EDGE, REPLICA = "/stampede.v1.Link/Edge", "/stampede.v1.Link/Replica"
_NUMBERS = itertools.count()


@pytest.fixture(autouse=True)
def innocent(shared: Cluster) -> Iterator[None]:
    """A client at work beside each test; nobody's fault may become its own."""
    client = Innocent(shared.edges[0].port, f"/queue/innocent.{next(_NUMBERS)}")
    yield
    client.check(slowest=20)
    assert all(process.running for process in shared.processes)


def said(process: Process, *texts: str) -> None:
    """Its log names the reason."""

    def all_there() -> bool:
        return all(text in process.log() for text in texts)

    Cluster.wait(all_there, 30, lambda: f"not in the log of {process.id}: {texts}\n{process.log()[-3000:]}")


@contextmanager
def stream(process: Process, method: str, *messages: bytes) -> Iterator[object]:
    """A call to the component port, with what it sends; iterate over it for the answers."""
    options = [("grpc.max_send_message_length", -1), ("grpc.use_local_subchannel_pool", 1)]
    with grpc.insecure_channel(f"{HOST}:{process.component_port}", options) as channel:
        call = channel.stream_stream(method)

        def requests() -> Iterator[bytes]:
            yield from messages
            time.sleep(10)

        answers = call(requests(), timeout=20)
        yield answers
        answers.cancel()


def refusal(process: Process, *messages: bytes) -> link_pb2.Refusal:
    """What an owner says last to one that greets as an edge."""
    with stream(process, EDGE, *messages) as answers:
        for data in answers:
            down = link_pb2.Down.FromString(data)
            if down.HasField("refusal"):
                return down.refusal
    raise AssertionError("the stream ended without a refusal")


def last_words(process: Process, *messages: bytes) -> str:
    """What an owner says last to one that greets as a leader: a stream's farewell is not protobuf, it begins with 0."""
    with stream(process, REPLICA, *messages) as answers:
        for data in answers:
            if data[:1] == b"\0":
                return data[2:].decode()
    raise AssertionError("the stream ended without a word")


def hello(**fields: object) -> bytes:
    given = {"cluster": PREFIX, "version": 1, "edge": "edge-x", "boot": "b", "token": 7, **fields}
    return link_pb2.Up(hello=link_pb2.Hello(**given)).SerializeToString()


def leader(**fields: object) -> bytes:
    """The greeting of a leader to its follower owner-0."""
    given = {"cluster": PREFIX, "version": 1, "from": "owner-x", "boot": "b", "to": "owner-0", "promise_ms": 250}
    message = replica_pb2.ToFollower()
    for name, value in {**given, **fields}.items():
        setattr(message.hello, name, value)
    return message.SerializeToString()


def test_what_is_no_grpc_at_all(shared):
    owner = shared.owners[0]
    get = f"GET / HTTP/1.1\r\nHost: {HOST}\r\n\r\n".encode()
    for garbage in (get, b"\0" * 100, random.Random(1).randbytes(5000), b"CONNECT\naccept-version:1.2\n\n\0", b""):
        with socket.create_connection((HOST, owner.component_port), 5) as raw:
            raw.sendall(garbage)
            raw.settimeout(2)
            with suppress(OSError):
                while raw.recv(4096):
                    pass


def test_a_method_nobody_has(shared):
    owner = shared.owners[0]
    with pytest.raises(grpc.RpcError) as error, stream(owner, "/foo.Bar/Baz", b"x") as answers:
        next(answers)
    assert error.value.code() is grpc.StatusCode.UNIMPLEMENTED
    said(owner, "/foo.Bar/Baz", "which no component of this release does")


@pytest.mark.parametrize(
    ("message", "name"),
    [
        (hello(cluster="/stampede/other"), "WRONG_CLUSTER"),
        (hello(version=99), "WRONG_RELEASE"),
        (hello(token=0), "BAD_COMPONENT_MESSAGE"),
        (b"\xff\xff\xff garbage", "BAD_COMPONENT_MESSAGE"),
        (hello(edge="edge-0"), "DUPLICATE_IDENTITY"),
    ],
    ids=["cluster", "release", "no-hello", "garbage", "identity"],
)
def test_an_edge_that_is_none_of_ours(shared, message, name):
    owner = shared.owners[0]
    answer = refusal(owner, message)
    assert answer.detail
    said(owner, f"refused: {name}: {answer.detail}")


def test_a_message_that_is_too_large(shared):
    owner = shared.owners[0]
    huge = link_pb2.Up(batch=1, bodies=[link_pb2.Body(id=1, data=b"x" * (70 << 20))]).SerializeToString()
    with pytest.raises(grpc.RpcError) as error, stream(owner, EDGE, hello(edge="edge-huge"), huge) as answers:
        for _ in answers:
            pass
    assert error.value.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
    said(owner, "edge edge-huge lost")


@pytest.mark.parametrize(
    ("fields", "name"),
    [
        ({"cluster": "/stampede/other"}, "WRONG_CLUSTER"),
        ({"version": 99}, "WRONG_RELEASE"),
        ({"to": "owner-9"}, "DUPLICATE_IDENTITY"),
        ({"from": "owner-1"}, "DUPLICATE_IDENTITY"),
        ({"promise_ms": 10**9}, "BAD_COMPONENT_MESSAGE"),
    ],
    ids=["cluster", "release", "not-me", "identity", "promise"],
)
def test_a_leader_that_is_none_of_ours(shared, fields, name):
    owner = shared.owners[0]
    why = last_words(owner, leader(**fields))
    assert why.startswith(name)
    said(owner, f"refused: {why}")


def test_a_leader_of_an_old_epoch_changes_nothing(shared):
    """It is told so, and what it appends is not taken."""
    owner = shared.owners[0]
    slot, record = next((slot, one) for slot, one in shared.records().items() if one["leader"] != owner.id)
    lead = replica_pb2.ToFollower()
    lead.leads.leads.add(slot=slot, epoch=record["epoch"] - 1)
    append = replica_pb2.ToFollower(append=replica_pb2.Append(seq=1, slots=[slot], items=[b"not an item"]))
    told = []
    messages = [leader(**{"from": "owner-old"}), lead.SerializeToString(), append.SerializeToString()]
    with stream(owner, REPLICA, *messages) as answers:
        for data in answers:
            told.append(replica_pb2.ToLeader.FromString(data))
            if told[-1].HasField("stale"):
                break
    assert (told[-1].stale.slot, told[-1].stale.epoch) == (slot, record["epoch"])
    assert not any(each.HasField("acked") for each in told)
    assert shared.records()[slot] == record


@pytest.mark.parametrize("kind", ["owner", "edge"])
def test_a_second_process_of_one_name_is_refused(shared, tmp_path, kind):
    """It says who has the name and ends with status 1; the first one goes on."""
    first = shared.owners[1] if kind == "owner" else shared.edges[1]
    ports = free_ports(4)
    line = [sys.executable, "-m", "broker.app.cli", kind, "--data", str(tmp_path), "--admin-port", str(ports[0])]
    line += ["--port", str(ports[1]), "--ws-port", "-1"] if kind == "edge" else []
    for name, value in {
        "cluster.id": first.id, "cluster.port": ports[2], "etcd.endpoints": f"{HOST}:{shared.etcd_port}",
        "etcd.prefix": PREFIX, **SETTINGS,
    }.items():  # fmt: skip
        line += ["--set", f"{name}={value}"]
    before = shared.records()
    done = subprocess.run(line, capture_output=True, text=True, timeout=60)
    assert done.returncode == 1, done.stderr
    assert f"{kind} '{first.id}' is already running" in done.stderr and "cluster.id" in done.stderr
    assert first.running and first.ready()
    assert shared.records() == before


def test_a_storm_of_dials_and_resets(shared):
    """500 connections that end in the middle of something: nothing, a preface, a greeting."""
    owner = shared.owners[0]
    preface = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + b"\0\0\0\4\0\0\0\0\0"
    at_once = struct.pack("ii", 1, 0)
    for number in range(500):
        with socket.create_connection((HOST, owner.component_port), 10) as raw:
            raw.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, at_once)
            raw.sendall((b"", preface, b"garbage")[number % 3])
    assert owner.running and owner.ready()
    for number in range(100):
        with stream(owner, EDGE, b"garbage %d" % number):
            pass
    codes = [refusal(owner, b"garbage").code for _ in range(40)]
    assert 1707 in codes, f"no flood was named: {codes}"
    said(owner, "BAD_COMPONENT_MESSAGE")
