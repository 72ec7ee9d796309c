"""How much of what a consumer holds may leave it in one turn: a client may hold as many as it likes, and settle all of
it by naming the last one, or give all of it back by going.

Rule: counted in work, never in time; from the front of a ledger, so that pieces are in the order of delivery. Must not
know what becomes of a message.
"""

# Example. A ledger of 100,000 messages, handed out in runs of 50, is given back: 2,000 runs, 64 of them a turn, 3,200
# messages but for LONG: 2,048 / 32 = 64 more units, so 25 runs or 1,250 messages a turn. Consumed, it goes in
# stretches of 2,048, whatever runs it has.

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import Final

from broker.core.message import Run

BACK: Final = 64
"""Runs that come back in one turn, or LONG times as many messages of long ones."""
LONG: Final = 32
STRETCH: Final = BACK * LONG
"""Messages that are consumed in one turn: they go as a stretch, however many runs they are of."""


def piece_of(items: Iterable[tuple[int, Run]], last: int = 0) -> dict[int, Run]:
    """Of what comes back: the first piece, up to the message `last` at most."""
    piece: dict[int, Run] = {}
    runs, before = 0, None
    for i, run in items:
        piece[i] = run
        # Runs as they are handed out are neighbours in a ledger: a change of run is a run to be cut and sorted in.
        runs += run is not before
        before = run
        if i == last or runs + len(piece) // LONG >= BACK:
            break
    return piece


def stretch_of(ledger: dict[int, Run], last: int) -> dict[int, Run]:
    """Of what is consumed: the same."""
    piece: dict[int, Run] = {}
    for i, run in islice(ledger.items(), STRETCH):
        piece[i] = run
        if i == last:
            break
    return piece


def pieces_of(ledger: dict[int, Run], back: bool) -> Iterator[dict[int, Run]]:
    """All of it, piece by piece."""
    items = iter(ledger.items())
    while piece := piece_of(items) if back else dict(islice(items, STRETCH)):
        yield piece


def is_more(ledger: dict[int, Run], last: int, back: bool) -> bool:
    """Is what stands up to that message of it more than a piece. Looked at no further than a piece goes."""
    if back:
        return len(ledger) > BACK and last not in piece_of(ledger.items(), last)
    return len(ledger) > STRETCH and last not in islice(ledger, STRETCH)


def stand_in_order(ledger: dict[int, Run], ids: Sequence[int]) -> bool:
    """Do these of it stand there in this order: one walk, of some 25 ns a message."""
    coming = iter(ledger)
    return all(i in coming for i in ids)
