"""Spark on Kubernetes: what a driver can know of itself, and what is missing, said before Spark waits for it.

Rule: only what can be seen from here, where this process runs; what `--conf` says wins, and Spark starts the pods.
"""

from __future__ import annotations

import socket
from collections.abc import Mapping
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

from .errors import PipelineError

PREFIX: Final = "k8s://"
IMAGE: Final = "spark.kubernetes.container.image"
HOST: Final = "spark.driver.host"
_NAMESPACE: Final = Path("/var/run/secrets/kubernetes.io/serviceaccount/namespace")


def settings(master: str, given: Mapping[str, str]) -> dict[str, str]:
    """Of Spark, for `--master k8s://…`. Raises PipelineError."""
    server = urlsplit(master.removeprefix(PREFIX))
    if server.scheme not in ("http", "https") or not server.hostname:
        raise PipelineError(f"--master {master} names no API server: say {PREFIX}https://HOST:PORT")
    if not (given.get(IMAGE) or given.get("spark.kubernetes.executor.container.image")):
        raise PipelineError(f"executors need the image of pipeline/Dockerfile: --conf {IMAGE}=stampede-pipeline:TAG")
    found = {HOST: given.get(HOST) or _here(server.hostname, server.port or 443)}
    # Both in the open otherwise, for every pod that reaches the driver. The secret is made by Spark, for this run.
    found |= {"spark.authenticate": "true", "spark.network.crypto.enabled": "true"}
    if _NAMESPACE.is_file():
        found["spark.kubernetes.namespace"] = _NAMESPACE.read_text().strip()
    return found


def _here(host: str, port: int) -> str:
    """Our address on the way to the API server, from where executors come as well: in a pod, that of the pod."""
    why = ""
    try:
        family, kind, protocol, _, place = socket.getaddrinfo(host, port, type=socket.SOCK_DGRAM)[0]
        with socket.socket(family, kind, protocol) as way:
            way.connect(place)  # sends nothing
            address = str(way.getsockname()[0])
    except OSError as error:
        why, address = f"{host}: {error.strerror or error}; ", ""
    if not address or address.startswith("127.") or address == "::1":
        raise PipelineError(f"{why}executors call the driver back: name an address that pods reach, --conf {HOST}=…")
    return f"[{address}]" if ":" in address else address
