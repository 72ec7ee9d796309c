"""`stampede-operator`: run, crds.

Rule: parse, call, say; no logic of its own. Every flag is a variable as well.
"""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import socket
from collections.abc import Coroutine
from contextlib import suppress
from pathlib import Path
from typing import Any

import click

from broker import __version__
from broker.core.errors import BrokerError
from broker.seams.clock import SystemClock
from broker.seams.entropy import token
from broker.seams.files import read_whole

from .crds.crds import files
from .crds.helm_values import VALUES, with_specs
from .kube.kube import Kube, login
from .kube.lease import Lease
from .kube.made_secrets import wanted
from .process import Operator, Options
from .serving import Server
from .world.templates import ANY, RESTRICTED

log = logging.getLogger("stampede.operator")

_NAMESPACE_FILE = "/var/run/secrets/kubernetes.io/serviceaccount/namespace"


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="stampede-operator")
def main() -> None:
    """The Kubernetes operator of Stampede."""


@main.command()
@click.argument("folder", default=".", type=click.Path(file_okay=False, path_type=Path))
def crds(folder: Path) -> None:
    """Write the CustomResourceDefinitions to deploy/crds and helm/ below FOLDER, and what the chart's values take."""
    for name, text in files().items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        click.echo(str(path))
    values = folder / VALUES
    if values.exists():
        values.write_text(with_specs(values.read_text()))
        click.echo(str(values))


@main.command()
@click.option(
    "--namespaces", envvar="STAMPEDE_OPERATOR_NAMESPACES", default="", metavar="LIST",
    help="Comma list of namespaces to look after. Empty: all.",
)  # fmt: skip
@click.option(
    "--image", envvar="STAMPEDE_OPERATOR_IMAGE", default="", metavar="IMAGE", help="Of brokers that name none."
)
@click.option(
    "--pod-templates", envvar="STAMPEDE_OPERATOR_POD_TEMPLATES", default=RESTRICTED, show_default=True,
    type=click.Choice([RESTRICTED, ANY]),
    help="What resources may say about their pods: where they run, or anything (then who may write a StompAcceptor "
    "may run any pod with any service account of its namespace).",
)  # fmt: skip
@click.option(
    "--bundle-namespaces", envvar="STAMPEDE_OPERATOR_BUNDLE_NAMESPACES", default="", metavar="LIST",
    help="Comma list of namespaces in which a ConfigMap may hold resources. Default: that of the lease; *: all.",
)  # fmt: skip
@click.option(
    "--lease-namespace", envvar="STAMPEDE_OPERATOR_LEASE_NAMESPACE", default="", metavar="NAME",
    help="Namespace of the lease. Default: that of this pod, else the first of --namespaces, else default.",
)  # fmt: skip
@click.option(
    "--lease", envvar="STAMPEDE_OPERATOR_LEASE", default="stampede-operator", metavar="NAME", show_default=True
)
@click.option(
    "--read-nodes", envvar="STAMPEDE_OPERATOR_READ_NODES", is_flag=True,
    help="We may read nodes: pods of a StompBroker with zonesFromNodes are told the zone of theirs.",
)  # fmt: skip
@click.option(
    "--secrets", envvar="STAMPEDE_OPERATOR_SECRETS", default="", metavar="JSON",
    help="Certificates and passwords to make where there are none, in the namespace of the lease (chart: gitOps).",
)  # fmt: skip
@click.option("--port", envvar="STAMPEDE_OPERATOR_PORT", default=8080, show_default=True, help="Health and metrics.")
@click.option(
    "--log-level", envvar="STAMPEDE_OPERATOR_LOG_LEVEL", default="INFO", show_default=True,
    type=click.Choice(["DEBUG", "INFO", "WARNING", "ERROR"], case_sensitive=False),
)  # fmt: skip
def run(
    namespaces: str,
    image: str,
    pod_templates: str,
    bundle_namespaces: str,
    lease_namespace: str,
    lease: str,
    read_nodes: bool,
    secrets: str,
    port: int,
    log_level: str,
) -> None:
    """Look after custom resources until SIGTERM. In a pod, or where KUBECONFIG says."""
    logging.basicConfig(level=log_level.upper(), format="%(asctime)s %(levelname)s %(name)s %(message)s")
    watched = _names(namespaces)
    where = lease_namespace or _own_namespace() or (watched[0] if watched else "default")
    bundled = None if bundle_namespaces.strip() == "*" else _names(bundle_namespaces) or (where,)
    try:
        made = wanted(secrets)
        options = Options(watched, image, pod_templates == ANY, f"{where}/{lease}", bundled, read_nodes, made)
        asyncio.run(_run(options, where, lease, port))
    except BrokerError as error:
        raise click.ClickException(str(error)) from None


def _names(text: str) -> tuple[str, ...]:
    return tuple(name.strip() for name in text.split(",") if name.strip())


def _own_namespace() -> str:
    try:
        return read_whole(_NAMESPACE_FILE).decode().strip()
    except OSError:
        return ""


async def _run(options: Options, namespace: str, name: str, port: int) -> None:
    """Waits for the lease, works while it is held. Raises BrokerError when this process must end."""
    stop = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    kube = Kube(login())
    lease = Lease(kube, namespace, name, f"{socket.gethostname()}-{os.getpid()}-{token(3)}", SystemClock())
    operator: list[Operator] = []
    server = Server(port, lambda: (operator[0] if operator else None, lease.held))
    try:
        await _serve(server, port)
        if await _first(stop, lease.acquire()):
            return
        operator.append(Operator(kube, options))
        # The lease is kept from the first moment: reading thousands of resources may take longer than it lasts.
        await _first(stop, lease.keep(), operator[0].run())
    finally:
        for one in operator:
            await one.stop()
        await lease.release()
        await server.stop()
        await kube.close()


async def _serve(server: Server, port: int) -> None:
    try:
        await server.start()
    except OSError as error:
        raise BrokerError(
            f"The port {port} cannot be used: {error.strerror}; choose another one with --port."
        ) from None


async def _first(stop: asyncio.Event, *work: Coroutine[Any, Any, None]) -> bool:
    """True: asked to stop. False: some of `work` has ended. Raises what it ended with."""
    tasks = [asyncio.ensure_future(one) for one in work]
    stopping = asyncio.ensure_future(stop.wait())
    done, _ = await asyncio.wait([*tasks, stopping], return_when=asyncio.FIRST_COMPLETED)
    for task in (*tasks, stopping):
        if task not in done:
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task
    for task in done:
        task.result()
    return stopping in done
