"""What is paged out stands in the order of the queue, and what was restored is known until it is read."""

from __future__ import annotations

from broker.engine.queue.page_store import PageStore


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


def test_another_order_of_the_index_is_that_of_the_table_too():
    pages = PageStore()
    table = pages.restore()
    for first, position in ((1, 100), (4, 200), (9, 300)):
        table.add(range(first, first + 2))
        pages.add(position, 2, 20, 0)
    pages.arrange([2, 0, 1])
    assert list(pages.index) == [300, 100, 200]
    assert list(table.find(4, 5)) == [(2, (4, 5))] and list(table.find(9, 9)) == [(0, (9, 9))]


def test_an_estimate_never_says_that_nothing_is_left_while_something_is():
    pages = PageStore()
    for position in (100, 200):
        pages.add(position, 2, 20, 0)
    pages.drop(1, 4, 40, more=False)  # more than was thought
    assert (pages.count, pages.nbytes) == (1, 1)
    pages.on_its_way()
    assert pages.fetching == 0
    pages.arrived()
    assert pages.fetching is None
