"""A queue: ready runs by priority, and its parts: what is paged out, what waits for the log or for a time, how far it
may hand out.

Rule: FIFO within a priority; while the page index is not empty every new run goes to its end. Within the
paged part order is strictly FIFO whatever the priorities.
"""

# Where a message of a queue may be, one place at a time, and by which step it goes on:
#     gate         accepted, not in the log yet           release: to ready, pages or agenda
#     agenda       not due                                its time: to pages
#     pages        in the journal alone                   a page is read: to ready
#     ready        could be handed out (in buckets, too)     dispatch: to a consumer
#     a ledger     handed out (`delivering`)              ACK: gone. Anything else: to returned, delayed, moving
#     returned     comes back in this turn                next dispatch: to its place at the head
#     delayed      comes back at a time                   tick: to the head
#     moving       to another address, or claimed          moved, decided: gone, or back
# Each change is a verb of this class, so that counts and bytes change with it. empty() asks for all of them (I10).

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Iterable, Iterator, Sequence

from broker.config.addressing import AddressSettings
from broker.core.address import RECURRING, Routing
from broker.core.effects import Move
from broker.core.memory import COUNT, MESSAGE, RUN, UNACKNOWLEDGED, Memory
from broker.core.message import DEFAULT_PRIORITY, GROUPED, Run
from broker.core.spans import Span
from broker.selector import WORDS, Predicate, compile, stored

from ..address.quota import AddressUsage, QueueUsage
from ..consumers.browser import Browser
from ..consumers.browsers import Browsers
from ..consumers.consumer import Consumer
from ..consumers.consumer_pace import ConsumerPace
from ..consumers.eligibility import Eligibility
from ..messages.unloaded import Stub
from .delayed import Delayed
from .delivery_attempts import DeliveryAttempts
from .due_times import Agenda
from .gate import CommitGate
from .large_returns import LargeReturn
from .latency import Latency
from .leaving import Leaving
from .page_store import PageStore
from .policy_state import QueuePolicy
from .recurring_in_flight import OnTheirWay
from .restart_state import RestartState
from .watermark import DeliveryWatermark


class Queue:
    """count, nbytes          ready messages in memory.
    delivering              held by consumers.    moving   on their way to another address.
    gate                    accepted, waiting for the log.    pages   paged out.    delayed   not ready before a time.
    watermark               how far it may hand out.    restart   what is known of what came back at the restart.
    last                    last id ever published to this queue.    sent   highest id delivered.
    made_room               of `came`, those for which a ring has let go of older ones.
    came                    messages published to it since it is led here.    died   of it, dead letters since then.
    spilled                 transient records of this queue are in the journal.
    expiry                  earliest expiry of a message in memory, 0: none expires.    swept   looked for at that time.
    tries                   durable messages that were out before: how often in vain, and when they come again.
    agenda                  what is not due yet (schedule.py); None: nothing ever was.
    out, handed             bytes, messages that consumers held when it was weighed last, and what they got since.
    weight                  what the account of the process has of it (weigh).
    returned                came back in this turn: at the head before anything is dispatched.
    returning               much that was given back at once and is not all back (large_returns.py); None: nothing.
    leaving                 of `moving`, dead letters and the like (leaving.py); None: none were yet.
    estate                  it is deleted, and here for its dead letters alone (routing/estates.py).
    kind                    what it does beside first in, first out (policy_state.py); None: nothing.
    choice                  who may get which message (eligibility.py); None: everybody everything.
    far                     ready messages of which memory has only the number (match_buckets.py).
    selector, filter        only matching messages enter: the text, and the same compiled; None: all.
    declared                it stands in the settings: never deleted on demand.
    recurring               what is due here is sent elsewhere (recurring.py), and on its way; None: handed out.
    maker                   the user it counts for (edge.quotas); empty: nobody.
    paused                  an operator wants it to hand out nothing (manage.py); its settings may say the same.
    """

    __slots__ = (
        "address", "agenda", "auto_created", "browsers", "came", "choice", "consumers", "count", "declared", "delayed",
        "deleted", "delivering", "died", "durable", "estate", "expiry", "far", "filter", "gate", "handed", "hidden",
        "id", "idle_since", "kind", "last", "latency", "leaving", "levels", "made_room", "maker", "moving", "name",
        "nbytes", "out", "owed", "pace", "pages", "paused", "ready", "recurring", "restart", "returned", "returning",
        "routing", "selector", "sent", "settings", "spilled", "start", "subscription", "swept", "tied", "tries",
        "usage", "watermark", "weight",
    )  # fmt: skip

    def __init__(
        self,
        id: int,
        name: str,
        address: str,
        routing: Routing,
        settings: AddressSettings,
        *,
        durable: bool = True,
        auto_created: bool = False,
        subscription: bool = False,
        tied: bool = False,
        hidden: bool = False,
        maker: str = "",
    ) -> None:
        self.id = id
        self.name = name
        self.address = address
        self.routing = routing
        self.settings = settings
        self.durable = durable
        self.auto_created = auto_created
        self.subscription = subscription
        """A durable subscription."""
        self.tied = tied
        """Dies with its consumer."""
        self.hidden = hidden
        """No address leads to it: it is to be forwarded, kept, or prepared by a transaction of several slots."""
        self.estate = False
        self.maker = maker
        self.recurring = OnTheirWay() if address.startswith(RECURRING) else None
        self.deleted = False
        self.ready: deque[Run] = deque()
        self.levels: list[deque[Run]] | None = None
        self.count = self.nbytes = self.delivering = self.moving = 0
        self.gate = CommitGate()
        self.pages = PageStore()
        self.delayed = Delayed()
        self.watermark = DeliveryWatermark()
        self.restart = RestartState()
        self.last = self.sent = self.came = self.made_room = self.died = 0
        self.spilled = False
        self.expiry = self.swept = 0
        self.consumers: list[Consumer] = []
        self.browsers: Browsers | None = None
        self.start = 0
        self.tries = DeliveryAttempts()
        self.out = self.handed = self.weight = 0
        self.returned: list[Run] = []
        self.returning: deque[LargeReturn] | None = None
        self.leaving: Leaving | None = None
        self.idle_since = 0
        self.agenda: Agenda | None = None
        self.kind: QueuePolicy | None = None
        self.choice: Eligibility | None = None
        self.far = 0
        self.selector: str | None = None
        self.filter: Predicate | None = None
        self.declared = self.paused = False
        self.owed = 0
        """It is to get what its address kept up to this id, when that is in memory (retroactive.py); 0: nothing."""
        self.pace: ConsumerPace | None = None
        """How fast its consumers are, where that matters."""
        self.latency: Latency | None = None
        """How long its messages took; None: nobody wants to know, or nothing was handed out yet."""
        self.usage: QueueUsage | None = None
        """Its share of what its address holds, where that has a limit."""

    # ── what it is ─────────────────────────────────────────────────────────────────────────────────

    def configure(self, settings: AddressSettings) -> None:
        """Its settings have changed; equip() makes it what they say."""
        self.settings = settings

    def declare(self, declared: bool) -> None:
        """It stands in the settings, or does so no more."""
        self.declared = declared

    def pause(self, paused: bool) -> None:
        """An operator wants it to hand out nothing, or again what it has; equip() makes it so."""
        self.paused = paused

    def timed(self, latency: Latency) -> None:
        """How long its messages take is counted there."""
        self.latency = latency

    def owes(self, last: int) -> None:
        """It is to get what its address kept up to this id; 0: it has it."""
        self.owed = last

    def spills(self) -> None:
        """Transient records of it are in the journal."""
        self.spilled = True

    def open_usage(self, quota: AddressUsage | None) -> None:
        """Its address has a limit: what it holds is counted, from nothing on. None: it has none, or is gone."""
        self.usage = None if quota is None else QueueUsage(quota)

    def inherit(self, returning: Iterable[LargeReturn], gone: Queue) -> None:
        """It is the estate of a queue that is gone: these dead letters go from here now, and what is being read back
        for some, or on its way."""
        self.hidden = self.estate = True
        for each in returning:
            self.begins_return(each)
        self.leaving, self.spilled, self.out, self.handed = gone.leaving, gone.spilled, gone.out, gone.handed
        self.moving = self.pages.inherit(gone.pages) + (self.leaving.messages if self.leaving else 0)
        self.last = max(gone.last, gone.restart.restored)

    def delete(self, memory: Memory) -> None:
        """It is gone, and so is what the account of the process had of it."""
        self.deleted = True
        memory.free(self.weight)
        self.weight = 0

    def weigh(self, memory: Memory) -> None:
        """What it holds has changed: the account of the process follows."""
        if self.deleted:
            return
        delivering = self.delivering
        if self.handed != delivering:
            # Which messages have been settled is not looked up: as large as the mean.
            if self.handed > delivering:
                self.out = self.out * delivering // self.handed
            self.handed = delivering
        plain = self.levels is None and self.choice is None
        # With levels or buckets the runs are not counted one by one: each message is taken for one, which is the most
        # it can be.
        runs = (len(self.ready) if plain else self.count) + self.gate.entries + self.delayed.runs
        weight = (
            self.nbytes + self.gate.nbytes + self.out + self.delayed.nbytes
            + RUN * runs + MESSAGE * self.count + UNACKNOWLEDGED * delivering + COUNT * len(self.tries.counts)
            + 8 * self.pages.index.size + (self.leaving.nbytes if self.leaving is not None else 0)
        )  # fmt: skip
        if weight != self.weight:
            # By the difference: the account is a sum over all queues of the process, and nobody ever adds them up.
            memory.queues += weight - self.weight
            self.weight = weight

    def select(self, selector: str | None, known: bool = False) -> None:
        """Only matching messages enter from now on; what is in it stays. Raises RefusedError(BAD_SELECTOR), but for
        one that is `known` from the log."""
        self.filter = (stored(selector) if known else compile(selector, WORDS)) if selector else None
        self.selector = selector or None

    def selective(self) -> bool:
        """Does not every message of its address enter it."""
        return self.filter is not None or self.settings.purge_on_no_consumers

    def counted(self) -> bool:
        """Is it somebody's, and can be named: who sends there is asked whether there may be more."""
        return bool(self.maker) and not self.tied

    def closed(self) -> bool:
        """Does nothing enter it at present."""
        return self.settings.purge_on_no_consumers and not self.consumers and not self.hidden

    def level(self, priority: int) -> deque[Run]:
        """The deque of a priority; ten of them once a second priority shows up."""
        if self.levels is None:
            if priority == DEFAULT_PRIORITY:
                return self.ready
            # The same deque stays that of the usual priority: a queue that sees one other priority is not copied.
            self.levels = [self.ready if p == DEFAULT_PRIORITY else deque() for p in range(10)]
        return self.levels[min(max(priority, 0), 9)]

    # ── what is ready ──────────────────────────────────────────────────────────────────────────────

    def numbered(self, ids: Sequence[int]) -> None:
        """These messages have been published to it; where they go follows."""
        self.last = ids[-1]
        self.came += len(ids)

    def came_since(self) -> int:
        """Messages published to it since this was asked last."""
        since, self.made_room = self.came - self.made_room, self.came
        return since

    def enter(self, run: Run) -> None:
        """The run is ready, behind all others of its priority."""
        if self.levels is None and run.priority == DEFAULT_PRIORITY:
            self.ready.append(run)
            if self.kind is None and not run.expires and not run.flags & GROUPED:  # added(), in line
                self.count += len(run.records)
                self.nbytes += run.nbytes
                return
        else:
            self.level(run.priority).append(run)
        self.added(run)

    def enter_front(self, run: Run) -> None:
        """The run is ready, before all others of its priority."""
        self.level(run.priority).appendleft(run)
        self.added(run)

    def added(self, run: Run, known: bool = False) -> None:
        """The run has been put among what is ready. known: it was there before, wholly or as part of another."""
        self.count += len(run.records)
        self.nbytes += run.nbytes
        if run.expires and (not self.expiry or run.expires < self.expiry):
            self.expiry = run.expires
        # The first grouped message makes the queue look at all of them from now on.
        if run.flags & GROUPED and self.choice is None and self.settings.group_buckets:
            self.choose()
        if self.kind is not None and not known:
            self.kind.came(run)

    def stores(self) -> Iterator[deque[Run]]:
        """All places where ready runs are, each by ascending id; they may be emptied and filled again."""
        # Ids ascend in each, but where schedules or a restart have put some by their time.
        yield from self.levels or (self.ready,)
        if self.choice is not None:
            yield from self.choice.stores()

    def front(self) -> deque[Run]:
        """The deque to take from next. There must be a ready message."""
        if self.levels is not None:
            for level in reversed(self.levels):
                if level:
                    return level
        return self.ready

    def left(self, run: Run) -> None:
        """The run was popped."""
        self.count -= len(run.records)
        self.nbytes -= run.nbytes
        if self.kind is not None:
            self.kind.left(run)

    def stays_in_part(self, part: Run) -> None:
        """Of a run that is about to leave() this part has been put where the run was."""
        self.count += len(part.records)
        self.nbytes += part.nbytes

    def hand_out_all(self) -> list[Run]:
        """Takes out all that is ready: it is on its way to a consumer. Of a plain queue."""
        ready = self.ready
        self.count = self.nbytes = 0
        if len(ready) == 1:  # as of a topic's subscriber in each turn
            run = ready.popleft()
            if (last := run.ids[-1]) > self.sent:
                self.sent = last
            return [run]
        runs = list(ready)
        ready.clear()
        for run in runs:
            # The largest that was ever handed out: mark_ahead() counts from it, not from what came last.
            if (last := run.ids[-1]) > self.sent:
                self.sent = last
        return runs

    def swept_out(self, now: int, earliest: int) -> None:
        """What had expired is out of memory. earliest: when the first of the rest does; 0: none of it."""
        self.swept = now
        self.expiry = earliest

    def in_order(self) -> list[Run]:
        """All ready runs as they would be delivered."""
        return list(self.ordering())

    def ordering(self) -> Iterator[Run]:
        """The same, put in order while it is read: of a snapshot."""
        if self.choice is not None:
            return heapq.merge(*[list(store) for store in self.stores() if store], key=_rank)
        if self.levels is None:
            return iter(list(self.ready))
        return iter([run for level in reversed(self.levels) for run in level])

    # ── what is paged out ──────────────────────────────────────────────────────────────────────────

    def page(self, run: Run) -> None:
        """Only the run's position is kept."""
        self.page_at(run.position, len(run.ids), run.nbytes, run.expires)
        if self.kind is not None:
            self.kind.paged(run)

    def page_at(self, position: int, count: int, nbytes: int, expires: int) -> None:
        """So many messages are at that position.    expires   of which the first at that time; 0: they do not."""
        self.pages.add(position, count, nbytes, expires)
        if self.kind is not None:
            self.kind.paged_unseen(position)

    def pages_at(self, positions: Sequence[int], count: int, nbytes: int, expires: int) -> None:
        """The same for several places."""
        self.page_at(positions[0], count, nbytes, expires)
        self.pages.index.extend(positions[1:])
        if self.kind is not None:
            for position in positions[1:]:
                self.kind.paged_unseen(position)

    def arrange(self, order: list[int]) -> None:
        """What is in the page index stands there in another order: the places it has now, in the new one."""
        self.pages.arrange(order)
        if self.kind is not None:
            self.kind.arranged(self.pages.index)

    def unpaged(self, positions: int, count: int, nbytes: int) -> None:
        """The first `positions` have been read back, or were found dead."""
        if self.kind is not None:
            # Before they are dropped: a kind looks at which ones they are.
            self.kind.unpaged(self.pages.index, positions)
        self.pages.drop(positions, count, nbytes, self.gate.pages > 0)

    # ── who gets what ──────────────────────────────────────────────────────────────────────────────

    def choose(self) -> Eligibility:
        """From now on a browser looks at its messages, one by one."""
        self.choice = choice = Eligibility(self.address)
        # All that are there join: a choice that is made late knows everybody.
        for consumer in self.consumers:
            choice.join(self, consumer)
        return choice

    def withdraw_far(self, choice: Eligibility, spans: list[Span]) -> dict[int, Run]:
        """Takes messages of which memory has only the number out, by their ids: stubs, their bytes are not here."""
        found = choice.withdraw(spans, self.nbytes // self.count + 1 if self.count else 1)
        self.far -= len(found)
        return found

    def put_far(self, count: int) -> None:
        """So many that were ready are known by number only. Below 0: have been read back, or were found dead."""
        self.far += count

    def choose_no_more(self) -> None:
        """Everybody may have everything."""
        self.choice = None

    def recall(self, messages: dict[int, Run], of: LargeReturn) -> dict[int, Run]:
        """Asks for the bytes of the stubs among `messages`; returns the rest. Until then they are out of sight, and
        nothing is handed out, so that what goes to the head is not overtaken. of: what becomes of them."""
        rest = {i: run for i, run in messages.items() if type(run) is not Stub}
        if len(rest) < len(messages):
            self.moving += self.pages.recall(messages, of)
        return rest

    def equip(self) -> None:
        """Becomes what its settings say: plain, or more than first in, first out."""
        settings = self.settings
        special = (
            settings.last_value
            or settings.last_value_key
            or settings.ring_size >= 0
            or settings.ring_bytes >= 0
            or settings.non_destructive
            or settings.paused
            or self.paused
            or settings.consumers_before_dispatch
        )
        if special:
            self.kind = self.kind or QueuePolicy()
            self.kind.configure(self, settings, self.pages.index)
        elif not (self.stays() and self.delivering):
            # See QueuePolicy.configure(): the old rule holds for what is out.
            self.kind = None

    def stays(self) -> bool:
        """Do its messages stay when they are consumed."""
        return self.kind is not None and self.kind.cursors is not None

    def agenda_of(self) -> Agenda:
        """Its messages that are not due; made when first needed."""
        if self.agenda is None:
            self.agenda = Agenda()
        return self.agenda

    def watch_pace(self) -> ConsumerPace:
        """How fast its consumers are is measured from here on, anew."""
        self.pace = ConsumerPace()
        return self.pace

    def forget_pace(self) -> None:
        """Nobody measures how fast its consumers are any longer."""
        self.pace = None

    def browse(self, browser: Browser) -> None:
        """Another one looks at it."""
        if self.browsers is None:
            self.browsers = Browsers()
        self.browsers.add(browser)

    def in_use(self) -> None:
        """It is in use: it is not deleted for being idle."""
        self.idle_since = 0

    def idles(self, now: int) -> None:
        """Nobody uses it since then."""
        self.idle_since = now

    def begins_return(self, returning: LargeReturn) -> None:
        """Much was given back; until it is back, piece by piece, it still counts as held."""
        if self.returning is None:
            self.returning = deque()
        self.returning.append(returning)
        self.delivering += returning.left

    def leaves_for(self, count: int) -> None:
        """So many are on their way to another address: neither ready nor held."""
        self.moving += count

    def sends(self, move: Move) -> None:
        """These are, until arrived() is told of it."""
        self.leaves_for(len(move.ids))
        if self.leaving is None:
            self.leaving = Leaving()
        self.leaving.add(move)

    def arrived(self, count: int, move: Move | None = None) -> None:
        """So many are no more on their way: they are there, or were read back, or it was decided about them."""
        self.moving -= count
        if self.leaving and move is not None:
            self.leaving.remove(move)

    def hand_out(self, count: int, nbytes: int, last: int, held: bool) -> None:
        """A consumer gets so many, up to this id. held: until it says what became of them they are its."""
        if held:
            self.delivering += count
            self.handed += count
            self.out += nbytes
        if last > self.sent:
            self.sent = last

    def delivering_again(self, count: int) -> None:
        """A consumer that came back holds so many."""
        self.delivering += count

    def no_longer_delivering(self, count: int) -> None:
        """A consumer has said what became of so many, or they are taken from it."""
        self.delivering -= count

    def dead(self, count: int) -> None:
        """So many of it are dead letters now, or nothing at all."""
        self.died += count

    def came_back(self, runs: Iterable[Run]) -> None:
        """What was with a consumer goes to the head before anything is dispatched."""
        self.returned += runs

    def take_returned(self) -> list[Run]:
        """Takes that out."""
        returned, self.returned = self.returned, []
        return returned

    def restored(self, last: int) -> int:
        """Messages up to this id came back at the restart. Returns the last id known so far."""
        self.last = max(self.last, last)
        return self.last

    def all_back(self) -> None:
        """Nothing is on its way back any more."""
        self.returning = None

    def delivers_at_once(self) -> bool:
        """Would a new message be delivered at once."""
        # In front of the new one is something else: it would not be handed out at once, whoever is ready.
        if self.count or self.pages.paging or self.returned or self.returning is not None:
            return False
        if self.kind is not None and self.kind.cursors is not None:
            return False
        return any(consumer.ready() for consumer in self.consumers)

    def tally(self) -> list[int]:
        """Messages that are ready, held by consumers, paged out, delayed, and not due yet."""
        scheduled = self.agenda.count if self.agenda is not None else 0
        return [self.count, self.delivering, self.pages.count + self.far, self.delayed.count, scheduled]

    def empty(self) -> bool:
        """Nothing in it, nothing on its way in or out."""
        here = self.count or self.far or self.delivering or self.returned or self.delayed.runs or self.agenda
        return not (here or self.moving or self.gate.entries or self.pages.index.size)

    def idle(self) -> bool:
        """Empty enough to be deleted when nobody uses it."""
        most = self.settings.auto_delete_message_count
        if not most:
            return self.empty()
        if self.delivering or self.moving or self.gate.entries:
            return False
        # A setting of Artemis: a queue with so few messages counts as unused. Below 0: with any.
        return most < 0 or sum(self.tally()) + sum([len(run.ids) for run in self.returned]) <= most


def _rank(run: Run) -> tuple[int, int]:
    return -run.priority, run.ids[0]


def receive(queues: list[Queue], run: Run, limit: int, touched: dict[Queue, None]) -> list[Queue]:
    """The run has been published to these queues: it is ready in all that have room for it in memory, as enter() would
    have it. The rest is returned. limit: bytes that a queue may have; less than nothing: none has room.

    All at once, because a call for each queue is a fourth of what a topic's copy costs here."""
    count, size, last = len(run.records), run.nbytes, run.ids[-1]
    room = limit - size
    plain = run.priority == DEFAULT_PRIORITY and not run.expires and not run.flags & GROUPED
    without_room: list[Queue] = []
    for queue in queues:
        queue.last = last
        queue.came += count
        nbytes = queue.nbytes
        # `gate.entries`: something in front of it is not there yet.
        if nbytes > room or queue.gate.entries or queue.pages.paging:
            without_room.append(queue)
            continue
        # The way of nearly every message; what it leaves out is asked for by added().
        if plain and queue.levels is None and queue.kind is None:
            queue.ready.append(run)
            queue.count += count
            queue.nbytes = nbytes + size
        else:
            queue.enter(run)
        touched[queue] = None
    return without_room
