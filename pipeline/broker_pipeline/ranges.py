"""Offsets of slots as plain values: where to start and end, how to cut a range into tasks.

An offset of the pipeline is {"<slot>": {"o": next offset, "e": epoch of what was read before it}}; a slot that is not
in it starts at its first offset.

Rule: pure. A range is cut into parts without gap or overlap (tests/pipeline/test_ranges.py), whatever the sizes.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from .errors import PipelineError

Offsets = dict[str, dict[str, int]]
"""As in Spark's checkpoints and our manifests."""


@dataclass(frozen=True)
class SlotInfo:
    """What Describe says of a slot. `endpoint`: who reads it. `lineage`: (epoch, its first offset), ascending."""

    slot: int
    endpoint: str
    earliest: int
    end: int
    lineage: tuple[tuple[int, int], ...] = ()


@dataclass(frozen=True)
class Range:
    """[start, end) of a slot; `epoch`: of the item before start, 0 = not to be checked."""

    slot: int
    start: int
    end: int
    epoch: int = 0
    endpoint: str = ""

    def __len__(self) -> int:
        return max(self.end - self.start, 0)


@dataclass(frozen=True)
class Split:
    """What one task reads, in this order."""

    ranges: tuple[Range, ...] = field(default=())


def epoch_before(info: SlotInfo, offset: int) -> int:
    """Of the item that precedes `offset`; 0: it is older than the lineage, or there is none."""
    return max((epoch for epoch, start in info.lineage if start < offset), default=0)


def parse(text: str) -> Offsets:
    """JSON of offsets. Raises PipelineError."""
    try:
        read = json.loads(text)
        return {str(int(slot)): {"o": int(at["o"]), "e": int(at.get("e", 0))} for slot, at in read.items()}
    except (ValueError, TypeError, KeyError, AttributeError):
        raise PipelineError(
            f'offsets: {text[:80]!r} is none of earliest, latest, @milliseconds, {{"<slot>": {{"o": 1, "e": 0}}}}'
        ) from None


def at(info: SlotInfo, offset: int) -> dict[str, int]:
    return {"o": offset, "e": epoch_before(info, offset)}


def earliest(infos: Iterable[SlotInfo]) -> Offsets:
    return {str(info.slot): at(info, info.earliest) for info in infos}


def latest(infos: Iterable[SlotInfo]) -> Offsets:
    return {str(info.slot): at(info, info.end) for info in infos}


def capped(start: Mapping[str, Mapping[str, int]], infos: Iterable[SlotInfo], most: int) -> Offsets:
    """The end of a batch: up to `most` items (0: all) behind `start`, every slot its share, never behind the start.

    Shares are in proportion to what waits and at least one item, so that each slot goes on: a batch may therefore be
    larger than `most` by one item per slot."""
    described = {str(info.slot): info for info in infos}
    waiting = {slot: max(info.end - start.get(slot, {"o": info.earliest})["o"], 0) for slot, info in described.items()}
    total = sum(waiting.values())
    end: Offsets = {slot: dict(place) for slot, place in start.items()}
    for slot, info in described.items():
        begin = start.get(slot, {"o": info.earliest})["o"]
        share = waiting[slot] if not most or total <= most else -(-waiting[slot] * most // total)
        if share or slot not in end:
            end[slot] = at(info, begin + share)
    return end


def between(start: Mapping[str, Mapping[str, int]], end: Mapping[str, Mapping[str, int]],
            infos: Mapping[int, SlotInfo]) -> list[Range]:  # fmt: skip
    """The ranges from start to end. A slot that start does not know begins at its first offset.

    Raises PipelineError when a slot has lost what is to be read, or has no history of it."""
    found = []
    for slot, place in sorted(end.items(), key=lambda pair: int(pair[0])):
        info = infos.get(int(slot))
        first = start.get(slot) or {"o": info.earliest if info else 1, "e": 0}
        if place["o"] <= first["o"]:
            continue
        if info is not None and first["o"] < info.earliest:
            raise PipelineError(
                f"slot {slot}: offset {first['o']} is gone, the log begins at {info.earliest} now. What lies between is"
                " lost to this reader: archive more often or raise log_reads.keep_bytes; to go on without it, start a"
                " new checkpoint or archive with startingOffsets=earliest",
                1801,
            )
        epoch = first.get("e", 0)
        found.append(Range(int(slot), first["o"], place["o"], epoch, info.endpoint if info else ""))
    return found


def splits(ranges: Iterable[Range], items: int, infos: Mapping[int, SlotInfo]) -> list[Split]:
    """Tasks of about `items` items: long ranges are cut, short ones put together."""
    tasks: list[Split] = []
    gathered: list[Range] = []
    size = 0
    for whole in ranges:
        start, epoch = whole.start, whole.epoch
        while start < whole.end:
            stop = min(whole.end, start + items - size)
            gathered.append(Range(whole.slot, start, stop, epoch, whole.endpoint))
            size += stop - start
            info = infos.get(whole.slot)
            start, epoch = stop, epoch_before(info, stop) if info else 0
            if size >= items:
                tasks.append(Split(tuple(gathered)))
                gathered, size = [], 0
    if gathered:
        tasks.append(Split(tuple(gathered)))
    return tasks
