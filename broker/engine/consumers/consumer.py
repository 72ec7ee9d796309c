"""A consumer: its room to the socket, its credit, and the ledger of what it holds unacknowledged.

Rule: every check comes before the first change, so that a refused command leaves nothing behind.
Must not know queues' contents; giving messages back is redelivery.py's.
"""

# Example. A subscription with ack `client` holds 3, 5 and 4, in this order: 4 had been with another consumer before.
#     ACK 5           covers 3 and 5, not 4 (core/ledger.py says why)
#     ACK 5 in tx T   the same two are set aside: held = {5: {3, 5}}, the ledger has 4. Their credit is back at once,
#                     or a transaction larger than the window could never be committed (C51)
#     ACK 4           settles 4 alone: what T holds was covered before
#     COMMIT T        settle([5], held=True): 3 and 5
#     end             drain() gives back 4, and 3 and 5 if T was not committed (C45, C55)
# With `client-individual` an id covers itself (C44); with `auto` there is no ledger, and over a link `flight` has
# what the edge has not confirmed yet.

from __future__ import annotations

from bisect import bisect_left
from collections import deque
from collections.abc import Iterable, Sequence
from itertools import accumulate, pairwise

from broker.core.address import AckMode
from broker.core.commands import UNLIMITED, Subscribe
from broker.core.errors import Code, RefusedError
from broker.core.ledger import covered
from broker.core.message import BLOB, NO_IDS, Run
from broker.selector import Predicate

from ..messages.unloaded import Stub, ghost, is_ghost

Ledger = dict[int, Run]
"""Message id → a run that holds it, in the order of delivery."""


class Consumer:
    """room, credit_messages, credit_bytes   what is left; delivered as long as all are > 0 (one message overshoot).
    window_bytes   what credit_bytes is when it holds nothing.
    ledger   unacknowledged messages; None in AckMode.AUTO.
    held     messages acknowledged in open transactions: named id → the messages that id covers.
    flight   AckMode.AUTO with confirmation: deliveries that are not confirmed, in order; None: settled as handed out.
    bodies   … and messages whose large bodies are on their way, by id: settled one by one. None: they are in `flight`.
    sized    has a window of bytes, so sizes must be given back.
    haunted  its ledger may hold ghosts (unloaded.py): messages that were not in the queue when it attached again.
    filter   the only messages it may get: (selector, session whose own ones it may not); None: all.
    no_local   it does not want its own session's messages.
    bit      what the queue's choice knows the filter by; 0: it has none."""

    __slots__ = (
        "_ghosts", "_held_bytes", "_held_messages", "_removed", "ack", "bit", "bodies", "credit_bytes",
        "credit_messages", "filter", "flight", "haunted", "held", "id", "ledger", "no_local", "overhead", "priority",
        "queue", "room", "session", "sized", "window_bytes",
    )  # fmt: skip

    def __init__(self, command: Subscribe, queue: int) -> None:
        self.id = command.consumer
        self.session = command.session
        self.queue = queue
        self.ack = command.ack
        self.priority = command.priority
        self.room = command.room
        self.overhead = command.overhead
        self.credit_messages = command.credit_messages
        self.credit_bytes = self.window_bytes = command.credit_bytes
        self.sized = command.credit_bytes < UNLIMITED and command.ack is not AckMode.AUTO
        self.ledger: Ledger | None = None if command.ack is AckMode.AUTO else {}
        self.held: dict[int, Ledger] = {}
        self._held_bytes = self._held_messages = 0
        confirms = command.confirm and command.ack is AckMode.AUTO and not command.browse
        self.flight: deque[Run] | None = deque() if confirms else None
        self.bodies: Ledger | None = {} if confirms and command.bodies else None
        self.haunted = False
        self._ghosts: dict[int, int] | None = {}
        """Of which it may hold ghosts: message → the named id whose transaction has it, 0: the ledger. None: nobody has
        looked yet."""
        self._removed = 0
        self.filter: tuple[Predicate | None, int] | None = None
        self.bit = 0
        self.no_local = command.no_local and not command.browse

    def wants(self, filter: tuple[Predicate | None, int] | None) -> None:
        """What it may get; None: everything."""
        self.filter = filter

    def browses(self) -> None:
        """It looks on, and holds nothing."""
        self.ledger = None

    def asks(self, bit: int) -> None:
        """Its filter is this one of those that are asked (eligibility.py); 0: it wants all."""
        self.bit = bit

    def move(self, queue: int) -> None:
        """Another queue has taken the place of its own."""
        self.queue = queue

    def grant(self, nbytes: int) -> None:
        """So much has left for the socket."""
        self.room += nbytes

    def withhold(self, nbytes: int) -> None:
        """So much less may be under way to it, until it is granted again."""
        self.room -= nbytes

    def forget_held(self) -> int:
        """What it holds is gone; returns how many messages it may still name.

        Credit in bytes comes back now: a ghost has none to give."""
        # A purge: the client still has these in its hands, and its ACK must neither fail nor settle anything.
        gone: list[Ledger] = [self.ledger or {}, *self.held.values()]
        self.owes_nothing()
        for group in gone:
            if group:  # one ghost for all of them: 50,000 would be 50 ms
                group.update(dict.fromkeys(group, ghost((min(group), max(group)), own=True)))
        self.haunted, self._ghosts = any(gone), {}  # what is purged comes from nowhere again
        if self.flight is not None:
            # The edge confirms deliveries by their number.
            self.flight = deque([Run(NO_IDS, b"", [], 0) for _ in self.flight])
        self.carry({})
        return sum(map(len, gone))

    def ready(self) -> bool:
        """May it get a message now."""
        # Both bounds, because they are of different things: `room` is what the socket's buffer takes, credit what the
        # client asked for. Each may fall below zero by one delivery, so a message larger than the window still gets
        # through.
        return self.room > 0 and (self.ledger is None or (self.credit_messages > 0 and self.credit_bytes > 0))

    def fits(self, count: int, nbytes: int) -> bool:
        """Is there room and credit for all of that, without overshoot."""
        cost = nbytes + count * self.overhead
        if self.room < cost:
            return False
        return self.ledger is None or (self.credit_messages >= count and (not self.sized or self.credit_bytes >= cost))

    def allowance(self) -> tuple[int, int]:
        """(messages, bytes) it may get now, the bytes with its overhead; the last message may overshoot."""
        if self.ledger is None:
            return UNLIMITED, self.room
        return self.credit_messages, min(self.room, self.credit_bytes) if self.sized else self.room

    def prefix(self, run: Run) -> int:
        """How many messages from the front of the run it may get now."""
        count = len(run.records)
        if self.fits(count, run.nbytes):
            return count
        messages, limit = self.allowance()
        # At least one by bisect below, since the caller has asked ready().
        count = min(count, messages)
        each = len(run.lines) + self.overhead
        sums = list(accumulate([len(record) + each for record in run.records[:count]]))
        # Message i goes out iff what goes before it is below the limit.
        return min(count, bisect_left(sums, limit) + 1)

    def charge(self, run: Run) -> int:
        """Counts a delivery; returns its cost."""
        count = len(run.records)
        cost = run.nbytes + count * self.overhead
        # No check: who calls has asked prefix() or fits(); a check here would be one per message for nothing.
        self.room -= cost
        ledger = self.ledger
        if ledger is not None:
            # The common case without making a list.
            if count == 1:
                ledger[run.ids[0]] = run
            else:
                ledger.update(dict.fromkeys(run.ids, run))
            self.credit_messages -= count
            if self.sized:
                self.credit_bytes -= cost
        return cost

    def adopt(self, ledger: Ledger, haunted: bool) -> None:
        """Its client holds these already (a client mode; first of all deliveries)."""
        self.ledger = ledger
        self.haunted, self._ghosts = haunted, None if haunted else {}
        # It may fall below zero: the client's window was that of the earlier leader, and nothing new comes until
        # enough is settled.
        self.credit_messages -= len(ledger)
        if self.sized:
            self.credit_bytes -= self._cost(ledger)

    def owes_nothing(self) -> None:
        """What its ledger holds has no bytes any more: their credit comes back, but for what ghosts count."""
        if self.sized:
            self.credit_bytes = self.window_bytes - self.overhead * len(self.ledger or ())

    def named(self, ids: Sequence[int]) -> Ledger:
        """What settle(ids, held=True) would return. Raises RefusedError if that would."""
        ledger, found = self.ledger or {}, Ledger()
        rest = [i for i in ids if i not in self.held]
        if rest:
            mine = self._covered(rest)
            # Mostly in the ledger's own order, and the whole of it: no line of code for each.
            found.update(ledger if mine == list(ledger) else {i: ledger[i] for i in mine})
        for i in ids:
            found.update(self.held.get(i, ()))
        return found

    def embody(self, messages: Ledger) -> set[int]:
        """Those of which it holds a ghost are its own, at their places in the order of delivery. Returns their ids."""
        if self._ghosts is None:
            self._ghosts = self._find_ghosts()
        ghosts, ledger = self._ghosts, self.ledger or {}
        embodied: set[int] = set()
        for i in ghosts.keys() & messages.keys():
            named, run = ghosts.pop(i), messages[i]
            group = self.held.get(named, {}) if named else ledger
            if i not in group:
                continue  # it has said what is to become of it
            group[i] = run
            embodied.add(i)
            nbytes = self._cost({i: run}) - self.overhead  # which the ghost has taken
            if named:  # the credit of what a transaction holds is back
                self._held_bytes += nbytes
            elif self.sized:
                self.credit_bytes -= nbytes
        return embodied

    def _find_ghosts(self) -> dict[int, int]:
        found = {i: 0 for i, run in (self.ledger or {}).items() if is_ghost(run)}
        for named, group in self.held.items():
            found.update({i: named for i, run in group.items() if is_ghost(run)})
        return found

    def confirmed(self, count: int) -> list[Run]:
        """The first `count` deliveries have arrived: takes them off (fewer if there are not so many)."""
        flight = self.flight
        if not flight:
            return []
        if count >= len(flight):
            runs = list(flight)
            flight.clear()
            return runs
        return [flight.popleft() for _ in range(count)]

    def launch(self, run: Run) -> None:
        """It was handed out, and is settled when that is confirmed."""
        if self.bodies is not None and run.flags & BLOB:
            self.bodies[run.ids[0]] = run
        elif self.flight is not None:
            self.flight.append(run)

    def carry(self, bodies: Ledger) -> None:
        """These are under way, and no others."""
        if self.bodies is not None:
            self.bodies = bodies

    def landed(self, ids: Sequence[int]) -> Ledger:
        """Their bodies are with the edge, or never will be: takes them off. Raises RefusedError."""
        bodies = self.bodies or {}
        for i in ids:
            if i not in bodies:
                raise _unknown(i)
        return {i: bodies.pop(i) for i in dict.fromkeys(ids)}

    def has(self, i: int) -> Run | None:
        """What it was handed and has not settled."""
        for group in (self.ledger, self.bodies, *self.held.values()):
            if group is not None and i in group:
                return group[i]
        return None

    def left(self, settled: Iterable[Sequence[int]]) -> list[int]:
        """What its ledger has when these have been settled, one after the other."""
        left = list(self.ledger or ())
        # Once over both, however many there are: in one order or another it comes to the same.
        named = {i for ids in settled for i in ids}
        if self.ack is AckMode.INDIVIDUAL:
            return [i for i in left if i not in named]
        return left[max((at for at, i in enumerate(left, 1) if i in named), default=0) :] if named else left

    def settle(self, ids: Sequence[int], held: bool) -> Ledger:
        """Removes what `ids` settle and returns it in delivery order. Credit comes back.

        held: ids acknowledged in a transaction may be named. Raises RefusedError (nothing changed then)."""
        if not self.held:
            return self._free(ids)
        named = [i for i in ids if i in self.held]
        if named and not held:
            raise _unknown(named[0])
        rest = [i for i in ids if i not in self.held]
        if len(set(named)) != len(named):
            raise _unknown(named[0])
        taken = self._free(rest) if rest else {}
        for i in named:
            # Its own group alone: another transaction of the same client keeps what it holds.
            taken.update(self.held.pop(i))  # their credit came back at the time of the Hold
        return taken

    def release(self, ids: Sequence[int]) -> Ledger:
        """Removes what is to be given back and returns it. What it does not hold (any more) is passed over."""
        taken: Ledger = {}
        rest = [i for i in ids if i not in self.held]
        for i in ids:
            taken.update(self.held.pop(i, ()))
        rest = [i for i in rest if i not in taken and self.ledger and i in self.ledger]
        if rest:
            taken.update(self._free(rest))
        return taken

    def lose(self, ids: Sequence[int]) -> Ledger:
        """Removes these alone, in any mode: they never came to its client. What it does not hold is passed over."""
        ledger = self.ledger or {}
        lost = {i: ledger.pop(i) for i in ids if i in ledger}
        self._removed += len(lost)
        self.credit_messages += len(lost)
        if self.sized:
            self.credit_bytes += self._cost(lost)
        return lost

    def check(self, ids: Sequence[int]) -> None:
        """Raises RefusedError if settle(ids, held=True) would."""
        rest = [i for i in ids if i not in self.held]
        # Two parts of one transaction that name the same message would settle it twice, and one of them may be a
        # NACK.
        if len(set(ids)) != len(ids):
            raise _unknown(ids[-1])
        if rest:
            self._covered(rest)

    def set_aside(self, ids: Sequence[int], most: int, many: int) -> None:
        """Sets aside what `ids` cover, each with its own share, up to `most` bytes and `many` messages. Raises
        RefusedError."""
        # Before anything is set aside: a refused ACK leaves the ledger as it was.
        named = self._covered(ids)
        ledger = self.ledger or {}
        count, nbytes = len(named), self._cost({i: ledger[i] for i in named})
        # The sums only grow while transactions come and go; made anew at the bound, they cost as much as is held,
        # once in a while.
        if self._held_bytes + nbytes > most or self._held_messages + count > many:
            # What was settled since is still counted: now it is not.
            self._held_bytes = sum([self._cost(group) for group in self.held.values()])
            self._held_messages = sum(map(len, self.held.values()))
            if self._held_bytes + nbytes > most:
                raise _too_many(f"{most} bytes of this subscription's messages (engine.max_held_bytes)")
            if self._held_messages + count > many:
                raise _too_many(f"{many} of this subscription's messages (engine.max_held_messages)")
        self._held_messages += count
        self._held_bytes += nbytes
        for i in ids:
            self.held[i] = group = self._free((i,))
            if self._ghosts:
                self._ghosts.update({j: i for j in group if j in self._ghosts})

    def drain(self) -> Ledger:
        """Everything it holds, for its end."""
        everything: Ledger = {}
        if self.ledger:
            everything, self.ledger = self.ledger, {}
        for group in self.held.values():
            everything.update(group)
        self.held.clear()
        for run in self.flight or ():
            everything.update(dict.fromkeys(run.ids, run))
        everything.update(self.bodies or {})
        self.flight = self.bodies = None
        return everything

    def _covered(self, ids: Sequence[int]) -> list[int]:
        """The ids that `ids` settle, in delivery order."""
        ledger = self.ledger
        if ledger is None:
            raise _unknown(ids[0])
        for i in ids:
            if i not in ledger:
                raise _unknown(i)
        if self.ack is AckMode.INDIVIDUAL:
            if len(ids) > 1 and len(set(ids)) != len(ids):
                raise _unknown(ids[-1])
            return list(ids)
        found = covered(ledger, ids[-1])
        # Several ACKs of one read come as one command; they have to mean what they would have meant one by one.
        if len(ids) > 1:
            # An id behind the last one, or named twice, was covered already when its turn came.
            rank = {i: n for n, i in enumerate(found)}
            ranks = [rank.get(i, -1) for i in ids]
            if -1 in ranks or any(b <= a for a, b in pairwise(ranks)):
                raise _unknown(ids[-1])
        return found

    def _free(self, ids: Sequence[int]) -> Ledger:
        named = self._covered(ids)
        ledger = self.ledger
        assert ledger is not None
        count = len(named)
        if count == len(ledger):
            in_order = count == 1 or self.ack is not AckMode.INDIVIDUAL
            taken = ledger if in_order else {i: ledger[i] for i in named}
            self.ledger = {}
            self._removed = 0
            self.credit_messages += count
            if self.sized:  # nothing is held any more: no look at each for what it has cost
                self.credit_bytes = self.window_bytes
            return taken
        pop = ledger.pop
        taken = {i: pop(i) for i in named}
        self._removed += count
        if self._removed > len(ledger):
            # A dict emptied from its front scans the dead slots again and again: rebuild it in time.
            self.ledger = dict(ledger.items())
            self._removed = 0
        self.credit_messages += count
        if self.sized:
            self.credit_bytes += self._cost(taken)
        return taken

    def _cost(self, messages: Ledger) -> int:
        cost = self.overhead * len(messages)
        parts: Ledger = {}
        for i, run in messages.items():
            if len(run.ids) == 1:
                cost += run.nbytes
            else:
                parts[i] = run
        return cost + _size(parts) if parts else cost


def _size(messages: Ledger) -> int:
    """Bytes of these, of runs of several messages."""
    # Those of a run mostly stand together, and all of them do: then it knows its sum, and who holds 100,000 pays a look
    # for each.
    size, ids, first = 0, list(messages), 0
    runs = list(messages.values())
    while first < len(runs):
        run, end = runs[first], first + 1
        while end < len(runs) and runs[end] is run:
            end += 1
        if type(run) is Stub:
            size += run.size_of(0) * (end - first)  # a mean: of each the same
        elif end - first == len(run.ids):
            size += run.nbytes
        else:
            # Ids of a run ascend; to look through them one by one would be the square of what a client holds.
            size += sum([run.size_of(bisect_left(run.ids, i)) for i in ids[first:end]])
        first = end
    return size


def _unknown(i: int) -> RefusedError:
    return RefusedError(Code.NO_SUCH_DELIVERY, f"message {i} is not held unacknowledged by this subscription")


def _too_many(what: str) -> RefusedError:
    return RefusedError(Code.TRANSACTION_LIMIT, f"open transactions have acknowledged more than {what}; COMMIT earlier")
