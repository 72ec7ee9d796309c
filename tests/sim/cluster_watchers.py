"""Subscribers to topics without a durable name: what they may rely on, and virtual clients that hold them to it.

Rule: a subscriber that stays connected gets every message whose SEND was sent after the receipt for its SUBSCRIBE, once
that SEND has its own. Excused is what only a leader could have kept: what one had answered that failed afterwards,
messages for later, what one could not hand out yet (cluster_probes.py says why), what was under way between the moment
when a leader began without the subscriber's edge, whose registration had run out, and the one when that edge had told
that leader who subscribes (`Watcher.away`), and what took more than one leader, where the next cannot tell it again
(large bodies, transactions over several slots). Else nobody excuses a leader that was asked to hand over.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

from broker.core.address import AckMode, Outcome, Routing
from broker.core.commands import Disconnect, Publish, Settle, Subscribe
from broker.core.effects import Deliver
from tests.sim.checker import Violation
from tests.sim.cluster_checkers import NUMBER, Message

SESSIONS = 1 << 20
"""Their sessions begin here: those of an edge's other clients are fewer."""
TOPICS = ("t.a", "t.b")
MOST = 2
"""Of one edge, at a time."""


class Watcher:
    """A consumer of one slot of one topic.

    ready   its SUBSCRIBE has its receipt.    over   nothing is promised to it any more.    gone   it has left.
    away    slot → epoch of a leader that has begun without its edge, until that has been told all.
    gaps    slot → how often that has happened.
    got     numbers of what came.    held   ids that it has not acknowledged."""

    def __init__(self, number: int, slot: int, address: str, ack: AckMode, edge: str) -> None:
        self.number, self.slot, self.address, self.ack, self.edge = number, slot, address, ack, edge
        self.ready = self.over = self.gone = False
        self.away: dict[int, int] = {}
        self.gaps: Counter[int] = Counter()
        self.got: set[int] = set()
        self.held: list[int] = []

    def consumes(self, slot: int) -> bool:
        """May what is led there be for it."""
        return slot == self.slot

    def __repr__(self) -> str:
        return f"watcher {self.number} of {self.edge} at {self.address} in slot {self.slot}"


class Watched:
    """A SEND that somebody must get.

    watchers      who, and how often each of them had been left out by then: whoever is meanwhile may miss it.
    first, last   epochs in which its slot was led when it was sent, and when it was answered: by that leader.
    whole         only a leader that has seen all of it can pass it on."""

    def __init__(self, slot: int, messages: list[Message], watchers: list[Watcher], first: int, whole: bool) -> None:
        self.slot, self.messages, self.first, self.whole = slot, messages, first, whole
        self.watchers = {watcher: watcher.gaps[slot] for watcher in watchers}
        self.last = 0

    def excused(self, failed: set[tuple[int, int]]) -> bool:
        return (self.slot, self.last) in failed or (self.whole and self.first != self.last)


class Watch:
    """What the clients of all edges share.    failed: (slot, epoch) that ended otherwise than by a hand-over.
    kept_back: messages that a leader could not hand out."""

    def __init__(self) -> None:
        self.watchers: list[Watcher] = []
        self.failed: set[tuple[int, int]] = set()
        self.kept_back: set[int] = set()
        self._answered: list[Watched] = []

    def sent(self, port: Any, publish: Publish, messages: list[Message], whole: bool = False) -> Watched:
        slot = publish.slot
        there = [w for w in self.watchers if w.ready and not (w.over or slot in w.away)]
        ready = [w for w in there if (w.slot, w.address) == (slot, publish.address)]
        return Watched(slot, [message for message in messages if not message.due], ready, _epoch(port, slot), whole)

    def answered(self, port: Any, sent: Watched) -> None:
        sent.last = _epoch(port, sent.slot)
        sent.watchers = {w: gaps for w, gaps in sent.watchers.items() if w.gaps[sent.slot] == gaps}
        if sent.watchers:
            self._answered.append(sent)

    def delivered(self, watcher: Watcher, effect: Deliver) -> None:
        run = effect.run
        for i, record in zip(run.ids, run.records, strict=True):
            found = NUMBER.search(run.lines + record)
            if found is None:
                raise Violation(f"ghost at {watcher}: {record!r}")
            watcher.got.add(int(found[1]))
            if watcher.ack is not AckMode.AUTO and not watcher.over:
                watcher.held.append(i)

    def left_out(self, edge: str, slot: int, epoch: int) -> None:
        """The leader begins without this edge."""
        for watcher in self.watchers:
            if watcher.edge == edge and watcher.consumes(slot):
                watcher.away[slot] = max(watcher.away.get(slot, 0), epoch)
                watcher.gaps[slot] += 1

    def told(self, edge: str, slot: int, epoch: int) -> None:
        """The edge has told the leader of that epoch who subscribes."""
        for watcher in self.watchers:
            if watcher.edge == edge and watcher.away.get(slot, epoch + 1) <= epoch:
                del watcher.away[slot]

    def missed(self) -> str:
        """Who still has to get what; empty: nobody has to get anything."""
        for sent in self._answered:
            for watcher in sent.watchers:
                missed = [m.number for m in sent.messages if m.number not in watcher.got | self.kept_back]
                if missed and not watcher.over and not sent.excused(self.failed):
                    epochs = f"sent in epoch {sent.first}, answered in {sent.last}"
                    return f"missed: {missed} by {watcher}, {epochs}"
        return ""

    def check(self) -> None:
        """Whatever will come has come."""
        if missed := self.missed():
            raise Violation(missed)
        self._answered.clear()


def _epoch(port: Any, slot: int) -> int:
    """In which the slot is led, as this edge knows; 0 where one process is all there is."""
    routes = getattr(port, "_routes", None)
    return routes.channel(slot).epoch if routes is not None else 0


class Watching:
    """The watchers of one life of one edge."""

    def __init__(self, clients: Any) -> None:
        self._clients = clients
        self._watch: Watch = clients.work.watch
        self.watchers: dict[int, Watcher] = {}
        self._made = 0

    def act(self) -> None:
        """One of them comes, acknowledges or goes."""
        random = self._clients.random
        alive = [watcher for watcher in self.watchers.values() if not watcher.over]
        luck = random.random()
        if len(alive) < MOST and luck < 0.3:
            self._subscribe()
        elif alive and luck < 0.5:
            self._acknowledge(random.choice(alive))
        elif alive and luck > 0.98:
            self.end(random.choice(alive))

    def _subscribe(self) -> None:
        clients, random = self._clients, self._clients.random
        address = random.choice(TOPICS)
        slot = random.choice(clients.work.slots(address))
        ack = random.choice(list(AckMode))
        self._made += 1
        number = SESSIONS + self._made
        watcher = self.watchers[number] = Watcher(number, slot, address, ack, clients.name)
        self._watch.watchers.append(watcher)
        clients.expect(number, watcher)
        clients.submit(Subscribe(slot, number, 1, number, address, Routing.MULTICAST, ack))

    def _acknowledge(self, watcher: Watcher) -> None:
        if watcher.held:
            held, watcher.held = watcher.held, []
            ids = held if watcher.ack is AckMode.INDIVIDUAL else held[-1:]
            self._clients.submit(Settle(watcher.slot, watcher.number, 0, watcher.number, ids, Outcome.ACK, 0))

    def end(self, watcher: Watcher) -> None:
        watcher.over = watcher.gone = True
        self._clients.submit(Disconnect(watcher.slot, watcher.number))

    def end_all(self) -> None:
        for watcher in list(self.watchers.values()):
            if not watcher.gone:
                self.end(watcher)

    def void(self) -> None:
        """Owners may have given them up, or their edge is gone."""
        for watcher in self.watchers.values():
            watcher.over = True
