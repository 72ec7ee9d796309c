"""Numbers of addresses: coarse, in turn, and at a bounded rate however many addresses there are."""

from __future__ import annotations

import pytest
from broker_operator.spec.names import ADDRESS, Id
from broker_operator.world.address_traffic import EVERY_S, MINUTE_S, RATE, Busy, Traffic

ORDERS = Id(ADDRESS, "mq", "orders")
AT = "2026-01-01T00:00:00Z"


def due(traffic: Traffic, now: float, statuses: dict, most: int = 100) -> list[Id]:
    *_, found = traffic.due(statuses.items(), most, now)
    assert found is not None
    return found


def written(traffic: Traffic, busy: Busy, now: float, status: dict) -> dict:
    """One round, and the status after it."""
    traffic.observe(ORDERS, "u", status, busy, now)
    if due(traffic, now, {ORDERS: status}):
        traffic.let(ORDERS, status, now, AT)
        status = traffic.fields(ORDERS, status)
        assert traffic.fields(ORDERS, status) == status and ORDERS not in traffic.said
    return status


def test_the_first_numbers_are_told_and_those_that_stay_never_again():
    traffic = Traffic()
    status = written(traffic, Busy(depth=3, consumers=1), 0.0, {})
    assert status == {
        "depth": 3, "consumers": 1, "inPerSecond": 0, "outPerSecond": 0, "deadLettered": 0, "blocked": False,
        "lastChange": AT,
    }  # fmt: skip
    traffic.observe(ORDERS, "u", status, Busy(depth=3, consumers=1), 1000.0)
    assert due(traffic, 1000.0, {ORDERS: status}) == []


@pytest.mark.parametrize(
    ("after", "wait"),
    [(Busy(depth=111), EVERY_S), (Busy(depth=105), MINUTE_S), (Busy(), EVERY_S), (Busy(100, blocked=True), EVERY_S)],
)
def test_large_changes_wait_a_little_and_small_ones_a_minute(after: Busy, wait: float):
    traffic = Traffic()
    status = written(traffic, Busy(depth=100), 100.0, {})
    traffic.observe(ORDERS, "u", status, after, 101.0)
    assert due(traffic, 100.0 + wait - 0.1, {ORDERS: status}) == []
    assert due(traffic, 100.0 + wait, {ORDERS: status}) == [ORDERS]


def test_rates_are_those_between_two_rounds_and_leaders_that_count_anew_change_none():
    traffic = Traffic()
    status = written(traffic, Busy(depth=10, came=1000), 0.0, {})
    status = written(traffic, Busy(depth=60, came=1200), 10.0, status)
    assert (status["inPerSecond"], status["outPerSecond"]) == (20, 15)
    status = written(traffic, Busy(depth=160, came=100), 20.0, status)
    assert (status["inPerSecond"], status["outPerSecond"], status["depth"]) == (20, 15, 160)
    status = written(traffic, Busy(depth=160, came=100), 80.0, written(traffic, Busy(160, came=100), 30.0, status))
    assert (status["inPerSecond"], status["outPerSecond"]) == (0, 0)


def test_dead_letters_only_grow_over_other_leaders_and_another_operator():
    status = written(Traffic(), Busy(died=5), 0.0, {})
    traffic = Traffic()
    status = written(traffic, Busy(died=7), 100.0, status)
    assert status["deadLettered"] == 7, "an operator that has just started"
    status = written(traffic, Busy(died=2), 200.0, status)
    assert status["deadLettered"] == 7, "the leader is another one"
    assert written(traffic, Busy(died=3), 300.0, status)["deadLettered"] == 8
    assert written(Traffic(), Busy(died=1), 0.0, {"deadLettered": 8})["deadLettered"] == 8


def test_of_ten_thousand_addresses_that_all_change_few_are_written_and_each_has_its_turn():
    traffic, ids = Traffic(), [Id(ADDRESS, "mq", f"a{n}") for n in range(10_000)]
    statuses: dict[Id, dict] = {id: {} for id in ids}
    seen: set[Id] = set()
    most, rounds = int(EVERY_S * RATE), 10_000 // int(EVERY_S * RATE) + 3
    for number in range(rounds):
        now = number * EVERY_S
        for at, id in enumerate(ids):
            busy = Busy(depth=(number % 2) * 1000 + at % 7)
            traffic.observe(id, "u", statuses[id], busy, now)
        found = due(traffic, now, statuses, most)
        assert len(found) <= most
        for id in found:
            traffic.let(id, statuses[id], now, AT)
            statuses[id] = traffic.fields(id, statuses[id])
        seen |= set(found)
        if number == 20:
            break
    assert len(seen) == 21 * most, "none twice while others have not had their turn"


def test_what_people_must_hear_of_goes_first_and_keeps_nobody_from_their_turn():
    traffic, blocked, others = Traffic(), Id(ADDRESS, "mq", "full"), [Id(ADDRESS, "mq", f"a{n}") for n in range(5)]
    statuses = {id: {} for id in (*others, blocked)}
    for id in statuses:
        traffic.observe(id, "u", {}, Busy(), 0.0)
        traffic.let(id, {}, 0.0, AT)
        statuses[id] = traffic.fields(id, {})
    for turn, now in enumerate((100.0, 120.0, 800.0)):
        for id in others:
            traffic.observe(id, "u", statuses[id], Busy(depth=50 + int(now)), now)
        traffic.observe(blocked, "u", statuses[blocked], Busy(blocked=not turn % 2), now)
        assert due(traffic, now, statuses, 1) == [blocked]
        assert traffic.let(blocked, statuses[blocked], now, AT), "it makes an Event, too"
        statuses[blocked] = traffic.fields(blocked, statuses[blocked])
    traffic.observe(blocked, "u", statuses[blocked], Busy(), 820.0)
    assert due(traffic, 820.0, statuses, 1) != [blocked], "others have waited for ten minutes longer"


def test_what_does_not_stay_is_not_written_for_ever():
    """The API server has the CRDs of an earlier release, and prunes it."""
    traffic = Traffic()
    traffic.observe(ORDERS, "u", {}, Busy(depth=3), 0.0)
    assert due(traffic, 0.0, {ORDERS: {}}) == [ORDERS]
    traffic.let(ORDERS, {}, 0.0, AT)
    traffic.observe(ORDERS, "u", {}, Busy(depth=300), 1000.0)
    assert due(traffic, 1000.0, {ORDERS: {}}) == []


def test_one_that_is_gone_or_made_anew_begins_anew():
    traffic = Traffic()
    status = written(traffic, Busy(depth=3, died=4), 0.0, {})
    traffic.observe(ORDERS, "another", {}, Busy(died=1), 10.0)
    assert due(traffic, 10.0, {ORDERS: {}}) == [ORDERS]
    traffic.let(ORDERS, {}, 10.0, AT)
    assert traffic.fields(ORDERS, {})["deadLettered"] == 1
    traffic.forget([])
    assert due(traffic, 20.0, {ORDERS: status}) == [] and traffic.fields(ORDERS, status) == status
