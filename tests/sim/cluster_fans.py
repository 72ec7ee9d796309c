"""Subscriptions with several parts, to a split address or a wildcard: what an edge makes of them for a virtual client.

Rule: what the parts deliver is merged by the product's own Order; here is only what a session adds to that, and the
client's view of it. Must not know ports, nor the model.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from itertools import takewhile
from typing import Any, cast

from broker.core.address import AckMode
from broker.core.effects import Deliver
from broker.core.message import Run
from broker.edge.subscriptions.split_subscription import order_for
from tests.sim.checker import Violation
from tests.sim.cluster_checkers import Holder

Part = tuple[Holder, list[int]]


class SplitSubscription:
    """One subscription.    window: messages its client may hold unacknowledged; each part is offered as many.
    got: told of what the client begins to receive.    edge, outbound: a session's, for the Order."""

    def __init__(self, parts: list[Holder], window: int, got: Callable[[Holder, Run], None]) -> None:
        self.parts = parts
        self.edge = self.outbound = self
        self._ack = parts[0].ack
        self._window = window
        self._got = got
        self._order = order_for(cast(Any, self), self._ack, window, window * len(parts))
        self._shown: dict[tuple[Holder, int], None] = {}
        """What the client has and has not acknowledged, in the order in which it got it."""
        for part in parts:
            part.split = self

    # ── what comes ─────────────────────────────────────────────────────────────────────────────────

    def arrived(self, part: Holder, effect: Deliver) -> None:
        """At the edge. Whether the client gets it now, the Order decides."""
        part.coming.update(effect.run.ids)
        part.withheld += effect.cost
        if self._order is not None:
            self._order.deliver(cast(Any, part), effect)
        else:
            self.deliver(part, effect)

    def deliver(self, part: Holder, effect: Deliver) -> None:
        """To the client."""
        part.coming.difference_update(effect.run.ids)
        part.withheld -= effect.cost
        self._shown.update(((part, i), None) for i in effect.run.ids if i in part.ledger)
        if len(self._shown) > self._window and not self._doubtful():
            raise Violation(f"no credit: the parts of {part} have shown {len(self._shown)} together")
        self._got(part, effect.run)

    def submit_grants(self) -> None:
        """Room is given back by and by."""

    # ── what is acknowledged ───────────────────────────────────────────────────────────────────────

    def here(self) -> list[tuple[Holder, int]]:
        """What the client has in full."""
        return list(takewhile(lambda each: each[1] not in each[0].coming, self._shown))

    def settle(self, part: Holder, ids: list[int]) -> list[Part]:
        """What an acknowledgement of these covers, part by part."""
        covered: Iterable[tuple[Holder, int]] = [(part, i) for i in ids]
        if self._ack is AckMode.CLIENT:
            everything = list(self._shown)
            covered = everything[: everything.index((part, ids[-1])) + 1]
        found: dict[Holder, list[int]] = {}
        for each, i in covered:
            del self._shown[each, i]
            found.setdefault(each, []).append(i)
        self._compare(part, ids, found)
        return list(found.items())

    def _compare(self, part: Holder, ids: list[int], found: dict[Holder, list[int]]) -> None:
        """Does the Order see it so, too."""
        if self._order is None:
            return
        last = {each: numbers[-1] for each, numbers in self._order.settle(cast(Any, part), ids)}
        if last != {cast(Any, each): numbers[-1] for each, numbers in found.items()} and not self._doubtful():
            raise Violation(f"an acknowledgement of {ids} by {part} covers {last}, and not {found}")

    def flow(self) -> None:
        """Something was acknowledged: there may be room for what waits."""
        if self._order is not None and not self.parts[0].ended:
            self._order.flow()

    def _doubtful(self) -> bool:
        """Owners may have taken back what the client has, and given it again."""
        return any(part.doubtful for part in self.parts)
