"""What can happen to a cluster: a table of faults, each begun and taken back.

Rule: what an operator's hands, a kernel or a network can do to real processes (signals, proxies, folders), nothing
from within. A fault says what it did in words that stand in the verdict's folder.

One copy of three may be destroyed at a time, so `wipe-owner` comes alone; everything else also in pairs.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass

from tests.harness.cluster import Cluster, Process
from tests.harness.servers import LocalServer

Undo = Callable[[], None]


@dataclass(frozen=True)
class Scene:
    """What a fault may touch."""

    cluster: Cluster
    etcd: LocalServer
    random: random.Random

    def owner(self) -> Process:
        return self.random.choice([owner for owner in self.cluster.owners if owner.running])

    def edge(self) -> Process:
        return self.random.choice([edge for edge in self.cluster.edges if edge.running])


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
    edge = scene.edge()
    for owner in scene.cluster.owners:
        owner.inbound.cut(edge.pid)
    return f"{edge.id} reaches no owner", scene.cluster.heal


def cut_store(scene: Scene) -> tuple[str, Undo]:
    process = scene.random.choice([scene.owner(), scene.edge()])
    process.to_etcd.cut()
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
    scene.etcd.pause()
    return "SIGSTOP etcd", scene.etcd.resume


def kill_store(scene: Scene) -> tuple[str, Undo]:
    scene.etcd.kill()
    return "SIGKILL etcd", scene.etcd.start


ALONE: dict[str, Callable[[Scene], tuple[str, Undo]]] = {"wipe-owner": wipe_owner}
"""Never beside another one."""
DEATHS: dict[str, Callable[[Scene], tuple[str, Undo]]] = {
    "kill-owner": kill_owner, "stop-owner": stop_owner, "freeze-owner": freeze_owner,
}  # fmt: skip
"""One of these at a time: three owners bear one that is away."""
OTHERS: dict[str, Callable[[Scene], tuple[str, Undo]]] = {
    "isolate-owner": isolate_owner, "cut-among-owners": cut_among_owners, "cut-pair": cut_pair, "cut-edges": cut_edges,
    "cut-edge": cut_edge, "cut-store": cut_store, "kill-edge": kill_edge, "freeze-edge": freeze_edge,
    "freeze-store": freeze_store, "kill-store": kill_store,
}  # fmt: skip
ALL = {**ALONE, **DEATHS, **OTHERS}


def draw(random: random.Random, among: dict[str, Callable[[Scene], tuple[str, Undo]]]) -> list[str]:
    """Names of one fault, or of two that may come together."""
    first = random.choice(sorted(among))
    if first in ALONE or random.random() < 0.5:
        return [first]
    second = random.choice(sorted(among))
    if second in ALONE or second == first or {first, second} <= DEATHS.keys():
        return [first]
    if {first, second} & DEATHS.keys() and {first, second} & {"isolate-owner"}:
        return [first]  # two owners of three away: it waits, rightly, for as long as it lasts
    return [first, second]
