"""This slot's part of a transaction over several slots: kept durable and unseen until the coordinator has decided.

Rule: what is prepared can be carried out whatever happens in between: its messages rest in a hidden durable queue
(restart, paging and replication treat them like any other), what it settles is out of its queue already.
Must not know who decides, nor how decisions are kept (tx_decisions.py).
"""

# Example. COMMIT of a transaction: SEND to queue a (slot 9), ACK of message 7 of queue b (slot 12). Slot 3
# coordinates.
#     prepare at 9     message 40 rests in the hidden queue $tx.<tx>, "prepared" beside it, in one group
#     prepare at 12    7 is out of the consumer's ledger, and in nobody's; "prepared" names it
#     Done, Done       when both are durable. Until here either may refuse, and the other hears "roll back"
#     slot 3           writes "decided": from here on it has happened
#     decide at 9      40 is published to a under a new number, the hidden queue deleted, "unprepared": one group
#     decide at 12     7 is settled, "unprepared". Were it rejected instead: "prepared" again, with 7 alone; when its
#                      dead letter is where it goes "unprepared", and the answer
# Crashes (I9). Of 9 before it prepared: nothing is there, 3 rolls back. Of 9 behind it: the next leader reads
# "prepared" and the hidden queue, and asks 3 after IN_DOUBT_MS. Of 12: 7 came back to b in the log's eyes, so the
# restart takes it out again before anybody is served. Of 3: "decided" is in its log, or its next leader says "never".

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from typing import Final, TypeVar

from broker.core.address import Outcome, Routing
from broker.core.commands import Decide, Prepare, Publish, Settle
from broker.core.effects import Done, Turn
from broker.core.errors import RefusedError
from broker.core.message import DURABLE, UNIQUE, Run
from broker.core.records import MetaRecord, RunRecord
from broker.core.spans import spans_of

from ..dispatch.attach import drowsy, wake_some
from ..dispatch.settle import check_settle
from ..messages.runs import copy
from ..queue.large_returns import LargeReturn
from ..queue.queue import Queue
from ..routing import commit_letters
from ..routing.addresses import create, delete
from ..routing.returns import becoming, leave
from ..routing.routing import check_publish
from ..state.duplicates import repeated
from ..state.limits import Asked
from ..state.log_group import grouped
from ..state.slot import Slot
from ..state.tx_parts import Claim, Parked, Prepared
from . import admission
from .publish import publish

Part = Publish | Settle
P = TypeVar("P", Publish, Settle, Publish | Settle)

HIDDEN = "$tx"
"""Stands as the address in the records of parked messages; no queue can be reached by it."""

IN_DOUBT_MS = 1000
"""After so long without a decision the coordinator is asked."""


PIECE: Final = 100
"""Units of a transaction's part in one step, as of a COMMIT (owner/transactions/transact.py): 10 to 30 µs each."""
CHECKED: Final = 400
"""… that are only looked at."""


def prepare(slot: Slot, command: Prepare, turn: Turn) -> None:
    """Raises RefusedError if a part cannot be carried out, or a later leader of the coordinator has asked before;
    nothing is kept then. Asked twice: done once."""
    for _ in preparing(slot, command, turn):
        pass


def much(slot: Slot, command: Prepare | Decide) -> bool:
    """Is it more than may be done in one step: then in_pieces()."""
    if isinstance(command, Prepare):
        return len(command.parts) > 1 and sum(map(units, command.parts)) > PIECE
    known = slot.prepared.get(command.tx)
    if known is None:
        return False
    # Even one message may be the first for thousands of wildcards.
    if known.publishes and drowsy(slot):
        return True
    return len(known.publishes) + sum([1 + len(claim.messages) // 10 for claim in known.claims]) > PIECE


def in_pieces(slot: Slot, command: Prepare | Decide, turn: Turn) -> Iterator[None]:
    """The same in steps of a few milliseconds. Between them nothing may happen in this slot."""
    if isinstance(command, Prepare):
        return preparing(slot, command, turn)
    return deciding(slot, command, turn)


def _by(most: int, parts: Sequence[P]) -> Iterator[P | None]:
    """Each of these; None: a step has cost so many units."""
    left = most
    for part in parts:
        if left <= 0:
            left = most
            yield None
        left -= units(part)
        yield part


def preparing(slot: Slot, command: Prepare, turn: Turn) -> Iterator[None]:
    """prepare() in pieces."""
    # In the log before the answer: a leader of this slot that comes later must refuse the deposed coordinator as
    # well.
    if slot.decisions.newer(command.coordinator, command.epoch):
        turn.appends.append(
            MetaRecord(slot.number, "coordinator", {"slot": command.coordinator, "epoch": command.epoch})
        )
    # All checks before the first change; what is prepared cannot fail any more.
    if command.tx not in slot.prepared:
        yield from _checking(slot, command.parts)
        if len(command.parts) > PIECE:
            yield
        for part in command.parts:
            if isinstance(part, Publish):
                # Now, not at the commit: a time to live runs while the transaction is in doubt.
                part.arrive(turn.now, turn.ahead)
        prepared = slot.prepared[command.tx] = Prepared(command.tx, command.coordinator, turn.now)
        # Records of its own, joined to one group at the end: a restart finds all of the part or nothing.
        group = turn.part()
        yield from _hide(slot, prepared, [part for part in command.parts if isinstance(part, Publish)], group)
        for settle in _by(PIECE, [part for part in command.parts if isinstance(part, Settle)]):
            if settle is None:
                yield
            else:
                _claim(slot, prepared, settle)
        group.appends.append(MetaRecord(slot.number, "prepared", prepared.data()))
        turn.appends.extend(grouped(slot.number, group.appends))
    _answer(slot, command, turn)


def decide(slot: Slot, command: Decide, turn: Turn) -> None:
    """Carries the decision out, as soon as what it needs is in memory. What is not known has been decided before."""
    for _ in deciding(slot, command, turn):
        pass


def deciding(slot: Slot, command: Decide, turn: Turn) -> Iterator[None]:
    """decide() in pieces."""
    prepared = slot.prepared.get(command.tx)
    # Told twice, or to a leader that carried it out before: Done is true, and the coordinator may forget.
    if prepared is None:
        _answer(slot, command, turn)
        return
    # The first decision counts; it is the same one each time, since "decided" and "aborted" exclude each other.
    if prepared.commit is None:
        prepared.decide(command.commit, command.calm)
    prepared.waiting.append(command)
    if prepared.letters:
        return
    hidden = slot.queues.get(prepared.queue)
    # A rollback needs no bytes. A commit does: after a restart they are read back first (arrived).
    if hidden is None or not prepared.commit or _complete(hidden):
        yield from _carrying_out(slot, prepared, hidden, turn)


def arrived(slot: Slot, hidden: Queue, turn: Turn) -> None:
    """Something has changed in a hidden queue: reads back what is paged, and commits what waits for it."""
    slot.fetch_hidden(hidden, turn)
    if _complete(hidden):
        # By its name: a walk over all would be the square of what is in doubt, each of which comes here.
        prepared = slot.prepared.get(hidden.name.removeprefix(f"{HIDDEN}."))
        if prepared is not None and prepared.queue == hidden.id and prepared.commit:
            again = Decide(slot.number, 0, 0, prepared.tx, True)
            if much(slot, again):
                # This is the end of a turn of many queues: it gets one of its own, and is cut there.
                turn.decisions.append(again)
                return
            for _ in _carrying_out(slot, prepared, hidden, turn):
                pass


def _complete(hidden: Queue) -> bool:
    return not hidden.gate.entries and not len(hidden.pages.index)


def _checking(slot: Slot, parts: list[Part]) -> Iterator[None]:
    """Raises RefusedError, nothing changed then."""
    settled: dict[int, list[int]] = {}
    asked: Asked = {}
    again = any([isinstance(part, Publish) and repeated(slot, part) for part in parts])
    for part in _by(CHECKED, parts):
        if part is None:
            yield
        elif isinstance(part, Publish):
            if again:
                continue  # nothing will be published
            check_publish(slot, part)
            admission.check(slot, part, asked, waits=False)
        else:
            check_settle(slot, part)
            settled.setdefault(part.consumer, []).extend(part.ids)
    for consumer, ids in settled.items():
        if ids:
            slot.consumers[consumer].check(ids)  # also not twice in different parts


def _hide(slot: Slot, prepared: Prepared, parts: list[Publish], turn: Turn) -> Iterator[None]:
    if not parts:
        return
    hidden = create(slot, HIDDEN, f"{HIDDEN}.{prepared.tx}", Routing.ANYCAST, turn, hidden=True)
    prepared.rests_in(hidden.id)
    entries: list[tuple[Queue, Run, bool]] = []
    for part in _by(PIECE, parts):
        if part is None:
            yield
            continue
        run = part.run
        durable = bool(run.flags & DURABLE)
        # Written as durable whatever its sender said: between prepare and commit it has to survive. `Parked.durable`
        # remembers.
        run.lasts()
        slot.number_run(run, turn.now)
        slot.reserve(turn)
        turn.appends.append(RunRecord(slot.number, HIDDEN, [hidden.id], run))
        first = run.ids[0]
        hidden.numbered(run.ids)
        prepared.publishes.append(
            Parked(
                first,
                hidden.last,
                part.address,
                part.queue,
                int(part.routing),
                part.create,
                durable,
                bool(run.flags & UNIQUE),
            )
        )
        entries.append((hidden, run, False))
    slot.await_commit(entries, turn.number)


def _claim(slot: Slot, prepared: Prepared, part: Settle) -> None:
    consumer = slot.consumers[part.consumer]
    taken = consumer.settle(part.ids, held=True) if part.ids else {}
    queue = slot.queues[consumer.queue]
    queue.no_longer_delivering(len(taken))
    # Counted as on its way, so that nobody deletes the queue as empty.
    queue.leaves_for(len(taken))
    # What is not durable dies with this leader, on both ways: a restart finds neither message nor claim of it.
    lasting = [i for i, run in taken.items() if run.flags & DURABLE] if queue.durable and not queue.stays() else []
    spans = spans_of(lasting) if lasting else []
    prepared.claims.append(Claim(queue.id, spans, int(part.outcome), part.delay, taken))
    slot.touched[queue] = None  # its credit is back


def _carrying_out(slot: Slot, prepared: Prepared, hidden: Queue | None, turn: Turn) -> Iterator[None]:
    """All of it in one log group."""
    del slot.prepared[prepared.tx]
    group = turn.part()
    if hidden is not None:
        if prepared.commit:
            yield from _publishing(slot, prepared, hidden, group)
        delete(slot, hidden, group)
    letters: list[Claim] = []
    left = PIECE
    for claim in prepared.claims:
        if left <= 0:
            left = PIECE
            yield
        left -= 1 + len(claim.messages) // 10
        queue = slot.queues.get(claim.queue)
        # An estate has the number of a queue that is gone, and what was claimed of it went with that.
        if queue is not None and not queue.estate:
            queue.arrived(len(claim.messages))
            if prepared.commit:
                yield from _becoming(slot, queue, prepared, claim, letters, group)
            else:
                leave(slot, queue, claim.messages, group, failed=not prepared.calm)
            slot.touched[queue] = None
            slot.watch_idle(queue, turn.now)
    if letters:
        # To be answered when they are where they go.
        prepared.leaves(letters)
        slot.prepared[prepared.tx] = prepared
        group.appends.append(MetaRecord(slot.number, "prepared", prepared.data()))
    else:
        group.appends.append(commit_letters.forgotten(slot, prepared))
    turn.merge(group, grouped(slot.number, group.appends))
    if not letters:
        commit_letters.carried_out(slot, prepared, turn)


def _becoming(
    slot: Slot, queue: Queue, prepared: Prepared, claim: Claim, letters: list[Claim], turn: Turn
) -> Iterator[None]:
    outcome, first = Outcome(claim.outcome), len(turn.moves)
    of = LargeReturn({}, True, outcome, delay=max(claim.delay, -1))
    of.is_heard_by(partial(commit_letters.arrived, slot, prepared))
    yield from becoming(slot, queue, claim.messages, outcome, claim.delay, turn, of)
    if not of.done:
        letters.append(commit_letters.claim_of(queue, of, claim.delay, turn.moves[first:]))


def _answer(slot: Slot, command: Prepare | Decide, turn: Turn) -> None:
    if command.seq:
        slot.barrier(Done(command.session, command.seq), turn)


def _publishing(slot: Slot, prepared: Prepared, hidden: Queue, turn: Turn) -> Iterator[None]:
    """What was parked."""
    commands: list[Publish] = []
    parts = iter(prepared.publishes)
    part: Parked | None = None
    # By number, not by priority: parts of one session stay in its order (I7).
    for parked in sorted(hidden.in_order(), key=_first):
        while part is None or part.last < parked.ids[0]:
            part = next(parts)
        run = copy(parked)
        run.anew(0 if part.durable else DURABLE)
        if part.unique:
            run.look_for_twins()
        command = Publish(slot.number, 0, 0, part.address, Routing(part.routing), run, part.queue, part.create)
        commands.append(command.within())
    # Known by duplicate ids: all of its messages, or none (C54).
    if any([repeated(slot, command) for command in commands]):
        return
    most = turn.most
    for each in _by(PIECE, commands):
        if each is None:
            yield
            continue
        if turn.work > most:  # one may wake dozens of wildcards
            most = turn.work + turn.most
            yield
        while drowsy(slot) and wake_some(slot, each, turn):
            yield
        try:
            publish(slot, each, turn, checked=True)
        except RefusedError:
            # Meanwhile a subscription took the very name of the address: nobody can get it any more.
            slot.counters.add("dropped_unrouted", len(each.run.records))


def units(part: Part) -> int:
    """What a part costs: large ones are copied and summed up, and each message of an ACK is looked for."""
    if isinstance(part, Publish):
        return 1 + (part.run.nbytes >> 14)
    return 1 + len(part.ids) // 10


def _first(run: Run) -> int:
    return run.ids[0]


def in_doubt(slot: Slot, now: int) -> list[tuple[str, int]]:
    """(transaction, coordinator slot) of what was prepared here and has waited long for its decision."""
    return [
        (tx, waiting.coordinator)
        for tx, waiting in slot.prepared.items()
        if waiting.commit is None and waiting.since + IN_DOUBT_MS <= now
    ]
