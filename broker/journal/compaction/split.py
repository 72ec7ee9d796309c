"""A run cut into what each set of queues still holds of it, for copies that need no older settle.

Rule: every live message is in exactly one part, and no queue gets its messages in another order.
Must not know the live index, the log or who copies.
"""

# Example. A run of messages 1…6 in queues a and b; a has acknowledged 3 and 4, b has acknowledged 6:
#     1 2 → {a, b}   3 4 → {b}   5 → {a, b}   6 → {a}
# Two parts {a, b}: 1 2 5 and {b}: 3 4 would give b the order 1 2 5 3 4. So {b} closes {a, b}, and 5 opens it anew:
# parts 1 2, 3 4, 5, 6, each queue in its order (I7).

from __future__ import annotations

from collections.abc import Sequence

from broker.core.message import Run


def by_queues(run: Run, holders: dict[int, tuple[int, ...]]) -> list[tuple[tuple[int, ...], list[int]]]:
    """(set of queues, indices of messages which exactly these queues hold), by the first of the indices.

    No queue may find two of these interleaved, or it would get its messages back in another order: a group
    takes nothing more once another one has taken a message for one of its queues."""
    groups: list[tuple[tuple[int, ...], list[int]]] = []
    taking: dict[tuple[int, ...], list[int]] = {}
    for index, message in enumerate(run.ids):
        queues = holders.get(message)
        if not queues:
            continue
        if queues not in taking or len(taking) > 1:
            # Disjoint sets do not disturb each other: their parts may be interleaved, as no queue sees both.
            for other in [q for q in taking if q != queues and not set(q).isdisjoint(queues)]:
                del taking[other]
            if queues not in taking:
                taking[queues] = []
                groups.append((queues, taking[queues]))
        taking[queues].append(index)
    return groups


def part_of(run: Run, indices: Sequence[int]) -> Run:
    """The messages at these indices, ids and all."""
    if len(indices) == len(run.records):
        return run
    records = [run.records[i] for i in indices]
    nbytes = sum(map(len, records)) + len(records) * len(run.lines)
    ids = [run.ids[i] for i in indices]
    return Run(
        ids, run.lines, records, nbytes, run.flags, run.priority, run.expires, run.time, run.attempts, due=run.due
    )  # fmt: skip
