"""An edge process without a parent has nobody who could answer: it ends at once, and never serves."""

from __future__ import annotations

import socket
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import msgspec

from broker.app.edges.worker_settings import WorkerStart
from broker.config.settings import EdgeSettings, Settings
from tests.harness.broker import ROOT


def test_it_ends_when_there_is_no_parent(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as door:
        settings = Settings(data=str(tmp_path), edge=EdgeSettings(ws_port=-1))
        start = WorkerStart(1, 2, "boot", str(tmp_path / "none"), {"tcp": [door.fileno()]}, 0, replace(settings))
        done = subprocess.run(
            [sys.executable, "-m", "broker.app.edges.worker"],
            input=msgspec.json.encode(start), pass_fds=[door.fileno()], capture_output=True, timeout=60, cwd=ROOT,
        )  # fmt: skip
    assert done.returncode == 1
    assert b"has ended" in done.stderr and b"Traceback" not in done.stderr
