"""`.venv/bin/python bench/logins.py`: what logins and permissions cost, and what a storm of wrong logins does.

    connects   CONNECTs a second with a passcode that is remembered, through sockets, and CPU of the broker for each
    storm      1,000 wrong logins a second from one address: how long the right login of others takes
    wide       the same from 1,000 addresses
    spray      from 1,000 addresses, for another user each time: nobody but the address gives it away
    turns      whose check is next in such storms, without sockets and argon2: a check sleeps for 25 ms, in one of two
               threads, so that it hardly matters what else the machine does
    check      one question to the permissions, as a SEND has it
    start      100,000 users and permissions read and put in order, of a file and of etcd

Rule: prints one line for each; a broker of its own, whose data goes with it. The generator takes a part of the machine.
"""

from __future__ import annotations

import argparse
import asyncio
import multiprocessing
import os
import resource
import select
import socket
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager, suppress
from multiprocessing.connection import Connection
from pathlib import Path
from types import SimpleNamespace
from unittest import mock

sys.path.insert(0, str(Path(__file__).parent.parent))

import msgspec

from broker.app.process.garbage import uncollected
from broker.cluster.config import read_entry
from broker.config.load import SettingsSource
from broker.config.settings import EngineSettings
from broker.core.errors import RefusedError
from broker.edge.access import auth
from broker.edge.access.auth import NOBODY, TableAuthenticator
from broker.edge.access.users import User, load_users, save_users
from broker.edge.rights.permissions import Permissions
from broker.seams.clock import SystemClock
from broker.seams.passcodes import hash_passcode
from tests.harness.broker import Broker

PASSCODE = "a-right-pass-code"
OTHERS = 40
"""Users who log in beside the storm, each for the first time and once more."""
STORM = 1000
"""Wrong logins a second."""
TABLE = 100_000


@contextmanager
def broker(users: int) -> Iterator[Broker]:
    """One with so many users, who all have the same passcode."""
    with tempfile.TemporaryDirectory() as folder:
        made = Broker(Path(folder), {"edge.max_connections": 20_000})
        made.data.mkdir(parents=True, exist_ok=True)
        one = hash_passcode(PASSCODE)
        save_users(str(made.data / "users.toml"), {f"u{n}": User(f"u{n}", one) for n in range(users)})
        with made:
            yield made


async def login(port: int, user: str, passcode: str, address: str = "127.0.0.1") -> tuple[float, bool]:
    """How long the answer takes, and whether it is CONNECTED."""
    began = time.monotonic()
    reader, writer = await asyncio.open_connection("127.0.0.1", port, local_addr=(address, 0))
    try:
        writer.write(frame(user, passcode))
        answer = await reader.read(4096)
    finally:
        writer.close()
    return time.monotonic() - began, answer.startswith(b"CONNECTED")


def cpu_of(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


class Crowd:
    """Clients that connect, say who they are and go, over plain sockets and one epoll: asyncio's streams would take as
    much of the machine as the broker does."""

    def __init__(self, port: int) -> None:
        self._port = port
        self._epoll = select.epoll()
        self._open: dict[int, tuple[socket.socket, float]] = {}
        self.right = self.wrong = 0

    def __len__(self) -> int:
        return len(self._open)

    def comes(self, user: str, passcode: str, address: str) -> None:
        """One more of them, who does not wait for his answer here."""
        client = socket.socket()
        client.setsockopt(socket.SOL_IP, IP_BIND_ADDRESS_NO_PORT, 1)
        client.bind((address, 0))
        try:
            client.connect(("127.0.0.1", self._port))
            client.send(frame(user, passcode))
        except OSError:
            client.close()
            return
        self._open[client.fileno()] = client, time.monotonic()
        self._epoll.register(client.fileno(), select.EPOLLIN)

    def hears(self, seconds: float) -> None:
        """Answers of so long; nobody waits for longer than 15 s."""
        for number, _ in self._epoll.poll(seconds):
            self._ends(number)
        now = time.monotonic()
        while self._open and now - next(iter(self._open.values()))[1] > 15:
            self._ends(next(iter(self._open)), told=False)

    def _ends(self, number: int, told: bool = True) -> None:
        client, _ = self._open.pop(number)
        with suppress(OSError):
            right = told and client.recv(4096).startswith(b"CONNECTED")
            self.right, self.wrong = self.right + right, self.wrong + (told and not right)
        client.close()


IP_BIND_ADDRESS_NO_PORT = 24


def frame(user: str, passcode: str) -> bytes:
    return f"CONNECT\naccept-version:1.2\nhost:x\nlogin:{user}\npasscode:{passcode}\n\n\0".encode()


async def connects(count: int = 20_000, at_once: int = 50) -> None:
    """With cached credentials."""
    with broker(1) as served:
        assert (await login(served.port, "u0", PASSCODE))[1]
        pid, crowd, left = served.pid, Crowd(served.port), count
        before, began = cpu_of(pid), time.monotonic()
        while left or crowd:
            while left and len(crowd) < at_once:
                crowd.comes("u0", PASSCODE, f"127.0.0.{2 + left % 8}")  # ports of one alone run out
                left -= 1
            crowd.hears(1.0)
        took, cpu = time.monotonic() - began, cpu_of(pid) - before
        assert crowd.right == count, f"{crowd.right} of {count} came in"
        each = f"{1000 * cpu / count:.3f} ms of CPU of the broker each: {count / cpu:,.0f}/s by that"
        print(f"connects  {count / took:,.0f}/s through sockets, {each}")


def blow(port: int, addresses: int, names: int, told: Connection) -> None:
    """The storm, in a process of its own, until it is ended: for users that are there and that are not."""
    resource.setrlimit(resource.RLIMIT_NOFILE, (resource.getrlimit(resource.RLIMIT_NOFILE)[1],) * 2)
    crowd, number, began = Crowd(port), 0, time.monotonic()
    while not told.poll():
        due = int((time.monotonic() - began) * STORM)
        for _ in range(min(due - number, 50)):
            at = number % addresses
            # Each address tries several names, so that it takes longer to find out who guesses.
            user = f"u{OTHERS + (number + number // addresses) % names}"
            crowd.comes(user, f"wrong{number}", f"127.{1 + at // 250}.0.{1 + at % 250}")
            number += 1
        crowd.hears(0.005 if number >= due else 0.0)
    told.send((number / (time.monotonic() - began), crowd.wrong, crowd.right))


async def storm(addresses: int, names: int = 20, warm: float = 3.0, seconds: float = 12.0) -> None:
    """Of wrong passcodes. names: of how many users. warm: how long it has blown before others come."""
    with broker(OTHERS + 10) as served:
        port = served.port
        known = [await login(port, f"u{n}", PASSCODE, "127.0.0.2") for n in range(OTHERS // 2)]
        assert all(right for _, right in known)
        here, there = multiprocessing.Pipe()
        blowing = multiprocessing.Process(target=blow, args=(port, addresses, names, there), daemon=True)
        blowing.start()
        await asyncio.sleep(warm)
        waiting, again = [], []
        for n in range(OTHERS // 2):
            again.append(await login(port, f"u{n}", PASSCODE, "127.0.0.2"))
            waiting.append(asyncio.create_task(login(port, f"u{n + OTHERS // 2}", PASSCODE, f"127.200.0.{n + 1}")))
            await asyncio.sleep(seconds / OTHERS)
        first = await asyncio.gather(*waiting)  # whoever waits too long is told so: edge.login_timeout_s
        here.send("over")
        rate, wrong, right = here.recv()
        blowing.join()
        assert not right
        print(f"storm     {rate:,.0f}/s from {addresses}, for {names} users, {wrong} told no; after {warm:.0f} s of it")
        for what, found in (("remembered", again), ("never in before, new address", first)):
            times = sorted(took for took, _ in found)
            denied = sum(not right for _, right in found)
            middle = times[len(times) // 2]
            told = f"median {middle:.3f} s, longest {times[-1]:.3f} s, refused {denied} of {len(found)}"
            print(f"storm       right login, {what}: {told}")


async def turns() -> None:
    for addresses, names, warm in ((1, 20, 3), (1000, 20, 3), (1000, 1_000_000, 4), (1000, 1_000_000, 20)):
        await _turns(addresses, names, warm)


async def _turns(addresses: int, names: int, warm: float) -> None:
    """See storm: those of them who never were in."""
    users = {f"u{n}": User(f"u{n}", f"of u{n}") for n in range(OTHERS + 10)}
    table = TableAuthenticator(users, SystemClock())
    tasks: set[asyncio.Task[tuple[float, bool]]] = set()

    async def ask(user: str, passcode: str, peer: str) -> tuple[float, bool]:
        began = time.monotonic()
        try:
            await table.authenticate(user, passcode, SimpleNamespace(peer=peer, id=0))
        except RefusedError:
            return time.monotonic() - began, False
        return time.monotonic() - began, True

    async def blow() -> None:
        began, number = time.monotonic(), 0
        while True:
            while number < (time.monotonic() - began) * STORM:
                at = number % addresses
                user, peer = (
                    f"u{OTHERS + (number + number // addresses) % names}",
                    f"127.{1 + at // 250}.0.{at % 250}:1",
                )
                task = asyncio.create_task(ask(user, f"wrong{number}", peer))
                tasks.add(task)
                task.add_done_callback(tasks.discard)
                number += 1
            await asyncio.sleep(0.005)

    def slow(hash: str, passcode: str) -> bool:
        time.sleep(0.025)
        return passcode == PASSCODE and hash != NOBODY

    with mock.patch.object(auth, "verify", slow):
        blowing = asyncio.create_task(blow())
        await asyncio.sleep(warm)
        others = []
        for n in range(OTHERS // 2):
            others.append(asyncio.create_task(ask(f"u{n}", PASSCODE, f"127.200.0.{n}:1")))
            await asyncio.sleep(0.3)
        found = await asyncio.gather(*others)
        blowing.cancel()
        for task in list(tasks):
            task.cancel()
        await asyncio.gather(blowing, *tasks, return_exceptions=True)
        table.close()
    times = sorted(took for took, _ in found)
    denied, middle = sum(not right for _, right in found), times[len(times) // 2]
    where = f"{STORM}/s from {addresses}, for {'20 users' if names == 20 else 'another user each'}, after {warm:.0f} s"
    print(f"turns     {where}: median {middle:.3f} s, longest {times[-1]:.3f} s, refused {denied} of {len(found)}")


def check() -> None:
    """As a SEND has it: what is known of an address."""
    table = {f"a{n}.#": {"send": f"g{n % 1000}"} for n in range(1000)}
    rights = Permissions(table).rights(("g1",))
    assert rights is not None
    rights.at("a1.b")
    count = 1_000_000
    began = time.process_time()
    for _ in range(count):
        "send" in rights.at("a1.b")  # noqa: B015 (it is what is measured)
    print(f"check     {1e6 * (time.process_time() - began) / count:.2f} µs")


def timed(what: str, work: Callable[[], object]) -> None:
    began = time.process_time()
    work()
    print(f"start     {what}: {time.process_time() - began:.2f} s of CPU")


def start() -> None:
    """Of users and permissions: from files, as at a start, and from etcd."""
    users = {f"u{n}": User(f"u{n}", NOBODY, (f"g{n % 1000}",)) for n in range(TABLE)}
    permissions = {f"a{n}.#": {"send": f"g{n % 1000}", "consume": f"g{n % 1000}"} for n in range(TABLE)}
    with tempfile.TemporaryDirectory() as folder:
        path = str(Path(folder) / "users.toml")
        save_users(path, users)
        timed(f"{TABLE:,} users of a file", lambda: TableAuthenticator(load_users(path), SystemClock()).known_groups())
        config = Path(folder) / "stampede.toml"
        lines = [f'[edge.permissions."{match}"]\nsend = "{its["send"]}"\nconsume = "{its["consume"]}"\n'
                 for match, its in permissions.items()]  # fmt: skip
        config.write_text("".join(lines))
        with uncollected():
            timed(f"{TABLE:,} permissions of a config file", SettingsSource(str(config), {}, {}).read)
    timed(f"{TABLE:,} permissions in order", lambda: Permissions(permissions).rights(("g1",)))
    engine = EngineSettings()
    kept = [(name, msgspec.json.encode(entry)) for name, entry in permissions.items()]
    timed(f"{TABLE:,} permissions of etcd", lambda: [read_entry("permissions", *each, engine) for each in kept])
    kept = [(name, msgspec.json.encode({"hash": NOBODY, "groups": user.groups})) for name, user in users.items()]
    timed(f"{TABLE:,} users of etcd", lambda: [read_entry("users", *each, engine) for each in kept])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", nargs="*", default=["check", "start", "connects", "storm"])
    served: dict[str, Callable[[], Awaitable[None]]] = {
        "connects": connects,
        "turns": turns,
        "storm": lambda: storm(1),
        "wide": lambda: storm(1000),
        "spray": lambda: storm(1000, 1_000_000, 20.0),
    }
    for what in parser.parse_args().what:
        if what in served:
            asyncio.run(served[what]())  # type: ignore[arg-type]
        else:
            {"check": check, "start": start}[what]()


if __name__ == "__main__":
    main()
