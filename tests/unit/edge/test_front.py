"""What stands in front of who shows: it may be followed by another one, through whatever stands between."""

from __future__ import annotations

from typing import Any

from broker.core.effects import Deliver
from broker.core.message import Run
from broker.edge.subscriptions.front import Front


class Sink:
    def __init__(self) -> None:
        self.seen: list[Deliver] = []

    def deliver(self, sub: Any, effect: Deliver) -> None:
        self.seen.append(effect)


class Part:
    sink: Any = None

    def goes_through(self, sink: Any) -> None:
        self.sink = sink


def test_what_passes_comes_to_who_follows_behind_all_of_them() -> None:
    outbound, order, part = Sink(), Sink(), Part()
    near = Front(outbound)
    far = Front(near)
    far.join(part)  # type: ignore[arg-type]
    assert part.sink is far
    effect = Deliver(1, Run([1], b"", [b"x"], 1), 1)
    part.sink.deliver(part, effect)
    far.follow(order)
    part.sink.deliver(part, effect)
    near.deliver(part, effect)  # type: ignore[arg-type]
    assert (len(outbound.seen), len(order.seen)) == (1, 2)
