"""What a queue is made of, each part by itself: what goes in comes out, and the sums say so."""

from __future__ import annotations

from broker.core.message import Run
from broker.engine.queue.delayed import Delayed
from broker.engine.queue.gate import CommitGate
from broker.engine.queue.page_store import PageStore
from broker.engine.queue.restart_state import RestartState
from broker.engine.queue.watermark import DeliveryWatermark


def run(first: int, count: int = 1, expires: int = 0) -> Run:
    return Run(range(first, first + count), b"", [b"x" * 10] * count, 10 * count, expires=expires)


def test_a_durable_message_waits_for_a_mark():
    mark = DeliveryWatermark()
    mark.came(5, dispatched=False)
    assert mark.announced > mark.cleared
    mark.ask(8)
    assert mark.asked == 8 and mark.cleared == 0  # on its way is not there
    mark.durable(8)
    assert (mark.asked, mark.marked, mark.cleared) == (0, 8, 8) and mark.announced <= mark.cleared
    mark.came(8, dispatched=False)
    assert mark.announced <= mark.cleared


def test_what_its_own_record_says_to_be_out_needs_no_mark_unless_something_before_it_does():
    mark = DeliveryWatermark()
    mark.came(3, dispatched=True)
    assert mark.cleared == 3
    mark.came(4, dispatched=False)
    mark.came(5, dispatched=True)  # 4 is not cleared, and 5 must not be before it
    assert mark.cleared == 3 and mark.announced == 5


def test_after_an_unclean_end_the_mark_stands_and_after_a_clean_one_it_has_gone():
    for clean, cleared, marked in ((False, 7, 7), (True, 0, 0)):
        mark = DeliveryWatermark()
        mark.replay(7)
        assert mark.restart(9, clean) == 7
        assert (mark.announced, mark.cleared, mark.marked) == (9, cleared, marked)


def test_what_waits_for_the_log_goes_out_by_the_way_it_came():
    gate = CommitGate()
    gate.wait(run(1, 2), paged=False)
    gate.wait(run(3), paged=True)
    gate.wait_for_pages(2)
    assert (gate.entries, gate.nbytes, gate.pages) == (4, 20, 3)
    gate.release(run(1, 2), paged=False)
    for n in range(3):
        gate.release(run(n), paged=True)
    assert (gate.entries, gate.nbytes, gate.pages) == (0, 0, 0)


def test_who_is_ready_first_comes_back_first():
    delayed = Delayed()
    for first, due in ((1, 30), (2, 10), (3, 20)):
        delayed.postpone(run(first), due)
    assert (delayed.runs, delayed.count, delayed.nbytes, delayed.first()) == (3, 3, 30, 10)
    assert [part.ids[0] for part in delayed.ready(20)] == [2, 3]
    delayed.keep([(due, part) for due, part in delayed if part.ids[0] != 1])
    assert (delayed.runs, delayed.count, delayed.nbytes) == (0, 0, 0)


def test_paging_ends_with_the_index_unless_more_is_on_its_way():
    for more in (True, False):
        pages = PageStore()
        pages.begin()
        pages.add(100, 2, 20, expires=50)
        pages.add(200, 1, 10, expires=40)
        pages.prepend([50], 1, 10, expires=0)
        assert (list(pages.index), pages.count, pages.nbytes, pages.stale) == ([50, 100, 200], 4, 40, 40)
        pages.fetch(3)
        assert pages.fetched() == 3 and pages.fetched() is None
        pages.drop(2, 3, 30, more=False)
        assert pages.paging and (pages.count, pages.nbytes) == (1, 10)
        pages.drop(1, 1, 10, more)
        assert (pages.count, pages.nbytes, pages.stale, pages.paging) == (0, 0, 0, more)


def test_which_ids_came_back_is_known_until_the_last_of_them_is_read():
    pages = PageStore()
    pages.restore().add(range(1, 4))
    pages.add(100, 3, 30, 0)
    pages.restore().add(range(4, 5))
    pages.add(200, 1, 10, 0)
    assert pages.paging and len(pages.restore()) == 2
    pages.withdrawn(1, 10)
    assert (pages.count, pages.nbytes) == (3, 30)
    pages.drop(1, 3, 30, more=False)
    assert pages.table is not None
    pages.drop(1, 1, 10, more=False)
    assert pages.table is None


def test_a_mark_is_suspected_once():
    state = RestartState()
    state.replay(5)
    assert not state.suspect_up_to(5) and state.suspect_up_to(6)
    state.suspect([(4, 8), (20, 21)])
    assert state.suspects == [(1, 8), (20, 21)]
    state.gone([(1, 2)])
    state.withdrawn((3, 3))
    assert state.settled == [(1, 3)]
    state.looked_at()
    assert (state.settled, state.suspects, state.suspect_to) == ([], [], 6)
