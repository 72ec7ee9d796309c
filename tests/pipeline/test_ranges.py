"""Offsets without Spark: cutting, capping, and reading over breaks, each row once."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from broker_pipeline.errors import PipelineError
from broker_pipeline.options import Access, read_options
from broker_pipeline.ranges import Range, SlotInfo, between, capped, capped_at, earliest, latest, parse, splits
from broker_pipeline.reads import LogReads
from broker_pipeline.replay import archives
from broker_pipeline.replicas import SlotReplica, spread
from hypothesis import given
from hypothesis import strategies as st

from broker.journal.log import format as f

from .fake_reads import MINUTE, START_MS, FakeReads

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


def messages_by_batch(reads: LogReads, part: Range) -> Iterator[list[str]]:
    for batch in reads.scan([part], addresses=(), view="messages", since_ms=0, before_ms=0):
        found = []
        for at, _, _, flags, slot, _, _ in f.records_in(batch.records, 0, len(batch.records)):
            found += [f"{slot}-{n}" for n in f.read_run(batch.records, at, flags, slot).run.ids]
        yield found


def messages(reads: LogReads, part: Range) -> list[str]:
    return [name for batch in messages_by_batch(reads, part) for name in batch]


def test_streams_that_break_give_each_item_once():
    with FakeReads({5: 40}, break_every=4) as fake, LogReads(Access((f"127.0.0.1:{fake.port}",))) as reads:
        assert messages(reads, Range(5, 1, fake.end(5), 0)) == [f"5-{n}" for n in range(40)]
        assert messages(reads, Range(5, 3, 6, 1)) == [f"5-{n}" for n in range(6, 11)]


def test_errors_say_what_to_do():
    with FakeReads({5: 40}, earliest=4) as fake:
        with LogReads(Access((f"127.0.0.1:{fake.port}",))) as reads, pytest.raises(PipelineError, match="keep_bytes"):
            messages(reads, Range(5, 1, 9, 0))
        gone = Access((f"127.0.0.1:{fake.port}",), patience_s=0)
    with LogReads(gone) as reads, pytest.raises(PipelineError, match=r"log_reads\.port"):
        reads.describe((), "messages")


@given(INFOS, st.integers(1, 400), st.data())
def test_what_is_spread_over_replicas_is_read_once_from_those_that_have_it(infos, items, data):
    replicas = {
        slot: [
            SlotReplica(f"h:{n}", data.draw(st.integers(1, info.end)) if n else info.earliest, n == 0)
            for n in range(data.draw(st.integers(1, 3)))
        ]
        for slot, info in infos.items()
    }
    ranges = [Range(slot, info.earliest, info.end, 0, "h:0", 3) for slot, info in infos.items()]
    covered = {slot: [] for slot in infos}
    for part in spread(ranges, replicas, infos, items):
        covered[part.slot].append(part)
        having = {replica.endpoint: replica.earliest for replica in replicas[part.slot]}
        assert having[part.endpoint] <= infos[part.slot].earliest
    for slot, info in infos.items():
        parts = covered[slot]
        assert len({part.endpoint for part in parts}) == len(parts), "one broker reads a slot in one go"
        assert [part.start for part in parts] == [info.earliest, *(part.end for part in parts[:-1])][: len(parts)]
        assert not parts or (parts[-1].end, parts[-1].until_epoch) == (info.end, 3)
        for part in parts[:-1]:
            assert part.until_epoch == max((e for e, s in info.lineage if s < part.end), default=0)


def cluster_of(*fakes: FakeReads) -> None:
    """The first leads, the others follow."""
    for fake in fakes:
        fake.group = list(fakes)
        fake.leader = None if fake is fakes[0] else fakes[0]


def test_tasks_are_spread_over_those_in_sync_and_none_is_asked_for_what_it_has_not():
    with FakeReads({5: 90, 6: 90}) as one, FakeReads({5: 90, 6: 90}) as two, FakeReads({5: 90, 6: 90}) as three:
        cluster_of(one, two, three)
        three.behind = True
        with LogReads(Access((three.endpoint,))) as reads:
            described = reads.plan((), "log")
            assert {info.endpoint for info in described.infos.values()} == {one.endpoint}
            ranges = between({}, latest(described.infos.values()), described.infos)
            tasks = described.tasks(ranges, 20)
            assert {part.endpoint for task in tasks for part in task.ranges} == {one.endpoint, two.endpoint}
            found = [name for task in tasks for part in task.ranges for name in messages(reads, part)]
            assert sorted(found) == sorted(f"{slot}-{n}" for slot in (5, 6) for n in range(90))
            few = described.tasks(ranges, 1000)
            assert len(few) == 1, "what is little is read from one"


def test_who_dies_or_falls_behind_in_the_middle_of_a_read_is_gone_on_from_elsewhere():
    with FakeReads({5: 300}) as one, FakeReads({5: 300}) as two, FakeReads({5: 300}, earliest=80) as three:
        cluster_of(one, two, three)
        whole = Range(5, 1, one.end(5), 0, three.endpoint)
        with LogReads(Access((one.endpoint,), patience_s=20)) as reads:
            found = messages(reads, whole)
            assert found == [f"5-{n}" for n in range(300)], "what begins too late elsewhere is had from the leader"
            two.break_every = 50
            found = messages(reads, Range(5, 1, one.end(5), 0, two.endpoint))
            assert found == [f"5-{n}" for n in range(300)] and one.requests and len(two.requests) == 1
            begun = messages_by_batch(reads, Range(5, 1, one.end(5), 0, one.endpoint))
            first = next(begun)
            one.server.stop(None).wait()
            rest = [name for batch in begun for name in batch]
            assert first + rest == [f"5-{n}" for n in range(300)], "the leader died"


def test_an_address_is_missing_when_all_owners_say_so_and_their_logs_have_nothing_of_it():
    with FakeReads({5: 9}) as one, FakeReads({6: 9}) as two:
        for each in (one, two):
            each.group = [one, two]
        one.unknown, two.unknown = {"a6", "gone", "ordres"}, {"a5", "gone", "ordres"}
        one.elsewhere, two.elsewhere = {6: two.endpoint}, {5: one.endpoint}
        with LogReads(Access((one.endpoint,))) as reads:
            described = reads.plan(("a5", "a6", "gone", "ordres"), "log")
            assert described.unknown == {"gone", "ordres"}
            reads.require(described, ("a5", "a6"))
            two.unknown = {"a5", "a6"}
            one.unknown = {"a6"}
            reads.require(reads.plan(("a6",), "log"), ("a6",))  # nobody knows it any more, and the log has it
            with pytest.raises(PipelineError, match=r"no address gone, ordres, .*spelling.*create it first.*gone\.#"):
                reads.require(described, ("a5", "gone", "ordres"))


@pytest.mark.parametrize(
    ("scope", "name", "in_it"),
    [((), "a", True), (("a",), "a", True), (("a",), "a.b", False), (("a.*",), "a.b", True), (("a.*",), "a.b.c", False),
     (("x", "a.#"), "a.b.c", True), (("a.#",), "a", True), (("#.c",), "a.b.c", True), (("a.#.c",), "a.c.b", False)],
)  # fmt: skip
def test_an_archive_of_patterns_has_what_they_stand_for(scope: tuple[str, ...], name: str, in_it: bool):
    assert archives(scope, name) is in_it


def test_a_time_is_looked_up_at_whoever_leads_by_now():
    with FakeReads({5: 90}) as one, FakeReads({5: 90}) as two:
        cluster_of(one, two)
        with LogReads(Access((one.endpoint,), patience_s=20)) as reads:
            infos = reads.plan((), "log").infos
            assert infos[5].endpoint == one.endpoint
            cluster_of(two, one)
            one.group = two.group = [one, two]
            assert reads.lookup(START_MS + 30 * MINUTE, infos) == {5: 13}, "items of three, the seventh alone"
            assert (one.lookups, two.lookups) == (1, 1)
        with LogReads(Access((one.endpoint,), patience_s=0)) as reads:
            two.leader = one
            with pytest.raises(PipelineError, match="1803") as no:
                reads.lookup(START_MS, {5: infos[5]})
            assert no.value.code == 1803


def test_what_nobody_has_any_more_is_an_error_at_once():
    with FakeReads({5: 40}, earliest=9) as one, FakeReads({5: 40}, earliest=5) as two:
        cluster_of(one, two)
        with LogReads(Access((one.endpoint,))) as reads:
            assert reads.plan((), "log").infos[5].earliest == 5, "of whoever has most"
            with pytest.raises(PipelineError, match="keep_bytes"):
                messages(reads, Range(5, 1, one.end(5), 0, one.endpoint))
