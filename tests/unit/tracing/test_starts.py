"""A share of what comes without a traceparent begins a trace; the rest, receipts and order are as they were."""

from __future__ import annotations

import random
from typing import Any

import pytest

from broker.core.message import TRACED
from broker.core.traceparent import said
from broker.edge.requests.inbound import Inbound
from broker.tracing.starts import StartingInbound, Starts
from broker.wire.events import BodyEnd, Event, Head, Sends


def sends(count: int, first: int = 0, flags: int = 0, receipts: bool = False) -> Sends:
    head = Head(b"a:1\n\n", {"destination": "/queue/q"}, flags, True)
    records = [b"%d\0" % n for n in range(first, first + count)]
    ids = [b"r%d" % n for n in range(first, first + count)] if receipts else None
    return Sends(head, records, ids, sum(map(len, records)) + count * len(head.lines))


def parts(events: list[Event]) -> list[Sends]:
    return [event for event in events if isinstance(event, Sends)]


@pytest.mark.parametrize("ratio", [1.0, 0.5, 0.03, 0.0001])
def test_everything_is_still_there(ratio: float):
    chance = random.Random(7)
    starts = Starts(ratio, lambda bits: chance.randrange(1, 1 << bits))
    came, begun = 0, 0
    for size in [1, 2, 3, 50, 200] * 40:
        end = BodyEnd()
        events: list[Event] = [sends(size, came, receipts=True), end, sends(2, came + size)]
        found = starts.begin(list(events))
        assert end in found
        told = parts(found)
        assert [record for event in told for record in event.records] == [
            b"%d\0" % n for n in range(came, came + size + 2)
        ]
        assert [r for event in told for r in event.receipts or []] == [b"r%d" % n for n in range(came, came + size)]
        for event in told:
            lines = event.head.lines
            assert event.nbytes == sum(map(len, event.records)) + len(event.records) * len(lines)
            there, context = said(lines, len(lines))
            assert there is bool(event.head.flags & TRACED) is (context is not None)
            assert lines.endswith(b"a:1\n\n") and event.head.whole and event.head.headers
            begun += there
        came += size + 2
    expected = came * ratio
    assert abs(begun - expected) <= 4 * expected**0.5 + 1


def test_who_has_one_is_left_alone():
    starts = Starts(1.0)
    events: list[Event] = [sends(3, flags=TRACED), BodyEnd()]
    assert starts.begin(events) == events


def test_the_reading_half_takes_them(monkeypatch: pytest.MonkeyPatch):
    taken: list[Any] = []
    monkeypatch.setattr(Inbound, "__init__", lambda self, session: None)
    monkeypatch.setattr(Inbound, "handle", lambda self, events, fresh: taken.extend(events))
    half = StartingInbound(Starts(1.0), None)  # type: ignore[arg-type]
    half.handle([sends(2)])
    assert [len(event.records) for event in taken] == [1, 1] and all(event.head.flags & TRACED for event in taken)
    half.handle(waited := taken[:1], fresh=False)
    assert taken[2:] == waited, "what has waited has begun its trace"
