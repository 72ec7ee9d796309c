"""Which replica is read for what: everything once, from those that have it."""

from __future__ import annotations

from collections.abc import Iterator

from broker_pipeline.log.ranges import Range, SlotInfo, between, latest
from broker_pipeline.log.reads import LogReads
from broker_pipeline.log.replicas import SlotReplica, spread
from broker_pipeline.options import Access
from hypothesis import given
from hypothesis import strategies as st

from broker.journal.log import format as f

from .fake_reads import FakeReads

INFOS = st.dictionaries(
    st.integers(0, 255),
    st.tuples(st.integers(1, 50), st.integers(0, 300)),
    max_size=8,
).map(lambda d: {s: SlotInfo(s, "", first, first + n, ((1, 1), (3, first + n // 2))) for s, (first, n) in d.items()})


def messages_by_batch(reads: LogReads, part: Range) -> Iterator[list[str]]:
    for batch in reads.scan([part], addresses=(), view="messages", since_ms=0, before_ms=0):
        found = []
        for at, _, _, flags, slot, _, _ in f.records_in(batch.records, 0, len(batch.records)):
            found += [f"{slot}-{n}" for n in f.read_run(batch.records, at, flags, slot).run.ids]
        yield found


def messages(reads: LogReads, part: Range) -> list[str]:
    return [name for batch in messages_by_batch(reads, part) for name in batch]


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
