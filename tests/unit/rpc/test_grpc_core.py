"""What gRPC's core is told by the environment: quiet, the cheaper poller, and what the operator said stays."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from broker.seams.grpc_core import EXPERIMENTS
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
