"""One chaos run: a cluster, all traffic, fault after fault, a drain, a verdict.

Rule: the run draws nothing but from its seed; what real processes make of it is theirs. The folder that it leaves has
the history (JSON lines), the faults with their times, and the logs of all processes.
"""

from __future__ import annotations

import asyncio
import random
import subprocess
import time
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

from tests.abuse.certificates import authority, issued
from tests.harness.broker import ROOT
from tests.harness.cluster import Cluster
from tests.harness.servers import LocalServer, local_etcd

from . import checker, faults, shim, traffic
from .history import Kind
from .traffic import World

SETTLE_S = 300.0
"""Until everything must be as before once a fault is over, on a machine that does other things as well."""
QUIET_S = 90.0
"""Until what was sent must have come once the last fault is over."""


@dataclass
class Verdict:
    """`broken`: each broken promise in a line. `longest`: seconds of the longest wait that began outside any fault."""

    seed: int
    broken: list[str]
    faults: list[str]
    messages: int
    longest: float
    errors: dict[str, int]

    def line(self) -> str:
        return (
            f"chaos: {len(self.broken)} broken promises in {len(self.faults)} faults, {self.messages} messages, "
            f"longest wait outside faults {self.longest:.1f} s, seed {self.seed}"
        )


@dataclass
class Log:
    """What was done, when. `faults`: (begin, end) of each by the monotonic clock, its end being that of its effects."""

    file: Path
    lines: list[str] = field(default_factory=list)
    faults: list[tuple[float, float]] = field(default_factory=list)

    def say(self, text: str) -> None:
        line = f"{time.strftime('%H:%M:%S')} {text}"
        self.lines.append(line)
        with self.file.open("a") as out:
            out.write(line + "\n")


@dataclass(frozen=True)
class Build:
    """What is run. etcd: members. tls: mutual, among the components. disks: one of its own for each owner, if we may
    mount. release: what everything runs at first, a revision of git; "": the present code. pause_s: between messages
    of a producer."""

    owners: int = 3
    edges: int = 2
    etcd: int = 1
    tls: bool = False
    disks: bool = False
    release: str = ""
    pause_s: float = traffic.PAUSE_S


async def run(
    folder: Path, *, seed: int, minutes: float = 0.0, rounds: int = 0, build: Build = Build(), only: Iterable[str] = ()
) -> Verdict:
    """`minutes`: faults for so long; or `rounds` of them. `only`: names of faults; none: all. Raises AssertionError
    when the cluster does not come back from a fault."""
    (folder / "etcd").mkdir(parents=True, exist_ok=True)
    draws = random.Random(seed)
    log = Log(folder / "faults.log")
    etcd = local_etcd(folder / "etcd", build.etcd)
    disks: dict[str, Path] = {}
    try:
        await asyncio.to_thread(_launch, etcd)
        settings = {**traffic.SETTINGS, "cluster.lease_s": 10, **(_tls(folder / "pki") if build.tls else {})}
        first, *more = [member.port for member in etcd]
        cluster = Cluster(folder, first, build.owners, build.edges, settings, more)
        disks = _disks(cluster) if build.disks else {}
        machines = _machines(cluster, folder)
        _older(cluster, build.release)
        with cluster:
            world = World(lambda: [edge.port for edge in cluster.edges if edge.running], random.Random(seed + 1))
            world.pause_s = build.pause_s
            scene = faults.Scene(cluster, etcd, draws, disks, machines)
            among = frozenset(only) or frozenset(faults.ALL) - ({"upgrade"} if not build.release else set())
            await _work(world, scene, log, minutes, rounds, among)
            clocks_set = any(" fault: clock-step: " in line for line in log.lines)
            broken = checker.check(world.history, traffic.UNORDERED, clocks_set)
            broken += [f"traceback in the log of {each.id}" for each in cluster.processes if "Traceback" in each.log()]
            world.history.save(folder / "history.jsonl")
    finally:
        for disk in disks.values():
            faults.unmount(disk)
        for member in etcd:
            member.stop()
    names = [line for line in log.lines if " fault: " in line]
    return Verdict(seed, broken, names, len(world.history.keys(Kind.SENT)), _longest(world, log), world.errors)


def _launch(etcd: list[LocalServer]) -> None:
    for member in etcd:
        member.launch()
    for member in etcd:
        member.wait()


def _tls(folder: Path) -> dict[str, object]:
    """A certificate for all components, of an authority of their own."""
    folder.mkdir(exist_ok=True)
    ca = authority(folder, "ca")
    cert, key = issued(folder, "component", ca)
    return {"cluster.ca_file": ca[0], "cluster.cert_file": cert, "cluster.key_file": key}


def _disks(cluster: Cluster) -> dict[str, Path]:
    """Puts the data of each owner on a disk of its own, where one can be mounted."""
    made = {}
    for owner in cluster.owners:
        if (disk := faults.mount(owner.folder / "disk")) is not None:
            made[owner.id] = disk
            owner.data = disk / "data"
            owner.settings["journal.min_free_bytes"] = 32 << 20
    return made


def _machines(cluster: Cluster, folder: Path) -> dict[str, shim.Machine]:
    """Has the clock and the disk of each process be ours."""
    made: dict[str, shim.Machine] = {}
    if (library := shim.build(folder)) is not None:
        for process in cluster.processes:
            made[process.id] = shim.Machine(process.folder, library)
            process.environment = made[process.id].environment()
    return made


def _older(cluster: Cluster, release: str) -> None:
    """Has everything begin as that release."""
    if not release:
        return
    code = cluster.folder / "release"
    code.mkdir()
    archive = subprocess.run(["git", "archive", release, "broker"], cwd=ROOT, capture_output=True, check=True).stdout
    subprocess.run(["tar", "-x", "-C", str(code)], input=archive, check=True)
    for process in cluster.processes:
        process.code = code


def _longest(world: World, log: Log) -> float:
    """Of the waits that began and ended while nothing was wrong."""
    calm = [
        seconds
        for begun, seconds in world.history.waits
        if not any(start <= begun + seconds and begun <= end for start, end in log.faults)
    ]
    return max(calm, default=0.0)


async def _work(world: World, scene: faults.Scene, log: Log, minutes: float, rounds: int, only: frozenset[str]) -> None:
    ready = [asyncio.Event() for _ in traffic.SUBSCRIBERS]
    subscribing = [
        traffic.subscriber(world, name, event) for name, event in zip(traffic.SUBSCRIBERS, ready, strict=True)
    ]
    taking = [asyncio.ensure_future(traffic.forever(world, each)) for each in subscribing]
    for event in ready:
        await asyncio.wait_for(event.wait(), 30)
    taking += [asyncio.ensure_future(traffic.forever(world, each)) for each in traffic.consumers(world)]
    sending = [asyncio.ensure_future(traffic.forever(world, each)) for each in traffic.producers(world)]
    try:
        await asyncio.sleep(3)
        among = {name: fault for name, fault in faults.ALL.items() if name in only}
        end, done = time.monotonic() + 60 * minutes, 0
        while time.monotonic() < end or done < rounds:
            await _one(scene, log, faults.draw(scene.random, among))
            done += 1
        world.stopping = True
        await asyncio.wait(sending, timeout=QUIET_S)
        await _quiet(world)
    finally:
        for task in (*sending, *taking):
            task.cancel()
        await asyncio.gather(*sending, *taking, return_exceptions=True)
    log.say(f"drain; owed so far: {len(checker.owed(world.history))}")
    await traffic.drain(world)


async def _one(scene: faults.Scene, log: Log, names: list[str]) -> None:
    """A fault or two, taken back, and everything is as before."""
    begun, undo = time.monotonic(), []
    for name in names:
        text, back = await asyncio.to_thread(faults.ALL[name], scene)
        undo.append(back)
        log.say(f"fault: {name}: {text}")
        await asyncio.sleep(scene.random.uniform(0, 1.5))
    await asyncio.sleep(scene.random.choice((0.5, 2, 5, 12)) * scene.random.uniform(0.5, 1.5))
    for back in undo:
        await asyncio.to_thread(back)
    await asyncio.to_thread(_settled, scene.cluster)
    log.faults.append((begun, time.monotonic()))
    log.say(f"over after {time.monotonic() - begun:.1f} s")
    await asyncio.sleep(scene.random.uniform(1, 4))


def _settled(cluster: Cluster) -> None:
    for process in cluster.processes:
        process.wait_ready(SETTLE_S)
    cluster.wait_balanced(SETTLE_S)


async def _quiet(world: World) -> None:
    """Until everything that is owed has come, or the time is up (the checker then says what is missing)."""
    end = time.monotonic() + QUIET_S
    while checker.owed(world.history) and time.monotonic() < end:  # noqa: ASYNC110 (a history has no event to wait for)
        await asyncio.sleep(0.5)
    await asyncio.sleep(2)
