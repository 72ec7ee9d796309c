"""What a backup of a cluster at work costs its clients, and whether all of it comes back.

    .venv/bin/python bench/backup.py                     # three owners with a million persistent messages, three copies

An etcd, three owners, an edge. `--messages` persistent messages lie in the queues; `--rate` a second more come and go
(by the clock, a receipt each), and in a second run as many as will (at most 2,000 under way): without a backup, and
while etcd and one owner after the other are saved (`stampede backup --rate 50`, as a StompBackup does it). A round of
load ends with the shorter of both. Then everything is lost, restored, and each of the messages is read and checked.
Prints one line of JSON; needs etcd, etcdctl and a C compiler.

Rule: real processes, asked through their ports; a message that is missing, doubled or out of order is no figure.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from tests.cluster.load import Load, assert_nothing_lost, consumed_again, persistent  # noqa: E402
from tests.cluster.site_backup import SiteBackup, lose_everything, start_again  # noqa: E402
from tests.harness.cluster import Cluster  # noqa: E402
from tests.harness.servers import LocalServer, local_etcd  # noqa: E402

KEPT = "/queue/kept%d"
PATIENCE_S = 900.0


def fill(port: int, messages: int) -> dict[str, Any]:
    line = [part for part in persistent(0, 0, KEPT) if part not in ("--rate", "--seconds", "0")]
    filled = Load(port, *line, "--produce-only", "--count", str(messages)).result(PATIENCE_S)
    assert filled["errors"] == 0 and filled["receipts"] == filled["sent"] == messages, filled
    return filled


def loaded(port: int, seconds: float, rate: int) -> dict[str, float]:
    """rate: 0 = as many as will."""
    line = persistent(seconds, rate)
    if not rate:
        at = line.index("--rate")
        line[at : at + 2] = ["--max-lag", "2000"]
    result = Load(port, *line).result(PATIENCE_S)
    assert_nothing_lost(result)
    return {"per_s": round(result["received_per_s"]), "p99_ms": round(result["latency_us"]["p99"] / 1000, 1)}


def saved(backup: SiteBackup, cluster: Cluster, etcd: LocalServer, megabytes: float) -> float:
    """Seconds that it took."""
    began = time.monotonic()
    backup.take_etcd(etcd)
    for owner in cluster.owners:
        backup.take_volume(owner, "--rate", str(megabytes))
    return time.monotonic() - began


def measured(folder: Path, messages: int, rate: int, megabytes: float) -> dict[str, Any]:
    (etcd,) = local_etcd(folder / "etcd")
    etcd.start()
    cluster = Cluster(folder, etcd.port, edges=1)
    try:
        cluster.start()
        port = cluster.edges[0].port
        filled = fill(port, messages)
        backups = [SiteBackup(folder / f"backup-{n}") for n in range(3)]
        seconds = round(saved(backups[0], cluster, etcd, megabytes) * 0.9, 1)
        found: dict[str, Any] = {"messages": messages, "load_s": seconds}
        with ThreadPoolExecutor(1) as pool:
            for backup, name, a_second in ((backups[1], "offered", rate), (backups[2], "most", 0)):
                found[f"{name}_without"] = loaded(port, seconds, a_second)
                saving: Future[float] = pool.submit(saved, backup, cluster, etcd, megabytes)
                found[f"{name}_beside"] = loaded(port, seconds, a_second)
                found[f"{name}_backup_s"] = round(saving.result(), 1)
        lose_everything(cluster, etcd)
        backups[2].restore(cluster, etcd)
        start_again(cluster, etcd)
        assert_nothing_lost(consumed_again(cluster.edges[0].port, filled, KEPT))
        return {**found, "lost": 0, "doubled": 0}
    finally:
        Load.end_all()
        cluster.close()
        etcd.stop()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--messages", type=int, default=1_000_000, help="that lie there")
    parser.add_argument("--rate", type=int, default=2000, help="a second, offered by the clock")
    parser.add_argument("--megabytes", type=float, default=50, help="a second, read of a disk at most; 0: no bound")
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        print(json.dumps(measured(Path(folder), asked.messages, asked.rate, asked.megabytes)))


if __name__ == "__main__":
    main()
