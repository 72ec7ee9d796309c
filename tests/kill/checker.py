"""Judges a finished history: what a durable broker owes its clients, whatever was killed in between.

Rule: pure; the queues have been drained before it is asked. An operation without a receipt may or may not have
happened (also in a later life); an operation with one has happened. Each check is proved by planted histories in
test_checker.py.
"""

from __future__ import annotations

from collections import defaultdict

from .history import Event, History, Kind


def check(history: History) -> list[str]:
    """Every broken promise as one line; empty when all were kept."""
    events = history.in_order()
    return [
        *_lost(events),
        *_abandoned(events),
        *_ghosts(events),
        *_resurrected(events),
        *_unmarked(events),
        *_torn_transactions(events),
        *_reordered(events),
    ]


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
    """What the broker has answered for."""
    owed = _of(events, Kind.RECEIPTED)
    members = _members(events)
    for tx in _of(events, Kind.COMMITTED):
        owed |= members[tx]
    return owed


def _lost(events: list[Event]) -> list[str]:
    owed = _owed(events)
    return [f"lost: {key} was receipted and never delivered" for key in sorted(owed - _of(events, Kind.DELIVERED))]


def _abandoned(events: list[Event]) -> list[str]:
    """A delivery that nobody acknowledged must be followed by another one; so must any ACK that was aborted."""
    open_: dict[str, Event] = {}
    for event in events:
        if event.kind is Kind.DELIVERED:
            open_[event.key] = event
        elif event.kind is Kind.ACK_SENT:
            open_.pop(event.key, None)
    owed = _owed(events) - _of(events, Kind.SETTLED)
    return [
        f"abandoned: {key} was delivered in life {event.life}, not acknowledged, and never came again"
        for key, event in sorted(open_.items())
        if key in owed
    ]


def unanswered(history: History, life: int) -> list[str]:
    """ACKs of a life that was not killed which got no receipt."""
    settled = history.keys(Kind.SETTLED)
    return [
        f"unanswered: the ACK of {event.key} in life {life} got no receipt"
        for event in history.events
        if event.kind is Kind.ACK_SENT and event.life == life and event.key not in settled
    ]


def _ghosts(events: list[Event]) -> list[str]:
    unsent = _of(events, Kind.DELIVERED) - _of(events, Kind.SENT)
    return [f"ghost: {key} was delivered and never sent" for key in sorted(unsent)] + [
        f"corrupt: {key} came with another body" for key in sorted(_of(events, Kind.CORRUPT))
    ]


def _resurrected(events: list[Event]) -> list[str]:
    settled: set[str] = set()
    found = []
    for event in events:
        if event.kind is Kind.SETTLED:
            settled.add(event.key)
        elif event.kind is Kind.DELIVERED and event.key in settled:
            found.append(f"resurrected: {event.key} came to {event.who} in life {event.life} after its ACK's receipt")
    return found


def _unmarked(events: list[Event]) -> list[str]:
    seen: set[str] = set()
    found = []
    for event in events:
        if event.kind is not Kind.DELIVERED:
            continue
        if event.key in seen and not event.redelivered:
            found.append(f"unmarked: {event.key} came again in life {event.life} without redelivered:true")
        seen.add(event.key)
    return found


def _torn_transactions(events: list[Event]) -> list[str]:
    """All or nothing of what was sent in one transaction; nothing of what was aborted or never committed."""
    delivered = _of(events, Kind.DELIVERED)
    asked = _of(events, Kind.COMMIT_SENT)
    found = []
    for tx, keys in sorted(_members(events).items()):
        came = keys & delivered
        if came and tx not in asked:
            found.append(f"uncommitted: {sorted(came)} of transaction {tx} came, which was never committed")
        elif came and came != keys:
            found.append(f"torn: {sorted(keys - came)} of transaction {tx} are missing, {sorted(came)} came")
    return found


def _reordered(events: list[Event]) -> list[str]:
    """What one producer sent comes to one consumer in that order, redeliveries apart."""
    last: dict[tuple[int, str, str], int] = {}
    found = []
    for event in events:
        if event.kind is not Kind.DELIVERED or event.redelivered:
            continue
        stream, _, number = event.key.rpartition("/")
        place = (event.life, event.who, stream)
        if last.get(place, -1) > int(number):
            found.append(f"reordered: {event.key} came to {event.who} after {stream}/{last[place]}")
        last[place] = int(number)
    return found


def check_moves(history: History, source: str, target: str) -> list[str]:
    """Consume-and-send in one transaction: each source message leaves exactly one target message.

    Keys of the target are `<target>/<attempt>/<source number>`: every attempt to move a message sends another key,
    so two attempts that both took effect are seen, as is one that took the message and sent nothing.
    """
    moved: dict[str, set[str]] = defaultdict(set)
    delivered: set[str] = history.keys(Kind.DELIVERED)
    for key in delivered:
        if key.startswith(target + "/"):
            moved[key.rpartition("/")[2]].add(key)
    found = [f"moved twice: {sorted(keys)}" for _, keys in sorted(moved.items()) if len(keys) > 1]
    for key in sorted(history.keys(Kind.RECEIPTED)):
        if key.startswith(source + "/") and key.rpartition("/")[2] not in moved:
            found.append(f"lost in a move: {key} is in neither queue")
    return found
