"""A whole cluster on this machine: etcd, Redis, three owners, two edges, a balancer (`make cluster`, `cluster-down`).

Rule: only commands that a person could type, each in a session of its own, its output in .cluster/log/. Everything
listens on 127.0.0.1. `down` ends what `up` started and keeps the data; `down --wipe` removes it.
"""

from __future__ import annotations

import argparse
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

from parts import HOST, answers, etcd, stampede

ROOT = Path(__file__).resolve().parents[2]
HERE = Path(os.environ.get("LOCAL_CLUSTER", ROOT / ".cluster"))
ETCD, ETCD_PEER, REDIS, BALANCER, BALANCER_WS = 62379, 62380, 62637, 61613, 61614
OWNERS = [("owner-0", 61700, 61680), ("owner-1", 61701, 61681), ("owner-2", 61702, 61682)]
"""Name, component port, admin port."""
EDGES = [("edge-0", 61710, 61690, 61620, 61630), ("edge-1", 61711, 61691, 61621, 61631)]
"""Name, component port, admin port, STOMP, STOMP over WebSocket."""


def say(text: str) -> None:
    print(text, flush=True)


def listening(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex((HOST, port)) == 0


def pid_of(name: str) -> int:
    """Of a process that runs, else 0."""
    file = HERE / "run" / f"{name}.pid"
    if not file.exists():
        return 0
    pid = int(file.read_text())
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return 0
    return 0 if state == "Z" else pid


def start(name: str, *line: str) -> None:
    """Starts a process unless it runs already."""
    if pid_of(name):
        return
    for folder in ("run", "log", "data"):
        (HERE / folder).mkdir(parents=True, exist_ok=True)
    with (HERE / "log" / f"{name}.log").open("ab") as out:
        process = subprocess.Popen(line, stdin=subprocess.DEVNULL, stdout=out, stderr=out, start_new_session=True)
    (HERE / "run" / f"{name}.pid").write_text(str(process.pid))


def wait(what: str, ready: object, seconds: float = 120.0) -> None:
    """Until ready() is true; the log's end is shown when it never is."""
    end = time.monotonic() + seconds
    while not ready():  # type: ignore[operator]
        if time.monotonic() > end or not pid_of(what):
            log = HERE / "log" / f"{what}.log"
            tail = "\n".join(log.read_text(errors="replace").splitlines()[-20:]) if log.exists() else ""
            raise SystemExit(f"{what} does not come up; the end of {log}:\n{tail}")
        time.sleep(0.05)


def member(kind: str, name: str, port: int, admin: int, *stomp: int, redis: str = "") -> list[str]:
    settings = {"redis.url": redis} if redis else {}
    ports = (stomp[0], stomp[1]) if stomp else None
    return stampede(kind, name, HERE / "data" / name, port, admin, ETCD, "/stampede/local", settings, ports)


def up() -> None:
    taken = [
        p for p in (BALANCER, BALANCER_WS) if listening(p) and not pid_of("balancer") and not pid_of("balancer-ws")
    ]
    if taken:
        raise SystemExit(f"port {taken[0]} is in use by something else: stop it first")
    start("etcd", *etcd(HERE / "data" / "etcd", ETCD, ETCD_PEER))
    redis = ""
    if binary := shutil.which("redis-server"):
        start("redis", binary, "--bind", HOST, "--port", str(REDIS), "--save", "", "--appendonly", "no")
        redis = f"redis://{HOST}:{REDIS}"
    else:
        say("no redis-server here: every edge keeps its own client ids, rates and logins")
    wait("etcd", lambda: listening(ETCD))
    for name, port, admin in OWNERS:
        start(name, *member("owner", name, port, admin))
    for name, port, admin, stomp, ws in EDGES:
        start(name, *member("edge", name, port, admin, stomp, ws, redis=redis))
    for name, *_rest in [*OWNERS, *EDGES]:
        wait(name, lambda admin=_rest[1]: answers(admin))
    balancer = str(ROOT / "deploy" / "local" / "balancer.py")
    for name, port, at in (("balancer", BALANCER, 3), ("balancer-ws", BALANCER_WS, 4)):
        start(name, sys.executable, balancer, f"{HOST}:{port}", *(f"{HOST}:{edge[at]}" for edge in EDGES))
        wait(name, lambda port=port: listening(port))
    say(f"STOMP                 {HOST}:{BALANCER}  (balanced over the edges)")
    say(f"STOMP over WebSocket  {HOST}:{BALANCER_WS}")
    for name, _, admin, stomp, ws in EDGES:
        say(f"{name}                STOMP {HOST}:{stomp}, WebSocket {HOST}:{ws}, metrics http://{HOST}:{admin}/metrics")
    for name, port, admin in OWNERS:
        say(f"{name}               gRPC {HOST}:{port}, metrics http://{HOST}:{admin}/metrics")
    say(f"etcd                  {HOST}:{ETCD}" + (f", Redis {HOST}:{REDIS}" if redis else ""))
    say(f"status                {sys.executable} -m broker.app.cli cluster status "
        f"--set etcd.endpoints={HOST}:{ETCD} --set etcd.prefix=/stampede/local")  # fmt: skip
    say(f"logs                  {HERE}/log;  `make cluster-down` ends it all")


def down(wipe: bool) -> None:
    """Clients first, the store last; whoever does not end within its time is killed."""
    names = ["balancer", "balancer-ws", *(edge[0] for edge in EDGES), *(owner[0] for owner in OWNERS), "redis", "etcd"]
    for group in (names[:2], names[2:4], names[4:7], names[7:]):
        pids = {name: pid for name in group if (pid := pid_of(name))}
        for pid in pids.values():
            os.kill(pid, signal.SIGTERM)
        end = time.monotonic() + 30
        while any(pid_of(name) for name in pids) and time.monotonic() < end:
            time.sleep(0.05)
        for name in pids:
            if pid := pid_of(name):
                say(f"{name} does not end: killed")
                os.kill(pid, signal.SIGKILL)
        for name in group:
            (HERE / "run" / f"{name}.pid").unlink(missing_ok=True)
    if wipe:
        shutil.rmtree(HERE, ignore_errors=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("command", choices=["up", "down"])
    parser.add_argument("--wipe", action="store_true", help="down: remove the data as well")
    options = parser.parse_args()
    if options.command == "up":
        up()
    else:
        down(options.wipe)


if __name__ == "__main__":
    main()
