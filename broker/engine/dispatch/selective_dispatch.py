"""Handing out where not everybody may get everything: selectors, no-local, groups, exclusive consumers.

A message is looked at once. A consumer that is ready and may have it gets it; otherwise it waits in a bucket
(match_buckets.py), and when a consumer becomes ready, the first messages of the buckets it may take from are its.

Rule: for each consumer, and for each group, order is that of the ids within a priority, whatever waits for others.
Must not know sessions, nor how buckets and selectors work inside.
"""

# Example. Consumers 7 ("a = 1") and 8 ("b = 1"), both with a window of one. Runs come: 1 (a), 2 (a), 3 (b), 4 (a and
# b).
#     from_queue   1 to 7. 2 is looked at: only 7 may have it, and it is full: bucket {a}. 3 to 8. Nobody is ready: 4 is
#                  not looked at, and stays where it is
#     ACK of 1     7 is ready. from_buckets: {a} has 2: to 7. Not 4: that is younger, and the buckets come first
#     ACK of 3     8 is ready. from_buckets: nothing for it. from_queue: 4, to 8
#     1 returns    had it not been acknowledged: it is at the head of the queue, older than what a bucket has had, and
#                  catch_up() puts it into its bucket, before what waits there
# So each message is looked at once (or again, when a selector comes that its bucket does not know), and a consumer that
# is busy costs nobody else anything. Order for 7: 1, 2, and 4 had it come to 7: whatever may be its, by id.

from __future__ import annotations

from bisect import bisect_left
from collections import deque
from collections.abc import Iterable

from broker.core.effects import Turn
from broker.core.message import BLOB, GROUPED, Run
from broker.selector.heads import head_of, key

from ..consumers.browser import consumed
from ..consumers.consumer import Consumer
from ..consumers.eligibility import Audience, Eligibility
from ..consumers.match_buckets import LOOSE, NOBODY, MatchBucket, dress
from ..consumers.message_groups import Group, Groups
from ..messages.runs import pick, prefixed
from ..queue.queue import Queue
from ..routing.redelivery import expire
from ..state.slot import Slot, weight
from . import costly_selectors
from .round_robin import deal, deliver, foremost, may_go

_BACK = 1024
"""Messages read back at a time, of those known by number only."""

PIECE_NS = 1_000_000
"""Of looking, roughly, until the rest has to wait for the next turn."""
_EXPIRED_NS = 8000
"""A run whose time is over: it is settled, or sent on."""
_SEEN_NS = 50
"""… of asking a consumer or a bucket whether it is due."""

Hands = dict[Consumer, list[int]]
"""Who gets which messages of a run."""
Ways = list[tuple[int, int]]
"""Of each message of a run: (bits, owner) of the bucket it belongs to."""


def dispatch(slot: Slot, queue: Queue, choice: Eligibility, turn: Turn, gone: list[Run]) -> None:
    """Hands out what can go out; what is consumed at once (AckMode.AUTO) is added to `gone`."""
    choice.served(hungry=False)
    # Groups of what consumers brought along are read first: dealt out before, a group could be with two consumers.
    if choice.strange:
        _learn(slot, queue, choice, turn)
        return
    if not choice.begin(queue.delivering, queue.settings.group_buckets):
        return
    dealer = _Dealer(slot, queue, choice, turn, gone)
    # In this order: what came back, what waits, what is new. Each step is of older messages than the next.
    if dealer.ready() and dealer.catch_up() and dealer.from_buckets() and dealer.from_queue():
        # Somebody is ready and memory has nothing for him: what waits for others is put away, and the next page read.
        choice.served(hungry=bool(dealer.ready()))
    for consumers, why in choice.overran(queue):
        costly_selectors.note(slot, consumers, why)
    if choice.hungry and queue.nbytes * 2 > slot.limit:
        put_away(slot, queue, choice)
    if choice.idle(queue):
        queue.choose_no_more()


def put_away(slot: Slot, queue: Queue, choice: Eligibility) -> None:
    """Makes room in memory for what may be wanted: keeps the numbers of what waits, youngest first."""
    for bucket in sorted(
        choice.buckets.values(), key=lambda bucket: bool(choice.audience(queue, bucket.bits, NOBODY).consumers)
    ):
        near = bucket.near
        # Whole runs with a position, the youngest first: what is next for somebody stays. First of buckets that nobody
        # could take from.
        while near and queue.nbytes * 2 > slot.limit and near[-1].position and not near[-1].flags & BLOB:
            run = near.pop()
            queue.left(run)
            bucket.far.add(run.ids, run.position)
            queue.put_far(len(run.ids))


def fetched(queue: Queue, choice: Eligibility, runs: list[Run]) -> None:
    """The journal's answer to what was asked of it for a bucket."""
    transit, asked = choice.transit, choice.asked
    if transit is None:
        choice.learned()
        for run in runs:
            choice.own(queue, run, choice.strange.get(run.position, {}))
        for position in asked[: consumed(asked, runs)]:
            choice.strange.pop(position, None)
        return
    choice.was_read_back()
    bucket = choice.bucket_of(transit.key)
    wanted: dict[int, set[int]] = {}
    for i, position in transit.far.all():
        wanted.setdefault(position, set()).add(i)
    # An answer may be short: what it does not cover is far again.
    used = consumed(asked, runs)
    for run in runs:
        ids = wanted.get(run.position, set())
        at = [n for n, i in enumerate(run.ids) if i in ids]
        if at:
            part = dress(run if len(at) == len(run.ids) else pick(run, at), bucket)
            bucket.add(part)
            queue.added(part, known=True)
    for position in asked[:used]:
        queue.put_far(-len(wanted.pop(position, ())))
    for position, ids in wanted.items():
        # Where it was: the bucket is in order, and the next one who wants it asks again.
        bucket.far.add(sorted(ids), position)


def _learn(slot: Slot, queue: Queue, choice: Eligibility, turn: Turn) -> None:
    """Asks for what consumers held when they came back: until their groups are known nobody gets anything."""
    if queue.pages.fetching is None:
        slot.fetch(queue, choice.learn(_BACK), turn)


def _rank(bucket: MatchBucket) -> tuple[int, int]:
    return -bucket.priority, bucket.first()


def _wants(consumer: Consumer, bucket: MatchBucket) -> bool:
    """May the first message of the bucket be the consumer's, as far as is known."""
    if bucket.owner not in (NOBODY, LOOSE, consumer.id):
        return False
    bit = consumer.bit
    # The last: its selector came after the bucket was looked at, so it may want it.
    return not bit or bool(bit & bucket.bits) or not bit & bucket.known


class _Wanting:
    """_wants() of any of these consumers, as one question."""

    __slots__ = ("_bits", "_by_id", "_greedy")

    def __init__(self, consumers: list[Consumer]) -> None:
        self._by_id = {consumer.id: consumer for consumer in consumers}
        self._bits = 0
        for bit in {consumer.bit for consumer in consumers}:
            self._bits |= bit
        # Someone without a filter may have everything that is nobody else's.
        self._greedy = any(not consumer.bit for consumer in consumers)

    def wants(self, bucket: MatchBucket) -> bool:
        if bucket.owner not in (NOBODY, LOOSE):
            owner = self._by_id.get(bucket.owner)
            return owner is not None and _wants(owner, bucket)
        # One comparison of bits for all who are ready: buckets × consumers would be asked otherwise, in every round.
        return self._greedy or bool(self._bits & (bucket.bits | ~bucket.known))


class _Dealer:
    """One turn of one queue. `_stuck`: consumers whose next message has to be read back first. `_work`: nanoseconds."""

    __slots__ = ("_choice", "_firsts", "_gone", "_queue", "_slot", "_stuck", "_turn", "_work")

    def __init__(self, slot: Slot, queue: Queue, choice: Eligibility, turn: Turn, gone: list[Run]) -> None:
        self._slot = slot
        self._queue = queue
        self._choice = choice
        self._turn = turn
        self._gone = gone
        self._stuck: set[int] = set()
        self._firsts: set[int] = set()
        self._work = 0

    def _enough(self) -> bool:
        """Has this turn looked for long; then the next one goes on. A queue that keeps less than it is given does not
        wait (dispatch.enough)."""
        if self._work < PIECE_NS or self._queue.kind is not None:
            return False
        self._slot.unfinished[self._queue] = None
        return True

    def ready(self) -> list[Consumer]:
        """Consumers that can take a message now."""
        return self._able(self._choice.active(self._queue))

    def _somebody(self) -> bool:
        """Can a consumer take a message now."""
        stuck = self._stuck
        return any(c.ready() and c.id not in stuck for c in self._choice.active(self._queue))

    def _able(self, consumers: Iterable[Consumer]) -> list[Consumer]:
        stuck = self._stuck
        return [c for c in consumers if c.ready() and c.id not in stuck]

    # ── what waits ─────────────────────────────────────────────────────────────────────────────────

    def catch_up(self) -> bool:
        """What came back to the head of the queue takes its place among what waits. False: not all of it yet."""
        queue, choice = self._queue, self._choice
        for level in queue.levels or (queue.ready,):
            # Everything older than the youngest that was ever in a bucket has been looked at before, or came back: its
            # place is among what waits.
            while level and level[0].ids[0] < choice.newest:
                if self._enough():
                    return False
                run = level.popleft()
                queue.left(run)
                if not self._expired(run):
                    self._park_all(run, level)
        return True

    def from_buckets(self) -> bool:
        """Hands out what waits, as far as consumers are ready for it. False: the log has to be told first."""
        choice, levels = self._choice, self._queue.levels
        while ready := self.ready():
            waiting, wanting = self._waiting(), _Wanting(ready)
            # Also a look that finds nothing takes its time, and there may be ten thousand buckets.
            self._work += _SEEN_NS * 2 * (len(waiting) + len(ready))
            wanted = [bucket for bucket in waiting if wanting.wants(bucket)]
            if not wanted:
                return True
            if self._enough():
                return False
            # The highest priority, then the oldest: this is the order that was promised to each consumer.
            bucket = min(wanted, key=_rank)
            # What is new and of a higher priority comes before what waits.
            if levels is not None and any(levels[bucket.priority + 1 :]):
                if not self.from_queue(bucket.priority):  # what is new comes first there
                    return False
                continue
            takers = [consumer for consumer in ready if _wants(consumer, bucket)]
            if bucket is choice.transit or bucket.beyond():
                self._read_back(bucket)
                # Its next message is on the disk: handed a younger one meanwhile, it would get them out of order.
                # Others go on.
                self._stuck.update([consumer.id for consumer in takers])
                continue
            certain = bucket.owner != LOOSE and all([not c.bit or bool(c.bit & bucket.known) for c in takers])
            takings = _Wanting(takers)
            others = wanted if not certain else [w for w in wanted if takings.wants(w)]
            # Up to where this bucket may go: to the first message of another one that the same consumers may have.
            firsts = [w.first() for w in others if w is not bucket and w.priority == bucket.priority]
            if len(bucket.far):
                firsts.append(bucket.far.first())
            going = self._deal_bucket if certain else self._look_again
            goes_on = going(bucket, min(firsts, default=0))
            # Empty: gone, or there would soon be as many buckets as there ever were answers.
            if not bucket:
                choice.buckets.pop(bucket.key, None)
            if not goes_on:
                return False
        return True

    def _waiting(self) -> list[MatchBucket]:
        return self._choice.waiting()

    def _deal_bucket(self, bucket: MatchBucket, limit: int) -> bool:
        """Its messages before `limit` (0: all), to those who may have them; everything is known of them."""
        queue = self._queue
        audience = self._choice.audience(queue, bucket.bits, bucket.owner)
        while bucket.near and (not limit or bucket.near[0].ids[0] < limit):
            # Asked for each run: credit is used up on the way.
            consumers = self._able(audience.consumers)
            if not consumers:
                return True
            if self._enough() or not may_go(self._slot, queue, bucket.near[0], self._turn):
                return False
            self._work += _SEEN_NS * len(audience.consumers)
            run = self._pop_run(bucket, limit)
            if self._expired(run):
                continue
            rest = deal(self._slot, queue, audience, foremost(consumers), run, self._turn, self._gone)
            if rest is not None:
                # Its own place: nothing in the bucket is older.
                bucket.near.appendleft(rest)
                queue.added(rest, known=True)
        return True

    def _look_again(self, bucket: MatchBucket, limit: int) -> bool:
        """A consumer might want its first messages: finds out."""
        return self._place(self._pop_run(bucket, limit), bucket.near)

    def _pop_run(self, bucket: MatchBucket, limit: int) -> Run:
        """The first run, as far as it lies before `limit`."""
        queue = self._queue
        run = bucket.near.popleft()
        queue.left(run)
        if limit and run.ids[-1] > limit:
            # The rest begins at `limit`: another bucket's message is before it.
            cut = bisect_left(run.ids, limit)
            rest = run.cut(slice(cut, None))
            bucket.near.appendleft(rest)
            queue.added(rest, known=True)
            run = run.cut(slice(cut))
        return run

    def _read_back(self, bucket: MatchBucket) -> None:
        """Asks for the first messages of the bucket, one bucket at a time."""
        queue, choice = self._queue, self._choice
        # Who is stuck waits for the answer under way; the dispatch behind it asks again.
        if queue.pages.fetching is not None or choice.transit is not None:
            return
        self._slot.fetch(queue, choice.read_back(bucket, _BACK), self._turn)

    # ── what is new ────────────────────────────────────────────────────────────────────────────────

    def from_queue(self, above: int = -1) -> bool:
        """Looks at what has come, of priorities above that one. False: the log has to be told first."""
        queue = self._queue
        for level in reversed(queue.levels[above + 1 :]) if queue.levels else (queue.ready,):
            while level:
                # Nobody ready: what has come is not even looked at. A queue whose consumers are all busy costs
                # nothing per message.
                if not self._somebody():
                    return True
                if self._enough():
                    return False
                run = level.popleft()
                queue.left(run)
                if not self._place(run, level):
                    return False
        return True

    def _expired(self, run: Run) -> bool:
        if not run.expires or run.expires > self._turn.now:
            return False
        expire(self._slot, self._queue, run, self._turn)
        self._work += _EXPIRED_NS * weight(run, bool(self._queue.settings.expiry_address))
        return True

    def _place(self, run: Run, level: deque[Run]) -> bool:
        """To those who may have it; the rest waits. What takes too long to look at goes back to the front of the level
        it was taken from. False: the log has to be told first."""
        if self._expired(run):
            return True
        choice, queue = self._choice, self._queue
        run, looked = self._look(run, level)
        grouped = run.flags & GROUPED and choice.groups is not None
        if isinstance(looked, int) and not grouped:
            return self._place_alike(run, looked)
        hands, ways = self._assign(run, looked, choice.groups if grouped else None, True)
        # One mark for all of the run: taken apart by consumers, it would need one each.
        going = not hands or may_go(self._slot, queue, run, self._turn)
        if not going:
            hands = {}
        for consumer, at in hands.items():
            for part in self._cut(run, at):
                deliver(self._slot, queue, consumer, part, self._turn, self._gone)
        # What could not go is in its bucket before False is returned: nothing is ever out of place.
        self._keep(run, ways, {at for hand in hands.values() for at in hand})
        return going

    def _look(self, run: Run, level: deque[Run]) -> tuple[Run, dict[int, list[int]] | int]:
        """As much of the run as there is time for, and what it matches."""
        queue = self._queue
        most = max(PIECE_NS - self._work, 1) if queue.kind is None else 0
        looked, count, spent = self._choice.look(run, most)
        self._work += spent
        if count < len(run.records):
            rest = run.cut(slice(count, None))
            level.appendleft(rest)
            queue.added(rest, known=True)
            run = run.cut(slice(count))
        return run, looked

    def _place_alike(self, run: Run, bits: int) -> bool:
        """All its messages go the same way."""
        choice, queue = self._choice, self._queue
        audience = choice.audience(queue, bits, NOBODY)
        self._work += _SEEN_NS * len(audience.consumers)
        rest: Run | None = run
        while rest is not None and (consumers := self._able(audience.consumers)):
            if not may_go(self._slot, queue, rest, self._turn):
                self._keep_run(bits, NOBODY, rest)
                return False
            rest = deal(self._slot, queue, audience, foremost(consumers), rest, self._turn, self._gone)
        if rest is not None:
            self._keep_run(bits, NOBODY, rest)
        return True

    def _park_all(self, run: Run, level: deque[Run]) -> None:
        """Looks at the run, and lets it wait."""
        choice = self._choice
        groups = choice.groups if run.flags & GROUPED else None
        run, looked = self._look(run, level)
        _, ways = self._assign(run, looked, groups, False)
        self._keep(run, ways, set())

    def _assign(
        self, run: Run, looked: dict[int, list[int]] | int, groups: Groups | None, taking: bool
    ) -> tuple[Hands, Ways]:
        """Message by message: who gets it, and where it belongs if it has to wait. taking: a consumer may get it."""
        count = len(run.records)
        found = [looked] * count if isinstance(looked, int) else _by_message(looked, count)
        self._firsts.clear()
        hands: Hands = {}
        ways: Ways = []
        credit = _Credit(self._stuck)
        for at in range(count):
            bits, owner, group = found[at], NOBODY, None
            head = head_of(run, at) if groups is not None else b""
            if groups is not None and (group := groups.of(head)) is not None:
                group, owner = self._group(groups, group, bits)
            consumer = None
            if taking:
                # LOOSE is asked like NOBODY: anybody may be the first of a group.
                audience = self._choice.audience(self._queue, bits, max(owner, NOBODY))
                consumer = credit.choose(audience, run.size_of(at))
            if consumer is not None:
                hands.setdefault(consumer, []).append(at)
                if groups is not None and group is not None and owner == LOOSE:
                    owner = consumer.id
                    # At once: the next message of the group, in this very run, has to go the same way.
                    groups.give(group, owner)
                    if self._queue.settings.group_first_key:
                        self._firsts.add(at)
            # Closed only when somebody owns it: a last message that waits must still reach whoever gets the others.
            if groups is not None and group is not None and owner != LOOSE:
                groups.close(group, head)
            ways.append((bits, owner))
        return hands, ways

    def _group(self, groups: Groups, group: Group, bits: int) -> tuple[Group, int]:
        """The group and its owner, LOOSE: nobody. A message that the owner of its group may not have begins a group
        of its own, with all those that match the same selectors."""
        owner = groups.owner(group)
        if owner is not None and not self._choice.audience(self._queue, bits, owner).consumers:
            group = (group, bits)
            owner = groups.owner(group)
        return group, LOOSE if owner is None else owner

    # ── parts of runs ──────────────────────────────────────────────────────────────────────────────

    def _keep(self, run: Run, ways: Ways, handed: set[int]) -> None:
        """Those of the messages that nobody got wait."""
        rest: dict[tuple[int, int], list[int]] = {}
        for at, way in enumerate(ways):
            if at not in handed:
                rest.setdefault(way, []).append(at)
        for (bits, owner), indices in rest.items():
            for part in self._cut(run, indices):
                self._keep_run(bits, owner, part)

    def _keep_run(self, bits: int, owner: int, run: Run) -> None:
        self._choice.keep(bits, owner, run)
        self._queue.added(run, known=True)

    def _cut(self, run: Run, at: list[int]) -> list[Run]:
        """These messages; the first of a group says so in a header, where that is asked for."""
        if self._firsts.isdisjoint(at):
            return [run if len(at) == len(run.records) else pick(run, at)]
        parts: list[Run] = []
        stretch: list[int] = []
        for n in at:
            if n not in self._firsts:
                stretch.append(n)
                continue
            if stretch:
                parts.append(pick(run, stretch))
                stretch = []
            parts.append(self._first(pick(run, [n])))
        return [*parts, pick(run, stretch)] if stretch else parts

    def _first(self, run: Run) -> Run:
        """One message with the header; it has grown, for the limits of its address too."""
        headed = prefixed(run, key(self._queue.settings.group_first_key)[1:] + b"true\n")
        if self._queue.usage is not None:
            self._queue.usage.change(0, headed.nbytes - run.nbytes)
        return headed


class _Credit:
    """What consumers can still take of one run, message by message."""

    __slots__ = ("_left", "_none", "_stuck")

    def __init__(self, stuck: set[int]) -> None:
        self._stuck = stuck
        self._left: dict[Consumer, list[int]] = {}
        self._none: set[Audience] = set()

    def choose(self, audience: Audience, size: int) -> Consumer | None:
        """The next one of the audience who can take a message of that size: by priority, then in turn."""
        # They only lose credit while one run is dealt: whoever has none now has none for its next message. Asked
        # once, not once a message.
        if audience in self._none:
            return None
        consumers, best, place = audience.consumers, None, 0
        ways = len(consumers)
        for n in range(audience.start, audience.start + ways):
            consumer = consumers[n % ways]
            left = self._of(consumer)
            if left[0] > 0 and left[1] > 0 and (best is None or consumer.priority > best.priority):
                best, place = consumer, n
                # The list stands by priority: nobody better can follow.
                if consumer.priority == consumers[0].priority:
                    break
        if best is None:
            self._none.add(audience)
            return None
        audience.served(place)
        left = self._left[best]
        left[0] -= 1
        left[1] -= size + best.overhead
        return best

    def _of(self, consumer: Consumer) -> list[int]:
        left = self._left.get(consumer)
        if left is None:
            able = consumer.ready() and consumer.id not in self._stuck
            left = self._left[consumer] = list(consumer.allowance()) if able else [0, 0]
        return left


def _by_message(looked: dict[int, list[int]], count: int) -> list[int]:
    found = [0] * count
    for bits, at in looked.items():
        for n in at:
            found[n] = bits
    return found
