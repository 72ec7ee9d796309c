"""What can happen to a cluster: a table of faults, each begun and taken back.

Rule: what an operator's hands, a kernel or a network can do to real processes (signals, proxies, folders), nothing
from within. A fault says what it did in words that stand in the verdict's folder.

One copy of three may be destroyed at a time, so `wipe-owner` comes alone, as does what moves all slots; everything else
also in pairs.
"""

from __future__ import annotations

import errno
import os
import random
import re
import shutil
import subprocess
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from tests.harness.cluster import Cluster, Process
from tests.harness.proxy import DOWN, UP, Proxy
from tests.harness.servers import LocalServer

from . import copies
from .history import History
from .shim import Machine

Undo = Callable[[], None]
DISK_BYTES = 400 << 20
"""Of an owner, where one can be made."""
PARTITIONED = ("chaos.grown", "chaos.spread")
MOST_PARTITIONS = 16
MIN_FREE_BYTES = 32 << 20
"""Below that an owner with a disk of its own refuses what is sent."""
NEAR_BYTES = 3 << 20
"""On top of that: less than the four segments above it from which on it has to say so."""
LOW_S = 30.0
"""It looks every 5 s, on a machine that does other things as well."""
FLAPS = 4
FLAP_S = 0.6
"""Between two resets: a leader whose disk is slow has not sealed by then what it had when they came back."""
CALM_S = 6.0
"""Before the last one, so that all are back at once (peer.STEADY_S), and nothing that goes wrong then is put right by
the next one: a slot that has lost a wake-up goes on with whatever its followers say next."""
SWITCH_S = (0.06, 0.06, 0.08)
"""Before its edges lose it, each time: so long what an owner is told has no answer, as followers do not say that they
have it. They are back within 0.04 s; some of it is before others lead, however fast they are about it."""
SUSPEND_S = 0.2
"""Sooner than anybody gives an edge up."""
MOST_COPIES = 3
"""Owners of which each has everything."""
EXCUSE_A_COPY = frozenset(("full-disk", "low-disk", "broken-disk"))


@dataclass(frozen=True)
class Redis:
    """The server, and the way that every process takes to it."""

    server: LocalServer
    way: Proxy


@dataclass
class Scene:
    """What a fault may touch."""

    cluster: Cluster
    etcd: list[LocalServer]
    random: random.Random
    disks: dict[str, Path] = field(default_factory=dict)
    """Owner → where a disk of its own is mounted; empty: none can be made here."""
    machines: dict[str, Machine] = field(default_factory=dict)
    """Owner or edge → what its clock and its disk do; empty: nothing can be done to them here."""
    redis: Redis | None = None
    least_s: float = 0.0
    """Each fault lasts so long at least."""
    grown: list[int] = field(default_factory=list)
    """How many partitions PARTITIONED had, one after the other."""
    history: History = field(default_factory=History)
    findings: list[str] = field(default_factory=list)
    """Broken promises that no client can see."""
    same: float = 0.5
    """How often the second fault of a pair hits whom the first one has hit."""
    hit: list[Process] = field(default_factory=list)
    """By the fault, or the pair, of now."""
    names: tuple[str, ...] = ()
    """Of it."""
    calm_since: float = 0.0
    """Everything was as it should be then; epoch seconds."""

    def members(self) -> list[LocalServer]:
        """One of etcd's, or all."""
        return self.etcd if self.random.random() < 0.5 else [self.random.choice(self.etcd)]

    def owner(self) -> Process:
        return self._one(self.cluster.owners)

    def edge(self) -> Process:
        return self._one(self.cluster.edges)

    def _one(self, among: list[Process]) -> Process:
        hit = [process for process in self.hit if process in among and process.running]
        if not hit or self.random.random() >= self.same:
            hit = [process for process in among if process.running]
        self.hit.append(one := self.random.choice(hit))
        return one


def _again(process: Process) -> Undo:
    def undo() -> None:
        if not process.running:
            process.start()

    return undo


def kill_owner(scene: Scene) -> tuple[str, Undo]:
    owner = scene.owner()
    owner.kill()
    return f"SIGKILL {owner.id}", _again(owner)


def stop_owner(scene: Scene) -> tuple[str, Undo]:
    owner = scene.owner()
    owner.stop()
    return f"SIGTERM {owner.id}", _again(owner)


def wipe_owner(scene: Scene) -> tuple[str, Undo]:
    owner = scene.owner()
    owner.kill()
    owner.wipe()
    return f"SIGKILL {owner.id}, its disk is gone", _again(owner)


def freeze_owner(scene: Scene) -> tuple[str, Undo]:
    owner = scene.owner()
    owner.pause()
    return f"SIGSTOP {owner.id}", owner.resume


def isolate_owner(scene: Scene) -> tuple[str, Undo]:
    owner, hole = scene.owner(), scene.random.random() < 0.5
    owner.isolate(blackhole=hole)
    return f"{owner.id} is cut off from everybody ({'black hole' if hole else 'reset'})", scene.cluster.heal


def cut_among_owners(scene: Scene) -> tuple[str, Undo]:
    """From the other owners only: edges and etcd still reach it."""
    owner = scene.owner()
    for other in scene.cluster.owners:
        if other is not owner and other.running:
            other.inbound.cut(owner.pid)
            owner.inbound.cut(other.pid)
    return f"{owner.id} is cut off from the other owners only", scene.cluster.heal


def cut_pair(scene: Scene) -> tuple[str, Undo]:
    """Two owners, one way or both."""
    one, other = scene.random.sample([owner for owner in scene.cluster.owners if owner.running], 2)
    both = scene.random.random() < 0.5
    one.inbound.cut(other.pid)
    if both:
        other.inbound.cut(one.pid)
    return f"{other.id} cannot reach {one.id}" + (", nor the other way" if both else ""), scene.cluster.heal


def cut_edges(scene: Scene) -> tuple[str, Undo]:
    """All edges from one owner; owners and etcd are fine."""
    owner = scene.owner()
    for edge in scene.cluster.edges:
        if edge.running:
            owner.inbound.cut(edge.pid)
    return f"no edge reaches {owner.id}", scene.cluster.heal


def cut_edge(scene: Scene) -> tuple[str, Undo]:
    """One edge from all owners."""
    edge, hole = scene.edge(), scene.random.random() < 0.5
    for owner in scene.cluster.owners:
        (owner.inbound.blackhole if hole else owner.inbound.cut)(edge.pid)
    return f"{edge.id} reaches no owner ({'black hole' if hole else 'reset'})", scene.cluster.heal


def reset_links(scene: Scene) -> tuple[str, Undo]:
    """All connections of edges to an owner, once: they may come back at once."""
    owner = scene.owner()
    for edge in scene.cluster.edges:
        if edge.running:
            owner.inbound.reset(edge.pid)
    return f"the links of all edges to {owner.id} were reset", lambda: None


def reset_peers(scene: Scene) -> tuple[str, Undo]:
    """All connections among owners, FLAPS times: followers are caught up while leaders work on."""
    for left in reversed(range(FLAPS)):
        for owner in scene.cluster.owners:
            for other in scene.cluster.owners:
                if other is not owner and other.running:
                    owner.inbound.reset(other.pid)
        time.sleep(CALM_S if left == 1 else FLAP_S)
    return f"the links among all owners were reset, {FLAPS} times", lambda: None


def switch_fails(scene: Scene) -> tuple[str, Undo]:
    """An owner loses the others, and its edges lose it for moments, by the same switch: they are back while it waits
    for followers that it will not reach again."""
    text, undo = cut_among_owners(scene)
    owner = scene.hit[-1]
    for seconds in SWITCH_S:
        time.sleep(seconds)
        for edge in scene.cluster.edges:
            if edge.running:
                owner.inbound.reset(edge.pid)
    return f"{text}, and the links of all edges to it were reset", undo


def suspend_edge(scene: Scene) -> tuple[str, Undo]:
    """A virtual machine that is suspended: it stands still, nobody hears of it, and what had come to it is there when
    it goes on."""
    edge = scene.edge()
    edge.pause()
    time.sleep(SUSPEND_S)  # what owners send meanwhile waits in its sockets
    for owner in scene.cluster.owners:
        owner.inbound.blackhole(edge.pid)

    def undo() -> None:
        edge.resume()
        time.sleep(SUSPEND_S)
        scene.cluster.heal()

    return f"{edge.id} is suspended", undo


def cut_store(scene: Scene) -> tuple[str, Undo]:
    process = scene.random.choice([scene.owner(), scene.edge()])
    for proxy in process.to_etcds:
        proxy.cut()
    return f"{process.id} cannot reach etcd", scene.cluster.heal


def kill_edge(scene: Scene) -> tuple[str, Undo]:
    edge = scene.edge()
    edge.kill()
    return f"SIGKILL {edge.id}", _again(edge)


def freeze_edge(scene: Scene) -> tuple[str, Undo]:
    edge = scene.edge()
    edge.pause()
    return f"SIGSTOP {edge.id}", edge.resume


def freeze_store(scene: Scene) -> tuple[str, Undo]:
    members = scene.members()
    for member in members:
        member.pause()

    def undo() -> None:
        for member in members:
            member.resume()

    return f"SIGSTOP {_those(members, scene)}", undo


def kill_store(scene: Scene) -> tuple[str, Undo]:
    members = scene.members()
    for member in members:
        member.kill()

    def undo() -> None:
        for member in members:
            member.launch()
        for member in members:
            member.wait()

    return f"SIGKILL {_those(members, scene)}", undo


def _those(members: list[LocalServer], scene: Scene) -> str:
    return f"{len(members)} of etcd's {len(scene.etcd)} members"


def half_cut(scene: Scene) -> tuple[str, Undo]:
    """One way only: an owner's peers and edges hear it and it does not hear them, or the other way round."""
    owner, way = scene.owner(), scene.random.choice((UP, DOWN))
    owner.inbound.blackhole(ways=(way,))
    return f"{owner.id} {'hears nobody' if way == UP else 'is heard by nobody'} who connects to it", scene.cluster.heal


def slow_links(scene: Scene) -> tuple[str, Undo]:
    """200 ms each way to one owner, or to all of them from everywhere."""
    owners = scene.cluster.owners if scene.random.random() < 0.3 else [scene.owner()]
    for owner in owners:
        owner.inbound.slow(0.2)
    return f"200 ms each way to {', '.join(owner.id for owner in owners)}", scene.cluster.heal


def lossy_links(scene: Scene) -> tuple[str, Undo]:
    owner = scene.owner()
    owner.inbound.slow(0.005, loss=0.05)
    return f"every twentieth packet to and from {owner.id} is lost", scene.cluster.heal


def full_disk(scene: Scene) -> tuple[str, Undo]:
    """Not a byte is left of an owner's disk. It may stop for that, and is started again when there is room."""
    owner = scene.owner()
    if owner.id not in scene.disks:
        return "no disk of its own to fill here", lambda: None
    filler = scene.disks[owner.id] / "filler"
    _fill(filler, 0)

    def undo() -> None:
        filler.unlink()
        _again(owner)()

    return f"the disk of {owner.id} is full", undo


def _fill(filler: Path, leave: int) -> None:
    """Makes it so large, or larger than it is, that only so many bytes are free."""
    with suppress(OSError), filler.open("ab", buffering=0) as out:
        while (left := shutil.disk_usage(filler.parent).free - leave) > 0 or not leave:
            out.write(bytes(min(left, 1 << 20) if leave else 1 << 20))


def low_disk(scene: Scene) -> tuple[str, Undo]:
    """There is room yet on an owner's disk, and not for long: it has to say so."""
    owner = scene.owner()
    if owner.id not in scene.disks or not owner.running:
        return "no disk of its own to fill here", lambda: None
    filler, begun, mark = scene.disks[owner.id] / "low", time.monotonic(), len(owner.log())
    _fill(filler, MIN_FREE_BYTES + NEAR_BYTES)

    def undo() -> None:
        while (unsaid := _unsaid(owner, mark)) and time.monotonic() - begun < LOW_S:
            _fill(filler, MIN_FREE_BYTES + NEAR_BYTES)  # compaction may have made room meanwhile
            time.sleep(0.5)
        if unsaid and scene.names == ("low-disk",):
            scene.findings.append(f"low disk: {owner.id} says nothing of it in {unsaid}, after {LOW_S:.0f} s")
        filler.unlink()

    return f"the disk of {owner.id} is nearly full", undo


def _unsaid(owner: Process, mark: int) -> str:
    """Where it should stand and does not."""
    log = owner.log()[mark:]
    if "disk nearly full" not in log and "disk full" not in log and "volume is too small" not in log:
        return "its log"
    try:
        metrics, ready = owner.metrics(), owner.readiness()
    except OSError:
        return "its metrics"
    if not re.search(r"^stomp_journal_space [12]", metrics, re.MULTILINE):
        return "its metrics"
    return "" if "disk" in ready else "its readiness"


def backup(scene: Scene) -> tuple[str, Undo]:
    """Of an owner that is at work: restored, compared with what clients know, damaged in one place, salvaged."""
    owner = scene.owner()
    before = _revisions(scene.cluster)

    def sure_by(taken: float) -> float:
        if len(scene.cluster.owners) > MOST_COPIES:
            return 0.0
        whole = before and before == _revisions(scene.cluster) and len(scene.names) == 1
        return taken if whole else scene.calm_since

    with copies.Copying(owner.folder.parent / f"copy-of-{owner.id}", owner.data, owner.code) as copying:
        found, many = copies.examine(copying, scene.history, scene.random, sure_by)
    # A full or broken disk beside it may end a backup: by name, and not the broker.
    scene.findings += found if not EXCUSE_A_COPY & {*scene.names} else []
    return f"a backup of {owner.id} had {many} messages", lambda: None


def _revisions(cluster: Cluster) -> dict[int, int]:
    """Slot → revision of its record; empty when some replica is not in sync."""
    records = cluster.records()
    if any(set(record["isr"]) != set(record["replicas"]) for record in records.values()):
        return {}
    return cluster.revisions()


def clock_step(scene: Scene) -> tuple[str, Undo]:
    """The wall clock of one process steps, and back."""
    process = scene.random.choice([scene.owner(), scene.edge()])
    if process.id not in scene.machines:
        return "no clock that can be set here", lambda: None
    machine, seconds = scene.machines[process.id], scene.random.choice((-3600, -60, -5, 5, 60, 3600))
    machine.be(clock_ms=seconds * 1000)
    return f"the clock of {process.id} steps by {seconds:+d} s, and back", lambda: machine.be(clock_ms=0)


def slow_disk(scene: Scene) -> tuple[str, Undo]:
    """Each sync of one owner takes longer."""
    owner = scene.owner()
    if owner.id not in scene.machines:
        return "no disk that can be slow here", lambda: None
    machine, ms = scene.machines[owner.id], scene.random.choice((20, 100, 400, 1000))
    machine.be(sync_us=ms * 1000)
    return f"the disk of {owner.id} takes {ms} ms longer to sync", lambda: machine.be(sync_us=0)


def broken_disk(scene: Scene) -> tuple[str, Undo]:
    """EIO for whatever one owner writes. It stops for that, and is started again when the disk is good again."""
    owner = scene.owner()
    if owner.id not in scene.machines:
        return "no disk that can break here", lambda: None
    machine, mark = scene.machines[owner.id], len(owner.log())
    machine.be(error=errno.EIO)

    def undo() -> None:
        machine.be(error=0)
        if scene.names == ("broken-disk",) and ("no space" in (log := owner.log()[mark:]) or "disk full" in log):
            scene.findings.append(f"EIO: {owner.id} says that there is no space")
        time.sleep(3)  # what has failed by now is heard of, and ends it, which takes a while
        scene.cluster.wait(lambda: not owner.running or owner.ready(), 120, lambda: f"neither: {owner.log()[-3000:]}")
        _again(owner)()

    return f"EIO from the disk of {owner.id}", undo


def grow(scene: Scene) -> tuple[str, Undo]:
    """One more owner, which leaves again for good."""
    owner = scene.cluster.add_owner()
    return f"{owner.id} is added", lambda: scene.cluster.remove_owner(owner)


def more_partitions(scene: Scene) -> tuple[str, Undo]:
    """One more for a queue's address and a topic's, which are in use. They never shrink."""
    if (many := len(scene.grown) + 2) > MOST_PARTITIONS:
        return "there are enough partitions", lambda: None
    scene.grown.append(many)
    for address in PARTITIONED:
        scene.cluster.cluster("addresses", "set", address, f"partitions={many}")
    return f"{' and '.join(PARTITIONED)} have {many} partitions", lambda: None


def _redis(scene: Scene) -> Redis:
    assert scene.redis is not None, "--redis"
    return scene.redis


def kill_redis(scene: Scene) -> tuple[str, Undo]:
    redis = _redis(scene)
    redis.server.kill()
    return "SIGKILL Redis", redis.server.start


def freeze_redis(scene: Scene) -> tuple[str, Undo]:
    redis = _redis(scene)
    redis.server.pause()
    return "SIGSTOP Redis", redis.server.resume


def cut_redis(scene: Scene) -> tuple[str, Undo]:
    """One edge from Redis."""
    redis, edge, hole = _redis(scene), scene.edge(), scene.random.random() < 0.5
    (redis.way.blackhole if hole else redis.way.cut)(edge.pid)
    return f"{edge.id} does not reach Redis ({'black hole' if hole else 'reset'})", redis.way.heal


def upgrade(scene: Scene) -> tuple[str, Undo]:
    """Everything that runs another release is restarted with this one, in turn. Nothing where nothing does."""
    old = [process for process in scene.cluster.processes if process.code is not None]
    for process in old:
        process.stop()
        process.code = None
        process.start()
        process.wait_ready(120)
    return f"{len(old)} processes were upgraded in turn", lambda: None


def mount(folder: Path) -> Path | None:
    """A disk of DISK_BYTES at this folder; None where that takes more rights than we have."""
    folder.mkdir(parents=True, exist_ok=True)
    if os.geteuid() != 0:
        return None
    line = ["mount", "-t", "tmpfs", "-o", f"size={DISK_BYTES}", "chaos", str(folder)]
    return folder if subprocess.run(line, capture_output=True).returncode == 0 else None


def unmount(folder: Path) -> None:
    subprocess.run(["umount", "-l", str(folder)], capture_output=True)


OF_REDIS: dict[str, Callable[[Scene], tuple[str, Undo]]] = {
    "kill-redis": kill_redis, "freeze-redis": freeze_redis, "cut-redis": cut_redis,
}  # fmt: skip
ALONE: dict[str, Callable[[Scene], tuple[str, Undo]]] = {
    "wipe-owner": wipe_owner, "grow": grow, "upgrade": upgrade,
}  # fmt: skip
"""Never beside another one."""
DEATHS: dict[str, Callable[[Scene], tuple[str, Undo]]] = {
    "kill-owner": kill_owner, "stop-owner": stop_owner, "freeze-owner": freeze_owner, "full-disk": full_disk,
    "broken-disk": broken_disk,
}  # fmt: skip
"""One of these at a time: three owners bear one that is away."""
OTHERS: dict[str, Callable[[Scene], tuple[str, Undo]]] = {
    "isolate-owner": isolate_owner, "cut-among-owners": cut_among_owners, "cut-pair": cut_pair, "cut-edges": cut_edges,
    "cut-edge": cut_edge, "switch-fails": switch_fails, "suspend-edge": suspend_edge, "cut-store": cut_store,
    "kill-edge": kill_edge, "freeze-edge": freeze_edge,
    "freeze-store": freeze_store, "kill-store": kill_store, "half-cut": half_cut, "slow-links": slow_links,
    "lossy-links": lossy_links, "clock-step": clock_step, "slow-disk": slow_disk, "reset-links": reset_links,
    "reset-peers": reset_peers, "more-partitions": more_partitions, "low-disk": low_disk, "backup": backup, **OF_REDIS,
}  # fmt: skip
ALL = {**ALONE, **DEATHS, **OTHERS}
LEAST_S = {"cut-edges": 18.0}
"""So long at least: what is done about it takes a while."""


def draw(random: random.Random, among: dict[str, Callable[[Scene], tuple[str, Undo]]]) -> list[str]:
    """Names of one fault, or of two that may come together."""
    first = random.choice(sorted(among))
    if first in ALONE or random.random() < 0.5:
        return [first]
    second = random.choice(sorted(among))
    if second in ALONE or second == first or {first, second} <= DEATHS.keys():
        return [first]
    if {first, second} & DEATHS.keys() and {first, second} & {"isolate-owner", "half-cut"}:
        return [first]  # two owners of three away: it waits, rightly, for as long as it lasts
    return [first, second]
