"""`kubectl stampede` finds an edge and a login, asks through a port-forward, and ends it.

kubectl is played; the broker is real."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from base64 import b64encode
from pathlib import Path

import pytest

from tests.harness import until
from tests.harness.broker import HOST, ROOT, Broker

KUBECTL = """#!/bin/sh
printf '%s\\n' "$*" >> {log}
case "$*" in
  *"get pods"*) cat {pods} ;;
  *"get secret ada-stomp"*) cat {secret} ;;
  *"get secret"*) echo 'not found' >&2; exit 1 ;;
  *port-forward*)
    trap 'echo ended >> {log}; exit 0' TERM
    echo "Forwarding from 127.0.0.1:{port} -> 61680"
    for n in $(seq {lines}); do echo "Handling connection for {port}"; done
    echo all told >> {log}
    while :; do sleep 0.05; done ;;
esac
"""


def pod(name: str, ready: str, broker: str = "stomp") -> dict:
    labels = {"app.kubernetes.io/instance": broker}
    return {
        "metadata": {"name": name, "labels": labels},
        "status": {"conditions": [{"type": "Ready", "status": ready}]},
    }


@pytest.fixture(scope="module")
def broker(tmp_path_factory):
    with Broker(tmp_path_factory.mktemp("broker")) as found:
        yield found


class Site:
    def __init__(self, folder: Path, port: int) -> None:
        self.log = folder / "log"
        pods, secret, tool = folder / "pods", folder / "secret", folder / "bin" / "kubectl"
        pods.write_text(json.dumps({"items": [pod("e-0", "False"), pod("e-1", "True")]}))
        data = {"username": b64encode(b"ada").decode(), "password": b64encode(b"secret").decode()}
        secret.write_text(json.dumps({"data": data}))
        tool.parent.mkdir()
        tool.write_text(KUBECTL.format(log=self.log, pods=pods, secret=secret, port=port, lines=3000))
        tool.chmod(0o755)
        self.pods, self.bin = pods, tool.parent

    def __call__(self, *arguments: str, **more: str) -> subprocess.CompletedProcess[str]:
        line, environment = self.line(*arguments), self.environment(**more)
        return subprocess.run(line, env=environment, capture_output=True, text=True, timeout=120)

    def line(self, *arguments: str) -> list[str]:
        return [sys.executable, "-c", "from broker.app.kubectl.kubectl_plugin import plugin; plugin()", *arguments]

    def environment(self, **more: str) -> dict[str, str]:
        environment = {key: value for key, value in os.environ.items() if not key.startswith("STAMPEDE_")}
        return environment | {"PATH": f"{self.bin}:{os.environ['PATH']}", "PYTHONPATH": str(ROOT)} | more


@pytest.fixture
def site(tmp_path: Path, broker: Broker) -> Site:
    return Site(tmp_path, broker.admin_port)


def test_it_asks_a_ready_edge_through_a_port_forward_and_ends_that(site: Site, broker: Broker):
    line = [sys.executable, "-m", "broker.app.cli", "send", "/queue/jobs", "one", "--persistent"]
    subprocess.run([*line, "--url", f"stomp://{HOST}:{broker.port}"], check=True, env=broker.environment())
    done = site("-n", "mq", "--context", "here", "queues", "-o", "json")
    assert done.returncode == 0, done.stderr
    assert [row["name"] for row in json.loads(done.stdout)] == ["jobs"]
    log = site.log.read_text()
    assert "-n mq --context here port-forward --address 127.0.0.1 pod/e-1 :61680" in log and log.endswith("ended\n")
    done = site("why", "jobs")
    assert done.returncode == 0 and "Nobody consumes it" in done.stdout, done.stdout + done.stderr


def test_how_a_command_ends_is_how_it_ends(site: Site):
    assert site("why", "nowhere").returncode == 4


def test_a_login_comes_from_the_secret_of_a_stomp_user(site: Site):
    done = site("-u", "ada", "drain", "stomp-owner-0")
    assert done.returncode != 0 and "stampede:" in done.stderr, "a standalone broker has no owners: the edge's answer"
    assert "get secret ada-stomp -o json" in site.log.read_text()
    done = site("-u", "bob", "queues")
    assert done.returncode == 1 and "bob-stomp" in done.stderr and "not found" in done.stderr


def test_without_an_edge_that_is_ready_it_says_so(site: Site):
    site.pods.write_text(json.dumps({"items": [pod("e-0", "False")]}))
    done = site("queues")
    assert done.returncode == 1 and "none of 1 edges" in done.stderr and "port-forward" not in site.log.read_text()


def test_who_has_named_himself_does_not_act_as_somebody_else(site: Site):
    site("queues", STAMPEDE_TOKEN="mine")
    site("queues", STAMPEDE_LOGIN="eve", STAMPEDE_PASSCODE="x")
    assert "get secret" not in site.log.read_text()
    site("queues")
    assert "get secret admin-stomp" in site.log.read_text()


def test_what_port_forward_tells_of_each_connection_is_read(site: Site):
    assert site("queues").returncode == 0
    until(lambda: "all told" in site.log.read_text(), "it stands still with a full pipe")


def test_it_leaves_no_port_forward_behind_when_it_is_ended(site: Site):
    with subprocess.Popen(site.line("top"), env=site.environment(), stdout=subprocess.PIPE) as process:
        until(lambda: site.log.exists() and "port-forward" in site.log.read_text(), "it did not begin")
        process.terminate()
        process.wait(30)
    until(lambda: site.log.read_text().endswith("ended\n"), "the port-forward is still there")


def test_of_two_brokers_one_is_to_be_named(site: Site):
    site.pods.write_text(json.dumps({"items": [pod("e-0", "True"), pod("f-0", "True", "other")]}))
    done = site("queues")
    assert done.returncode == 1 and "other, stomp" in done.stderr and "--broker" in done.stderr
    site("--broker", "other", "queues")
    assert "app.kubernetes.io/instance=other" in site.log.read_text()
