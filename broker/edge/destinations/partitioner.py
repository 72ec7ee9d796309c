"""Messages for a split address: which of them belong together, and where they go.

Order is kept within a slot only. Messages with the same JMSXGroupID therefore all go to the same one, and so do those
with the same _AMQ_DUPL_ID, or no slot would see that it had them; other messages take turns run by run, so that a batch
stays a batch.

Rule: looks into header lines only for split addresses and where flags say that there is something to find, and into
those of single messages only when they differ.
"""

from __future__ import annotations

from broker.config.settings import EngineSettings
from broker.core.message import GROUPED, UNIQUE
from broker.wire.events import Head, Sends

from .send_route import Split

_GROUP = b"JMSXGroupID:"
_UNIQUE = b"_AMQ_DUPL_ID:"
_MARKED = GROUPED | UNIQUE


def group_of(lines: bytes) -> bytes | None:
    """The raw value of JMSXGroupID in header lines (they may end with the empty line and the body), else that of
    _AMQ_DUPL_ID, or None."""
    group = _value(lines, _GROUP)
    return _value(lines, _UNIQUE) if group is None else group


def _value(lines: bytes, name: bytes) -> bytes | None:
    if lines.startswith(b"\n"):
        return None
    if lines.startswith(name):
        start = len(name)
    else:
        start = lines.find(b"\n" + name)
        if start < 0 or -1 < lines.find(b"\n\n") < start:
            return None
        start += 1 + len(name)
    return lines[start : lines.index(b"\n", start)]


def slot_for(head: Head, record: bytes, split: Split) -> int:
    """Where a single message goes."""
    group = group_of(head.lines or record) if head.flags & _MARKED else None
    return split.next() if group is None else split.of(group)


def by_slot(event: Sends, split: Split) -> list[tuple[int | None, list[bytes]]]:
    """The frames' records by slot, in order within each; slot None: it does not matter which."""
    head = event.head
    if not head.flags & _MARKED:
        return [(None, event.records)]
    if head.lines:
        group = group_of(head.lines)
        return [(None if group is None else split.of(group), event.records)]
    parts: dict[int | None, list[bytes]] = {}
    for record in event.records:
        group = group_of(record)
        parts.setdefault(None if group is None else split.of(group), []).append(record)
    return list(parts.items())


def partitions_by_pattern(engine: EngineSettings) -> dict[str, object]:
    """What decides on partitions: as long as it stays there are no new ones."""
    return {"": engine.address.partitions, **{name: own.get("partitions") for name, own in engine.addresses.items()}}
