"""One chaos run: a cluster, all traffic, fault after fault, a drain, a verdict.

Rule: the run draws nothing but from its seed; what real processes make of it is theirs. The folder that it leaves has
the history (JSON lines), the faults with their times, and the logs of all processes.
"""

from __future__ import annotations

import asyncio
import random
import subprocess
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from broker.client import ClientError
from tests.abuse.certificates import authority, issued
from tests.harness.broker import ROOT, Broker, free_ports
from tests.harness.cluster import Cluster
from tests.harness.proxy import Proxy
from tests.harness.servers import LocalServer, local_etcd, local_redis

from . import checker, copies, faults, planted, promises, shim, traffic
from .history import Kind, Span
from .world import PAUSE_S, World, forever

LOOK_S, LATE_S = 0.2, 1.0
RESTS_S = (1, 1, 1, 3)
"""Between faults, in units of 1 to 4 s: now and then long enough to see that nobody waits."""
UNDRAINED = "cannot be drained"
COPY_EACH_S = 5.0
Copied = Callable[[], tuple[list[str], int]]
SETTLE_S = 300.0
"""Until everything must be as before once a fault is over, on a machine that does other things as well."""
REDIS_SETTINGS = {"edge.client_id_in_use": "takeover", "edge.max_producer_rate": 5000}
"""What is asked of Redis; the rate is more than anybody sends."""
DRAINS_S = (2.0, 10.0, 30.0)
"""How long nothing must have come until a queue counts as empty; again, for what is owed then."""
QUIET_S = 90.0
"""Until what was sent must have come once the last fault is over."""


@dataclass
class Verdict:
    """`broken`: each broken promise in a line. `longest`: seconds of the longest wait that began outside any fault.
    `beside`: the same of those beside faults that others make up for within seconds (promises.SWIFT)."""

    seed: int
    broken: list[str]
    faults: list[str]
    messages: int
    longest: float
    beside: float
    starved: float
    """Seconds for which the machine had nothing left for the run."""
    errors: dict[str, int]

    def line(self) -> str:
        return (
            f"chaos: {len(self.broken)} broken promises in {len(self.faults)} faults, {self.messages} messages, "
            f"longest wait outside faults {self.longest:.1f} s, beside a dying owner {self.beside:.1f} s, "
            f"starved for {self.starved:.0f} s, seed {self.seed}"
        )


@dataclass
class Log:
    """What was done, when."""

    file: Path
    lines: list[str] = field(default_factory=list)

    def say(self, text: str) -> None:
        line = f"{time.strftime('%H:%M:%S')} {text}"
        self.lines.append(line)
        with self.file.open("a") as out:
            out.write(line + "\n")


@dataclass(frozen=True)
class Build:
    """What is run. etcd: members. tls: mutual, among the components. disks: one of its own for each owner, if we may
    mount. release: what everything runs at first, a revision of git; "": the present code. pause_s: between messages
    of a producer. redis: one that the edges share. bug: one that everything has (planted.py), or ""."""

    owners: int = 3
    edges: int = 2
    etcd: int = 1
    tls: bool = False
    disks: bool = False
    release: str = ""
    pause_s: float = PAUSE_S
    redis: bool = False
    bug: str = ""


async def standalone(folder: Path, *, seed: int, minutes: float, bug: str = "", pause_s: float = PAUSE_S) -> Verdict:
    """All traffic on one broker, of which copies are taken and to which nothing is done, in a folder that is there."""
    settings = {name: value for name, value in traffic.SETTINGS.items() if not name.startswith("cluster.")}
    broker, log = Broker(folder, settings), Log(folder / "faults.log")
    if bug:
        planted.copy(bug, broker.folder)  # where it runs, so that it finds this code first
    with broker:
        world = World(lambda: [broker.port], random.Random(seed + 1))
        world.pause_s = pause_s
        code = folder if bug else None
        broken = await _work(world, partial(_copied, folder, broker, world, code), log, minutes, 0, frozenset())
    broken += _judged(world, broken, False)
    broken += ["traceback in the log"] if "Traceback" in broker.log() else []
    world.history.save(folder / "history.jsonl")
    return _verdict(seed, broken, log, world)


def _copied(folder: Path, broker: Broker, world: World, code: Path | None) -> tuple[list[str], int]:
    with copies.Copying(folder / "copy", broker.data, code) as copying:
        return copies.examine(copying, world.history, world.random, lambda taken: taken)


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
    redis = _redis(folder / "redis") if build.redis else None
    try:
        await asyncio.to_thread(_launch, etcd)
        settings = {**traffic.SETTINGS, "cluster.lease_s": 10, **(_tls(folder / "pki") if build.tls else {})}
        if redis is not None:
            await asyncio.to_thread(redis.server.start)
            settings |= {"redis.url": f"redis://127.0.0.1:{redis.way.port}", **REDIS_SETTINGS}
        if build.owners < 3:
            settings |= {"cluster.replicas": build.owners, "cluster.min_in_sync": 1}
        first, *more = [member.port for member in etcd]
        cluster = Cluster(folder, first, build.owners, build.edges, settings, more)
        disks = _disks(cluster) if build.disks else {}
        machines = _machines(cluster, folder)
        _older(cluster, build.release)
        if build.bug:
            code = planted.copy(build.bug, folder / "planted")
            for process in cluster.processes:
                process.code = code
        with cluster:
            world = World(lambda: [edge.port for edge in cluster.edges if edge.running], random.Random(seed + 1))
            world.pause_s = build.pause_s
            least_s = planted.BUGS[build.bug].hold_s if build.bug else 0.0
            scene = faults.Scene(cluster, etcd, draws, disks, machines, redis, least_s, history=world.history)
            scene.same = 1.0 if build.bug else scene.same
            together = planted.BUGS[build.bug].together if build.bug else False
            without = set() if build.release else {"upgrade"}
            without |= set() if build.redis else faults.OF_REDIS.keys()
            among = frozenset(only) or frozenset(faults.ALL) - without
            stuck = await _work(world, scene, log, minutes, rounds, among, tuple(only) if together else ())
            clocks_set = any(" fault: clock-step: " in line for line in log.lines)
            broken = [*stuck, *scene.findings, *_judged(world, stuck, clocks_set)]
            broken += [f"traceback in the log of {each.id}" for each in cluster.processes if "Traceback" in each.log()]
            world.history.save(folder / "history.jsonl")
    finally:
        if redis is not None:
            redis.server.stop()
            redis.way.stop()
        for disk in disks.values():
            faults.unmount(disk)
        for member in etcd:
            member.stop()
    return _verdict(seed, broken, log, world)


def _judged(world: World, stuck: list[str], clocks_set: bool) -> list[str]:
    """What is still there because it could not be drained is not lost."""
    undrained = any(line.startswith(UNDRAINED) for line in stuck)
    found = checker.check(world.history, traffic.UNORDERED, clocks_set)
    return [line for line in found if not (undrained and line.startswith(("lost", "torn", "forgotten")))]


def _verdict(seed: int, broken: list[str], log: Log, world: World) -> Verdict:
    names = [line for line in log.lines if " fault: " in line]
    many = len(world.history.keys(Kind.SENT))
    starved = sum(span.over - span.begun for span in world.history.faults if promises.STARVED in span.names)
    return Verdict(seed, broken, names, many, _longest(world), _longest(world, promises.SWIFT), starved, world.errors)


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


def _redis(folder: Path) -> faults.Redis:
    """Not started yet; the way to it is ours to cut."""
    folder.mkdir()
    server = local_redis(folder)
    return faults.Redis(server, Proxy(free_ports(1)[0], server.port).start())


def _disks(cluster: Cluster) -> dict[str, Path]:
    """Puts the data of each owner on a disk of its own, where one can be mounted."""
    made = {}
    for owner in cluster.owners:
        if (disk := faults.mount(owner.folder / "disk")) is not None:
            made[owner.id] = disk
            owner.data = disk / "data"
            owner.settings["journal.min_free_bytes"] = faults.MIN_FREE_BYTES
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


def _longest(world: World, beside: frozenset[str] = frozenset()) -> float:
    """Of each wait that part in which nothing was wrong, or nothing but one fault of these."""
    return max((promises.calm(world.history, *wait, beside) for wait in world.history.waits), default=0.0)


async def _starving(world: World, log: Log) -> None:
    """All of a run are starved together: when this task is late, nothing of the time says anything about the broker."""
    while True:
        begun = time.time()
        await asyncio.sleep(LOOK_S)
        if time.time() - begun > LATE_S:
            world.history.faults.append(Span((promises.STARVED,), begun, time.time()))
            log.say(f"the machine gave us nothing for {time.time() - begun:.1f} s")


async def _work(
    world: World, scene: faults.Scene | Copied, log: Log, minutes: float, rounds: int, only: frozenset[str],
    together: tuple[str, ...] = (),
) -> list[str]:  # fmt: skip
    """A finding when the cluster does not come back from a fault; nothing more is done to it then. scene: for `minutes`
    there are no faults, and it is called again and again. together: these, each time."""
    stuck: list[str] = []
    ready = [asyncio.Event() for _ in traffic.SUBSCRIBERS]
    subscribing = [
        traffic.subscriber(world, name, event) for name, event in zip(traffic.SUBSCRIBERS, ready, strict=True)
    ]
    taking = [asyncio.ensure_future(forever(world, each)) for each in subscribing]
    for event in ready:
        await asyncio.wait_for(event.wait(), SETTLE_S)
    taking += [asyncio.ensure_future(forever(world, each)) for each in traffic.consumers(world)]
    looking = asyncio.ensure_future(_starving(world, log))
    sending = [asyncio.ensure_future(forever(world, each, sends=True)) for each in traffic.producers(world)]
    try:
        await asyncio.sleep(3)
        among = {name: fault for name, fault in faults.ALL.items() if name in only}
        end, done = time.monotonic() + 60 * minutes, 0
        while not isinstance(scene, faults.Scene) and time.monotonic() < end:
            await asyncio.sleep(min(COPY_EACH_S, 60 * minutes))
            found, many = await asyncio.to_thread(scene)
            log.say(f"a copy had {many} messages")
            stuck += found
        while isinstance(scene, faults.Scene) and (time.monotonic() < end or done < rounds):
            try:
                await _one(world, scene, log, list(together) or faults.draw(scene.random, among))
            except (AssertionError, subprocess.TimeoutExpired) as error:
                stuck.append(f"does not come back: {str(error)[:300]}")
                break
            done += 1
        world.stopping = True
        await asyncio.wait(sending, timeout=QUIET_S)
        stuck += await _quiet(world)
    finally:
        for task in (looking, *sending, *taking):
            task.cancel()
        await asyncio.gather(looking, *sending, *taking, return_exceptions=True)
    for patience_s in DRAINS_S:
        log.say(f"drain; owed so far: {len(owed := checker.owed(world.history))}")
        if not owed and patience_s != DRAINS_S[0]:
            break
        try:
            await traffic.drain(world, patience_s)
        except (ClientError, OSError, TimeoutError) as error:
            return [*stuck, f"{UNDRAINED}: {error}"]
    return stuck


async def _one(world: World, scene: faults.Scene, log: Log, names: list[str]) -> None:
    """A fault or two, taken back, and everything is as before."""
    begun, undo = time.time(), []
    scene.names, scene.hit = tuple(names), []
    for name in names:
        text, back = await asyncio.to_thread(faults.ALL[name], scene)
        undo.append(back)
        log.say(f"fault: {name}: {text}")
        await asyncio.sleep(scene.random.uniform(0, 1.5))
    least = max(scene.least_s, *(faults.LEAST_S.get(name, 0.0) for name in names))
    await asyncio.sleep(max(least, scene.random.choice((0.5, 2, 5, 12)) * scene.random.uniform(0.5, 1.5)))
    try:
        # Which one is over first, and for how long the other one goes on, makes a difference.
        scene.random.shuffle(undo)
        for left, back in enumerate(undo, 1 - len(undo)):
            await asyncio.to_thread(back)
            await asyncio.sleep(scene.random.uniform(0, 3) if left else 0)
        await asyncio.to_thread(_settled, scene.cluster)
        scene.calm_since = time.time()
    finally:
        world.history.faults.append(Span(tuple(names), begun, time.time()))
    log.say(f"over after {time.time() - begun:.1f} s")
    await asyncio.sleep(scene.random.choice(RESTS_S) * scene.random.uniform(1, 4))


def _settled(cluster: Cluster) -> None:
    end = time.monotonic() + SETTLE_S
    while True:
        try:
            for process in cluster.processes:
                process.wait_ready(end - time.monotonic())
            return cluster.wait_balanced(end - time.monotonic())
        except AssertionError:  # etcdctl gives up after 25 s, which says nothing on a machine that is starved
            if time.monotonic() > end:
                raise
            time.sleep(1)


def _owed(world: World) -> set[str]:
    """What should come before anything is drained."""
    return {key for key in checker.owed(world.history) if not key.startswith(traffic.STAYS)}


async def _quiet(world: World) -> list[str]:
    """Until everything that is owed has come. A finding when the time is up, and half of it was not enough for some."""
    end, half = time.monotonic() + QUIET_S, _owed(world)
    while (now := _owed(world)) and time.monotonic() < end:
        half = now if time.monotonic() < end - QUIET_S / 2 else half & now
        await asyncio.sleep(0.5)
    await asyncio.sleep(2)
    late = sorted(_owed(world) & half)
    if promises.starving(world.history, time.time() - QUIET_S, time.time()):
        return []
    return [f"stuck: {len(late)} messages have not come after {QUIET_S:.0f} s: {late[:5]}"] if late else []
