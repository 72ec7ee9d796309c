"""What is refused while the disk is nearly full.

Rule: whatever would be written, so that settling can go on from the reserve. Must not know disks.
"""

from __future__ import annotations

from broker.core.commands import Publish
from broker.core.effects import Turn
from broker.core.errors import Code, RefusedError
from broker.core.message import DURABLE
from broker.engine.engine import Engine


def refuse_full(engine: Engine, command: Publish, turn: Turn) -> bool:
    """That also is what is not durable, but large or too much for the memory of its queue. False: it may be taken."""
    run = command.run
    if not (run.flags & DURABLE or run.blob is not None or engine.would_page(command)):
        return False
    engine.refuse(command, RefusedError(Code.DISK_FULL, "retry when consumers have freed space"), turn)
    return True
