"""What the header block of a SEND says to a broker, and the heads that all blocks share which say the same.

Rule: what is not relayed, what is acted on and what shows in the flags is listed here, for the full reading as for
every short cut. Must not know how a block is read.
"""

# Example. Two SENDs of 1.2, of different senders:
#     persistent:true, destination:/queue/a, n:1            said_of: destination = /queue/a, persistent = true
#     destination:/queue/a, persistent:true, message-id:7   the same, and message-id = "": only that it is there counts
# What the first one says is a key of Families; whoever says it again, in whatever order and with whatever headers of
# its own, has the same HeadFamily, so routes and records that hang on its heads are looked up once, not once a message.

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from broker.core.message import GROUPED, TRACED, UNIQUE

from .escapes import unescape
from .events import Head
from .rules import RESERVED
from .versions import Version

SIGNIFICANT: Final = frozenset(
    {
        "AMQ_SCHEDULED_CRON",
        "AMQ_SCHEDULED_DELAY",
        "AMQ_SCHEDULED_PERIOD",
        "AMQ_SCHEDULED_REPEAT",
        "AMQ_SCHEDULED_TIME",
        "AMQ_SCHEDULED_ZONE",
        "AMQ_SCHEDULER_ACTION",
        "amq-msg-type",
        "auto-delete",
        "destination",
        "destination-type",
        "durable",
        "exclusive",
        "expiration",
        "expires",
        "persistent",
        "priority",
        "reply-to",
        "transaction",
        "transformation",
        "ttl",
        "user-id",
        "x-dead-letter-exchange",
        "x-dead-letter-routing-key",
        "x-expires",
        "x-max-age",
        "x-max-length",
        "x-max-length-bytes",
        "x-max-priority",
        "x-message-ttl",
        "x-overflow",
        "x-queue-type",
        "x-single-active-consumer",
        "x-stream-filter-size-bytes",
        "x-stream-max-segment-size-bytes",
    }
)
"""Headers of SEND that the broker may act on, or refuse. Whoever reads another one from Head.headers adds it here;
tests of the edge hold its lists against this one."""
NAMED: Final = frozenset({"message-id"})
"""Headers of SEND of which it matters that they are there: Head.headers has them without their value, which may be
another one in each message."""
SAID: Final = frozenset([name.encode() for name in SIGNIFICANT])
NAMES_SAID: Final = frozenset([name.encode() for name in NAMED])
ACTED_ON: Final = SAID | NAMES_SAID
NOT_RELAYED: Final = frozenset([name.encode() for name in RESERVED])
MARKS: Final = {b"JMSXGroupID": GROUPED, b"_AMQ_DUPL_ID": UNIQUE, b"traceparent": TRACED}
"""Headers of SEND whose presence shows in the flags, so that nobody has to look for them in vain."""
REMEMBERED: Final = 512
"""Bytes of what a block says, up to which that is remembered: a client may give 10 KB of it in each."""

Said = tuple[tuple[bytes, bytes], ...]
"""Names and raw values of what a broker acts on, by name; see said_of."""


def said_of(headers: Mapping[bytes, bytes]) -> Said:
    """What headers, of raw values, say to a broker."""
    said = [(name, headers[name] if name in SAID else b"") for name in ACTED_ON.intersection(headers)]
    said.sort()
    return tuple(said)


class HeadFamily:
    """The heads, without lines, of all blocks that say the same to a broker; one for each set of flags.

    order   that of its heads, as far as they have one."""

    __slots__ = ("_heads", "headers", "order")

    def __init__(self, said: Said, version: Version) -> None:
        self.headers = {name.decode(): unescape(value.decode(), version) for name, value in said}
        self._heads: dict[int, Head] = {}
        self.order: object = None

    def head(self, flags: int) -> Head:
        """The head of messages of which some have these flags."""
        # As many as there are sets of MARKS, TEXT and ESCAPED at most: 32.
        head = self._heads.get(flags)
        if head is None:
            head = self._heads[flags] = Head(b"", self.headers, flags, False)
        elif self.order is None:
            self.order = head.order
        return head


class Families:
    """Of one version: what blocks say → the heads of those that say it. At most so many are remembered."""

    __slots__ = ("_entries", "_version", "known")

    def __init__(self, entries: int, version: Version) -> None:
        self._entries = entries
        self._version = version
        self.known: dict[Said, HeadFamily] = {}

    def family(self, said: Said) -> HeadFamily:
        """The heads of blocks that say that."""
        family = self.known.get(said)
        if family is None:
            family = HeadFamily(said, self._version)
            if sum([len(value) for _, value in said]) <= REMEMBERED:
                if len(self.known) >= self._entries:
                    self.known.clear()
                self.known[said] = family
        return family
