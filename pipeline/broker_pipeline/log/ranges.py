"""Offsets of slots as plain values: where to start and end, how to cut a range into tasks.

An offset of the pipeline is {"<slot>": {"o": next offset, "e": epoch of what was read before it}}; a slot that is not
in it starts at its first offset.

Rule: pure. A range is cut into parts without gap or overlap (tests/pipeline/test_ranges.py), whatever the sizes.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from ..errors import PipelineError

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
    """[start, end) of a slot. `epoch`: of the item before start, `until_epoch`: of the last one; 0 = not checked."""

    slot: int
    start: int
    end: int
    epoch: int = 0
    endpoint: str = ""
    until_epoch: int = 0

    def __len__(self) -> int:
        return max(self.end - self.start, 0)


@dataclass(frozen=True)
class Split:
    """What one task reads, in this order. `endpoints`: of all brokers that may have it, should one go away."""

    ranges: tuple[Range, ...] = field(default=())
    endpoints: tuple[str, ...] = field(default=())


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
                " lost to this reader: archive more often or raise log_reads.keep_bytes; to go on without it, begin a"
                " new checkpoint, or a new archive folder",
                1801,
            )
        epoch = first.get("e", 0)
        until = place.get("e", 0) or (epoch_before(info, place["o"]) if info else 0)
        found.append(Range(int(slot), first["o"], place["o"], epoch, info.endpoint if info else "", until))
    return found


def splits(
    ranges: Iterable[Range], items: int, cuts: Mapping[str, Iterable[Mapping[int, int]]], infos: Mapping[int, SlotInfo]
) -> list[Split]:
    """Tasks of about `items` items, cut where the log is cheap to begin at: else each would pass over what is others'.

    The parts of one task are of one broker's log, and so are cuts (endpoint → cuts)."""
    tasks: list[Split] = []
    ranges = list(ranges)
    for endpoint in sorted({part.endpoint for part in ranges}):
        left = {part.slot: part for part in ranges if part.endpoint == endpoint}
        gathered: dict[int, Range] = {}
        for cut in [cut for cut in cuts.get(endpoint, ()) if set(cut) & set(left)]:
            piece = {slot: min(max(cut.get(slot, part.start), part.start), part.end) for slot, part in left.items()}
            size = sum(stop - left[slot].start for slot, stop in piece.items())
            if gathered and size and sum(map(len, gathered.values())) + size > items:
                tasks.append(Split(tuple(gathered.values())))
                gathered = {}
            _move(left, gathered, piece, infos)
        if sum(map(len, gathered.values())) + sum(map(len, left.values())) > items and any(map(len, left.values())):
            tasks.append(Split(tuple(gathered.values())))
            gathered = {}
        _move(left, gathered, {slot: part.end for slot, part in left.items()}, infos)
        tasks.append(Split(tuple(gathered.values())))
    return [task for task in tasks if task.ranges]


def _move(left: dict[int, Range], gathered: dict[int, Range], stops: Mapping[int, int], infos: Mapping[int, SlotInfo]
          ) -> None:  # fmt: skip
    """What is left of each slot up to its stop is gathered."""
    for slot, stop in stops.items():
        part = left[slot]
        if stop > part.start:
            first, left[slot] = parted(part, stop, infos.get(slot))
            had = gathered.get(slot)
            gathered[slot] = replace(had, end=stop, until_epoch=first.until_epoch) if had is not None else first


def parted(part: Range, stop: int, info: SlotInfo | None) -> tuple[Range, Range]:
    """What lies before `stop`, and the rest."""
    if stop >= part.end:
        return part, replace(part, start=part.end, epoch=part.until_epoch)
    epoch = epoch_before(info, stop) if info else 0
    return replace(part, end=stop, until_epoch=epoch), replace(part, start=stop, epoch=epoch)


def capped_at(
    start: Mapping[str, Mapping[str, int]], infos: Mapping[int, SlotInfo], cuts: Iterable[Mapping[int, int]], most: int
) -> Offsets:
    """As `capped`, but up to the last cut within `most` items, so that the next batch begins where that is cheap."""
    if not most or sum(max(info.end - _begin(start, info), 0) for info in infos.values()) <= most:
        return capped(start, infos.values(), 0)
    best: dict[int, int] = {}
    for cut in cuts:
        stops = best | {slot: min(max(at, _begin(start, infos[slot])), infos[slot].end) for slot, at in cut.items()}
        if sum(stop - _begin(start, infos[slot]) for slot, stop in stops.items()) <= most:
            best = stops
    if not any(stop > _begin(start, infos[slot]) for slot, stop in best.items()):
        return capped(start, infos.values(), most)
    ends = {slot: replace(info, end=max(best.get(slot, 0), _begin(start, info))) for slot, info in infos.items()}
    return capped(start, ends.values(), 0)


def _begin(start: Mapping[str, Mapping[str, int]], info: SlotInfo) -> int:
    return start.get(str(info.slot), {"o": info.earliest})["o"]
