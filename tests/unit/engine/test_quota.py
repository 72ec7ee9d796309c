"""What an address holds, and when those who wait may go on."""

from __future__ import annotations

from broker.config.addressing import AddressSettings
from broker.engine.address.quota import EASE, AddressUsage, QueueUsage


def stock_of(**settings: object) -> AddressUsage:
    quota = AddressUsage("a")
    quota.bound(AddressSettings(**settings))
    return quota


def test_those_who_wait_go_on_when_an_eighth_is_free_and_not_before():
    quota = stock_of(full_policy="BLOCK", max_size_messages=80)
    usage = QueueUsage(quota)
    usage.change(80, 800)
    assert quota.full()
    usage.change(1 - 80 // EASE, 0)
    assert not quota.full()
    assert not quota.eased()  # one message short of an eighth
    usage.change(-1, 0)
    assert quota.eased()


def test_bytes_ease_like_messages():
    quota = stock_of(full_policy="BLOCK", max_size_bytes=8000)
    usage = QueueUsage(quota)
    usage.change(10, 7001)
    assert not quota.full()
    assert not quota.eased()
    usage.change(0, -1)
    assert quota.eased()


def test_a_stock_is_the_sum_of_its_books():
    quota = stock_of(full_policy="BLOCK", max_size_messages=80)
    one, other = QueueUsage(quota), QueueUsage(quota)
    one.change(3, 30)
    other.change(4, 50)
    one.change(-1, -10)
    assert (quota.messages, quota.nbytes) == (one.messages + other.messages, one.nbytes + other.nbytes) == (6, 70)
    one.change(-2, -5)  # the sizes were estimated: what is empty has no bytes
    assert (one.messages, one.nbytes) == (0, 0)
    assert (quota.messages, quota.nbytes) == (4, 50)


def test_a_book_never_holds_less_than_nothing():
    quota = stock_of(full_policy="BLOCK", max_size_messages=80)
    usage = QueueUsage(quota)
    usage.change(2, 20)
    usage.change(-5, -100)
    assert (usage.messages, quota.messages, quota.nbytes) == (0, 0, 0)


def test_who_is_woken_waits_no_longer():
    quota = stock_of(full_policy="BLOCK", max_size_messages=1)
    quota.waiting[7] = None
    assert list(quota.wake()) == [7]
    assert not quota.waiting
