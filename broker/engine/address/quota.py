"""What an address holds beside what it may hold: its quota, and each queue's share of it.

Rule: counts, and the sessions that wait for them to fall; what happens at a bound is decided in limits.py. The usages
of an address' queues add up to what its quota counts.
"""

# Example. orders is BLOCK with max_size_messages 1000; sessions 5 and 6 send to it.
#     1000   full(): the SEND is taken, and its session is told to wait (AddressBlocked, True): its edge stops reading
#     876    some were consumed: 876 is above 1000 - 1000 / EASE, nobody is woken
#     875    eased(): 5 and 6 may go on (AddressBlocked, False), and 125 messages find room before the next wait
# Woken at 999 both would send one message, wait, be woken, …: two effects and a pause of the socket for each message.

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Mapping, Sequence
from typing import Final

from broker.config.addressing import AddressSettings
from broker.core.effects import AddressBlocked, Turn
from broker.core.errors import Code, RefusedError
from broker.core.message import Run

from ..messages.unloaded import Stub

BLOCK, FAIL, DROP, DEAD_LETTER = "BLOCK", "FAIL", "DROP", "DEAD_LETTER"
NEVER: Final = 1 << 62
"""A bound that is not there."""
EASE: Final = 8
"""Producers that wait go on when this part of the limit is free: woken by every message, they would do little else."""

LIMITS: Final = frozenset((
    "full_policy", "max_size_bytes", "max_size_messages", "page_full_policy", "page_limit_bytes",
    "page_limit_messages",
))  # fmt: skip
"""Settings that give an address a limit."""


def limited(settings: AddressSettings) -> bool:
    """Has the address a limit at all. PAGE at `max_size_*` is what every address does anyway."""
    if settings.full_policy == "PAGE":
        return settings.page_limit_bytes >= 0 or settings.page_limit_messages >= 0
    return settings.max_size_bytes >= 0 or settings.max_size_messages >= 0


def refuses(settings: AddressSettings) -> bool:
    """May SEND end in an ERROR because the address is full."""
    policy = settings.page_full_policy if settings.full_policy == "PAGE" else settings.full_policy
    return policy == FAIL and limited(settings)


class AddressUsage:
    """What all queues of an address hold together, and its bounds.

    messages, nbytes             at present.    most_messages, most_bytes   full from there on.
    reject_bytes                 BLOCK: from there on messages are refused.
    waiting                      sessions that were told to wait."""

    __slots__ = (
        "address", "messages", "most_bytes", "most_messages", "nbytes", "policy", "reject_bytes", "waiting",
    )  # fmt: skip

    def __init__(self, address: str) -> None:
        self.address = address
        self.messages = self.nbytes = 0
        self.waiting: dict[int, None] = {}
        self.policy = BLOCK
        self.most_messages = self.most_bytes = self.reject_bytes = NEVER

    def bound(self, settings: AddressSettings) -> None:
        """Takes the bounds of the settings, which must have some (see limited())."""
        paging = settings.full_policy == "PAGE"
        self.policy = settings.page_full_policy if paging else settings.full_policy
        messages = settings.page_limit_messages if paging else settings.max_size_messages
        nbytes = settings.page_limit_bytes if paging else settings.max_size_bytes
        self.most_messages = _share(messages, settings.partitions)
        self.most_bytes = _share(nbytes, settings.partitions)
        self.reject_bytes = _share(settings.reject_threshold_bytes, settings.partitions)

    def full(self) -> bool:
        """Has it reached its limit."""
        return self.messages >= self.most_messages or self.nbytes >= self.most_bytes

    def eased(self) -> bool:
        """May those who wait go on."""
        messages, nbytes = self.most_messages, self.most_bytes
        return (
            # Both bounds, since either may be the one that was reached; a bound of NEVER is eased always.
            not self.full() and self.messages <= messages - messages // EASE and self.nbytes <= nbytes - nbytes // EASE
        )

    def wake(self) -> dict[int, None]:
        """Sessions that waited, and do not any longer."""
        waiting, self.waiting = self.waiting, {}
        return waiting

    def release(self, slot: int, turn: Turn) -> None:
        """Sessions that wait go on."""
        turn.effects.extend([AddressBlocked(session, slot, self.address, False) for session in self.wake()])

    def error(self, asked: int = 0) -> RefusedError:
        """What a producer is told who may not wait. asked: messages of the same transaction that would still fit."""
        more = f", and {asked} of this transaction" if asked else ""
        return RefusedError(
            Code.ADDRESS_FULL,
            f'Address "{self.address}" is full: {self.messages} messages, {self.nbytes} bytes{more}; '
            "send again when some have been consumed",
        )


class QueueUsage:
    """One queue's share of the quota of its address."""

    __slots__ = ("messages", "nbytes", "quota")

    def __init__(self, quota: AddressUsage) -> None:
        self.messages = self.nbytes = 0
        self.quota = quota

    def change(self, messages: int, nbytes: int) -> None:
        """So much came, or (negative) left. What lay in the journal at a restart has estimated sizes: an empty queue
        has no bytes, whatever the sum says."""
        # Estimates (what was paged at a restart) may be too low: a usage below zero would give its address room it
        # does not have.
        messages = max(messages, -self.messages)
        if self.messages + messages == 0:
            nbytes = -self.nbytes
        nbytes = max(nbytes, -self.nbytes)
        self.messages += messages
        self.nbytes += nbytes
        self.quota.messages += messages
        self.quota.nbytes += nbytes

    def leave(self, messages: int, nbytes: int, slot: int, turn: Turn) -> None:
        """So much has left for good; those who wait for that go on."""
        self.change(-messages, -nbytes)
        if self.quota.waiting and self.quota.eased():
            self.quota.release(slot, turn)

    def leave_runs(self, runs: Sequence[Run], slot: int, turn: Turn) -> None:
        """Whole runs have left for good."""
        self.leave(sum([len(run.ids) for run in runs]), sum([run.nbytes for run in runs]), slot, turn)

    def leave_messages(self, taken: Mapping[int, Run], slot: int, turn: Turn) -> None:
        """Single messages have left for good."""
        messages = nbytes = 0
        for i, run in taken.items():
            # A ghost: to take it off again would make the address look emptier than it is.
            if type(run) is Stub and not run.position:
                continue  # known to its client only: it left before
            messages += 1
            nbytes += run.size_of(bisect_left(run.ids, i))
        self.leave(messages, nbytes, slot, turn)


def _share(limit: int, partitions: int) -> int:
    if limit < 0:
        return NEVER
    # A limit of 3 over 8 slots would be 0, and nothing could ever be sent: one each. A limit of 0 stays 0.
    return max(limit // partitions, min(limit, 1))
