"""What was on its way to the log is durable: runs enter their queues, marks and answers are told, consumers begin.

Rule: in the order in which it was held; nothing is decided here. Until then it waits in `Slot.pending`.
"""

from __future__ import annotations

from broker.core.effects import Turn

from ..messages.copies import WIDE
from . import page_out
from .schedule import opened, postpone
from .slot import WITHHELD, Slot


def release(slot: Slot, number: int, turn: Turn) -> None:
    """Everything of turns <= number is durable."""
    pending, touched = slot.pending, slot.touched
    while pending and pending[0].number <= number:
        held = pending.popleft()
        if held.entries and not held.front:
            slot.entered += len(held.entries[0][1].records)
            if len(held.entries) > WIDE:
                slot.copies.arrived(len(held.entries), len(held.entries[0][1].records))
        for queue, run, paged in held.entries:
            queue.gate.release(run, paged)
            if queue.deleted or held.front:
                continue
            if run.due and not queue.hidden:
                postpone(slot, queue, run)
            elif paged:
                queue.page(run)
            else:
                queue.enter(run)
            touched[queue] = None
        if held.front:
            page_out.back(slot, held)
        if held.mark is not None:
            queue, mark = held.mark
            queue.watermark.durable(mark)
            touched[queue] = None
        if held.consumer is not None:
            held.consumer.grant(WITHHELD)
            if (begun := slot.queues.get(held.consumer.queue)) is not None:
                touched[begun] = None
                if begun.browsers:
                    begun.browsers.wake(held.consumer.id)
        if held.due is not None and not held.due.deleted:
            opened(slot, held.due)
        if held.effect is not None:
            turn.effects.append(held.effect)
