"""Why a queue hands out nothing, in words, with what helps.

Rule: the truth about this moment, most decisive reason first; looks at LOOKED consumers at most. Must not change
anything, nor know what a client could not be told.
"""

from __future__ import annotations

from collections import Counter
from itertools import islice

from ..queue.queue import Queue
from .queue_views import held, hindrance, scheduled, waiting
from .slot import Slot

LOOKED = 1000
"""Consumers of a queue that are looked at."""


def why(slot: Slot, queue: Queue, now: int) -> list[str]:
    """Sentences, each with what to do where something can be done. One that says all is well where it is."""
    # The first sentence is what has to change first: with a paused queue nothing else matters.
    told = [*_of_itself(slot, queue, now), *_of_messages(queue)]
    if waiting(queue) or queue.returned:
        told += _of_consumers(queue) if queue.consumers else [_nobody(queue)]
    if told:
        return told
    if waiting(queue):
        return ["Nothing is in the way: what waits is being handed out."]
    return ["It is empty: everything that came has been consumed, or nothing has come yet."]


def _of_itself(slot: Slot, queue: Queue, now: int) -> list[str]:
    told: list[str] = []
    settings = queue.settings
    if queue.paused:
        told.append("It was paused by an operator: resume it.")
    if settings.paused:
        told.append("Its settings pause it (`paused`): take that out of them.")
    kind = queue.kind
    if kind is not None and settings.consumers_before_dispatch and not kind.begun:
        here, needed = len(queue.consumers), settings.consumers_before_dispatch
        told.append(f"It waits until {needed} consumers are there (consumers_before_dispatch); {here} are.")
    if queue.returning is not None:
        told.append("Much was given back, or acknowledged, at once: it is carried out bit by bit, by itself.")
    if queue.pages.recalls:
        told.append("Messages that were out before are read back from the disk first; it goes on by itself.")
    if queue.watermark.announced > queue.watermark.cleared and queue.watermark.asked:
        told.append("It waits for the disk (or for followers) before more may go out; it goes on by itself.")
    if queue.gate.entries and not queue.count and not queue.pages.count:
        told.append(f"{queue.gate.entries} entries wait for the disk (or for followers) before they count.")
    return told


def _of_messages(queue: Queue) -> list[str]:
    told: list[str] = []
    later = scheduled(queue)
    if later and not waiting(queue):
        told.append(f"{later} messages are not due yet (a delay of their sender, or of their redelivery).")
    if queue.delivering and not waiting(queue):
        told.append(
            f"All that is due ({queue.delivering} messages) is with consumers that have not acknowledged it; it comes "
            "back when they NACK it or disconnect."
        )
    if queue.moving:
        told.append(f"{queue.moving} messages are on their way to another address, or part of an open COMMIT.")
    return told


def _nobody(queue: Queue) -> str:
    told = f"Nobody consumes it: subscribe to {queue.address}"
    told += "." if queue.name == queue.address else f" (queue {queue.name})."
    # The console that shows this text may be a browser itself, by the messages it lists.
    return told + (" Browsers look at it, but they take nothing." if queue.browsers else "")


def _of_consumers(queue: Queue) -> list[str]:
    told: list[str] = []
    # A page that a person looks at must not take as long as there are consumers.
    looked = list(islice(queue.consumers, LOOKED))
    alone = queue.choice.exclusive if queue.choice is not None else None
    if alone is not None and len(looked) > 1:
        told.append(
            f"It is exclusive: only consumer {alone.id} gets anything, the other {len(queue.consumers) - 1} wait for "
            "its end."
        )
        looked = [alone]
    causes = Counter([hindrance(consumer) and _cause(hindrance(consumer)) for consumer in looked])
    free = causes.pop("", 0)
    if not free:
        total = sum([held(consumer) for consumer in looked])
        for cause, count in causes.most_common():
            told.append(f"{count} of {len(looked)} consumers can take nothing now: {cause}.")
        if total:
            told.append(f"Together they hold {total} messages unacknowledged: ACK them, or disconnect who does not.")
        return told
    able = [consumer for consumer in looked if consumer.ready()]
    if able and all(consumer.filter is not None for consumer in able) and waiting(queue):
        told.append(
            f"The {len(able)} consumers that could take something have selectors (or want none of their own messages), "
            "and nothing that was looked at matches: add a consumer without a selector, or change theirs."
        )
    elif queue.choice is not None and queue.choice.groups is not None and (queue.count or queue.far):
        told.append("What waits belongs to message groups (JMSXGroupID) of consumers that can take nothing now.")
    return told


def _cause(text: str) -> str:
    """Without what differs from consumer to consumer."""
    return text.partition(":")[0]
