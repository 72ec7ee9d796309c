"""`kubectl stampede`: the commands for operators, through a port-forward to an edge in Kubernetes.

Rule: kubectl knows who and where we are, so its flags that say that (-n, --context, --kubeconfig) are passed on;
nothing is opened but a port of this machine, and that only while the command runs. The login is that of who is named,
in the environment or as a StompUser; only where nobody is, that of the StompUser admin, if we may read its Secret.
"""

from __future__ import annotations

import base64
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import click

from ..commands.admin_client import AdminApi, part

ADMIN_PORT = 61680
BROKER = "app.kubernetes.io/instance"
EDGES = "app.kubernetes.io/name=stampede,app.kubernetes.io/component=edge"
FORWARDED = re.compile(r"Forwarding from 127\.0\.0\.1:(\d+) -> ")
SHORT = {"why": ("queue", "show")}
NODES = ("drain", "undrain")


@click.command(
    context_settings={
        "ignore_unknown_options": True, "allow_interspersed_args": False, "help_option_names": ["-h", "--help"],
    }
)  # fmt: skip
@click.option("--namespace", "-n", default="", help="Namespace of the broker; default: that of kubectl's context.")
@click.option("--context", default="", help="kubectl's context.")
@click.option("--kubeconfig", default="", help="kubectl's file of clusters and logins.")
@click.option("--broker", "-b", default="", help="Only edges of this StompBroker.")
@click.option("--acceptor", "-a", default="", help="Only edges of this StompAcceptor.")
@click.option("--user", "-u", default="", metavar="STOMPUSER",
              help="Log in with the Secret STOMPUSER-stomp. Default: who is in the environment, or admin.")  # fmt: skip
@click.argument("command", nargs=-1, required=True, type=click.UNPROCESSED)
def plugin(
    namespace: str, context: str, kubeconfig: str, broker: str, acceptor: str, user: str, command: Sequence[str]
) -> None:
    """top, queues, why ADDRESS, dlq, drain OWNER, undrain OWNER, and all other commands of `stampede` for operators."""
    flags = (("-n", namespace), ("--context", context), ("--kubeconfig", kubeconfig))
    where = [word for flag, value in flags if value for word in (flag, value)]
    # A login beats a token, and whoever has named himself is not to act as somebody else.
    named = "STAMPEDE_LOGIN" in os.environ or "STAMPEDE_TOKEN" in os.environ
    secret = _secret(where, user or "admin", needed=bool(user)) if user or not named else {}
    for ends in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(ends, lambda number, _: sys.exit(128 + number))  # the port-forward ends, too
    with forwarded(where, edge(where, broker, acceptor)) as url:
        environment = {**os.environ, "STAMPEDE_ADMIN_URL": url, **secret}
        first, *rest = command
        if first in NODES:
            if len(rest) != 1:
                raise click.UsageError(f"{first} OWNER: the name of its pod")
            os.environ.update(secret)
            AdminApi(url, os.environ.get("STAMPEDE_LOGIN")).call("POST", f"/nodes/{part(rest[0])}/{first}")
            click.echo(f"{rest[0]}: {first} is asked for; the StompBroker's status and its log say when it is done")
            return
        line = [sys.executable, "-m", "broker.app.cli", *SHORT.get(first, (first,)), *rest]
        raise SystemExit(subprocess.run(line, env=environment, check=False).returncode)  # noqa: S603 (a command of ours)


def edge(where: Sequence[str], broker: str, acceptor: str) -> str:
    """A ready edge's pod, of one broker."""
    selector = EDGES + (f",{BROKER}={broker}" if broker else "")
    selector += f",stampede.dev/acceptor={acceptor}" if acceptor else ""
    pods = json.loads(_kubectl([*where, "get", "pods", "-l", selector, "-o", "json"]))["items"]
    brokers = sorted({str(pod["metadata"].get("labels", {}).get(BROKER, "")) for pod in pods})
    if len(brokers) > 1:
        raise click.ClickException(f"there are edges of {', '.join(brokers)} here: name one with --broker")
    for pod in sorted(pods, key=lambda one: str(one["metadata"]["name"])):
        conditions = pod.get("status", {}).get("conditions", [])
        if any(one["type"] == "Ready" and one["status"] == "True" for one in conditions):
            return str(pod["metadata"]["name"])
    raise click.ClickException(f"none of {len(pods)} edges here is ready; name the namespace with -n")


@contextmanager
def forwarded(where: Sequence[str], pod: str) -> Iterator[str]:
    """The URL of the pod's admin port, as long as it lasts."""
    line = [_tool(), *where, "port-forward", "--address", "127.0.0.1", f"pod/{pod}", f":{ADMIN_PORT}"]
    with subprocess.Popen(line, stdout=subprocess.PIPE, text=True) as process:  # noqa: S603 (what the user may do anyway)
        try:
            assert process.stdout is not None
            told = process.stdout.readline()
            if (found := FORWARDED.match(told)) is None:
                raise click.ClickException(f"kubectl port-forward to {pod} did not begin: {told.strip()}")
            # It tells of each connection: unread, it would stand still after two thousand of them.
            threading.Thread(target=process.stdout.read, daemon=True).start()
            yield f"http://127.0.0.1:{found[1]}"
        finally:
            process.terminate()


def _secret(where: Sequence[str], user: str, needed: bool) -> dict[str, str]:
    """Login and passcode as variables; {} without them."""
    try:
        data = json.loads(_kubectl([*where, "get", "secret", f"{user}-stomp", "-o", "json"], quiet=not needed))["data"]
    except click.ClickException:
        if needed:
            raise
        return {}
    if not {"username", "password"} <= data.keys():
        raise click.ClickException(f"the Secret {user}-stomp has no username and password: it is not a StompUser's")
    name, passcode = (base64.b64decode(data[key]).decode() for key in ("username", "password"))
    return {"STAMPEDE_LOGIN": name, "STAMPEDE_PASSCODE": passcode}


def _kubectl(arguments: Sequence[str], quiet: bool = False) -> str:
    done = subprocess.run([_tool(), *arguments], capture_output=True, text=True, check=False)  # noqa: S603 (as above)
    if done.returncode:
        raise click.ClickException("" if quiet else f"kubectl {' '.join(arguments)}: {done.stderr.strip()}")
    return done.stdout


def _tool() -> str:
    found = shutil.which("kubectl")
    if found is None:
        raise click.ClickException("there is no kubectl on the PATH")
    return found
