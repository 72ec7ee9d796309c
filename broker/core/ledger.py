"""What one acknowledgement covers of what a client was handed and has not settled.

Rule: a ledger is a dict in the order of delivery, whatever its values are. Engine (Consumer) and edge
(ReplayedConsumer) must come to the same answer for the same deliveries, or an edge would claim of a new leader what
the old one has settled.
"""

# Example. Delivered in this order: 3, 5 and 4; 4 had been with another consumer. In mode `client` 5 covers 3 and 5, not
# 4: "all before it" are those delivered before it, whatever their ids (C43).

from __future__ import annotations

from itertools import islice
from operator import indexOf
from typing import Any


def covered(ledger: dict[int, Any], last: int) -> list[int]:
    """All that was delivered up to this message of it, in that order."""
    # Clients that acknowledge each message, or the last one, come here: no walk.
    if last == next(reversed(ledger)):
        return list(ledger)
    # As long as what is settled by it, and no line of code for each.
    return list(islice(ledger, indexOf(ledger, last) + 1))
