"""How far the owners' StatefulSet may bring its new template: one owner at a time, and none while a slot still waits
for the last one.

An owner is not ready while a slot that it leads lacks a copy, so while one is replaced the other owners are not ready
either. Of pods that start in parallel, Kubernetes 1.37 takes those of the old template at once that are not ready: two
owners went down within two seconds, and every slot with them. So the partition of the StatefulSet, below which no pod
is touched, stands above all pods at rest and is let down here, a pod at a time.

Rule: pure. An owner that serves goes only when all other owners are ready and all slots in sync; one that is broken
goes at once; one that is not there is made from the new template when all other owners are ready, else from the old
one. No wait is for ever: what has not come after PATIENCE_S is not waited for.
"""

# Example. Owners 0, 1, 2 at rest: partition 3. The image changes:
#     3 → 2   all are ready, all slots in sync: Kubernetes replaces owner-2
#     2       owner-2 is not ready; then it is, and its copies are behind: nobody goes
#     2 → 1   all slots are in sync: owner-1, and so on
#     0       all are of the new template and ready: currentRevision becomes updateRevision, and the partition 3 again
# The image cannot be pulled: owner-2 stays away, and nobody follows it. A better image comes: owner-2 has not run for a
# minute, so it is replaced at once.

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Final, NamedTuple

from ..spec import names
from ..spec.conditions import seconds_of
from ..spec.model import Table

STARTS_S: Final = 60.0
"""A pod without a container that runs is broken after so long: before that it may be on its way."""
PATIENCE_S: Final = 600.0
"""An owner that has not been ready for so long, and slots that have not been in sync since: what would make them so is
perhaps the new template."""
LOOK_AGAIN_S: Final = 2.0
"""While it goes on: that slots are in sync has no event of Kubernetes."""
REVISION: Final = "controller-revision-hash"
_UNSEEN: Final = "Kubernetes has not seen the StatefulSet yet"


class Roll(NamedTuple):
    """partition: pods from there on may be of the new template. waits: for what; "" = for nothing."""

    partition: int
    waits: str = ""


def under_way(live: Table, said: bool) -> bool:
    """Pods of two templates are meant to be there. said: that one has begun; Kubernetes has perhaps not looked yet."""
    status = live.get("status", {})
    new = status.get("updateRevision")
    return bool(new) and (status.get("currentRevision") != new or (said and not _looked_at(live)))


def begun(live: Table, wanted: Table) -> Roll | None:
    """The roll that begins when `wanted` is applied over `live`; None: it has no other template of ours."""
    before, after = (one["metadata"].get("annotations", {}).get(names.TEMPLATE_HASH) for one in (live, wanted))
    return Roll(partition(wanted), _UNSEEN) if before != after else None


def step(broker: str, live: Table, pods: Sequence[Table], unsettled: str, began: float, now: float) -> Roll:
    """The next one of a roll that is under way, whoever began it (`kubectl rollout restart`, too). unsettled: why slots
    are not in sync; "" = they are. began: when the roll did, seconds since the epoch, as `now`."""
    replicas = int(live["spec"].get("replicas", 1))
    at = partition(live)
    if not _looked_at(live):
        return Roll(at, _UNSEEN)
    there = _by_ordinal(broker, pods)
    new = live["status"]["updateRevision"]
    old = [n for n in range(replicas) if n not in there or there[n]["metadata"]["labels"].get(REVISION) != new]
    if not old:
        return Roll(0, _unready(broker, there, range(replicas)))
    broken = {n for n in old if n in there and _broken(there[n], now)}
    if len(broken) == len(old):
        return Roll(0)  # nobody is served by them
    following = old[-1]
    away = following not in there
    if at <= following and (away or _ending(there[following])):
        # It went for the new template. With the partition above it again it would come back as it was.
        went = _lowest_gone(there, range(at, following + 1), set(old) - broken, new)
        return Roll(went, f"{names.owner_pod(broker, following)} is not ready")
    if waits := _unready(broker, there, range(following + 1, replicas)):
        return Roll(following + 1, waits)
    if following in broken:
        return Roll(following)
    last = max([began, *(_since(there[n], "True") for n in range(following + 1, replicas))])
    waits = _unready(broker, there, [n for n in old if n not in broken and not (away and n == following)])
    # Where one is away or broken slots cannot be in sync, and perhaps it waits for the new template.
    waits = waits or ("" if away or broken else unsettled)
    if waits and now - last < PATIENCE_S:
        return Roll(following + 1, waits)
    return Roll(following)


def _lowest_gone(there: Mapping[int, Table], ordinals: Sequence[int], serving: Collection[int], new: str) -> int:
    """The lowest one that is gone for the new template, or may go as it serves no client, with none of the old one
    (serving) between it and the top: that one would be taken while another is away."""
    lowest = ordinals[-1]
    for n in reversed(ordinals):
        gone = n not in there or _ending(there[n])
        if n in serving and not gone:
            break
        if gone or there[n]["metadata"]["labels"].get(REVISION) != new:
            lowest = n
    return lowest


def _looked_at(live: Table) -> bool:
    return bool(live["metadata"].get("generation") == live["status"].get("observedGeneration"))


def partition(live: Table) -> int:
    """That of the StatefulSet as it is."""
    return int((live["spec"].get("updateStrategy", {}).get("rollingUpdate") or {}).get("partition", 0))


def _by_ordinal(broker: str, pods: Sequence[Table]) -> dict[int, Table]:
    found = {names.ordinal_of(broker, str(pod["metadata"]["name"])): pod for pod in pods}
    return {ordinal: pod for ordinal, pod in found.items() if ordinal is not None}


def _unready(broker: str, there: Mapping[int, Table], ordinals: Sequence[int]) -> str:
    """The first one that is not ready; "": all are."""
    for ordinal in ordinals:
        if ordinal not in there or not _ready(there[ordinal]):
            return f"{names.owner_pod(broker, ordinal)} is not ready"
    return ""


def _condition(pod: Table) -> Table:
    conditions = pod.get("status", {}).get("conditions") or ()
    return next((one for one in conditions if one["type"] == "Ready"), {})


def _ready(pod: Table) -> bool:
    return _condition(pod).get("status") == "True" and not _ending(pod)


def _ending(pod: Table) -> bool:
    return bool(pod["metadata"].get("deletionTimestamp"))


def _since(pod: Table, status: str) -> float:
    """Since when it is so; 0: it is not."""
    found = _condition(pod)
    return (seconds_of(found.get("lastTransitionTime") or "") or 0.0) if found.get("status") == status else 0.0


def _broken(pod: Table, now: float) -> bool:
    """It serves nobody, and will not by waiting."""
    if _ready(pod):
        return False
    containers = pod.get("status", {}).get("containerStatuses") or ()
    runs = any("running" in (one.get("state") or {}) for one in containers)
    since = _since(pod, "False") or seconds_of(pod["metadata"].get("creationTimestamp") or "") or now
    return now - since >= (PATIENCE_S if runs else STARTS_S)
