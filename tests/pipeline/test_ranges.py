"""Offsets without Spark: cutting, capping, and reading over breaks, each row once."""

from __future__ import annotations

import pytest
from broker_pipeline.errors import PipelineError
from broker_pipeline.options import Access, read_options
from broker_pipeline.ranges import Range, SlotInfo, between, capped, earliest, latest, parse, splits
from broker_pipeline.reads import LogReads
from hypothesis import given
from hypothesis import strategies as st

from .fake_reads import FakeReads

INFOS = st.dictionaries(
    st.integers(0, 255),
    st.tuples(st.integers(1, 50), st.integers(0, 300)),
    max_size=8,
).map(lambda d: {s: SlotInfo(s, "", first, first + n, ((1, 1), (3, first + n // 2))) for s, (first, n) in d.items()})


@given(INFOS, st.integers(1, 100), st.integers(0, 60))
def test_batches_and_tasks_cover_everything_once(infos, items, most):
    place, covered = earliest(infos.values()), {slot: [] for slot in infos}
    for _ in range(2000):
        end = capped(place, infos.values(), most)
        if end == place:
            break
        tasks = splits(between(place, end, infos), items, infos)
        assert all(sum(map(len, task.ranges)) <= items for task in tasks)
        for part in (part for task in tasks for part in task.ranges):
            covered[part.slot].append((part.start, part.end))
            assert part.epoch == max((e for e, s in infos[part.slot].lineage if s < part.start), default=0)
        place = end
    assert place == latest(infos.values())
    for slot, info in infos.items():
        at = info.earliest
        for start, end in covered[slot]:
            assert start == at < end
            at = end
        assert at == info.end


def test_what_is_gone_is_an_error_that_says_what_to_do():
    infos = {3: SlotInfo(3, "", 20, 40)}
    with pytest.raises(PipelineError, match=r"offset 5 is gone.*startingOffsets=earliest") as caught:
        between({"3": {"o": 5, "e": 1}}, {"3": {"o": 30, "e": 1}}, infos)
    assert caught.value.code == 1801
    with pytest.raises(PipelineError, match="none of earliest"):
        parse("yesterday")


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({}, "broker is missing"),
        ({"broker": "here"}, "not host:port"),
        ({"broker": "h:1", "adresses": "a"}, "no option 'adresses'"),
        ({"broker": "h:1", "view": "all"}, "none of messages, events, dlq"),
        ({"broker": "h:1", "rowsPerSplit": "0"}, "from 1 on"),
        ({"broker": "h:1", "tls": "yes"}, "neither true nor false"),
        ({"broker": "h:1", "passcodeFile": "/nowhere/x"}, "/nowhere/x"),
    ],
)
def test_wrong_options_are_refused_by_name(options, text):
    with pytest.raises(PipelineError, match=text):
        read_options(options)


def rows(reads: LogReads, part: Range) -> list[str]:
    found = reads.rows(part, addresses=(), view="messages", since_ms=0, before_ms=0, include_body=True)
    return [row.message_id for some in found for row in some]


def test_streams_that_break_and_end_within_an_item_give_each_row_once():
    with FakeReads({5: 40}, break_every=4) as fake, LogReads(Access((f"127.0.0.1:{fake.port}",))) as reads:
        assert rows(reads, Range(5, 1, fake.end(5), 0)) == [f"5-{n}" for n in range(40)]
        assert rows(reads, Range(5, 3, 6, 1)) == [f"5-{n}" for n in range(6, 15)]


def test_errors_say_what_to_do():
    with FakeReads({5: 40}, earliest=4) as fake:
        with LogReads(Access((f"127.0.0.1:{fake.port}",))) as reads, pytest.raises(PipelineError, match="keep_bytes"):
            rows(reads, Range(5, 1, 9, 0))
        gone = Access((f"127.0.0.1:{fake.port}",), patience_s=0)
    with LogReads(gone) as reads, pytest.raises(PipelineError, match=r"log_reads\.port"):
        reads.describe((), "messages")
