"""Notes are bounded: so many messages a second, so many until they are taken."""

from __future__ import annotations

from broker.tracing.span_notes import EACH, WAITING, Notes, SpanNote


class Time:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def numbers(notes: Notes) -> dict[str, float]:
    return {metric.name: metric.samples[0][1] for metric in notes.metrics()}


def test_so_many_messages_a_second():
    time = Time()
    notes = Notes(10, time, time)
    assert [notes.admit(4) for _ in range(4)] == [4, 4, 2, 0]
    time.now += 0.5
    assert notes.admit(9) == 5
    time.now += 60
    assert notes.admit(100) == 10, "a second's worth at once, however long nothing came"
    assert numbers(notes)["stomp_trace_messages_skipped_total"] == 6 + 4 + 90


def test_spans_have_a_bound_of_their_own():
    time = Time()
    notes = Notes(1, time, time)
    assert [notes.room() for _ in range(EACH + 1)] == [True] * EACH + [False]
    assert numbers(notes)["stomp_trace_spans_dropped_total"] == 1


def test_what_nobody_takes_does_not_grow():
    time = Time()
    notes = Notes(10_000, time, time)
    for n in range(WAITING):
        assert notes.room()
        notes.add(SpanNote("send", "q", n, 0, 0, []))
    assert not notes.room()
    assert [note.slot for note in notes.drain()] == list(range(WAITING))
    assert notes.room() and notes.drain() == []
    notes.told(3)
    notes.lost(2)
    assert numbers(notes)["stomp_trace_spans_total"] == 3
    assert numbers(notes)["stomp_trace_spans_dropped_total"] == 3
