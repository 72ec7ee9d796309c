"""Subscribers first, senders last; a later change takes the place of one that is under way."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from broker.config.settings import EngineSettings
from broker.core.ids import slots_of
from broker.edge.destinations.partition_growth import PartitionGrowth


def settings(**addresses: int) -> EngineSettings:
    return EngineSettings(addresses={name: {"partitions": n} for name, n in addresses.items()})


class Edge:
    """Each step waits until the test goes on."""

    def __init__(self, **addresses: int) -> None:
        self.waits: list[tuple[str, Callable[[], None]]] = []
        self.sent = 0
        self.grown: list[Sequence[int]] = []
        self.growth = PartitionGrowth(self, settings(**addresses))

    def subscribers_follow(self, then: Callable[[], None]) -> None:
        self.waits.append(("subscribers", then))

    def others_have_heard(self, then: Callable[[], None]) -> None:
        self.waits.append(("others", then))

    def follow(self, grown: Callable[[str], Sequence[int]], then: Callable[[], None]) -> None:
        """As Newcomers."""
        self.grown = [grown("q"), grown("other")]
        self.waits.append(("unused", then))

    def senders_follow(self) -> None:
        self.sent += 1

    def slots(self, address: str) -> Sequence[int]:
        return slots_of(address, self.growth.partitions(address))

    def goes_on(self) -> str:
        step, then = self.waits.pop(0)
        then()
        return step

    def counts(self) -> tuple[int, int]:
        return self.growth.partitions("q"), self.growth.sent_partitions("q")


def test_messages_come_last() -> None:
    edge = Edge()
    edge.growth.configure(settings(q=3))
    assert [(edge.goes_on(), edge.counts(), edge.sent) for _ in range(2)] == [
        ("subscribers", (3, 1), 0), ("others", (3, 3), 1),
    ]  # fmt: skip
    assert edge.waits == []


def test_behind_subscriptions_that_nobody_uses() -> None:
    edge = Edge()
    edge.growth.grow_with(edge, {}, settings())
    edge.growth.configure(settings(q=3))
    assert [edge.goes_on(), edge.goes_on()] == ["subscribers", "others"] and edge.counts() == (3, 1)
    assert edge.grown == [slots_of("q", 3), ()]
    assert edge.goes_on() == "unused" and edge.counts() == (3, 3) and edge.sent == 1


def test_they_are_not_asked_where_nothing_has_grown() -> None:
    edge = Edge(q=2)
    edge.growth.grow_with(edge, {}, settings(q=2))
    edge.growth.configure(EngineSettings(addresses={"q": {"partitions": 2, "max_delivery_attempts": 3}}))
    assert [edge.goes_on(), edge.goes_on()] == ["subscribers", "others"] and edge.waits == [] and edge.sent == 1


def test_an_answer_to_an_earlier_change_is_out_of_date() -> None:
    for at in range(3):
        edge = Edge()
        edge.growth.grow_with(edge, {}, settings())
        edge.growth.configure(settings(q=3))
        for _ in range(at):
            edge.goes_on()
        edge.growth.configure(settings(q=4))
        late = edge.waits.pop(0)[1]
        late()
        assert edge.counts() == (4, 1), at
        while edge.waits:
            edge.goes_on()
        assert edge.counts() == (4, 4) and edge.sent == 1


def test_what_had_grown_before_the_start_goes_on() -> None:
    edge = Edge(q=4)
    assert edge.counts() == (4, 4)
    edge.growth.grow_with(edge, {"q": 2}, settings(q=4))
    assert edge.counts() == (4, 2) and list(edge.grown[0]) == list(slots_of("q", 4))
    assert edge.goes_on() == "unused" and edge.counts() == (4, 4)
