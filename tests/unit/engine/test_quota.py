"""What an address holds, and when those who wait may go on."""

from __future__ import annotations

from broker.config.addressing import AddressSettings
from broker.engine.address.quota import EASE, AddressUsage, QueueUsage


def stock_of(**settings: object) -> AddressUsage:
    stock = AddressUsage("a")
    stock.bound(AddressSettings(**settings))
    return stock


def test_those_who_wait_go_on_when_an_eighth_is_free_and_not_before():
    stock = stock_of(full_policy="BLOCK", max_size_messages=80)
    book = QueueUsage(stock)
    book.change(80, 800)
    assert stock.full()
    book.change(1 - 80 // EASE, 0)
    assert not stock.full()
    assert not stock.eased()  # one message short of an eighth
    book.change(-1, 0)
    assert stock.eased()


def test_bytes_ease_like_messages():
    stock = stock_of(full_policy="BLOCK", max_size_bytes=8000)
    book = QueueUsage(stock)
    book.change(10, 7001)
    assert not stock.full()
    assert not stock.eased()
    book.change(0, -1)
    assert stock.eased()


def test_a_stock_is_the_sum_of_its_books():
    stock = stock_of(full_policy="BLOCK", max_size_messages=80)
    one, other = QueueUsage(stock), QueueUsage(stock)
    one.change(3, 30)
    other.change(4, 50)
    one.change(-1, -10)
    assert (stock.messages, stock.nbytes) == (one.messages + other.messages, one.nbytes + other.nbytes) == (6, 70)
    one.change(-2, -5)  # the sizes were estimated: what is empty has no bytes
    assert (one.messages, one.nbytes) == (0, 0)
    assert (stock.messages, stock.nbytes) == (4, 50)


def test_a_book_never_holds_less_than_nothing():
    stock = stock_of(full_policy="BLOCK", max_size_messages=80)
    book = QueueUsage(stock)
    book.change(2, 20)
    book.change(-5, -100)
    assert (book.messages, stock.messages, stock.nbytes) == (0, 0, 0)


def test_who_is_woken_waits_no_longer():
    stock = stock_of(full_policy="BLOCK", max_size_messages=1)
    stock.waiting[7] = None
    assert list(stock.wake()) == [7]
    assert not stock.waiting
