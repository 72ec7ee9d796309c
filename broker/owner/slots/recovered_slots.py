"""Standbys of what the journal has brought back, when a process begins: one for each slot of its log.

Rule: everything begins as a follower, also what was led before; only a record says which owner leads now. In steps of
some milliseconds.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from itertools import count
from typing import Final

from broker.engine.engine import Engine
from broker.journal.recovery.recovery import Recovered

from .standby import Standby

RECOVER_PIECE: Final = 512
"""Records given to standbys between two turns of the loop."""


def recovered_standbys(
    recovered: Recovered, new_engine: Callable[[int], Engine]
) -> Generator[None, None, dict[int, Standby]]:
    """Slot → its standby."""
    standbys = {slot: Standby(new_engine(slot)) for slot in sorted(recovered.slots)}
    done = count(1)
    for meta in recovered.metas:
        if meta.slot in standbys:
            standbys[meta.slot].restore_meta(meta)
        if not next(done) % RECOVER_PIECE:
            yield
    for slot, producers in recovered.producers.items():
        if slot in standbys:
            standbys[slot].restore_producers(producers)
    for found in recovered.runs():
        if found[0].slot in standbys:
            standbys[found[0].slot].found([found])
        if not next(done) % RECOVER_PIECE:
            yield
    return standbys
