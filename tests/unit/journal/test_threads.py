"""Reading in one thread while another writes, settles and frees."""

from __future__ import annotations

import threading

from tests.sim.disk import SimDisk
from tests.unit.journal.support import maintain, open_journal, put, sent, settled


def test_readers_never_meet_a_segment_that_goes_away():
    journal = open_journal(SimDisk(0), compact_below=0.9)
    keep = [sent(i, b"keep-%d" % i, b"drop", queues=[1]) for i in range(1, 40, 2)]
    put(journal, *keep)
    positions = [r.run.position for r in keep]
    stop = threading.Event()
    failures = []

    def read():
        while not stop.is_set():
            try:
                found = {r.ids[0]: r.records[0] for r in journal.read(positions, 1 << 20)}
                assert found == {i: b"\nkeep-%d\0" % i for i in range(1, 40, 2)}
            except BaseException as error:
                failures.append(error)
                return

    threads = [threading.Thread(target=read) for _ in range(2)]
    for thread in threads:
        thread.start()
    for i in range(1, 40, 2):
        put(
            journal, settled(i + 1, i + 1), sent(1000 + i, b"x" * 900, queues=[2]), settled(1000 + i, 1000 + i, queue=2)
        )
        maintain(journal)
    stop.set()
    for thread in threads:
        thread.join()
    assert not failures
    assert min(journal._live_index.segments) > 2
