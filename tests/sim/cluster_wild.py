"""Histories whose subscribers without a durable name subscribe to wildcards: in all slots by one command.

What is promised to them is what cluster_watchers.py says of the others, for every address that the pattern stands for.
`python -m tests.sim.cluster_wild SEED`.
"""

from __future__ import annotations

import sys
from typing import Any

from broker.core.address import AckMode, Outcome, Routing
from broker.core.commands import BLOCK, DisconnectAll, Publish, Settle, Subscribe, SubscribeAll, UnsubscribeAll
from broker.core.effects import Deliver
from broker.engine.address.address_settings import matches
from tests.sim.cluster_checkers import Message
from tests.sim.cluster_full import ClusterHistory, main
from tests.sim.cluster_watchers import SESSIONS, Watch, Watched, Watcher, Watching, _epoch

PATTERNS = ("t.*", "#", "t.#", "*.b")


class WildWatcher(Watcher):
    """first: number of its consumer in slot 0.    given: consumer → what it has not acknowledged."""

    def __init__(self, number: int, first: int, address: str, ack: AckMode, edge: str) -> None:
        super().__init__(number, -1, address, ack, edge)
        self.first = first
        self.given: dict[int, list[int]] = {}

    def consumes(self, slot: int) -> bool:
        return True


class WildWatch(Watch):
    def sent(self, port: Any, publish: Publish, messages: list[Message], whole: bool = False) -> Watched:
        words = publish.address.split(".")
        topic = publish.routing is Routing.MULTICAST
        slot = publish.slot
        there = [w for w in self.watchers if w.ready and not (w.over or slot in w.away)]
        ready = [w for w in there if topic and matches(w.address.split("."), words)]
        return Watched(slot, [message for message in messages if not message.due], ready, _epoch(port, slot), whole)

    def delivered(self, watcher: Watcher, effect: Deliver) -> None:
        assert isinstance(watcher, WildWatcher)
        super().delivered(watcher, effect)
        held, watcher.held = watcher.held, []
        watcher.given.setdefault(effect.consumer, []).extend(held)


class Blocks(dict[int, Watcher]):
    """By the first number of their block."""

    def get(self, number: int, default: Any = None) -> Any:
        return super().get(number // BLOCK * BLOCK, default)


class WildWatching(Watching):
    def __init__(self, clients: Any) -> None:
        super().__init__(clients)
        self.watchers = Blocks()

    def _subscribe(self) -> None:
        clients, random = self._clients, self._clients.random
        address, ack = random.choice(PATTERNS), random.choice(list(AckMode))
        self._made += 1
        number = SESSIONS + self._made
        watcher = self.watchers[number * BLOCK] = WildWatcher(number, number * BLOCK, address, ack, clients.name)
        self._watch.watchers.append(watcher)
        clients.expect(number, watcher)
        clients.submit(SubscribeAll(Subscribe(0, number, 1, watcher.first, address, Routing.MULTICAST, ack)))

    def _acknowledge(self, watcher: Watcher) -> None:
        assert isinstance(watcher, WildWatcher)
        given, watcher.given = watcher.given, {}
        for consumer, held in given.items():
            if held:
                ids = held if watcher.ack is AckMode.INDIVIDUAL else held[-1:]
                slot = consumer - watcher.first
                self._clients.submit(Settle(slot, watcher.number, 0, consumer, ids, Outcome.ACK, 0))

    def end(self, watcher: Watcher) -> None:
        assert isinstance(watcher, WildWatcher)
        watcher.over = watcher.gone = True
        if self._clients.random.random() < 0.5:
            self._clients.submit(UnsubscribeAll(watcher.number, 0, watcher.first, watcher.address))
        self._clients.submit(DisconnectAll(watcher.number))


class WildHistory(ClusterHistory):
    def __init__(self, seed: int) -> None:
        super().__init__(seed)
        self.work.watched = True
        self.work.watch = WildWatch()

    def attach(self, host: Any, port: Any) -> Any:
        clients = super().attach(host, port)
        clients.watching = WildWatching(clients)
        return clients


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:], WildHistory))
