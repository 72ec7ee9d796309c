"""What lives in a journal as lines of JSON, and a journal from them."""

from __future__ import annotations

import pytest

from broker.core.errors import JournalError
from broker.journal.journal import Journal
from broker.journal.tools.builder import Builder
from broker.journal.tools.transcript import load
from tests.sim.disk import SimDisk
from tests.unit.journal.support import open_journal, sent, settings, settled

from .test_salvage import NEW, everything, journal_with, rows_of


@pytest.fixture
def disk():
    return journal_with(SimDisk(0))


def test_a_dump_of_all_that_lives_can_be_loaded_and_is_the_same_message_by_message():
    odd = sent(40, bytes(range(256)), b"\xff\n", queues=(1, 2), slot=3, lines=b"h:\xc3\xa4\\n\n", priority=7, due=5)
    odd.run.expires, odd.dispatched, odd.dedup = 99, True, (1 << 63, 4)
    disk = journal_with(SimDisk(0), odd, settled(41, 41, slot=3), large=b"L" * 9000)
    assert load(iter(rows_of(disk)), Builder(disk, NEW, settings())) == 28 + 2 + 1
    old, new = open_journal(disk), Journal.open(disk, NEW, settings())
    assert sorted(everything(old)) == sorted(everything(new)) and len(everything(old)) == 31
    states = [[(m.slot, m.kind, m.data) for m in j.recovered.metas] for j in (old, new)]
    assert states[0] == states[1][: len(states[0])]
    assert [data["id"] for _, _, data in states[1][len(states[0]) :]] == [1, 2]  # nobody had said what those were
    old.close(clean=True)
    new.close(clean=True)


@pytest.mark.parametrize("harm", ["cut", "count", "kind", "version", "nothing"])
def test_a_dump_that_is_not_whole_is_refused(disk, harm):
    rows = rows_of(disk)
    if harm == "cut":
        rows.pop()
    elif harm == "count":
        del rows[1]
    elif harm == "kind":
        rows.insert(1, {"meta": "from the future", "slot": 1, "data": {}})
    elif harm == "version":
        rows[0]["version"] = 2
    else:
        rows = []
    with pytest.raises(JournalError):
        load(iter(rows), Builder(disk, NEW, settings()))
