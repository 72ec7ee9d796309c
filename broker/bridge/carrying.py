"""What becomes of a message on its way over a bridge: its headers at the target, and the id that makes it come once.

Rule: pure; the same message makes the same id, at each delivery and after each crash. What was the source's own stays
behind; everything else goes along.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from hashlib import blake2b

from broker.core.strict_numbers import integer, natural

from .kinds import HOPS, STAMPEDE, UNIQUE, Kind

LEFT_BEHIND = frozenset({
    "message-id", "subscription", "destination", "ack", "redelivered", "content-length", "receipt", "receipt-id",
    "transaction", "message-slot", "destination-type", "JMSXDeliveryCount", "delivery-count", "_AMQ_SCHED_DELIVERY",
    "AMQ_SCHEDULED_DELAY", "AMQ_SCHEDULED_PERIOD", "AMQ_SCHEDULED_REPEAT", "AMQ_SCHEDULED_CRON", "scheduledJobId",
    UNIQUE, HOPS,
})  # fmt: skip
"""Of the delivery, of the source, or done already (a delay has passed)."""


LETTER = "_AMQ_ORIG_ADDRESS"
"""Of a dead or expired letter: it is where it is for good, whatever it was sent with."""
LIVES = ("expires", "ttl", "expiration")
"""Headers that say how long a message may live."""


def hops_of(headers: Mapping[str, str]) -> int:
    """Bridges that a message has crossed; what is no number is none."""
    return natural(headers.get(HOPS, ""), 3) or 0


def unique_id(bridge: str, source: str, name: str, body: bytes | int) -> str:
    """Of a message that the source knows by that name. The body is part of it (of a large one the length): a source
    that was made anew, and counts from one again, must not have its messages taken for those of before."""
    digest = blake2b(digest_size=16)
    for part in (bridge, source, name):
        digest.update(b"%d:%b" % (len(part.encode()), part.encode()))
    digest.update(body if isinstance(body, bytes) else b"%d bytes" % body)
    return f"bridge.{bridge}.{digest.hexdigest()}"


def headers_for(
    headers: Mapping[str, str], source: Kind, target: Kind, unique: str, now: Callable[[], int]
) -> dict[str, str]:
    """Of the SEND. unique: "" = nothing names the message. now: epoch milliseconds."""
    found = {name: value for name, value in headers.items() if name not in LEFT_BEHIND | target.refuses}
    if LETTER in headers:
        for name in LIVES:
            found.pop(name, None)
    else:
        _limit(found, source, target, now)
    if target.lives == STAMPEDE.lives and integer(found.get("expiration", "").strip()) is not None:
        del found["expiration"]  # a number is refused there (edge/destinations/foreign_headers.py), and meant nothing
    found[HOPS] = str(hops_of(headers) + 1)
    if unique:
        found[UNIQUE] = unique
    return found


def _limit(headers: dict[str, str], source: Kind, target: Kind, now: Callable[[], int]) -> None:
    """How long it may live, as the target says it. Milliseconds to live begin anew there: nobody says when it came."""
    until = natural(headers.get("expires", "")) or 0
    if source.lives == STAMPEDE.lives and natural(headers.get("expiration", "").strip()) == 0:
        # Over at once by dialect rabbitmq, so the bridge was waiting for it and had it in time; by the others of older
        # releases it meant nothing. The target would drop it.
        del headers["expiration"]
    said = next((name for name in source.lived if natural(headers.get(name, "")) is not None), target.lives)
    if said in headers and said != target.lives:
        left = natural(headers.pop(said)) or 0
        if target.lives:
            headers[target.lives] = str(max(left, 1))
        else:
            headers["expires"] = str(min(now() + left, until or now() + left))
    elif until and not target.until and said not in headers:
        headers[target.lives] = str(max(until - now(), 0))
