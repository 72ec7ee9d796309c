"""The state of one slot, and what waits in it for the log.

Rule: data with the few verbs every other module needs (number, hold, answer, fetch, settle records, wake-up times);
what commands mean is decided elsewhere. Must not know commands.
"""

# How an answer waits for the log. Turn 12 handles SEND x (durable, seq 80), SEND y (not durable, to another queue,
# seq 81):
#     x    RunRecord among the turn's appends; pending: Held(12, Done 80, x enters its queue)
#     y    nothing to write: enters its queue now, Done 81 is told with this turn
#     the owner writes and syncs the turn, hears from the followers, and calls release(12)
# Done 81 may come before Done 80; messages of one queue never pass each other (publish.py, gate.py).
#     numbers   the first run in the log announces `next + RESERVE_IDS`. After a crash numbering goes on there: 21 may
#               have gone to somebody without ever reaching the disk, and another message must never be 21

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Iterator, Sequence
from itertools import islice
from operator import attrgetter

from broker.config.settings import EngineSettings
from broker.core.address import Routing
from broker.core.effects import Done, Effect, Fetch, Refused, Turn
from broker.core.memory import RUN
from broker.core.message import DURABLE, TRANSIENT, Run
from broker.core.records import Left, MetaRecord, SettleRecord
from broker.core.spans import Span, spans_of

from ..address.address_rules import Rulebook
from ..address.declarations import named
from ..address.quota import AddressUsage
from ..address.wildcards import Wildcards
from ..consumers.consumer import Consumer, Ledger
from ..messages.copies import WIDE, Copies
from ..messages.id_cache import Ids
from ..messages.runs import spans_of_runs
from ..queue.filters import Seen
from ..queue.large_returns import LargeReturn, ReturningSessions
from ..queue.queue import Queue
from ..queue.wildcard_queues import Patterns
from .awaiting_commit import Held
from .budget import Budget
from .producer_state import Producers
from .queue_changes import QueueChanges
from .slot_address import Address
from .slot_counters import Counters
from .tx_decisions import Decisions
from .tx_parts import Prepared

RESERVE_IDS = 1 << 20
"""Ids announced to the log at a time. After a restart numbering goes on behind the announced ones, so no id is
ever given twice, whatever had not reached the disk."""

PIECE = 400
"""Deliveries of one queue in one turn, beside as many as have come in: a backlog is handed out in pieces of some
milliseconds (docs/adr/0009)."""
LEAST = 32
"""… and of each further queue whose backlog is large."""

QUEUES = 250
"""Queues looked at in one turn; others that want it come in the next one."""
EFFECTS = 250
"""What may be told in one turn before other queues have to wait for the next one, beside what has come in."""
MESSAGES = 1500
"""Messages handed out in one turn, likewise. A topic makes more of them than come in."""
SHARE = 64
"""Of both, what a slot may whose turn comes when others have used that up."""
RETURNED = 256
"""Runs of large returns (large_returns.py) that come back in one turn, of all queues and slots together: each is cut,
recorded and sorted in, or sent on as a dead letter, in some 10 µs."""
LEAST_RETURNED = 8
"""Of these, what a slot may whose turn comes when others have used that up."""
EXPIRED = 250
"""Runs that leave by themselves in one turn, their time being over or their ring having no room: each is settled in
some µs, or sent on in some more."""
_SENT_ON = 32
"""Messages of a run that is sent on which count as another run: each of them gets headers of its own."""
SWEEP_MS = 1000
"""Expired messages nobody consumes are looked for this often at most."""


_HIDDEN_PAGE = 1024
"""Positions of a hidden queue read back at a time."""
_RECALLED = 1024
"""… and of messages known by number only."""


class Slot:
    """released      highest commit number known to be durable.
    crashed_at    first id after the last unclean start: `dispatched` runs before it are suspect.
    first_id      ids below were given by earlier leaders.
    touched       queues to dispatch at the end of the turn.
    changed       … that are other than before, for those that look on.
    unfinished    queues with more to hand out than a turn may; at the end of the next one they go on, first first.
    fresh         deliveries beside PIECE, so that no queue gets longer because it is handed out in pieces: as many
                  messages as have entered queues since the dispatch before.
    entered       of those accepted since then: what enters later (< 0), or was accepted earlier (> 0).
    stop          in the dispatch under way: when the turn has so many effects, it is enough.
    most          (bytes of a queue in memory, of a page) by the settings.    pressed   it is less at present.
    timed         queues that want ticks.    due   when (epoch ms), 0: none does.
    producers     what was taken from whom.
    inherited     queue id → `counts` of the queue, where there were some, as an earlier leader left them.
    returning     what sessions have given back, or acknowledged, that is not all done (large_returns.py).
    rest          of a part of a transaction that is much: to be carried out before anything else; None: nothing.
    carrying      … of which a piece is carried out, long after it was asked for; None: none. It stays if that throws.
    prepared      parts of transactions that wait for a decision.    decisions   transactions coordinated here."""

    __slots__ = (
        "addresses", "approved", "browsing", "budget", "carrying", "changed", "consumers", "copies", "counted",
        "counters", "crashed_at", "decisions", "declarations", "due", "entered", "estates", "filtered", "first_id",
        "fresh", "hidden", "inherited", "known_ids", "latecomers", "limit", "loose", "mark_messages", "match",
        "max_held", "max_held_messages", "most", "next_id", "next_queue", "number", "overran", "page_bytes", "patterns",
        "pending", "prepared", "pressed", "producers", "queues", "reserved", "rest", "returning", "rulebook", "seen",
        "sessions", "stop", "strangers", "subscriptions", "ticking", "timed", "touched", "unfinished", "wildcards",
        "xpath",
    )  # fmt: skip

    def __init__(
        self, number: int, settings: EngineSettings, budget: Budget, first_id: int, wildcards: Wildcards
    ) -> None:
        self.budget = budget
        # Of the process: shared by its slots, like the budget.
        self.wildcards = wildcards
        self.number = number
        # As for a change of settings: one way in.
        self.configure(settings)
        self.next_id = self.first_id = max(first_id, 1)
        self.reserved = 0
        self.next_queue = 1
        self.crashed_at = 0
        self.addresses: dict[str, Address] = {}
        self.queues: dict[int, Queue] = {}
        self.subscriptions: dict[str, Queue] = {}
        self.consumers: dict[int, Consumer] = {}
        self.sessions: dict[int, list[int]] = {}
        self.returning = ReturningSessions()
        self.patterns: Patterns | None = None
        self.pending: deque[Held] = deque()
        self.touched: dict[Queue, None] = {}
        self.unfinished: OrderedDict[Queue, None] = OrderedDict()
        self.copies = Copies()
        self.browsing: OrderedDict[Queue, None] = OrderedDict()
        """Queues whose browsers look on at the end of the turn, who goes first first (dispatch.browse)."""
        self.entered = self.fresh = self.stop = 0
        self.timed: set[Queue] = set()
        self.ticking: list[Queue] = []
        """Of an earlier time, whose turn has not come yet (ticks)."""
        self.due = 0
        self.approved: set[object] = set()
        """Parts that passed check() in this turn: they may settle what a transaction holds."""
        self.counters = Counters()
        self.changed = QueueChanges()
        self.producers = Producers()
        self.inherited: dict[int, dict[int, int]] = {}
        self.carrying: LargeReturn | None = None
        self.rest: Iterator[None] | None = None
        self.estates: dict[int, tuple[LargeReturn, list[LargeReturn]]] = {}
        """Of queues that an earlier leader deleted (estates.py): what is on its way, and who waits for all of it."""
        self.prepared: dict[str, Prepared] = {}
        self.counted = False
        """Some address has a limit."""
        self.loose: list[AddressUsage] = []
        """Producers that wait for limits which are no more."""
        self.decisions = Decisions()
        self.hidden: dict[tuple[str, str, Routing], Queue] = {}
        """(address, name, routing) → queues no address leads to."""
        self.strangers: dict[int, int] = {}
        """Session → its consumers that do not want what it sends."""
        self.latecomers: list[tuple[Queue, Queue, int]] = []
        """(kept messages, queue that gets those up to this id when they are in memory) … (retroactive.py)"""
        self.overran: dict[int, str] = {}
        """Consumer → over what its selector was given up (costly_selectors.py)."""
        self.filtered = 0
        """Queues with a filter."""
        self.seen: dict[int, Seen] = {}
        """By the identity of the list of their bytes: messages that are looked at before they come (prefilter.py)."""
        self.known_ids: dict[str, Ids] = {}
        """By address (duplicates.py)."""

    def configure(self, settings: EngineSettings) -> None:
        """Bounds, and what addresses do from now on; queues keep what was looked up for them."""
        self.most = (settings.queue_memory_bytes, settings.page_bytes)
        self.make_room()
        self.mark_messages = settings.mark_messages
        self.max_held = settings.max_held_bytes
        self.max_held_messages = settings.max_held_messages
        self.xpath = settings.xpath
        known = named(settings)
        self.match = known.match
        self.rulebook = Rulebook(self.match, known.diverts)
        self.declarations = known.declarations(self.number)

    def make_room(self) -> None:
        """Bounds of queues and pages, by their settings and by what is left for all of the process."""
        room = self.budget.room
        # Then pages are smaller as well: a page is read into memory as a whole.
        self.pressed = room < self.most[0]
        self.limit = min(self.most[0], room)
        self.page_bytes = min(self.most[1], max(room // 2, 1))

    # ── what it has ────────────────────────────────────────────────────────────────────────────────

    def number_queue(self) -> int:
        """The number of a new queue; it is never used again."""
        number = self.next_queue
        self.next_queue += 1
        return number

    def filter_came(self, queue: Queue) -> None:
        """A queue has come, or has another selector."""
        # A number, so that a slot without filters asks one question per command.
        self.filtered += queue.filter is not None

    def filter_goes(self, queue: Queue) -> None:
        """It is about to go, or to get another selector."""
        self.filtered -= queue.filter is not None

    def wildcard(self) -> Patterns:
        """The patterns of this slot; there will be one now."""
        if self.patterns is None:
            self.patterns = Patterns(self.match.delimiter)
        return self.patterns

    def wildcard_gone(self) -> None:
        """A pattern has gone; it may have been the last."""
        self.patterns = self.patterns or None

    def counted_by(self, some: bool) -> None:
        """Does some address have a limit."""
        self.counted = some

    def take_loose(self) -> list[AddressUsage]:
        """Takes out the producers that wait for limits which are no more."""
        loose, self.loose = self.loose, []
        return loose

    def take_latecomers(self) -> list[tuple[Queue, Queue, int]]:
        """Takes out the queues that wait for kept messages."""
        latecomers, self.latecomers = self.latecomers, []
        return latecomers

    def take_overran(self) -> dict[int, str]:
        """Takes out the consumers whose selectors were given up."""
        overran, self.overran = self.overran, {}
        return overran

    # ── after a restart ────────────────────────────────────────────────────────────────────────────

    def replay_ids(self, reserved: int) -> None:
        """The log says that ids below this one may have been given."""
        self.reserved = max(self.reserved, reserved)

    def replay_queues(self, following: int) -> None:
        """The log says that queues below this number were there."""
        self.next_queue = max(self.next_queue, following)

    def replay_crash(self, first: int) -> None:
        """The log says which id came first after the last unclean start."""
        self.crashed_at = first

    def restart(self, clean: bool) -> bool:
        """The log has been read: numbering goes on behind all that was announced. True: it was an unclean start, and
        what was dispatched before is suspect."""
        # A clean stop leaves a gap as well: ids are 64 bits, and a million at a start is nothing.
        self.next_id = max(self.next_id, self.reserved)
        self.first_id = self.next_id
        # Nothing was ever announced: nothing was written, nothing dispatched.
        if clean or not self.reserved:
            return False
        self.crashed_at = self.next_id
        return True

    # ── a turn ─────────────────────────────────────────────────────────────────────────────────────

    def serves_again(self) -> OrderedDict[Queue, None]:
        """A turn begins: those that wait, to take from the front. Who has had a piece of the turn waits anew."""
        waited, self.unfinished = self.unfinished, OrderedDict()
        return waited

    def puts_off(self, waited: OrderedDict[Queue, None] | None, rest: dict[Queue, None]) -> None:
        """What a turn has not come to. First of the next one is the queue that has waited longest, then others that had
        nothing, then those that had a piece."""
        if waited is None:
            waited = OrderedDict()
        # Appended behind those that wait; a queue in both keeps its earlier place.
        waited.update(rest)
        if waited is not self.unfinished:
            waited.update(self.unfinished)
            self.unfinished = waited

    # ── numbering ──────────────────────────────────────────────────────────────────────────────────

    def number_run(self, run: Run, now: int) -> None:
        """Gives the run its ids and its time."""
        first = self.next_id
        self.next_id = first + len(run.records)
        # A range: one object for the ids of a run, whatever its length.
        run.ids = range(first, self.next_id)
        run.time = now

    def reserve(self, turn: Turn) -> None:
        """Call before a numbered run goes into the log."""
        # One record in a million messages. In front of the run in the same commit, so the log never has an id above
        # what it knows.
        if self.next_id > self.reserved:
            self.reserved = self.next_id + RESERVE_IDS
            turn.appends.append(MetaRecord(self.number, "ids", {"next": self.reserved}))

    # ── waiting for the log ────────────────────────────────────────────────────────────────────────

    def answer(self, session: int, seq: int, turn: Turn, before: int) -> None:
        """Tells Done: now if nothing was appended since `before` (see progress), else when it is durable."""
        if seq:
            if progress(turn) == before:
                turn.effects.append(Done(session, seq))
            else:
                # By this turn's number: what other turns have under way does not hold it up. barrier() is for answers
                # that stand for those, too.
                self.pending.append(Held(turn.number, Done(session, seq)))

    def barrier(self, effect: Effect, turn: Turn) -> None:
        """Tells `effect` when everything so far is durable, also what earlier turns wrote."""
        self.pending.append(Held(turn.number, effect))

    def after(self, effect: Effect, turn: Turn) -> None:
        """The same, at once when nothing waits, neither of this turn nor of earlier ones."""
        # Also what earlier turns wrote and is not durable: an answer must not overtake what it is an answer to (I3).
        if progress(turn) or self.pending:
            self.barrier(effect, turn)
        else:
            turn.effects.append(effect)

    def behind_all(self, effect: Done | Refused, turn: Turn) -> None:
        """Tells `effect` when all that its session has asked for before counts: as after(), and behind what it gives
        back that is not all back yet."""
        if not self.returning.tells_later(effect.session, effect):
            self.after(effect, turn)

    def leaves(self, rest: Iterator[None]) -> None:
        """The rest of a part of a transaction: before anything else happens here."""
        self.rest = rest

    def take_rest(self) -> Iterator[None]:
        """Takes that out."""
        rest, self.rest = self.rest, None
        return iter(()) if rest is None else rest

    def carries(self, returning: LargeReturn | None) -> None:
        """A piece of that is carried out; None: no more."""
        self.carrying = returning

    def is_back(self, returning: LargeReturn, turn: Turn) -> None:
        """All of it is, or its queue is gone: who waits for that is told when it is durable."""
        for effect in self.returning.ends(returning):
            self.barrier(effect, turn)
        if returning.heard is not None:
            returning.heard(turn)

    def await_commit(self, entries: Sequence[tuple[Queue, Run, bool]], number: int, done: Done | None = None) -> None:
        """Runs that enter their queues (paged: the index) when turn `number` is durable; then `done` is told."""
        for queue, run, paged in entries:
            # All entries first: one command's messages are seen in all their queues or in none.
            queue.gate.wait(run, paged)
        if self.changed.on:
            self.changed.mark_all([queue for queue, _, _ in entries])
        if entries:
            # Accepted, not entered: `fresh` must not count it now, and again when it comes.
            self.entered -= len(entries[0][1].records)
            if len(entries) > WIDE:
                self.copies.waits(len(entries))
        self.pending.append(Held(number, done, entries))

    def defer_front(self, queue: Queue, runs: Sequence[Run], turn: Turn) -> None:
        """Runs that were in the queue enter the front of its index when what this turn writes is durable."""
        queue.gate.wait_for_pages(runs)
        self.changed.mark(queue)
        self.pending.append(Held(turn.number, entries=[(queue, run, True) for run in runs], front=True))

    def defer_due(self, queue: Queue, turn: Turn) -> None:
        """More of the queue is due when what this turn writes is durable."""
        self.pending.append(Held(turn.number, due=queue))

    # ── reading back ───────────────────────────────────────────────────────────────────────────────

    def page_of(self, queue: Queue) -> int:
        """So many positions are a page, by the mean of what is paged out."""
        # By the mean: how large each is, only the journal knows. At least one, however large.
        mean = queue.pages.nbytes // (len(queue.pages.index) or 1) + 1
        if self.pressed:
            mean += RUN  # many small ones are more than their bytes
        return max(self.page_bytes // mean, 1)

    def fetch(self, queue: Queue, positions: Sequence[int], turn: Turn, fetching: int = 0) -> None:
        """Asks the journal for these. fetching: whom for (see Queue); no other fetch of the queue may be under way."""
        queue.pages.fetch(fetching)
        turn.fetches.append(Fetch(self.number, queue.id, positions))

    def fetch_front(self, queue: Queue, count: int, turn: Turn) -> None:
        """Asks for the front of the page index, at most so many positions: they are to enter memory."""
        positions = queue.pages.index.first(count)
        self.fetch(queue, positions, turn, len(positions))

    def fetch_recalled(self, queue: Queue, turn: Turn) -> None:
        """Asks for messages of which only the number is known."""
        if queue.pages.fetching is None:
            positions = list(islice(queue.pages.recalls, _RECALLED))
            # Below zero: fetched() knows by the sign that the answer is for `recalls`.
            self.fetch(queue, positions, turn, -len(positions))

    def fetch_hidden(self, queue: Queue, turn: Turn) -> None:
        """Nobody dispatches a hidden queue: what of it is paged out comes back as soon as it can."""
        if len(queue.pages.index) and queue.pages.fetching is None:
            self.fetch_front(queue, _HIDDEN_PAGE, turn)

    # ── what leaves for good ───────────────────────────────────────────────────────────────────────

    def settle_runs(self, queue: Queue, runs: list[Run], turn: Turn, why: int = Left.ACKED) -> None:
        """Whole runs left the queue for good."""
        if queue.usage is not None:
            queue.usage.leave_runs(runs, self.number, turn)
        if queue.durable:
            # A queue has both kinds, in different records: a settlement names the kind, so that a restart can forget
            # all transient ones.
            if len(runs) == 1:
                kept = runs if runs[0].flags & DURABLE else []
            else:
                kept = [run for run in runs if run.flags & DURABLE]
            if kept:
                self._settled(queue, spans_of_runs(kept), turn, why)
        if queue.spilled:
            kept = [run for run in runs if run.flags & TRANSIENT]
            if kept:
                turn.appends.append(SettleRecord(self.number, queue.id, spans_of_runs(kept), durable=False))

    def settle_ids(self, queue: Queue, taken: Ledger, turn: Turn, why: int = Left.ACKED) -> None:
        """These messages left the queue for good."""
        if queue.usage is not None:
            queue.usage.leave_messages(taken, self.number, turn)
        if queue.durable:
            ids = [i for i, run in taken.items() if run.flags & DURABLE]
            if ids:
                self._settled(queue, spans_of(ids), turn, why)
        if queue.spilled:
            ids = [i for i, run in taken.items() if run.flags & TRANSIENT]
            if ids:
                turn.appends.append(SettleRecord(self.number, queue.id, spans_of(ids), durable=False))

    def _settled(self, queue: Queue, spans: list[Span], turn: Turn, why: int) -> None:
        turn.appends.append(SettleRecord(self.number, queue.id, spans, True, why, turn.now))
        if queue.tries.counts:
            queue.tries.forget(spans)

    # ── time ───────────────────────────────────────────────────────────────────────────────────────

    def wake(self, queue: Queue, at: int) -> None:
        """The queue wants a tick at that time."""
        self.timed.add(queue)
        # One time for the slot; tick() finds who wanted it. Earlier than needed costs a look.
        if not self.due or at < self.due:
            self.due = at

    def tick_soon(self) -> None:
        """A tick is wanted at once."""
        self.due = 1

    def ticks(self) -> list[Queue]:
        """It is time: the queues that want a tick, to be taken from the end; what is left there is first next time."""
        self.due = 0
        if self.ticking:
            # Others may have asked meanwhile, for a time that is forgotten here: earlier than needed costs a look.
            if self.timed:
                self.tick_soon()
        else:
            timed, self.timed = self.timed, set()
            # By number, not as a set has them: the same commands and times must give the same records in a
            # simulation's second run.
            self.ticking = sorted(timed, key=attrgetter("id"), reverse=True)
        return self.ticking

    def watch_expiry(self, queue: Queue) -> None:
        """Something in the queue expires."""
        self.wake(queue, max(queue.expiry, queue.swept + SWEEP_MS) + 1)

    def watch_idle(self, queue: Queue, now: int) -> None:
        """The queue may have become unused: delete it when it stays so."""
        if queue.auto_created and not queue.deleted and not queue.consumers and queue.idle():
            if not queue.settings.auto_delete or queue.idle_since or queue.declared:
                return
            queue.idles(now)
            self.wake(queue, now + queue.settings.auto_delete_delay_ms)


def let_go(queue: Queue, turn: Turn) -> tuple[int, int]:
    """Runs that may leave the queue in this turn because newer ones have no room beside them, and how many of those are
    for what has come meanwhile: as much as comes in goes out in any case, or a flood would make the queue longer."""
    came = min(queue.came_since(), 2 * EXPIRED)
    return came + max(EXPIRED - turn.expired, 0), came


def weight(run: Run, sent_on: bool) -> int:
    """As how many runs it counts, of those that leave by themselves."""
    return 1 + len(run.records) // _SENT_ON if sent_on else 1


def progress(turn: Turn) -> int:
    """Grows whenever something is to be written for this turn."""
    return len(turn.appends) + len(turn.moves)
