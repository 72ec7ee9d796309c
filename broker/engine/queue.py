"""A queue: ready runs by priority, the index of what is paged out, and its books.

Rule: FIFO within a priority; while the page index is not empty every new run goes to its end. Within the
paged part order is strictly FIFO whatever the priorities.
"""

from __future__ import annotations

from array import array
from collections import deque
from collections.abc import Iterator, Sequence

from broker.config.addressing import AddressSettings
from broker.core.address import RECURRING, Routing
from broker.core.message import DEFAULT_PRIORITY, GROUPED, Run
from broker.selector import Predicate, compile, stored

from .agenda import Agenda
from .browser import Browser
from .browsers import Browsers
from .consumer import Consumer
from .consumer_pace import ConsumerPace
from .eligibility import Choice
from .leaving import Leaving
from .on_their_way import OnTheirWay
from .page_index import PageIndex
from .policy_state import QueuePolicy
from .quota import Book
from .runs import Span
from .unloaded import Recall, Restored, Stub


class Queue:
    """count, nbytes          ready messages in memory.
    delivering              held by consumers.    moving   on their way to another address.
    gated, gated_bytes      accepted, waiting for the log: entries, bytes that will stay in memory.
    gated_pages             those entries that will go to the index.
    paging                  new runs go to the index.
    paged_count, paged_bytes   what lies there (an estimate after a restart).
    stale                   nothing of it expires before that time; 0: nothing does.
    fetching                positions asked of the journal; 0: for a browser; < 0: that many of `recalls`; None: no
                            fetch under way. 0 as well while what was put out of memory is on its way to the log.
    recalls                 position → messages of which only the number is known, to be read back before all else.
    table                   which restored messages are still paged; None: nobody will ask, or all are read back.
    cleared                 durable messages up to this id may be delivered: the log says they may have been.
    announced               last durable id that needs a mark before it goes out.
    mark_asked, marked      the mark on its way to the disk, 0: none; the last one that is durable.
    last                    last id ever published to this queue.    sent   highest id delivered.
    spilled                 transient records of this queue are in the journal.
    expiry                  earliest expiry of a message in memory, 0: none expires.
    counts, due             durable messages that were out before: how often in vain; redelivery time while delayed.
    agenda                  what is not due yet (schedule.py); None: nothing ever was.
    delayed                 heap of (due, first id, run).    delayed_bytes, delayed_count   bytes, messages of them.
    out, handed             bytes, messages that consumers held when it was weighed last, and what they got since.
    weight                  what the account of the process has of it (slot.weigh).
    returned                came back in this turn: at the head before anything is dispatched.
    leaving                 what ended consumers held, as far as it is not back; None: nothing (redelivery.py).
    settled, suspects       after a restart: spans that are gone; spans that may have been delivered.
    suspect_to              the mark at the last unclean start.
    restored                last id that came back at the restart; newer runs need no look at those spans.
    kind                    what it does beside first in, first out (policy_state.py); None: nothing.
    choice                  who may get which message (eligibility.py); None: everybody everything.
    grouped                 some restored message belongs to a group.
    far                     ready messages of which memory has only the number (match_buckets.py).
    selector, filter        only matching messages enter: the text, and the same compiled; None: all.
    declared                it stands in the settings: never deleted on demand.
    recurring               what is due here is sent elsewhere (recurring.py), and on its way; None: handed out.
    paused                  somebody wants it to hand out nothing (manage.py); its settings may say the same.
    """

    __slots__ = (
        "address", "agenda", "announced", "auto_created", "book", "browsers", "choice", "cleared", "consumers",
        "count", "counts", "declared", "delayed", "delayed_bytes", "delayed_count", "deleted", "delivering", "due",
        "durable", "expiry", "far", "fetching", "filter", "gated", "gated_bytes", "gated_pages", "grouped", "handed",
        "hidden", "id", "idle_since", "index", "kind", "last", "leaving", "levels", "mark_asked", "marked", "moving",
        "name", "nbytes", "out", "owed", "pace", "paged_bytes", "paged_count", "paging", "paused", "ready", "recalls",
        "recurring", "restored", "returned", "routing", "selector", "sent", "settings", "settled", "spilled", "stale",
        "start", "subscription", "suspect_to", "suspects", "swept", "table", "tied", "weight",
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
        self.recurring = OnTheirWay() if address.startswith(RECURRING) else None
        """Holds what a transaction of several slots has prepared: no address leads to it."""
        self.deleted = False
        self.ready: deque[Run] = deque()
        self.levels: list[deque[Run]] | None = None
        self.count = self.nbytes = self.delivering = self.moving = 0
        self.gated = self.gated_bytes = self.gated_pages = 0
        self.index = PageIndex()
        self.paging = False
        self.paged_count = self.paged_bytes = self.stale = 0
        self.fetching: int | None = None
        self.cleared = self.announced = self.mark_asked = self.marked = self.last = self.sent = 0
        self.spilled = False
        self.expiry = self.swept = 0
        self.consumers: list[Consumer] = []
        self.browsers: Browsers | None = None
        self.start = 0
        self.counts: dict[int, int] = {}
        self.due: dict[int, int] = {}
        self.delayed: list[tuple[int, int, Run]] = []
        self.delayed_bytes = self.delayed_count = self.out = self.handed = self.weight = 0
        self.returned: list[Run] = []
        self.leaving: deque[Leaving] | None = None
        self.settled: list[Span] = []
        self.suspects: list[Span] = []
        self.restored = self.suspect_to = 0
        self.recalls: dict[int, list[Recall]] = {}
        self.table: Restored | None = None
        self.idle_since = 0
        self.agenda: Agenda | None = None
        self.kind: QueuePolicy | None = None
        self.choice: Choice | None = None
        self.far = 0
        self.grouped = False
        self.selector: str | None = None
        self.filter: Predicate | None = None
        self.declared = self.paused = False
        self.owed = 0
        """It is to get what its address kept up to this id, when that is in memory (retroactive.py); 0: nothing."""
        self.pace: ConsumerPace | None = None
        """How fast its consumers are, where that matters."""
        self.book: Book | None = None
        """Its share of what its address holds, where that has a limit."""

    def select(self, selector: str | None, known: bool = False) -> None:
        """Only matching messages enter from now on; what is in it stays. Raises RefusedError(BAD_SELECTOR), but for
        one that is `known` from the log."""
        self.filter = (stored(selector) if known else compile(selector)) if selector else None
        self.selector = selector or None

    def selective(self) -> bool:
        """Does not every message of its address enter it."""
        return self.filter is not None or self.settings.purge_on_no_consumers

    def closed(self) -> bool:
        """Does nothing enter it at present."""
        return self.settings.purge_on_no_consumers and not self.consumers and not self.hidden

    def level(self, priority: int) -> deque[Run]:
        """The deque of a priority; ten of them once a second priority shows up."""
        if self.levels is None:
            if priority == DEFAULT_PRIORITY:
                return self.ready
            self.levels = [self.ready if p == DEFAULT_PRIORITY else deque() for p in range(10)]
        return self.levels[min(max(priority, 0), 9)]

    def enter(self, run: Run) -> None:
        """The run is ready, behind all others of its priority."""
        if self.levels is None and run.priority == DEFAULT_PRIORITY:
            self.ready.append(run)
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
        if run.flags & GROUPED and self.choice is None and self.settings.group_buckets:
            self.choose()
        if self.kind is not None and not known:
            self.kind.came(run)

    def stores(self) -> Iterator[deque[Run]]:
        """All places where ready runs are, each by ascending id; they may be emptied and filled again."""
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

    def in_order(self) -> list[Run]:
        """All ready runs as they would be delivered."""
        if self.choice is not None:
            return sorted([run for store in self.stores() for run in store], key=_rank)
        if self.levels is None:
            return list(self.ready)
        return [run for level in reversed(self.levels) for run in level]

    def page(self, run: Run) -> None:
        """Only the run's position is kept."""
        self.page_at(run.position, len(run.ids), run.nbytes, run.expires)
        if self.kind is not None:
            self.kind.paged(run)

    def page_at(self, position: int, count: int, nbytes: int, expires: int) -> None:
        """So many messages are at that position.    expires   of which the first at that time; 0: they do not."""
        self.index.append(position)
        if expires and (not self.stale or expires < self.stale):
            self.stale = expires
        self.paged_count += count
        self.paged_bytes += nbytes
        if self.kind is not None:
            self.kind.paged_unseen(position)

    def pages_at(self, positions: Sequence[int], count: int, nbytes: int, expires: int) -> None:
        """The same for several places."""
        self.page_at(positions[0], count, nbytes, expires)
        self.index.extend(positions[1:])
        if self.kind is not None:
            for position in positions[1:]:
                self.kind.paged_unseen(position)

    def arrange(self, order: list[int]) -> None:
        """What is in the page index stands there in another order: the places it has now, in the new one."""
        positions = array("Q", self.index)
        self.index = PageIndex()
        for at in order:
            self.index.append(positions[at])
        if self.kind is not None:
            self.kind.arranged(self.index)

    def unpaged(self, positions: int, count: int, nbytes: int) -> None:
        """The first `positions` have been read back, or were found dead."""
        if self.kind is not None:
            self.kind.unpaged(self.index, positions)
        self.index.drop(positions)
        if self.table is not None:
            self.table.read += positions
            if self.table.read >= len(self.table):
                self.table = None
        if len(self.index):
            self.paged_count = max(self.paged_count - count, 1)
            self.paged_bytes = max(self.paged_bytes - nbytes, 1)
        else:
            self.paged_count = self.paged_bytes = self.stale = 0
            if not self.gated_pages:
                self.paging = False

    def choose(self) -> Choice:
        """From now on somebody looks at its messages, one by one."""
        self.choice = choice = Choice(self.address)
        for consumer in self.consumers:
            choice.join(self, consumer)
        return choice

    def withdraw_far(self, choice: Choice, spans: list[Span]) -> dict[int, Run]:
        """Takes messages of which memory has only the number out, by their ids: stubs, their bytes are not here."""
        found = choice.withdraw(spans, self.nbytes // self.count + 1 if self.count else 1)
        self.far -= len(found)
        return found

    def recall(self, messages: dict[int, Run], delay: int | None, reject: bool, failed: bool) -> dict[int, Run]:
        """Asks for the bytes of the stubs among `messages`; returns the others. Until then they are out of sight, and
        nothing is handed out, so that what goes to the head is not overtaken. The rest: see Recall."""
        rest: dict[int, Run] = {}
        wanted: dict[int, list[int]] = {}
        for i, run in messages.items():
            if type(run) is not Stub:
                rest[i] = run
            elif run.position:
                wanted.setdefault(run.position, []).append(i)
        for position, ids in wanted.items():
            self.recalls.setdefault(position, []).append((ids, delay, reject, failed))
            self.moving += len(ids)
        return rest

    def equip(self) -> None:
        """Becomes what its settings say: plain, or more than first in, first out."""
        settings = self.settings
        special = (
            settings.last_value
            or settings.last_value_key
            or settings.ring_size >= 0
            or settings.non_destructive
            or settings.paused
            or self.paused
            or settings.consumers_before_dispatch
        )
        if special:
            self.kind = self.kind or QueuePolicy()
            self.kind.configure(self, settings)
        elif not (self.stays() and self.delivering):
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
        """Somebody uses it: it is not deleted for being idle."""
        self.idle_since = 0

    def idles(self, now: int) -> None:
        """Nobody uses it since then."""
        self.idle_since = now

    def mark_durable(self, mark: int) -> None:
        """The log knows that everything up to `mark` may have been handed out: so it may be, now."""
        self.cleared = max(self.cleared, mark)
        self.marked = mark
        self.mark_asked = 0

    def leaves(self, messages: dict[int, Run], failed: bool) -> None:
        """A consumer that held these has ended; until they are back, piece by piece, they still count as held."""
        if self.leaving is None:
            self.leaving = deque()
        self.leaving.append(Leaving(messages, failed))
        self.delivering += len(messages)

    def leaves_for(self, count: int) -> None:
        """So many are on their way to another address: neither ready nor held."""
        self.moving += count

    def all_back(self) -> None:
        """Nothing is left of what consumers held that have ended."""
        self.leaving = None

    def takes(self) -> bool:
        """Would a new message be delivered at once."""
        if self.count or self.paging or self.returned or self.leaving is not None:
            return False
        if self.kind is not None and self.kind.cursors is not None:
            return False
        return any(consumer.ready() for consumer in self.consumers)

    def tally(self) -> list[int]:
        """Messages that are ready, held by consumers, paged out, delayed, and not due yet."""
        scheduled = self.agenda.count if self.agenda is not None else 0
        return [self.count, self.delivering, self.paged_count + self.far, self.delayed_count, scheduled]

    def empty(self) -> bool:
        """Nothing in it, nothing on its way in or out."""
        here = self.count or self.far or self.delivering or self.returned or self.delayed or self.agenda
        return not (here or self.moving or self.gated or len(self.index))

    def idle(self) -> bool:
        """Empty enough to be deleted when nobody uses it."""
        most = self.settings.auto_delete_message_count
        if not most:
            return self.empty()
        if self.delivering or self.moving or self.gated:
            return False
        return most < 0 or sum(self.tally()) + sum([len(run.ids) for run in self.returned]) <= most


def _rank(run: Run) -> tuple[int, int]:
    return -run.priority, run.ids[0]
