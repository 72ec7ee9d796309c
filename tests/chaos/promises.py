"""Judges what else a chaos run promises its clients: by time, by connection, and by sight. Pure, as checker.py.

Rule: a finding is certain. Where a promise holds only while nothing happens to edges, or to nobody at all, faults of
that time (History.faults) excuse, and only these.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections import defaultdict

from .history import Event, History, Kind

HARMLESS = frozenset((
    "kill-owner", "stop-owner", "wipe-owner", "freeze-owner", "kill-store", "freeze-store", "grow", "slow-disk",
    "more-partitions", "kill-redis", "freeze-redis", "cut-redis", "backup", "low-disk", "reset-peers",
))  # fmt: skip
"""Costs no client its connection (docs/cluster.md, "What clients see")."""
SWIFT = HARMLESS - {"kill-store", "freeze-store"} | {"cut-edges"}
"""… and others serve what was served there within seconds."""
STARVED, STARVED_S = "starved", 60.0
"""As a fault's name. What takes its time is not judged so near to it."""
STUCK_S = 15.0
"""What of a wait is outside faults, or beside one of these."""
SLOW_S = 5.0
"""What of it is outside all of them."""
KEEPS_EDGES = HARMLESS | {
    "cut-among-owners", "cut-pair", "reset-links", "switch-fails", "full-disk", "broken-disk",
}  # fmt: skip
"""No owner gives an edge up for it."""
LATE_S = 5.0
"""After its time to live: it may have been on its way, to a client that was not scheduled."""
STALE_S = 5.0
"""After the marked copy of another one: two seconds, and the same."""
AGAIN_S = 60.0
"""What an edge that was given up still has comes as late as it comes back."""
AFTER_S = 10.0
"""What a fault does is noticed so late, by heart-beats."""
TOLD_S = 5.0
"""A subscriber that is there so long after the receipt has what it gets."""


def check(history: History, clocks_set: bool = False) -> list[str]:
    """Every broken promise as one line."""
    return [
        *_thrown_out(history),
        *_stuck(history),
        *_stale(history),
        *_forgotten(history),
        *_expired_and_settled(history),
        *_twice(history.events),
        *_again(history),
        *_full(history),
        *_overlooked(history.events),
        *_shown(history.events),
        *_missed(history),
        *([] if clocks_set else _late(history)),
    ]


def consumed(history: History) -> set[str]:
    """Of `ack:auto`: messages of which an edge may have told that they had arrived, and that went down with the
    connection of their consumer: those behind the last that it got, without a gap, if they were sent before its end."""
    last: dict[tuple[str, str], int] = {}
    sent: dict[str, int] = {}
    came: set[str] = set()
    ends: dict[str, int] = {}
    for at, event in enumerate(history.events):
        stream, _, number = event.key.rpartition("/")
        if event.kind is Kind.ENDED:
            ends[event.key] = at
        elif stream.startswith("chaos.auto/"):
            if event.kind is Kind.SENT:
                sent[event.key] = at
            elif event.kind is Kind.DELIVERED:
                came.add(event.key)
                last[event.who, stream] = max(int(number), last.get((event.who, stream), -1))
    found = set()
    for name in {name for name in (*ends, *(who for who, _ in last)) if name.startswith("ca.")}:
        for stream in {key.rpartition("/")[0] for key in sent}:
            following = last.get((name, stream), -1) + 1
            while (key := f"{stream}/{following}") in sent and key not in came and sent[key] < ends.get(name, -1):
                found.add(key)
                following += 1
    return found


def _thrown_out(history: History) -> list[str]:
    """A connection lives on while an owner dies, and while etcd or Redis is away. What an edge did not keep of a large
    body is refused (1607), which the docs say; of full disks see _full()."""
    found = []
    for event in history.events:
        if event.kind is Kind.ENDED and event.why and not re.search(" (1601|1607) ", event.why):
            names = {name for span in history.during(event.at - AFTER_S, event.at) for name in span.names}
            if names <= HARMLESS and not starving(history, event.at, event.at):
                found.append(f"thrown out: {event.key}, beside {', '.join(sorted(names)) or 'nothing'}: {event.why}")
    return found


def calm(history: History, begun: float, seconds: float, beside: frozenset[str] = frozenset()) -> float:
    """How many seconds of a wait lie outside of faults, but for single ones of these."""
    end, at, outside = begun + seconds, begun, 0.0
    for span in sorted(history.during(begun, end), key=lambda span: span.begun):
        if len(span.names) == 1 and beside >= {*span.names}:
            continue
        outside += max(span.begun - at, 0.0)
        at = max(at, span.over)
    return outside + max(end - at, 0.0)


def starving(history: History, begun: float, end: float) -> bool:
    """The machine had nothing left for the run, a minute before or after this time or within: leases end then, and all
    of a cluster begins anew."""
    near = history.during(begun - STARVED_S, end + STARVED_S)
    return any(STARVED in span.names for span in near)


def _stuck(history: History) -> list[str]:
    found = []
    for begun, seconds in history.waits:
        if seconds <= SLOW_S:
            continue
        names = {name for span in history.during(begun, begun + seconds) for name in span.names}
        if starving(history, begun, begun + seconds):
            continue
        if calm(history, begun, seconds) > SLOW_S or calm(history, begun, seconds, SWIFT) > STUCK_S:
            found.append(f"stuck: an answer took {seconds:.1f} s, beside {', '.join(sorted(names)) or 'nothing'}")
    return found


def _again(history: History) -> list[str]:
    """A connection that has the receipt of its ACK gets that message no more, as long as no edge is given up: what a
    socket carries has an order."""
    settled: set[tuple[str, str]] = set()
    found = []
    for event in history.events:
        if event.kind is Kind.SETTLED:
            settled.add((event.who, event.key))
        elif event.kind is Kind.DELIVERED and event.who and (event.who, event.key) in settled:
            names = {name for span in history.during(event.at - AGAIN_S, event.at) for name in span.names}
            if names <= KEEPS_EDGES:
                found.append(f"resurrected: {event.key} came to {event.who} again, which has the receipt of its ACK")
    return found


def _full(history: History) -> list[str]:
    """1601 is said where a disk is full, and nowhere else."""
    return [
        f"full: {event.key} was told that a disk is full, and none was: {event.why}"
        for event in history.events
        if event.kind is Kind.ENDED
        and " 1601 " in event.why
        and not {"full-disk", "low-disk"}
        & {name for span in history.during(event.at - AGAIN_S, event.at) for name in span.names}
    ]


def _stale(history: History) -> list[str]:
    """An edge that was given up hands on for two seconds at most what it was sent before. What waits in a client that
    is not done with what came before is on nobody's way."""
    marked: dict[str, float] = {}
    found = []
    for event in history.events:
        if event.kind is not Kind.DELIVERED:
            continue
        at = event.came or event.at
        if event.redelivered:
            marked.setdefault(event.key, at)
        elif (late := at - marked.get(event.key, at)) > STALE_S:
            found.append(
                f"stale: {event.key} came to {event.who} without a mark {late:.1f} s after it had come with one"
            )
    return found


def _forgotten(history: History) -> list[str]:
    """What stands before a DISCONNECT counts, if nothing happened meanwhile."""
    parted: dict[str, int] = {}
    begun: dict[str, int] = {}
    came: set[str] = set()
    found = []
    for at, event in enumerate(history.events):
        if event.kind is Kind.PARTED and not history.during(event.at - AFTER_S, event.at + AFTER_S):
            parted[event.key] = at
        elif event.kind is Kind.CONNECTED:
            begun[event.key] = at
        elif event.kind is Kind.DELIVERED:
            came.add(event.key)
            acked = event.key in parted and event.key.startswith("chaos.leave/")
            if acked and begun.get(event.who, -1) > parted[event.key]:
                found.append(f"forgotten: {event.key} came to {event.who}, an ACK before a DISCONNECT")
    lost = sorted(key for key in parted.keys() - came if key.startswith("chaos.left/"))
    return found + [f"forgotten: {key} never came, sent in a COMMIT before a DISCONNECT" for key in lost]


def _expired_and_settled(history: History) -> list[str]:
    """One or the other, unless the consumer's edge was given up: then it has expired in other hands."""
    settled = {event.key: event.at for event in history.events if event.kind is Kind.SETTLED}
    sent = {event.key: event.at for event in history.events if event.kind is Kind.SENT and event.expires}
    found = []
    for event in history.events:
        key = event.key.removeprefix("expired:")
        if event.kind is Kind.DELIVERED and event.key != key and key in settled and key in sent:
            spans = history.during(sent[key], settled[key])
            if all(set(span.names) <= HARMLESS for span in spans):
                found.append(f"resurrected: {key} has expired, and its ACK has a receipt")
    return found


def _late(history: History) -> list[str]:
    expires = {event.key: event.expires for event in history.events if event.kind is Kind.SENT and event.expires}
    return [
        f"late: {event.key} came to {event.who} {event.at - expires[event.key]:.1f} s after its time to live"
        for event in history.events
        if event.kind is Kind.DELIVERED
        and event.key in expires
        and event.at - expires[event.key] > LATE_S
        and not history.during(expires[event.key], event.at)
        and not starving(history, expires[event.key], event.at)
    ]


def _twice(events: list[Event]) -> list[str]:
    """`ack:auto`, a connection that stays: whatever becomes of owners, it gets a message once."""
    had: set[tuple[str, str]] = set()
    found = []
    for event in events:
        if event.kind is Kind.DELIVERED and event.key.startswith("chaos.auto/") and event.who.startswith("ca."):
            if (event.who, event.key) in had:
                found.append(f"twice: {event.key} came to {event.who} again, which has consumed it")
            had.add((event.who, event.key))
    return found


def _overlooked(events: list[Event]) -> list[str]:
    """A look at what nobody takes shows all that had its receipt before, once, each producer's in order."""
    there: list[str] = []
    before: dict[str, int] = {}
    seen: dict[str, list[str]] = defaultdict(list)
    found = []
    for event in events:
        if event.kind is Kind.RECEIPTED and event.key.startswith("chaos.shelf/"):
            there.append(event.key)
        elif event.kind is Kind.LOOKS and event.key == "chaos.shelf":
            before[event.who] = len(there)
        elif event.kind is Kind.SEEN and event.who in before:
            seen[event.who].append(event.key)
        elif event.kind is Kind.LOOKED and event.who in before:
            shown = seen[event.who]
            if missing := sorted(set(there[: before[event.who]]) - set(shown)):
                found.append(f"overlooked: {len(missing)} by {event.who}, {missing[0]} first")
            if len(set(shown)) < len(shown):
                found.append(f"overlooked: {event.who} was shown some of {len(shown)} twice")
            elif not _ascending(shown):
                found.append(f"reordered: what {event.who} was shown")
    return found


def _ascending(keys: list[str]) -> bool:
    last: dict[str, int] = {}
    for key in keys:
        stream, _, number = key.rpartition("/")
        if last.get(stream, -1) >= int(number):
            return False
        last[stream] = int(number)
    return True


def _shown(events: list[Event]) -> list[str]:
    """A look shows nothing that was never sent, or settled before it began."""
    sent: set[str] = set()
    settled: dict[str, int] = {}
    begun: dict[str, int] = {}
    found = []
    for at, event in enumerate(events):
        if event.kind is Kind.SENT:
            sent.add(event.key)
        elif event.kind is Kind.SETTLED:
            settled.setdefault(event.key, at)
        elif event.kind is Kind.LOOKS:
            begun[event.who] = at
        elif event.kind is Kind.SEEN and event.who in begun:
            if event.key not in sent:
                found.append(f"ghost: {event.key} was shown to {event.who} and never sent")
            elif settled.get(event.key, at) < begun[event.who]:
                found.append(f"resurrected: {event.key} was shown to {event.who} after the receipt of its ACK")
    return found


def _missed(history: History) -> list[str]:
    """A subscriber without a durable name, outside of faults: everything sent behind its SUBSCRIBE's receipt."""
    begun: dict[str, float] = {}
    ended: dict[str, float] = {}
    seen: dict[str, set[str]] = defaultdict(set)
    sent: dict[str, float] = {}
    there: list[tuple[float, str]] = []
    for event in history.events:
        key = event.key.removeprefix("s1:")
        if event.kind is Kind.SUBSCRIBED:
            begun[event.key] = event.at
        elif event.kind is Kind.ENDED:
            ended[event.key] = event.at
        elif event.kind is Kind.SEEN:
            seen[event.who].add(event.key)
        elif event.kind is Kind.SENT and key != event.key:
            sent[key] = event.at
        elif event.kind is Kind.RECEIPTED and key != event.key:
            there.append((event.at, key))
    found = []
    for who, since in begun.items():
        for at, key in there[bisect_left(there, (since, "")) :]:
            if at + TOLD_S > ended.get(who, 0.0):
                break
            calm = not history.during(sent[key] - AFTER_S, at + TOLD_S)
            if sent[key] > since and key not in seen[who] and calm:
                found.append(f"missed: {key} did not come to {who}, which was there")
    return found
