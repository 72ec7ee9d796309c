"""Judges a finished chaos run by the promises of docs/reliability.md. Pure; everything has been drained before.

Rule: a finding is certain. An operation without an answer may have happened or not, also much later; one with a receipt
has happened. Each check is proved by a planted history (test_checker.py).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable

from . import promises
from .history import Event, History, Kind

EARLY_S = 0.1
"""By so much a scheduled message may come early: what clocks are read at differs by the way of the message."""
EARLY_RATE = 0.05
"""And by that part of its delay, in a run in which clocks were set (docs/schedules.md)."""


def check(history: History, unordered: Iterable[str] = (), clocks_set: bool = False) -> list[str]:
    """Every broken promise as one line; empty when all were kept. `unordered`: queues that several owners share.
    `clocks_set`: somebody set the clock of a process."""
    events = history.events
    return [
        *(f"lost: {key} was receipted and never came" for key in sorted(owed(history))),
        *_ghosts(events),
        *_resurrected(events),
        *_unmarked(events),
        *_torn(events),
        *_reordered(events, frozenset(unordered)),
        *_early(events, EARLY_RATE if clocks_set else 0.0),
        *_moved_twice(events),
        *promises.check(history, clocks_set),
    ]


def owed(history: History) -> set[str]:
    """What the broker has answered for and nobody has seen yet."""
    came = {key.removeprefix("expired:") for key in history.keys(Kind.DELIVERED)}
    missing = _owed(history.events) - came
    return missing - promises.consumed(history) if missing else missing


def _of(events: list[Event], kind: Kind) -> set[str]:
    return {event.key for event in events if event.kind is kind}


def _members(events: list[Event]) -> dict[str, set[str]]:
    """Transaction → keys sent in it."""
    members: dict[str, set[str]] = defaultdict(set)
    for event in events:
        if event.kind is Kind.SENT and event.tx:
            members[event.tx].add(event.key)
    return members


def _owed(events: list[Event]) -> set[str]:
    found = _of(events, Kind.RECEIPTED)
    members = _members(events)
    for tx in _of(events, Kind.COMMITTED):
        found |= members[tx]
    return found


def _ghosts(events: list[Event]) -> list[str]:
    unsent = _of(events, Kind.DELIVERED) - _of(events, Kind.SENT)
    return [f"ghost: {key} came and was never sent" for key in sorted(unsent)] + [
        f"corrupt: {key} came with another body" for key in sorted(_of(events, Kind.CORRUPT))
    ]


def _resurrected(events: list[Event]) -> list[str]:
    """What was settled comes no more over connections that began afterwards (to older ones it may be on its way)."""
    settled: dict[str, int] = {}
    begun: dict[str, int] = {}
    found = []
    for at, event in enumerate(events):
        if event.kind is Kind.SETTLED:
            settled.setdefault(event.key, at)
        elif event.kind is Kind.CONNECTED:
            begun[event.key] = at
        elif event.kind is Kind.DELIVERED and event.key in settled and begun.get(event.who, -1) > settled[event.key]:
            found.append(f"resurrected: {event.key} came to {event.who} after the receipt of its ACK")
    return found


def _unmarked(events: list[Event]) -> list[str]:
    """Of all deliveries of a message one at most has no mark, in whatever order they were read."""
    plain: dict[str, list[str]] = defaultdict(list)
    for event in events:
        if event.kind is Kind.DELIVERED and not event.redelivered:
            plain[event.key].append(event.who)
    return [
        f"unmarked: {key} came without redelivered:true to {', '.join(whom)}"
        for key, whom in sorted(plain.items())
        if len(whom) > 1
    ]


def _torn(events: list[Event]) -> list[str]:
    delivered, asked = _of(events, Kind.DELIVERED), _of(events, Kind.COMMIT_SENT)
    found = []
    for tx, keys in sorted(_members(events).items()):
        came = keys & delivered
        if came and tx not in asked:
            found.append(f"uncommitted: {sorted(came)} of transaction {tx} came")
        elif came and came != keys:
            found.append(f"torn: {sorted(keys - came)} of transaction {tx} are missing, {sorted(came)} came")
    return found


def _reordered(events: list[Event], unordered: frozenset[str]) -> list[str]:
    """What one connection sent comes to one connection in that order, redeliveries apart."""
    last: dict[tuple[str, str], int] = {}
    found = []
    for event in events:
        stream, _, number = event.key.rpartition("/")
        if event.kind is not Kind.DELIVERED or event.redelivered or stream.partition("/")[0] in unordered:
            continue
        place = (event.who, stream)
        if last.get(place, -1) > int(number):
            found.append(f"reordered: {event.key} came to {event.who} after {stream}/{last[place]}")
        last[place] = int(number)
    return found


def _early(events: list[Event], rate: float) -> list[str]:
    sent = {event.key: event for event in events if event.kind is Kind.SENT and event.due}
    return [
        f"early: {event.key} came {sent[event.key].due - event.at:.2f} s before its time"
        for event in events
        if event.kind is Kind.DELIVERED and event.key in sent and event.at < _earliest(sent[event.key], rate)
    ]


def _earliest(sent: Event, rate: float) -> float:
    return sent.due - EARLY_S - rate * max(sent.due - sent.at, 0.0)


def _moved_twice(events: list[Event]) -> list[str]:
    """ACK and SEND in one transaction: each source message leaves one target message at most."""
    moved: dict[str, set[str]] = defaultdict(set)
    for key in _of(events, Kind.DELIVERED):
        queue, _, rest = key.partition("/")
        if queue == "chaos.out":
            moved[rest.partition("/")[2]].add(key)
    return [f"moved twice: {sorted(keys)}" for _, keys in sorted(moved.items()) if len(keys) > 1]
