"""Rows are the messages, wherever a run is cut into what its messages share and what they do not."""

from __future__ import annotations

import pytest

from broker.admin.log import log_rows
from broker.admin.log.log_rows import QueueNames, Wanted, batch, rows
from broker.core.message import Blob, Run
from broker.core.records import DELIVERED, Left, MetaRecord, RunRecord, SettleRecord
from broker.journal.reads.history import Entry
from broker.rpc.v1 import log_reads_pb2 as pb

from .reading_world import Live


def entry(record, lsn=7):
    return Entry(lsn, 3, record)


def made(record, view="messages", addresses=(), may=lambda _: True, queues=None, **more):
    names = QueueNames(Live({200: queues or {1: ("q", "a.b"), 2: ("r", "a.b")}}))
    wanted = Wanted(view, addresses, may, **more)
    found = [row for row in rows(entry(record), names, wanted) if row is not None]
    answer = pb.ReadBatch.FromString(batch(found, 8, 3, True))
    assert (answer.next, answer.epoch, answer.done) == (8, 3, True)
    return list(answer.rows)


def run_record(lines, *records, queues=(1,), **more):
    run = Run(range(5, 5 + len(records)), lines, list(records), 0, 1, 6, 99, 1234, 2, **more)
    return RunRecord(200, "a.b", list(queues), run)


FRAMES = [
    b"color:red\nsize:%d\nJMSXGroupID:g%d\n\nbody %d\nwith lines\n\n and NULs \0\0" % (i, i, i) + b"x" * 40 * i + b"\0"
    for i in range(9)
]
HEADLESS = [b"\n" + b"%d" % i + b"\0" for i in range(3)] + [b"\n\0", b"\n\n\n\0"]
ALIKE = [b"color:red\nJMSXGroupID:g\n\n%d\0" % i for i in range(4)]


@pytest.mark.parametrize("frames", [FRAMES, HEADLESS, ALIKE], ids=["own headers", "none", "the same"])
def test_where_a_run_is_cut_makes_no_difference(frames):
    shared = 0
    while (
        all(frame[: shared + 1] == frames[0][: shared + 1] for frame in frames) and shared < min(map(len, frames)) - 1
    ):
        shared += 1
    for cut in range(shared + 1):
        found = made(run_record(frames[0][:cut], *[frame[cut:] for frame in frames]))
        assert len(found) == len(frames)
        for at, (row, frame) in enumerate(zip(found, frames, strict=True)):
            head, _, body = (b"\n" + frame).partition(b"\n\n")
            lines = [line.split(b":", 1) for line in head.split(b"\n")[1:]]
            assert [[header.name, header.value] for header in row.headers] == lines
            assert (row.body, row.size, row.index) == (body[:-1], len(body) - 1, at)
            assert row.group_id == dict(map(tuple, lines)).get(b"JMSXGroupID", b"").decode()
            assert (row.offset, row.epoch, row.event, row.ts_ms, row.priority) == (7, 3, "ENQUEUED", 1234, 6)
            assert (row.message_id, row.address, row.queue) == (f"200-{5 + at}", "a.b", "q")
            assert (row.expires_ms, row.attempt) == (99, 2)


def test_headers_mean_what_was_meant_and_the_first_of_a_name_counts():
    (row,) = made(run_record(b"a\\cb:c\\nd\\\\\\r\n", b"JMSXGroupID:one\nJMSXGroupID:two\n\n\0"))
    assert next((h.name, h.value) for h in row.headers) == (b"a:b", b"c\nd\\\r")
    assert (row.group_id, len(row.headers), row.body, row.size) == ("one", 3, b"", 0)
    (row,) = made(run_record(b"JMSXGroupID:one\n", b"JMSXGroupID:two\n\n\0"))
    assert row.group_id == "one"


def test_a_body_may_be_left_out_or_lie_elsewhere():
    (row,) = made(run_record(b"", b"\nbody\0"), body=False)
    assert (row.body, row.size) == (b"", 4)
    (row,) = made(run_record(b"k:v\n\n", b"", blob=Blob(0xABC, 5_000_000_000)))
    assert (row.body, row.size, row.body_ref) == (b"", 5_000_000_000, "0000000000000abc")
    assert [h.name for h in row.headers] == [b"k"]


def test_dead_letters_are_those_with_a_reason_in_their_headers():
    record = run_record(b"", b"dead-letter-reason:expired\n\none\0", b"\ndead-letter-reason:no\0", b"k:v\n\ntwo\0")
    (row,) = made(record, "dlq")
    assert (row.body, row.reason, row.index) == (b"one", "expired", 0)
    assert len(made(run_record(b"dead-letter-reason:x\n", b"\n1\0", b"k:v\n\n2\0"), "dlq")) == 2


def test_events_are_per_queue_and_say_how_messages_left():
    found = made(run_record(b"", b"\n1\0", b"\n2\0", queues=(1, 2)), "events")
    assert [(row.message_id, row.queue, row.index) for row in found] == [
        ("200-5", "q", 0), ("200-5", "r", 1), ("200-6", "q", 2), ("200-6", "r", 3),
    ]  # fmt: skip
    for why, event in [(Left.ACKED, "ACKED"), (Left.EXPIRED, "EXPIRED"), (Left.REPLACED, "PURGED"), (0, "ACKED")]:
        found = made(SettleRecord(200, 2, [(5, 6), (300, 300)], True, why, 77), "events")
        assert [(row.message_id, row.index) for row in found] == [("200-5", 0), ("200-6", 1), ("200-300", 2)]
        assert {(row.event, row.ts_ms, row.queue, row.address) for row in found} == {(event, 77, "r", "a.b")}
    (row,) = made(SettleRecord(200, 1, [(1, 10**12)], True, Left.PURGED, 77), "events")
    assert (row.event, row.message_id, row.reason) == ("PURGED", f"200-{10**12}", "queue deleted")
    assert made(SettleRecord(200, 1, [(1, 9)], True, Left.ENDED, 77), "events") == []
    nacked = MetaRecord(200, "count", {"queue": 1, "attempts": 3, "spans": [[5, 6]], "due": 0})
    assert [(row.event, row.attempt) for row in made(nacked, "events")] == [("NACKED", 3)] * 2
    assert made(nacked) == []
    to = [[41, 1, [[5, 6]]], [42, 3, [[9, 9], [300, 300]]]]
    handed = MetaRecord(200, DELIVERED, {"queue": 1, "at": 77, "to": to})
    assert [
        (row.event, row.message_id, row.index, row.consumer, row.attempt, row.ts_ms, row.queue)
        for row in made(handed, "events")
    ] == [
        ("DELIVERED", f"200-{number}", index, consumer, attempt, 77, "q")
        for index, (number, consumer, attempt) in enumerate([(5, "41", 1), (6, "41", 1), (9, "42", 3), (300, "42", 3)])
    ]
    assert made(handed) == made(handed, "events", since_ms=78) == made(handed, "events", may=lambda _: False) == []


def test_only_what_is_wanted_and_allowed_is_a_row():
    record = run_record(b"", b"\n1\0")
    assert len(made(record, addresses=["a.b"])) == len(made(record, addresses=["x", "a.#"])) == 1
    assert made(record, addresses=["a"]) == made(record, may=lambda address: address != "a.b") == []
    assert made(record, since_ms=1235) == made(record, before_ms=1234) == []
    assert len(made(record, since_ms=1234, before_ms=1235)) == 1
    unknown = SettleRecord(200, 9, [(1, 1)], True, Left.ACKED, 77)
    assert len(made(unknown, "events")) == 1 and made(unknown, "events", may=bool) == []
    hidden = run_record(b"", b"\n1\0")
    hidden.address = "$tx"
    assert made(hidden) == []


def test_names_that_are_known_drive_out_nobody_and_no_more_than_fit_are_met(monkeypatch):
    monkeypatch.setattr(log_rows, "MAX_NAMES", 3)
    live = Live({1: {number: (f"q{number}", "a") for number in range(1, 10)}})
    names = QueueNames(live)
    assert names.of(1, 9) == ("q9", "a") and list(names.strange) == [1]
    assert len(list(names.meet())) == 1 and not names.strange
    assert [names.of(1, number) for number in (7, 8, 9)] == [(f"q{number}", "a") for number in (7, 8, 9)]
    asked = live.asked
    names.learn(MetaRecord(1, "queue", {"id": 8, "name": "renamed", "address": "a"}))
    assert names.of(1, 8) == ("renamed", "a") and names.of(1, 7) == ("q7", "a") and live.asked == asked
    assert names.of(1, 1) == ("q1", "a") and not names.strange, "the others would only drive each other out"
    assert names.of(1, 77) == ("", "")
