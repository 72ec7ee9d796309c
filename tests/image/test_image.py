"""The image: built as a user builds it, and run as Kubernetes runs it: not root, nothing writable but its volumes.

Needs a Docker Engine (docker in the PATH, DOCKER_HOST if it is elsewhere) that has or can pull the base image."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.harness import until

ROOT = Path(__file__).resolve().parents[2]
BASE = re.findall(r"^ARG BASE=(\S+)", (ROOT / "Dockerfile").read_text(), re.MULTILINE)[0]
TAG = "stampede:test"

pytestmark = pytest.mark.timeout(600)


def docker(*arguments: str, check: bool = True, timeout: float = 60) -> str:
    try:
        done = subprocess.run(
            ["docker", *arguments], capture_output=True, text=True, timeout=timeout, check=False, cwd=ROOT
        )
    except subprocess.TimeoutExpired:
        if check:
            raise
        return ""
    if check and done.returncode:
        raise AssertionError(f"docker {' '.join(arguments)}\n{done.stdout}\n{done.stderr}")
    return done.stdout.strip()


def said(name: str) -> str:
    """The log of a container."""
    done = subprocess.run(["docker", "logs", name], capture_output=True, text=True, timeout=60, check=False)
    return done.stdout + done.stderr


@pytest.fixture(scope="module")
def image() -> str:
    if shutil.which("docker") is None or not docker("info", "--format", "{{.ServerVersion}}", check=False):
        pytest.skip("no Docker Engine here: the image is not built")
    if not docker("image", "ls", "-q", BASE) and not docker("pull", "-q", BASE, check=False, timeout=300):
        pytest.skip(f"{BASE} cannot be had here: the image is not built")
    docker("build", "-q", "-t", TAG, ".", timeout=500)
    return TAG


RESTRICTED = ("--read-only", "--cap-drop", "ALL", "--security-opt", "no-new-privileges", "--tmpfs", "/tmp")


@pytest.fixture(scope="module")
def broker(image: str) -> Iterator[str]:
    """Name of a container with a standalone broker."""
    name = docker("run", "-d", *RESTRICTED, "--tmpfs", "/var/lib/stampede:uid=10001,gid=10001", image)
    try:
        until(lambda: docker("inspect", "-f", "{{.State.Health.Status}}", name) == "healthy", lambda: said(name), 120)
        yield name
    finally:
        docker("rm", "-f", name)


def test_a_message_goes_through_it(broker):
    docker("exec", broker, "stampede", "send", "/queue/image", "hello", "--persistent")
    assert docker("exec", broker, "stampede", "receive", "/queue/image", "--timeout", "10") == "hello"


def test_it_is_nobody(broker):
    assert docker("exec", broker, "id", "-u") == "10001"
    assert "Read-only file system" in subprocess.run(
        ["docker", "exec", broker, "touch", "/opt/stampede/x"], capture_output=True, text=True, check=False
    ).stderr  # fmt: skip


def test_it_stops_when_asked(image):
    name = docker("run", "-d", *RESTRICTED, "--tmpfs", "/var/lib/stampede:uid=10001,gid=10001", image)
    try:
        until(lambda: "listening for STOMP" in said(name), "it does not start", 60)
        docker("stop", "-t", "20", name)
        assert docker("inspect", "-f", "{{.State.ExitCode}}", name) == "0", said(name)
    finally:
        docker("rm", "-f", name)


@pytest.mark.parametrize(
    "command",
    [*[("stampede", role, "--help") for role in ("serve", "owner", "edge", "scaler")], ("stampede-operator", "--help")],
    ids=" ".join,
)  # fmt: skip
def test_every_role_is_in_it(image, command):
    assert "Usage" in docker("run", "--rm", *RESTRICTED, image, *command)


def test_it_is_small_and_holds_no_tools(image):
    (found,) = json.loads(docker("image", "inspect", image))
    (base,) = json.loads(docker("image", "inspect", BASE))
    assert found["Size"] - base["Size"] < 130_000_000
    assert found["Config"]["User"] == "10001:10001"
    assert "/opt/stampede/bin/pip" not in docker("run", "--rm", image, "sh", "-c", "ls /opt/stampede/bin/*")


def test_the_same_source_gives_the_same_files(image):
    """Twice from scratch: what we put in has the same content."""
    docker("build", "-q", "--no-cache", "-t", f"{TAG}-again", ".", timeout=500)
    listing = ("sh", "-c", "cd /opt/stampede && find . -type f | sort | xargs sha256sum | sha256sum")
    try:
        assert docker("run", "--rm", image, *listing) == docker("run", "--rm", f"{TAG}-again", *listing)
    finally:
        docker("image", "rm", f"{TAG}-again", check=False)
