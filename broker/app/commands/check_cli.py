"""`stampede cluster check`: asks every slot's leader whether all replicas have the same, and says what differs.

Rule: one slot after the other, so that a check never costs more than one owner's worth of reading. A slot that could
not be looked at is no slot in order.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Final, NamedTuple

from broker.admin.scrape_token import answer_of
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


def verdicts(
    look: Callable[[], Picture], slots: Iterable[int], pause: Callable[[], None], headers: Mapping[str, str]
) -> Iterator[Verdict]:
    """`look`: the cluster as it is now. `pause`: before another attempt. headers: for owners (admin.token_file)."""
    picture = look()
    for slot in slots:
        verdict = _verdict(picture, slot, headers)
        for _ in range(ATTEMPTS - 1):
            if not verdict.problem:
                break
            pause()
            picture = look()
            verdict = _verdict(picture, slot, headers)
        yield verdict


def _verdict(picture: Picture, slot: int, headers: Mapping[str, str]) -> Verdict:
    record = picture.view.records.get(slot)
    leader = picture.view.owners.get(record.leader) if record is not None else None
    if record is None or leader is None:
        return Verdict(slot, 0, [], [], "it has no live leader")
    if not leader.admin:
        return Verdict(slot, 0, [], [], f"{leader.id} has no admin port (admin.port)")
    try:
        answer = answer_of(f"http://{leader.admin}/api/check?slot={slot}", headers, TIMEOUT_S)
    except (OSError, ValueError) as error:
        return Verdict(slot, 0, [], [], f"{leader.id} at {leader.admin}: {error}")
    failed = "; ".join(f"{one}: {why}" for one, why in sorted(answer["failed"].items()))
    return Verdict(slot, answer["messages"], answer["looked_at"], answer["differences"], failed)
