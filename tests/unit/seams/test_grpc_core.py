"""What gRPC's core is told by the environment: quiet, the cheaper poller, and what the operator said stays."""

from __future__ import annotations

import os
import subprocess
import sys
from importlib.metadata import PackageNotFoundError

import pytest

from broker.seams import grpc_core
from broker.seams.grpc_core import EXPERIMENTS, QUIET, TESTED, prepare
from tests.harness.broker import ROOT

SOURCE = """
import os, {room}
import grpc
grpc.insecure_channel("127.0.0.1:1").close()
print(os.environ["GRPC_EXPERIMENTS"], os.environ["GRPC_VERBOSITY"])
"""


@pytest.mark.parametrize("room", ["broker.rpc.dialer", "broker.metadata.etcd"])
def test_it_is_told_before_it_starts_and_knows_the_names(room):
    env = {name: value for name, value in os.environ.items() if not name.startswith("GRPC_")}
    line = [sys.executable, "-c", SOURCE.format(room=room)]
    done = subprocess.run(line, cwd=ROOT, env=env, capture_output=True, text=True, timeout=30)
    assert (done.stdout.strip(), done.stderr) == (f"{EXPERIMENTS} NONE", "")
    given = env | {"GRPC_EXPERIMENTS": "", "GRPC_VERBOSITY": "ERROR"}
    done = subprocess.run(line, cwd=ROOT, env=given, capture_output=True, text=True, timeout=30)
    assert done.stdout == " ERROR\n"


def numbered(version: str):
    def found(name: str) -> str:
        assert name == "grpcio"
        if not version:
            raise PackageNotFoundError(name)
        return version

    return found


FIRST, AFTER = TESTED


@pytest.mark.parametrize(
    ("version", "knows"),
    [
        (f"{FIRST[0]}.{FIRST[1]}.0", True), (f"{FIRST[0]}.{FIRST[1] - 1}.9", False),
        (f"{AFTER[0]}.{AFTER[1] - 1}.3", True), (f"{AFTER[0]}.{AFTER[1]}.0rc1", False), ("2.0.0", False),
        ("what", False), ("1.x.0", False), ("", False),
    ],
)  # fmt: skip
def test_only_releases_that_know_the_names_are_told_them(monkeypatch, version, knows):
    monkeypatch.setattr(grpc_core, "version", numbered(version))
    for name in ("GRPC_EXPERIMENTS", "GRPC_VERBOSITY"):
        monkeypatch.delenv(name, raising=False)
    prepare()
    assert os.environ["GRPC_VERBOSITY"] == QUIET
    assert os.environ.get("GRPC_EXPERIMENTS") == (EXPERIMENTS if knows else None)
    monkeypatch.delenv("GRPC_EXPERIMENTS", raising=False)  # what it has set is not ours to leave behind
    monkeypatch.delenv("GRPC_VERBOSITY")


def test_what_the_operator_said_stays(monkeypatch):
    monkeypatch.setattr(grpc_core, "version", numbered(f"{FIRST[0]}.{FIRST[1]}.0"))
    monkeypatch.setenv("GRPC_VERBOSITY", "DEBUG")
    monkeypatch.setenv("GRPC_EXPERIMENTS", "")
    prepare()
    assert (os.environ["GRPC_VERBOSITY"], os.environ["GRPC_EXPERIMENTS"]) == ("DEBUG", "")
