"""What the journal brought back goes to its engines, at the start of a broker that is alone.

Rule: in steps of some milliseconds, for a loop that has others to serve. Small state first, for queues must be there
before their messages; what the settings name last, so that they change what is there and make what is not.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from broker.config.settings import EngineSettings
from broker.core.records import Stretch
from broker.engine.address.declarations import places, reading
from broker.engine.engine import Engine
from broker.journal.recovery.recovery import Recovered

PIECE = 512
"""Records, or names of the settings, in one step."""
_STRETCH = 5
"""What a queue counts in that, beside its records."""


def naming(settings: EngineSettings) -> Iterator[None]:
    """Reads the names in the settings, before an engine asks for one of them."""
    return reading(settings, PIECE)


def restoring(settings: EngineSettings, recovered: Recovered, engine: Callable[[int], Engine]) -> Iterator[None]:
    """engine: the one of a slot, made when there is none. Their ends come behind it (Engine.restore_ending)."""
    for at, meta in enumerate(recovered.metas):
        engine(meta.slot).restore_meta(meta)
        if not at % PIECE:
            yield
    done = 0
    for found in recovered.stretches():
        if isinstance(found, Stretch):
            engine(found.slot).restore_stretch(found.queue, found.rows)
            done += len(found.rows) + _STRETCH
        else:
            engine(found[0].slot).restore_run(*found)
            done += 1
        if done >= PIECE:
            done = 0
            yield
    for slot in places(settings):
        engine(slot)  # what the settings name exists from the start
        yield
