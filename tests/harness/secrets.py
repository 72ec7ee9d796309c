"""Certificates and users for tests, made with the tools an operator has: openssl and `stampede user add`."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from .broker import Broker


def self_signed(folder: Path, name: str = "server", days: int = 30) -> tuple[Path, Path]:
    """(certificate, key) for localhost and 127.0.0.1; the certificate is its own CA. An older pair is replaced."""
    if shutil.which("openssl") is None:
        pytest.skip("openssl is not installed: no certificate for this test")
    folder.mkdir(parents=True, exist_ok=True)
    certificate, key = folder / f"{name}.pem", folder / f"{name}.key"
    line = ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"]
    line += ["-days", str(days), "-subj", f"/CN={name}", "-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1"]
    line += ["-keyout", str(key), "-out", str(certificate)]
    subprocess.run(line, check=True, capture_output=True)
    return certificate, key


def add_user(broker: Broker, name: str, passcode: str, *groups: str) -> None:
    """Into the users file of this broker's data folder; a running broker notices."""
    line = [sys.executable, "-m", "broker.app.cli", "user", "add", name, "--passcode-stdin", "--data", str(broker.data)]
    line += [part for group in groups for part in ("--group", group)]
    done = subprocess.run(
        line, input=passcode + "\n", text=True, capture_output=True, env=broker.environment(), cwd=broker.folder
    )
    assert done.returncode == 0, done.stderr
