"""The header `ingress-timestamp`: when the broker took a message, for addresses that ask for it.

Rule: the broker's line stands in front of the sender's, and the first of repeated names counts. Must not know queues.
"""

from __future__ import annotations

from broker.core.message import Run


def stamp(run: Run, now: int) -> None:
    """Adds the line to all messages of a fresh run. `now`: epoch ms."""
    line = b"ingress-timestamp:%d\n" % now
    run.in_front(line)
