"""Reading over breaks: each item once, from whoever has it, and errors that say what to do."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from broker_pipeline.errors import PipelineError
from broker_pipeline.log.ranges import Range
from broker_pipeline.log.reads import LogReads
from broker_pipeline.options import Access

from broker.journal.log import format as f

from .fake_reads import MINUTE, START_MS, FakeReads


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


def cluster_of(*fakes: FakeReads) -> None:
    """The first leads, the others follow."""
    for fake in fakes:
        fake.group = list(fakes)
        fake.leader = None if fake is fakes[0] else fakes[0]


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
