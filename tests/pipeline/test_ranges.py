"""Offsets without Spark: cutting, capping, and reading over breaks, each row once."""

from __future__ import annotations

import pytest
from broker_pipeline.errors import PipelineError
from broker_pipeline.log.ranges import Range, SlotInfo, between, capped, capped_at, earliest, latest, parse, splits
from broker_pipeline.options import read_options
from hypothesis import given
from hypothesis import strategies as st

INFOS = st.dictionaries(
    st.integers(0, 255),
    st.tuples(st.integers(1, 50), st.integers(0, 300)),
    max_size=8,
).map(lambda d: {s: SlotInfo(s, "", first, first + n, ((1, 1), (3, first + n // 2))) for s, (first, n) in d.items()})


@given(INFOS, st.integers(1, 100), st.integers(0, 60), st.lists(st.integers(0, 400), max_size=12), st.booleans())
def test_batches_and_tasks_cover_everything_once(infos, items, most, cuts, at_cuts):
    place, covered = earliest(infos.values()), {slot: [] for slot in infos}
    places = [{slot: max(info.earliest, min(cut + slot % 7, info.end)) for slot, info in infos.items()}
              for cut in sorted(cuts)]  # fmt: skip
    for _ in range(2000):
        end = capped_at(place, infos, places, most) if at_cuts else capped(place, infos.values(), most)
        if end == place:
            break
        tasks = splits(between(place, end, infos), items, {"": places}, infos)
        for task in tasks:
            assert len({part.slot for part in task.ranges}) == len(task.ranges)
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


def test_tasks_end_where_the_log_is_cheap_to_begin_at_and_are_of_one_broker():
    infos = {n: SlotInfo(n, endpoint, 1, 101) for n, endpoint in ((1, ""), (2, ""), (3, "other:1"))}
    cuts = [{1: 1 + 10 * n, 2: 1 + 10 * n} for n in range(11)]
    tasks = splits([Range(n, 1, 101, 0, info.endpoint) for n, info in infos.items()], 60, {"": cuts}, infos)
    ours = [task.ranges for task in tasks if task.ranges[0].endpoint == ""]
    assert [[(part.slot, part.start, part.end) for part in ranges] for ranges in ours] == [
        [(1, at, min(at + 30, 101)), (2, at, min(at + 30, 101))] for at in (1, 31, 61, 91)
    ]
    (theirs,) = [task.ranges for task in tasks if task.ranges[0].endpoint]
    assert [(part.start, part.end) for part in theirs] == [(1, 101)]
    assert {at["o"] for slot, at in capped_at({}, infos, cuts, 50).items() if slot != "3"} == {21}


def test_what_is_gone_is_an_error_that_says_what_to_do():
    infos = {3: SlotInfo(3, "", 20, 40)}
    with pytest.raises(PipelineError, match=r"offset 5 is gone.*a new archive folder") as caught:
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
        ({"broker": "h:1", "view": "all"}, "none of messages, events, dlq, log"),
        ({"broker": "h:1", "rowsPerSplit": "0"}, "from 1 on"),
        ({"broker": "h:1", "tls": "yes"}, "neither true nor false"),
        ({"broker": "h:1", "passcodeFile": "/nowhere/x"}, "/nowhere/x"),
    ],
)
def test_wrong_options_are_refused_by_name(options, text):
    with pytest.raises(PipelineError, match=text):
        read_options(options)
