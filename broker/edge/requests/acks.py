"""Plain ACK frames, in bulk: ids are `<handle>-<number>` (see subscription.py).

Rule: neighbours of one consumer become one Settle. An id that is not ours is refused by name; what a browser was shown
is nobody's to settle, and its ACK changes nothing.
"""

from __future__ import annotations

from typing import Final

from broker.core.commands import Settle
from broker.core.errors import Code, RefusedError
from broker.core.strict_numbers import natural, naturals
from broker.wire.escapes import unescape
from broker.wire.events import Acks
from broker.wire.versions import Version

from ..session.session import Session
from ..subscriptions.subscription import SlotSubscription

MOST_IDS: Final = 1000
"""Of one command: an owner carries it out whole, 2 µs for each id."""
NOTHING = frozenset({"", "undefined", "null", "None", "nil"})


def acks(session: Session, event: Acks) -> None:
    """Adds one Settle per stretch of ids with the same handle."""
    ids = event.ids
    batch = session.inbound.batch
    start, total = 0, len(ids)
    while start < total:
        handle, _, _ = ids[start].rpartition(b"-")
        sub = session.handles.get(handle)
        if sub is None and not session.edge.queue_wildcards.ended(session.id, handle):
            raise _unknown(ids[start])
        end = _stretch(ids, start, handle)
        if sub is not None and event.subscriptions is not None and session.version is Version.V11:
            for value in set(event.subscriptions[start:end]):
                _check_subscription(session, sub, unescape(value.decode(), Version.V11))
        skip = len(handle) + 1
        numbers = naturals([id[skip:] for id in ids[start:end]])
        if numbers is None:
            raise _unknown(ids[start])
        receipts = event.receipts if end == total else None
        if sub is None or sub.browses:
            if receipts:
                session.answer_now(receipts)
        elif sub.order is None:
            # Asked last: a number that no command carries would never be answered.
            seq = session.answers.ask(receipts) if receipts else 0
            batch.append(Settle(sub.slot, session.id, seq, sub.consumer, numbers))
        else:
            _over_parts(session, sub, numbers, receipts)
        start = end


def _stretch(ids: list[bytes], start: int, handle: bytes) -> int:
    """Where the ids end that begin with the same handle as the one at `start`; MOST_IDS further at most."""
    most, own = min(len(ids), start + MOST_IDS), handle + b"-"
    # What stands between two texts that begin alike begins so, too: mostly all are of one consumer.
    some = ids[start:most]
    alike = min(some).startswith(own) and max(some).startswith(own)
    if alike and b"".join(some).count(b"-") == own.count(b"-") * len(some):
        return most
    end = start + 1
    while end < most and ids[end].startswith(handle) and ids[end].rpartition(b"-")[0] == handle:
        end += 1
    return end


def _over_parts(session: Session, sub: SlotSubscription, numbers: list[int], receipts: list[bytes] | None) -> None:
    """These acknowledgements may cover messages of other parts of the subscription as well."""
    covered = sub.covered(numbers)
    for (part, ids), seq in zip(covered, session.answers.ask_parts(receipts, len(covered)), strict=True):
        session.inbound.batch.append(Settle(part.slot, session.id, seq, part.consumer, ids))
    if sub.order is not None:
        sub.order.flow()


def _check_subscription(session: Session, sub: SlotSubscription, given: str) -> None:
    """C49: a 1.1 ACK names the subscription, and it must be the right one. In 1.0 and 1.2 the id alone says whose the
    message is: there the header is not looked at, and clients make it up. So it does in 1.1; what stands for nothing in
    the language of a client that must send the header and has not been told is taken as that."""
    if given != sub.id and (given not in NOTHING or given in session.subscriptions):
        raise RefusedError(
            Code.NO_SUCH_DELIVERY, f"subscription:{given[:100]} is not the one this message-id was delivered to"
        )


def late(session: Session, id: bytes) -> bool:
    """Is it of a message whose queue is gone, of a wildcard of queues that goes on without it."""
    return session.edge.queue_wildcards.ended(session.id, id.rpartition(b"-")[0])


def delivery(session: Session, id: bytes, subscription: str | None) -> tuple[SlotSubscription, int]:
    """The consumer and message number that an ack id names. Raises RefusedError(NO_SUCH_DELIVERY)."""
    handle, _, number = id.rpartition(b"-")
    sub = session.handles.get(handle)
    found = natural(number)
    if sub is None or found is None:
        raise _unknown(id)
    if subscription is not None and session.version is Version.V11:
        _check_subscription(session, sub, subscription)
    return sub, found


def _unknown(id: bytes) -> RefusedError:
    return RefusedError(
        Code.NO_SUCH_DELIVERY,
        f"'{id[:100].decode(errors='replace')}' is not the id of a message this connection holds unacknowledged",
    )
