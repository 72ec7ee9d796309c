"""What each consumer wants of a queue: selectors and own messages of consumers, as they come, come back, and publish.

Rule: tells the queue's Eligibility, and makes one when the first consumer is choosy; a queue without choosy consumers
has none, and costs nothing here.
"""

from __future__ import annotations

import heapq
from typing import Final

from broker.core.address import Routing
from broker.core.commands import Subscribe
from broker.core.effects import Turn
from broker.core.errors import Code, RefusedError
from broker.core.message import Run
from broker.selector import WORDS, compile

from ..consumers.browser import Numbered
from ..consumers.consumer import Consumer
from ..consumers.eligibility import ConsumerFilter
from ..messages.unloaded import Stub
from .queue import Queue

NO_XPATH = (
    "XPATH is off, since it costs everybody a thousand times what a header costs; send what you select by as a header, "
    "or set engine.xpath = true"
)


LONG: Final = 256
"""Characters of a selector; what is longer is work of its own …"""
AS_QUEUE: Final = 8
"""… so many of them as much as a queue that begins (0.05 ms): each may be a word."""


def check(command: Subscribe, xpath: bool, turn: Turn) -> None:
    """Raises RefusedError(BAD_SELECTOR) if the command's selector makes no sense, or (a new one) reads bodies though
    that is not allowed."""
    text = command.selector
    if text is None:
        return
    turn.works(len(text) // AS_QUEUE if len(text) > LONG else 1)
    if compile(text, WORDS).xpath and not xpath and command.resume is None:
        raise RefusedError(Code.BAD_SELECTOR, NO_XPATH)


def wish_of(command: Subscribe, queue: Queue) -> ConsumerFilter | None:
    """What its consumer may get of the queue; a subscription's own queue takes nothing else in the first place."""
    # Its queue lets nothing else in (Queue.filter): asked at the door, not once more at the consumer.
    if queue.tied or (queue.subscription and command.durable):
        selector = None
    else:
        selector = None if command.selector is None else compile(command.selector, WORDS)
    # A tied queue is filled for this one consumer: without_own() keeps its own messages out before they are there.
    session = command.session if command.no_local and not queue.tied else 0
    return (selector, session) if selector is not None or session else None


def without_own(queues: list[Queue], session: int) -> list[Queue]:
    """Without those subscriptions whose only consumers do not want what their own session sends."""
    return [
        queue
        for queue in queues
        if queue.routing is not Routing.MULTICAST
        or not queue.consumers
        # Somebody else may want it: then it enters, and the choice keeps it from its sender alone.
        or not all([consumer.no_local and consumer.session == session for consumer in queue.consumers])
    ]


def note(queues: list[Queue], session: int, run: Run) -> None:
    """The session sent these (they are numbered): consumers of it may not want them."""
    for queue in queues:
        if queue.choice is not None:
            queue.choice.came_from(queue, session, (run.ids[0], run.ids[-1]))


def far_of(queue: Queue) -> Numbered:
    """What waits elsewhere, for browsers."""
    if queue.choice is None or not queue.far:
        return iter(()), 0
    buckets = list(queue.choice.far())
    return heapq.merge(*[far.all() for far in buckets]), sum(map(len, buckets))


def join(queue: Queue, consumer: Consumer) -> None:
    """A consumer has come to the queue; call it when it is in queue.consumers."""
    if queue.choice is not None:
        queue.choice.join(queue, consumer)
    elif consumer.filter is not None or queue.settings.exclusive:
        queue.choose()


def reclaim(queue: Queue, consumer: Consumer, ledger: dict[int, Run]) -> None:
    """A consumer has come back with what its client holds: the groups of that are still its own."""
    if not queue.settings.group_buckets or (queue.choice is None and not queue.restart.grouped):
        return
    choice = queue.choice or queue.choose()
    known: dict[int, Run] = {}
    for i, run in ledger.items():
        if type(run) is not Stub:
            known[id(run)] = run
        elif run.position:
            choice.strange.setdefault(run.position, {})[i] = consumer.id
    held = dict.fromkeys(ledger, consumer.id)
    for run in known.values():
        choice.own(queue, run, held)


def configure(queue: Queue) -> None:
    """The queue's settings may have changed."""
    if queue.choice is not None:
        queue.choice.configure(queue)
    elif queue.settings.exclusive and queue.consumers:
        queue.choose()
