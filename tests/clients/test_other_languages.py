"""Clients of other languages on ports of all dialects, Perl's and Ruby's as Debian packages them, and go-stomp: sent,
received, acknowledged in a transaction, and what was not acknowledged comes again."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.harness import Broker, scratch
from tests.harness.broker import free_ports

DIALECTS = ("artemis", "rabbitmq", "activemq")
GO_STOMP = "v3.1.3"
PROGRAMS = Path(__file__).parent / "languages"


@pytest.fixture(scope="module")
def ports(request: pytest.FixtureRequest) -> Iterator[dict[str, int]]:
    found = dict(zip(DIALECTS, free_ports(len(DIALECTS)), strict=True))
    settings: dict[str, object] = {}
    for dialect, port in found.items():
        settings |= {f"acceptors.{dialect}.port": port, f"acceptors.{dialect}.dialect": dialect}
    with scratch(request, "languages") as folder, Broker(folder, settings) as broker:
        yield found
        assert "Traceback" not in broker.log()


def run(line: list[str], **more: object) -> None:
    done = subprocess.run(line, capture_output=True, text=True, timeout=60, check=False, **more)  # type: ignore[call-overload]
    assert (done.returncode, done.stdout.strip()) == (0, "fine"), done.stdout + done.stderr


def has(*line: str) -> bool:
    return shutil.which(line[0]) is not None and not subprocess.run(line, capture_output=True, check=False).returncode


@pytest.mark.parametrize("dialect", DIALECTS)
def test_perl(ports: dict[str, int], name: str, dialect: str):
    if not has("perl", "-MNet::Stomp", "-e1"):
        pytest.skip("no Net::Stomp here (Debian: apt install libnet-stomp-perl)")
    run(["perl", str(PROGRAMS / "client.pl"), str(ports[dialect]), f"/queue/{name}"])


@pytest.mark.parametrize("dialect", DIALECTS)
def test_ruby(ports: dict[str, int], name: str, dialect: str):
    if not has("ruby", "-rstomp", "-e1"):
        pytest.skip("no stomp gem here (Debian: apt install ruby ruby-stomp)")
    run(["ruby", "-W0", str(PROGRAMS / "client.rb"), str(ports[dialect]), f"/queue/{name}"])


@pytest.fixture(scope="module")
def go_program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Built once; the module comes from Go's cache or its proxy."""
    go = shutil.which("go") or "/usr/local/go/bin/go"
    if not os.path.exists(go):
        pytest.skip("no Go here (Debian: apt install golang-go)")
    folder = tmp_path_factory.mktemp("go")
    shutil.copy(PROGRAMS / "main.go", folder)
    for line in (
        ["mod", "init", "clients"],
        ["get", f"github.com/go-stomp/stomp/v3@{GO_STOMP}"],
        ["build", "-o", "it"],
    ):
        done = subprocess.run([go, *line], cwd=folder, capture_output=True, text=True, timeout=120, check=False)
        if done.returncode:
            assert "main.go" not in done.stderr, done.stderr
            pytest.skip(f"go-stomp cannot be had: {done.stderr.strip()[-200:]}")
    return folder / "it"


@pytest.mark.parametrize("dialect", DIALECTS)
def test_go(ports: dict[str, int], name: str, dialect: str, go_program: Path):
    run([str(go_program), str(ports[dialect]), f"/queue/{name}"])
