"""How much of what has gathered is carried out in one turn: what is more waits for the next one, in its order.

Rule: counted in work, never in time; a session that sends more than is carried out rests (MOST), so that what waits is
bounded. Must not know what commands do.
"""

# Example. An inbox of 2,000 commands: SENDs of one message (1 unit each), one of 640 (11), ACKs of 50 scattered
# messages (26 each), a COMMIT of 100 parts (201). The turn takes the first ones until their units are 300, about 3
# ms, the rest waits in its order; beyond as many as two turns carry out (TURNS, MOST) the senders are told to pause.
# Not by the clock: a history of the simulator must come out the same each time, and a slow machine must not cut turns
# into nothing.

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import chain, islice
from operator import itemgetter
from typing import Any, Final

from broker.core.address import Outcome
from broker.core.commands import (
    Command,
    Confirm,
    Grant,
    Hold,
    Prepare,
    Publish,
    Settle,
    Transact,
)

TURN: Final = 300
"""Units of one turn, of some 10 µs each."""
WORK: Final = 64
"""Queues and consumers that begin or end in one turn, of some 50 µs each: nobody knows beforehand how many those of a
command are. What others send and acknowledge goes on beside them (beside, beside_by_slot)."""
FEW: Final = 4
"""So few commands are not looked at: none of them is large, or it cannot be cut."""
BACK: Final = 4
"""Units of a message that comes back: 14 to 33 µs, and up to 43 as a dead letter."""
MOST: Final = 1500
"""Commands that may wait: then those who send are to pause."""
TURNS: Final = 2
"""So many turns' work may wait, of some 3 ms each: 1,500 NACKs are 60 ms, for whoever sends a message behind them."""
LEAST: Final = 100
"""… and so many commands, however heavy: less would stop and let go senders in each turn."""
LOOKED: Final = 2 * MOST
"""So many are looked at for those of who has little among them (shares.py)."""


def portion(inbox: Sequence[Command]) -> int:
    """So many commands, the first ones, are enough for a turn."""
    left = TURN
    for at, command in enumerate(inbox):
        if type(command) is Publish:  # without a call: most are
            left -= 1 + (len(command.run.records) >> 6)
        else:
            left -= units(command)
        if left <= 0:
            return at + 1
    return len(inbox)


def units(command: Any) -> int:
    """What it counts."""
    kind = type(command)
    if kind is Publish:
        return 1 + (len(command.run.records) >> 6)
    if kind is Settle or kind is Hold:
        ids = command.ids
        count = len(ids)
        # A stretch is one range in every book, and single ones a range each.
        # Ids ascend, so the ends say whether they are one stretch.
        apart = count > 1 and ids[-1] - ids[0] != count - 1
        if kind is Hold or command.outcome is Outcome.ACK:
            return 1 + count // 2 if apart else 1
        # What was consumed goes as a stretch; what comes back is counted, stands in its queue again, one by one, and
        # is handed out again or becomes a dead letter.
        return BACK + (count if apart else count // 4)
    if kind is Transact or kind is Prepare:
        return 1 + 2 * len(command.parts)
    return 1


def beside(rest: Iterable[Command], busy: int | None = None) -> tuple[list[Command], list[Command]]:
    """Of what a turn that has begun or ended WORK consumers has left: what it carries out all the same, and what waits
    for the next one. Both in their order. busy: the session whose messages have made queues, and would make more.

    Messages and acknowledgements of other sessions do not wait for a thousand consumers that come or go. What a session
    sends stays in order, and so does what an edge has numbered for a slot (deferred.py). Of two sessions neither has
    been told that its command has happened, so none knows which one was first. MOST are looked at, and a portion goes
    on; a Settle does not overtake what concerns its consumer and says no session (Grant, Confirm)."""
    goes: list[Command] = []
    waits: list[Command] = []
    left = TURN
    sessions: set[int] = set() if busy is None else {busy}
    numbered: set[tuple[int, int]] = set()
    consumers: set[int] = set()
    coming = iter(rest)
    for command in islice(coming, MOST):
        dedup = command.dedup if isinstance(command, Publish) else None
        token = (command.slot, dedup[0]) if dedup is not None else None
        small = isinstance(command, Publish | Settle) and command.session not in sessions and token not in numbered
        if small and left > 0 and getattr(command, "consumer", -1) not in consumers:
            goes.append(command)
            left -= units(command)
            continue
        waits.append(command)
        sessions.add(getattr(command, "session", 0))
        consumers.add(getattr(command, "consumer", 0))
        dedup = getattr(command, "dedup", None)
        if dedup is not None:
            numbered.add((command.slot, dedup[0]))
    waits.extend(coming)
    return goes, waits


def beside_by_slot(rest: Iterable[Command], busy: int) -> tuple[list[Command], list[Command]]:
    """The same in a cluster, where what an edge sends to a slot is numbered in one sequence, and what it says again to
    a new leader counts in that order. busy: the session whose commands have begun or ended so many.

    So nothing passes anything in its slot: of each slot the first messages, acknowledgements and grants go, up to the
    last one that is not of the busy session, if not many of that stand before it. Slots are independent: they may be
    led by different owners at any time, and an edge expects no order among them. What begins or ends consumers never
    goes: a turn that has had enough would do it by half. Nor does a COMMIT."""
    coming = iter(rest)
    looked = list(islice(coming, MOST))
    behind: dict[int, int] = {}
    reach: dict[int, tuple[int, int]] = {}
    closed: set[int] = set()
    for at, command in enumerate(looked):
        slot = command.slot
        if slot in closed:
            continue
        if not isinstance(command, Publish | Settle | Grant | Confirm):
            closed.add(slot)
        elif getattr(command, "session", busy) != busy:
            reach[slot] = (behind.get(slot, 0), at)
        elif type(command) is Publish:
            behind[slot] = behind.get(slot, 0) + 1
    left = WORK // 2
    chosen: dict[int, list[Command]] = {}
    # Those first before whose commands the fewest stand that may begin or end something.
    for slot, (before, _) in sorted(reach.items(), key=itemgetter(1)):
        if (left := left - before) < 0:
            break
        chosen[slot] = []
    waits: list[Command] = []
    for at, command in enumerate(looked):
        if command.slot in chosen and at <= reach[command.slot][1]:
            chosen[command.slot].append(command)
        else:
            waits.append(command)
    waits.extend(coming)
    goes = list(chain.from_iterable(chosen.values()))
    fits = portion(goes)
    return goes[:fits], [*goes[fits:], *waits]
