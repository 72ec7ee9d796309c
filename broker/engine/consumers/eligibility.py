"""What a queue knows of who may get which message.

Rule: state and questions; handing out is selective_dispatch.py's. A selector has a bit as long as a consumer has it,
and a little longer (a client that reconnects is not worth a second look at everything that waits). Must not know turns.
"""

# Example. Consumer 7 wants "a = 1", 8 the same, 9 "b = 1" and none of its own session's messages.
#     bits      7 and 8 share bit 1: a bit is a filter, not a consumer. 9 has bit 2
#     message   a = 1 and b = 1, of 9's session: the index says bits 3; the origin takes bit 2 away: bits 1, for 7 and
#               8
#     leave     7 and 8 go: bit 1 is retired. Buckets keep its answers, nobody is asked for it
#     join      a client with "a = 1" comes back: bit 1 again, and nothing that waits has to be looked at anew
#     9th       when a ninth filter retires the eldest of them loses its bit, all buckets forget it, equal ones are one

from __future__ import annotations

from array import array
from collections import OrderedDict, deque
from collections.abc import Callable, Iterator
from typing import Protocol

from broker.config.addressing import AddressSettings
from broker.core.message import GROUPED, REDELIVERED, Run
from broker.core.spans import Span, add_span, inside
from broker.selector import Predicate
from broker.selector.heads import head_of

from ..messages.unloaded import Stub
from .consumer import Consumer
from .match_buckets import NOBODY, Far, Key, MatchBucket
from .message_groups import Groups
from .selector_index import SelectorIndex

_RETIRED = 8
"""Selectors nobody has any more, whose answers are kept."""

ConsumerFilter = tuple[Predicate | None, int]
"""What a consumer may get: selector, and the session whose own messages it does not want (0: it wants all)."""


class Selected(Protocol):
    """What of a queue is asked here."""

    consumers: list[Consumer]
    settings: AddressSettings
    count: int
    far: int

    def empty(self) -> bool:
        """Nothing in it, nothing on its way in or out."""
        ...


class Audience:
    """Those who may get the messages of some buckets, by priority.    start: where the round robin goes on."""

    __slots__ = ("consumers", "start")

    def __init__(self, consumers: list[Consumer]) -> None:
        self.consumers = consumers
        self.start = 0

    def served(self, place: int) -> None:
        """The one at that place got something: the next one is the first to be asked."""
        self.start = (place + 1) % len(self.consumers)


class Eligibility:
    """buckets      what was looked at and waits.    newest   the highest id that was ever among it.
    transit    messages of a bucket that are being read back; None: none are.    asked   their positions, as asked for.
    exclusive  the one consumer that gets anything; None: all do.
    groups     None: nobody has sent a group yet, or they are ignored.
    paused     groups are dealt out anew, when everything under way is settled.
    learning   groups of what consumers hold are being read back.
    hungry     in the last turn a consumer could have had more than memory had for it."""

    __slots__ = (
        "_always", "_audiences", "_bits", "_origins", "_retired", "_selectors", "_strangers", "_used", "address",
        "asked", "buckets", "exclusive", "groups", "hungry", "known", "learning", "newest", "paused", "strange",
        "transit",
    )  # fmt: skip

    def __init__(self, address: str) -> None:
        self.address = address
        self.buckets: dict[Key, MatchBucket] = {}
        self.newest = 0
        self.transit: MatchBucket | None = None
        self.strange: dict[int, dict[int, int]] = {}
        """Position → ids held by consumers that have come back, and whose: their groups are those consumers', but have
        to be read first."""
        self.learning = False
        self.asked: array[int] = array("Q")
        self.known = 0
        """Bits that are asked of every message now."""
        self.exclusive: Consumer | None = None
        self.groups: Groups | None = None
        self.paused = False
        self.hungry = False
        self._bits: dict[ConsumerFilter, int] = {}
        self._retired: OrderedDict[ConsumerFilter, None] = OrderedDict()
        self._audiences: dict[tuple[int, int], Audience] = {}
        self._origins: dict[int, list[Span]] = {}
        """Session → its own messages, where a consumer of it does not want them."""
        self._strangers: dict[int, int] = {}
        """Session → bits of those consumers."""
        self._always = 0
        """Bits that every message has, but for its origin."""
        self._selectors = SelectorIndex(address)
        self._used = 0
        """Bits of `_bits`."""

    # ── handing out ────────────────────────────────────────────────────────────────────────────────

    def begin(self, held: int, buckets: int) -> bool:
        """May something be handed out: not while consumers have something of groups that are dealt anew.

        held: messages that consumers have.    buckets: of groups, by the settings; 0: they are ignored."""
        if self.paused and held:
            return False
        self.paused = False
        if buckets and self.groups is None:
            self.groups = Groups(buckets)
        return True

    def served(self, hungry: bool) -> None:
        """Everything that can go out has. hungry: a consumer could have had more."""
        self.hungry = hungry

    def waiting(self) -> list[MatchBucket]:
        """Buckets with messages, with the one that is being read back."""
        buckets = [bucket for bucket in self.buckets.values() if bucket]
        if len(buckets) < len(self.buckets):
            self.buckets = {bucket.key: bucket for bucket in buckets}  # somebody else has emptied the others
        if self.transit is not None and len(self.transit.far):
            buckets.append(self.transit)
        return buckets

    def learn(self, most: int) -> array[int]:
        """Asks what consumers held when they came back: where it lies, at most so many."""
        self.asked = array("Q", list(self.strange)[:most])
        self.learning = True
        return self.asked

    def learned(self) -> None:
        """That has come."""
        self.learning = False

    def read_back(self, bucket: MatchBucket, most: int) -> array[int]:
        """Asks for the first messages of the bucket: where they lie, at most so many."""
        self.transit = MatchBucket(bucket.key)
        positions: dict[int, None] = {}
        for i, position in bucket.far.pop(most):
            self.transit.far.add((i,), position)
            positions[position] = None
        self.asked = array("Q", positions)
        return self.asked

    def was_read_back(self) -> None:
        """They have come."""
        self.transit = None

    # ── consumers ──────────────────────────────────────────────────────────────────────────────────

    def join(self, queue: Selected, consumer: Consumer) -> None:
        """A consumer has come (it is in queue.consumers already)."""
        filter = consumer.filter
        if filter is not None:
            known = filter in self._bits
            if not known:
                # The lowest bit that is free: as many bits as filters, or the ints of the buckets would grow with every
                # client that comes.
                self._bits[filter] = bit = ~self._used & (self._used + 1)
                self._used |= bit
            consumer.asks(self._bits[filter])
            # A filter that is in use already changes nothing: another consumer of it finds the answers there.
            if not known or filter in self._retired:
                self._retired.pop(filter, None)
                self._ask(filter)
        settings = queue.settings
        if settings.exclusive:
            # By priority, the first of them; whoever has it keeps it, or messages of one order would be with two at a
            # time.
            self.exclusive = self.exclusive or queue.consumers[0]
        if settings.group_rebalance and self.groups is not None and len(self.groups):
            self._deal_anew()
            self.paused = settings.group_rebalance_pause
        self._changed()

    def leave(self, queue: Selected, consumer: Consumer) -> None:
        """A consumer has ended (it is in queue.consumers no more)."""
        filter = consumer.filter
        if filter is not None and not any(other.filter == filter for other in queue.consumers):
            # Not forgotten yet. The answers stay true: selectors are asked of headers, which do not change.
            self._retired[filter] = None
            self._ask_no_more(filter)
            if not any(other.filter is not None and other.filter[1] == filter[1] for other in queue.consumers):
                self._origins.pop(filter[1], None)
            while len(self._retired) > _RETIRED:
                oldest, _ = self._retired.popitem(last=False)
                self._forget_bit(self._bits.pop(oldest))
        if self.exclusive is consumer:
            self.exclusive = queue.consumers[0] if queue.consumers else None
        if self.groups is not None:
            # Groups first, then the buckets: what waited for it is LOOSE, and the next one who gets a message owns its
            # group.
            self.groups.leave(consumer.id)
            self._relabel(lambda bucket: bucket.leaves(consumer.id))
        self._changed()

    def reading(self) -> bool:
        """Is the fetch under way, if there is one, for this and not for a browser."""
        return self.transit is not None or self.learning

    def own(self, queue: Selected, run: Run, held: dict[int, int]) -> None:
        """Messages of the run are held by consumers (id → whose): the groups they belong to are those consumers'."""
        alive = {consumer.id for consumer in queue.consumers}
        if not run.flags & GROUPED or not queue.settings.group_buckets:
            return
        if self.groups is None:
            self.groups = Groups(queue.settings.group_buckets)
        for at, i in enumerate(run.ids):
            # Who has ended meanwhile owns nothing: its messages are on their way back.
            if held.get(i) in alive and (group := self.groups.of(head_of(run, at))) is not None:
                self.groups.claim(group, held[i])

    def configure(self, queue: Selected) -> None:
        """The queue's settings have changed."""
        settings = queue.settings
        first = queue.consumers[0] if queue.consumers else None
        self.exclusive = (self.exclusive or first) if settings.exclusive else None
        if self.groups is not None and self.groups.buckets != settings.group_buckets:
            self._deal_anew()
            self.groups = None
        self._changed()

    def _deal_anew(self) -> None:
        """No group belongs to a consumer."""
        assert self.groups is not None
        self.groups.clear()
        self._relabel(MatchBucket.loosen)

    def _changed(self) -> None:
        """Who asks what has changed."""
        self._audiences.clear()
        self.known = self._selectors.asked | self._always

    def _ask(self, filter: ConsumerFilter) -> None:
        """A consumer has it now."""
        predicate, session = filter
        bit = self._bits[filter]
        if predicate is not None:
            self._selectors.add(bit, predicate)
        else:
            self._always |= bit
        if session:
            self._strangers[session] = self._strangers.get(session, 0) | bit

    def _ask_no_more(self, filter: ConsumerFilter) -> None:
        """Nobody has it any more."""
        predicate, session = filter
        bit = self._bits[filter]
        if predicate is not None:
            self._selectors.remove(bit, predicate)
        else:
            self._always &= ~bit
        if session:
            self._strangers[session] &= ~bit
            if not self._strangers[session]:
                del self._strangers[session]

    def _forget_bit(self, bit: int) -> None:
        self._used &= ~bit
        self._relabel(lambda bucket: bucket.forget(bit))

    def _relabel(self, change: Callable[[MatchBucket], None]) -> None:
        """Something is known otherwise of all buckets; equal ones become one."""
        # As many steps as buckets, not messages, but for those that become one.
        buckets, self.buckets = self.buckets, {}
        for bucket in buckets.values():
            change(bucket)
            same = self.buckets.get(bucket.key)
            if same is None:
                self.buckets[bucket.key] = bucket
            else:
                same.merge(bucket)
        if self.transit is not None:
            change(self.transit)

    def audience(self, queue: Selected, bits: int, owner: int) -> Audience:
        """Consumers that may get messages of these selectors and of that consumer's groups (NOBODY: of no group)."""
        # Remembered until anybody comes or goes: to go through the consumers for every message would be consumers ×
        # messages.
        found = self._audiences.get((bits, owner))
        if found is None:
            found = self._audiences[bits, owner] = Audience(
                [
                    consumer
                    for consumer in self.active(queue)
                    if (not consumer.bit or consumer.bit & bits) and owner in (NOBODY, consumer.id)
                ]
            )
        return found

    def active(self, queue: Selected) -> list[Consumer]:
        """Consumers that get anything at all, by priority."""
        return queue.consumers if self.exclusive is None else [self.exclusive]

    # ── messages ───────────────────────────────────────────────────────────────────────────────────

    def came_from(self, queue: Selected, session: int, span: Span) -> None:
        """Messages of a session, some consumer of which does not want them. They are not in the queue yet."""
        if session in self._strangers:
            # Spans of messages that have all left: the only time when it is known without looking.
            if self._origins and queue.empty():
                self._origins.clear()
            add_span(self._origins.setdefault(session, []), span)

    def overran(self, queue: Selected) -> list[tuple[list[Consumer], str]]:
        """Whose selectors would have cost too much since the last time that this was asked, and over what."""
        return [
            ([consumer for consumer in queue.consumers if consumer.bit & bit], why)
            for bit, why in self._selectors.take_overran()
        ]

    def look(self, run: Run, most: int = 0) -> tuple[dict[int, list[int]] | int, int, int]:
        """(bits → indices of the messages they match, an int: all messages match these; of so many messages, from the
        first on; nanoseconds that took, roughly). most: of these, about; 0: all of the run is looked at."""
        found, count = self._selectors.sift(run, most)
        return self._known_of(run, found), count, self._selectors.index.work

    def _known_of(self, run: Run, found: dict[int, list[int]] | int) -> dict[int, list[int]] | int:
        """The same, with what is known of all messages of the run."""
        add, remove = self._always, 0
        for session, spans in self._origins.items():
            # Also after the session sent more: its ids are spans, so a session that sends a million in a row costs
            # one entry.
            if inside(spans, run.ids[0]):  # a run has one sender
                remove |= self._strangers.get(session, 0)
        if not add and not remove:
            return found
        if isinstance(found, int):
            return (found | add) & ~remove
        result: dict[int, list[int]] = {}
        for bits, at in found.items():
            result.setdefault((bits | add) & ~remove, []).extend(at)
        return {bits: sorted(at) for bits, at in result.items()}

    def bucket(self, bits: int, owner: int, run: Run) -> MatchBucket:
        """Where a run waits of which everything is known."""
        again = bool(run.flags & REDELIVERED)
        return self.bucket_of((self.known, bits, owner, run.priority, run.attempts, again))

    def bucket_of(self, key: Key) -> MatchBucket:
        found = self.buckets.get(key)
        if found is None:
            found = self.buckets[key] = MatchBucket(key)
        return found

    def keep(self, bits: int, owner: int, run: Run) -> None:
        """The run waits."""
        self.bucket(bits, owner, run).add(run)
        if run.ids[-1] > self.newest:
            self.newest = run.ids[-1]

    def stores(self) -> Iterator[deque[Run]]:
        """What waits in memory; what empties one of them need not tell."""
        for bucket in self.buckets.values():
            yield bucket.near

    def far(self) -> Iterator[Far]:
        """What waits elsewhere."""
        for bucket in self.buckets.values():
            yield bucket.far
        if self.transit is not None:
            yield self.transit.far

    def withdraw(self, spans: list[Span], mean: int) -> dict[int, Run]:
        """Takes messages that wait elsewhere out, by their ids: stubs, their bytes are not here. mean: size of each."""
        found: dict[int, Run] = {}
        for far in self.far():
            for i, position in far.withdraw(spans):
                found[i] = Stub(range(i, i + 1), position, mean)
        return found

    def idle(self, queue: Selected) -> bool:
        """Is it needed no more."""
        # In doubt it stays: a queue without its choice deals to anybody, and what belongs to a group must not.
        if self.transit is not None or self.strange or self.paused or self.exclusive is not None:
            return False
        if queue.count or queue.far:
            return (
                False  # in buckets, or still to be looked at: a group that was not must not be dealt out like the rest
            )
        return not (self.groups and len(self.groups)) and all(consumer.filter is None for consumer in queue.consumers)
