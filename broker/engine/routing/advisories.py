"""Advisories of single messages, as clients of ActiveMQ Classic know them: a message of a topic for each message that
was put aside.

    ActiveMQ.Advisory.MessageDLQd.Queue.orders        it has become a dead letter (orignalMessageId: its number there)
    ActiveMQ.Advisory.Expired.Queue.orders            its time was over
    ActiveMQ.Advisory.MessageDiscarded.Queue.orders   a ring did not keep it
    ActiveMQ.Advisory.NoConsumer.Topic.news           nobody was there to get it

Rule: asked only where a message leaves otherwise than by its consumer, and made only where `message_advisories` of its
address says so; none is told of an advisory. What is delivered and consumed is not told: that would be a second message
for each.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from broker.core.address import Routing
from broker.core.effects import Move, Turn
from broker.core.message import NO_IDS, Run
from broker.core.notices import ADVISORIES
from broker.core.virtual_host import VirtualHost, split
from broker.selector.heads import escaped

from ..state.slot import Slot

DEAD: Final = "MessageDLQd"
EXPIRED: Final = "Expired"
DISCARDED: Final = "MessageDiscarded"
NO_CONSUMER: Final = "NoConsumer"


def tell(slot: Slot, kind: str, address: str, routing: Routing, ids: Sequence[int], count: int, turn: Turn) -> None:
    """Of `count` messages. ids: their numbers, if they have any."""
    if kind not in slot.match(address).message_advisories.split(","):
        return
    host, local = split(address)
    if local.startswith(ADVISORIES):
        return
    sort = "Topic" if routing is Routing.MULTICAST else "Queue"
    name = f"{ADVISORIES}{kind}.{sort}.{local}"
    about = escaped(f"{sort.lower()}://{local}")
    lines = b"destination:/topic/%b\ntype:Advisory\norignalDestination:%b\n" % (escaped(name), about)
    records = list(_records(ids, count))
    run = Run(NO_IDS, lines, records, sum(map(len, records)) + count * len(lines))
    turn.moves.append(Move(slot.number, 0, (), VirtualHost(host).inside(name), run, None, Routing.MULTICAST))


def _records(ids: Sequence[int], count: int) -> Iterable[bytes]:
    if not ids:
        return [b"\n\0"] * count
    return (b"orignalMessageId:%d\n\n\0" % i for i in ids)
