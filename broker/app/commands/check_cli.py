"""`stampede cluster check`: asks every slot's leader whether all replicas have the same, and says what differs.

Rule: one slot after the other, so that a check never costs more than one owner's worth of reading. A slot that could
not be looked at is no slot in order.
"""

from __future__ import annotations

import json
import urllib.request
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Final, NamedTuple

from broker.cluster.operate import Picture

ATTEMPTS: Final = 5
"""A slot may move, or a replica be busy with another check, so many times."""
TIMEOUT_S: Final = 330.0
"""A little longer than an owner waits for its followers (owner/replication/replica_check.py)."""


class Verdict(NamedTuple):
    """One slot. replicas: that were looked at. problem: why it (or one of its replicas) was not, "" = it was."""

    slot: int
    messages: int
    replicas: list[str]
    differences: list[str]
    problem: str


def verdicts(look: Callable[[], Picture], slots: Iterable[int], pause: Callable[[], None]) -> Iterator[Verdict]:
    """`look`: the cluster as it is now. `pause`: before another attempt."""
    picture = look()
    for slot in slots:
        verdict = _verdict(picture, slot)
        for _ in range(ATTEMPTS - 1):
            if not verdict.problem:
                break
            pause()
            picture = look()
            verdict = _verdict(picture, slot)
        yield verdict


def _verdict(picture: Picture, slot: int) -> Verdict:
    record = picture.view.records.get(slot)
    leader = picture.view.owners.get(record.leader) if record is not None else None
    if record is None or leader is None:
        return Verdict(slot, 0, [], [], "it has no live leader")
    if not leader.admin:
        return Verdict(slot, 0, [], [], f"{leader.id} has no admin port (admin.port)")
    try:
        answer = _ask(f"http://{leader.admin}/api/check?slot={slot}")
    except (OSError, ValueError) as error:
        return Verdict(slot, 0, [], [], f"{leader.id} at {leader.admin}: {error}")
    failed = "; ".join(f"{one}: {why}" for one, why in sorted(answer["failed"].items()))
    return Verdict(slot, answer["messages"], answer["looked_at"], answer["differences"], failed)


def _ask(url: str) -> dict[str, Any]:
    with urllib.request.urlopen(url, timeout=TIMEOUT_S) as reply:  # noqa: S310 (made of the settings)
        answer: dict[str, Any] = json.load(reply)
        return answer
