"""What a slot tells the edges. Effects leave the owner in order, and only when what they promise is durable.

Rule: values only. The edge finds the session or consumer by number; a number it does not know any more is
ignored (the client went in between).
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence

from .address import Routing
from .commands import Decide, Publish
from .creation import Creation
from .errors import Code
from .message import Run
from .reasons import Reason
from .records import LogRecord


class Deliver:
    """Messages for a consumer. The edge owes a Grant of `cost` bytes once they are on their way.

    cost = run.nbytes + len(run) * overhead of the consumer. The run may be shared with other consumers:
    render it once (run.parts).
    """

    __slots__ = ("consumer", "cost", "run")

    def __init__(self, consumer: int, run: Run, cost: int) -> None:
        self.consumer = consumer
        self.run = run
        self.cost = cost

    def shows(self, run: Run) -> None:
        """Only these of its messages."""
        self.run = run

    def costs(self, cost: int) -> None:
        """The edge owes that much less, or more."""
        self.cost = cost


class Done:
    """Request `seq` of `session` has been carried out, and is durable where that was asked for."""

    __slots__ = ("seq", "session")

    def __init__(self, session: int, seq: int) -> None:
        self.session = session
        self.seq = seq


class Refused:
    """Request `seq` of `session` was not carried out; nothing of it happened. Sent also when seq is 0."""

    __slots__ = ("code", "detail", "seq", "session")

    def __init__(self, session: int, seq: int, code: Code, detail: str = "") -> None:
        self.session = session
        self.seq = seq
        self.code = code
        self.detail = detail


class ConsumerClosed:
    """The owner ended this consumer (queue deleted, slow consumer, …)."""

    __slots__ = ("consumer", "detail", "reason")

    def __init__(self, consumer: int, reason: Reason, detail: str = "") -> None:
        self.consumer = consumer
        self.reason = reason
        self.detail = detail


class BrowseEnd:
    """A browsing consumer has seen everything there was."""

    __slots__ = ("consumer",)

    def __init__(self, consumer: int) -> None:
        self.consumer = consumer


class Resumed:
    """This consumer is attached again, as its Resume asked (`behind`): what is told of it before, is of an earlier
    attachment. For the asker's peer in the owner; it does not travel."""

    __slots__ = ("behind", "consumer")

    def __init__(self, consumer: int, behind: int) -> None:
        self.consumer = consumer
        self.behind = behind


class AddressBlocked:
    """An address has reached its limit and its policy is BLOCK. full: what `session` sends there from now on waits at
    the edge, without a RECEIPT; not full: it may go on. What was on its way is taken all the same.

    passing   it has no limit: its owner has only more to do than it can at once, and needs nobody's ACK to go on. One
              reason says nothing of the other: the address may be full, too."""

    __slots__ = ("address", "full", "passing", "session", "slot")

    def __init__(self, session: int, slot: int, address: str, full: bool, passing: bool = False) -> None:
        self.session = session
        self.slot = slot
        self.address = address
        self.full = full
        self.passing = passing


class Move:
    """The engine asks its owner to publish `run` to `address` (dead letter, expiry, divert) and, in the same atomic log
    group, to settle `ids` of `queue` in `slot` (run.ids are those of the source; the target numbers anew).
    Until then the engine keeps the messages out of sight: neither ready nor held by a consumer.

    queue   0: a copy of messages that are in no queue; nothing is settled.
    to      name of one queue of the address, or None for `routing`.
    why     how they leave `queue` (core.records.Left).
    create  may what is not there be made for it (core.creation.Creation).
    then    published in `slot` in the same group, if `queue` is still there: it takes their place; None: nothing.
    heard   called when that has happened, or has to wait, for whoever is to be told then; None: nobody is."""

    __slots__ = ("address", "create", "heard", "ids", "queue", "routing", "run", "slot", "then", "to", "why")

    def __init__(
        self,
        slot: int,
        queue: int,
        ids: Sequence[int],
        address: str,
        run: Run,
        to: str | None = None,
        routing: Routing = Routing.UNSET,
        why: int = 0,
        create: Creation = True,
        then: Publish | None = None,
    ) -> None:
        self.to = to
        self.why = why
        self.routing = routing
        self.slot = slot
        self.queue = queue
        self.ids = ids
        self.address = address
        self.run = run
        self.create = create
        self.then = then
        self.heard: Callable[[Turn], None] | None = None

    def is_heard_by(self, heard: Callable[[Turn], None]) -> None:
        """Somebody is told when it has happened."""
        self.heard = heard

    def ends(self, turn: Turn) -> None:
        """It has happened, in what this turn writes, or has to wait: nobody is told a second time."""
        heard, self.heard = self.heard, None
        if heard is not None:
            heard(turn)

    def by_type(self) -> None:
        """Its address is of another type than it says."""
        self.routing = Routing.UNSET


class Fetch:
    """The engine wants these journal positions read back (a page of a queue larger than its memory)."""

    __slots__ = ("positions", "queue", "slot")

    def __init__(self, slot: int, queue: int, positions: Sequence[int]) -> None:
        self.slot = slot
        self.queue = queue
        self.positions = positions


def always(_: int) -> bool:
    """Nobody else could ever lead the slot."""
    return True


class Turn:
    """What one turn of a slot's owner collects. The owner makes it, the engine fills it.

    now       epoch milliseconds, the only clock the engine knows.
    number    number of the commit that will hold this turn's `appends`; what depends on it is held back by
              the engine until `release(number)`.
    effects   may be told at once, in order.    appends   to be journalled, in order.
    fetches, moves   work for the owner (see there).    notices   what an operator should read in the log.
    decisions what they need is in memory now: to be carried out in a turn of their own, as they are much.
    may       asked before anything is handed out by other calls than `flush`: may the slot of this number do so now.
    work      queues and consumers that have begun or ended; most: with more than that nothing further is begun.
    ahead     milliseconds by which `now` is ahead of the wall clock, which has been set: points of time that clients
              name are by that one.
    handed    messages that it hands out.    expired   runs whose time was over, or for which a ring had no room.
    returned  runs that have come back of what was given back in pieces.
    """

    __slots__ = (
        "ahead", "appends", "decisions", "effects", "expired", "fetches", "handed", "may", "most", "moves", "notices",
        "now", "number", "returned", "work",
    )  # fmt: skip

    def __init__(
        self, now: int, number: int, may: Callable[[int], bool] = always, ahead: int = 0, most: int = sys.maxsize
    ) -> None:
        self.now = now
        self.number = number
        self.may = may
        self.ahead = ahead
        self.handed = self.expired = self.returned = 0
        self.effects: list[Effect] = []
        self.appends: list[LogRecord] = []
        self.fetches: list[Fetch] = []
        self.moves: list[Move] = []
        self.decisions: list[Decide] = []
        self.notices: list[str] = []
        self.work = 0
        self.most = most

    def works(self, units: int = 1) -> None:
        """A queue or a consumer has begun or ended; or something has taken as long as so many of these."""
        self.work += units

    def expires(self, runs: int) -> None:
        """The time of so many was over, or a ring had no room for them."""
        self.expired += runs

    def returns(self, runs: int) -> None:
        """So many came back of what was given back in pieces."""
        self.returned += runs

    def merge(self, group: Turn, appends: Sequence[LogRecord]) -> None:
        """What a part() has collected is of this one; `appends`: its records, as a log group."""
        self.appends += appends
        self.work += group.work
        self.effects += group.effects
        self.fetches += group.fetches
        self.moves += group.moves
        self.decisions += group.decisions

    def take_moves(self) -> list[Move]:
        """Takes out what is to be moved so far."""
        moves, self.moves = self.moves, []
        return moves

    def part(self) -> Turn:
        """An empty one for what becomes a log group of this one."""
        return Turn(self.now, self.number, self.may, self.ahead, self.most)


Effect = Deliver | Done | Refused | ConsumerClosed | BrowseEnd | Resumed | AddressBlocked
