"""`kubectl stampede`: the commands for operators, through a port-forward to an edge in Kubernetes.

Rule: kubectl knows who and where we are, so every flag of it that says that is passed on; nothing is opened but a port
of this machine, and that only while the command runs. The login is that of a StompUser's Secret, if we may read it.
"""

from __future__ import annotations

import base64
import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import click

from ..commands.admin_client import AdminApi, part

ADMIN_PORT = 61680
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
@click.option("--acceptor", "-a", default="", help="Only edges of this StompAcceptor.")
@click.option("--user", "-u", default="", metavar="STOMPUSER",
              help="Log in with the Secret STOMPUSER-stomp. Default: admin, if it is there.")  # fmt: skip
@click.argument("command", nargs=-1, required=True, type=click.UNPROCESSED)
def plugin(namespace: str, context: str, acceptor: str, user: str, command: Sequence[str]) -> None:
    """top, queues, why ADDRESS, dlq, drain OWNER, undrain OWNER, and all other commands of `stampede` for operators."""
    where = [*(["-n", namespace] if namespace else []), *(["--context", context] if context else [])]
    secret = _secret(where, user or "admin", needed=bool(user))
    with forwarded(where, edge(where, acceptor)) as url:
        environment = {**os.environ, "STAMPEDE_ADMIN_URL": url, **secret}
        first, *rest = command
        if first in NODES:
            if len(rest) != 1:
                raise click.UsageError(f"{first} OWNER: the name of its pod")
            os.environ.update(secret)
            AdminApi(url, secret.get("STAMPEDE_LOGIN")).call("POST", f"/nodes/{part(rest[0])}/{first}")
            click.echo(f"{rest[0]}: {first} is asked for; the StompBroker's status and its log say when it is done")
            return
        line = [sys.executable, "-m", "broker.app.cli", *SHORT.get(first, (first,)), *rest]
        raise SystemExit(subprocess.run(line, env=environment, check=False).returncode)  # noqa: S603 (a command of ours)


def edge(where: Sequence[str], acceptor: str) -> str:
    """A ready edge's pod."""
    selector = EDGES + (f",stampede.dev/acceptor={acceptor}" if acceptor else "")
    pods = json.loads(_kubectl([*where, "get", "pods", "-l", selector, "-o", "json"]))["items"]
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
