"""A whole cluster on this machine: etcd, Redis, three owners, two edges, a balancer (`make cluster`, `cluster-down`).

Its ports are those of PORTS; where one of them is taken by something else, all of them are free ones in a row, or
those from `--ports` on. Which ones it has is in .cluster/run/ports.json while it runs.

Owners, edges and commands have users of their own in etcd (`stampede cluster roles`); their passwords are in
.cluster/secret/.

Rule: only commands that a person could type, each in a session of its own, its output in .cluster/log/. Everything
listens on 127.0.0.1. `down` ends what `up` started and keeps the data; `down --wipe` removes it.
"""

from __future__ import annotations

import argparse
import json
import os
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

from parts import HOST, answers, etcd, stampede

ROOT = Path(__file__).resolve().parents[2]
HERE = Path(os.environ.get("LOCAL_CLUSTER", ROOT / ".cluster"))
PORTS = {
    "balancer": [61613], "balancer-ws": [61614], "etcd": [62379, 62380], "redis": [62637],
    "owner-0": [61700, 61680], "owner-1": [61701, 61681], "owner-2": [61702, 61682],
    "edge-0": [61710, 61690, 61620, 61630], "edge-1": [61711, 61691, 61621, 61631],
}  # fmt: skip
"""By process. Owners: for components, admin; edges: also STOMP and STOMP over WebSocket; etcd: for peers as well."""
PREFIX = "/stampede/local"
FIRST, LAST, STEP = 62700, 64900, 50
"""Where a row of free ports is looked for."""


def row(first: int) -> dict[str, list[int]]:
    """The ports from `first` on, in the order of PORTS."""
    found, at = {}, first
    for name, ports in PORTS.items():
        found[name] = list(range(at, at + len(ports)))
        at += len(ports)
    return found


def choose(asked: int, before: dict[str, list[int]], busy: Callable[[str, int], bool]) -> dict[str, list[int]]:
    """Ports by process: those it runs with (`before`), those asked for (0: none), its usual ones, or free ones.

    busy(name, port): something else listens there. Raises SystemExit when there are none."""

    def taken(ports: dict[str, list[int]]) -> int:
        return next((port for name, all in ports.items() for port in all if busy(name, port)), 0)

    if before or asked:
        ports = before or row(asked)
        if port := taken(ports):
            raise SystemExit(f"port {port} is in use by something else: stop it first, or take others (--ports N)")
        return ports
    rows = (row(first) for first in range(FIRST, LAST, STEP))
    ports = next((ports for ports in (PORTS, *rows) if not taken(ports)), {})
    if not ports:
        raise SystemExit(
            f"no {sum(map(len, PORTS.values()))} free ports in a row from {FIRST} on; say where (--ports N)"
        )
    return ports


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


def password(user: str) -> Path:
    """The file with the password of a user of etcd; made when it is not there."""
    file = HERE / "secret" / user
    if not file.exists():
        file.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        file.touch(mode=0o600)
        file.write_text(secrets.token_urlsafe(24))
    return file


def login(user: str) -> dict[str, object]:
    """Settings."""
    return {"etcd.user": user, "etcd.password_file": password(user)}


def command(user: str, store: int, *words: str) -> list[str]:
    """`stampede cluster …` as this user of etcd."""
    settings = {"etcd.endpoints": f"{HOST}:{store}", "etcd.prefix": PREFIX, **login(user)}
    line = [sys.executable, "-m", "broker.app.cli", "cluster", *words]
    return [*line, *(part for name, value in settings.items() for part in ("--set", f"{name}={value}"))]


def lock(store: int) -> None:
    """Each kind of process reaches only its part of etcd, from now on and with a store of before, too."""
    users = [part for role in ("owner", "edge", "operator") for part in (f"--{role}", f"{role}:{password(role)}")]
    line = command("root", store, "roles", *users, "--enable", str(password("root")))
    end = time.monotonic() + 60
    while (done := subprocess.run(line, capture_output=True, text=True)).returncode:
        if time.monotonic() > end:
            raise SystemExit(f"etcd takes no users: {done.stderr}")
        time.sleep(0.5)


def member(kind: str, name: str, ports: list[int], etcd_port: int, redis: str = "") -> list[str]:
    settings = login(kind) | ({"redis.url": redis} if redis else {})
    port, admin, *stomp = ports
    data, pair = HERE / "data" / name, (stomp[0], stomp[1]) if stomp else None
    return stampede(kind, name, data, port, admin, etcd_port, PREFIX, settings, pair)


def ports_of_this_time(asked: int) -> dict[str, list[int]]:
    """Chosen once for as long as something of it runs."""
    file = HERE / "run" / "ports.json"
    running = file.exists() and any(pid_of(name) for name in PORTS)
    before = json.loads(file.read_text()) if running else {}
    ports = choose(asked, before, lambda name, port: not pid_of(name) and listening(port))
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(json.dumps(ports))
    return ports


def up(asked: int) -> None:
    at = ports_of_this_time(asked)
    owners, edges = [name for name in at if name.startswith("owner")], [name for name in at if name.startswith("edge")]
    store = at["etcd"][0]
    start("etcd", *etcd(HERE / "data" / "etcd", *at["etcd"]))
    redis = ""
    if binary := shutil.which("redis-server"):
        port = at["redis"][0]
        start("redis", binary, "--bind", HOST, "--port", str(port), "--save", "", "--appendonly", "no")
        redis = f"redis://{HOST}:{port}"
    else:
        say("no redis-server here: every edge keeps its own client ids, rates and logins")
    wait("etcd", lambda: listening(store))
    lock(store)
    for name in owners:
        start(name, *member("owner", name, at[name], store))
    for name in edges:
        start(name, *member("edge", name, at[name], store, redis))
    for name in (*owners, *edges):
        wait(name, lambda admin=at[name][1]: answers(admin))
    balancer = str(ROOT / "deploy" / "local" / "balancer.py")
    for name, behind in (("balancer", 2), ("balancer-ws", 3)):
        [port] = at[name]
        start(name, sys.executable, balancer, f"{HOST}:{port}", *(f"{HOST}:{at[edge][behind]}" for edge in edges))
        wait(name, lambda port=port: listening(port))
    say(f"STOMP                 {HOST}:{at['balancer'][0]}  (balanced over the edges)")
    say(f"STOMP over WebSocket  {HOST}:{at['balancer-ws'][0]}")
    for name in edges:
        _, admin, stomp, ws = at[name]
        say(f"{name}                STOMP {HOST}:{stomp}, WebSocket {HOST}:{ws}, metrics http://{HOST}:{admin}/metrics")
    for name in owners:
        port, admin = at[name]
        say(f"{name}               gRPC {HOST}:{port}, metrics http://{HOST}:{admin}/metrics")
    say(f"etcd                  {HOST}:{store}" + (f", Redis {HOST}:{at['redis'][0]}" if redis else ""))
    say(f"status                {' '.join(command('operator', store, 'status'))}")
    say(f"logs                  {HERE}/log;  `make cluster-down` ends it all")


def down(wipe: bool) -> None:
    """Clients first, the store last; whoever does not end within its time is killed."""
    names = ["balancer", "balancer-ws", "edge-0", "edge-1", "owner-0", "owner-1", "owner-2", "redis", "etcd"]
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
    (HERE / "run" / "ports.json").unlink(missing_ok=True)
    if wipe:
        shutil.rmtree(HERE, ignore_errors=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("command", choices=["up", "down"])
    parser.add_argument("--wipe", action="store_true", help="down: remove the data as well")
    parser.add_argument("--ports", type=int, default=0, metavar="N", help="up: take the ports from N on")
    options = parser.parse_args()
    if options.command == "up":
        up(options.ports)
    else:
        down(options.wipe)


if __name__ == "__main__":
    main()
