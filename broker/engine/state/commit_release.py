"""What was on its way to the log is durable: runs enter their queues, marks and answers are told, consumers begin.

Rule: in the order in which it was held; nothing is decided here. Until then it waits in `Slot.pending`.
"""

# Example. Turn 8 accepted durable 21 for queue a, its receipt, and a mark of queue b; turn 9 a SUBSCRIBE that made a
# queue. The log says that 8 is durable:
#     21        enters a (gate: one less), a is touched, so the flush behind hands it out
#     mark      b may hand out up to it
#     Done      the receipt goes to the edge
# Turn 9's consumer stays withheld until 9 is durable. In the order of holding, which is the order of the session's
# commands: so messages of one session stay in order (I7), and a receipt is told behind all that it stands for (I3). A
# crash before this leaves records that nobody was told of: the next leader may keep them or not.

from __future__ import annotations

from broker.core.effects import Turn

from ..messages.copies import WIDE
from . import page_out
from .awaiting_commit import WITHHELD
from .schedule import opened, postpone
from .slot import Slot


def release(slot: Slot, number: int, turn: Turn) -> None:
    """Everything of turns <= number is durable."""
    pending, touched = slot.pending, slot.touched
    while pending and pending[0].number <= number:
        held = pending.popleft()
        # By the first entry alone, as await_commit() took it off: copies for many queues are one message that came in.
        if held.entries and not held.front:
            slot.entered += len(held.entries[0][1].records)
            if len(held.entries) > WIDE:
                slot.copies.arrived(len(held.entries), len(held.entries[0][1].records))
        for queue, run, paged in held.entries:
            queue.gate.release(run, paged)
            # Released from the gate all the same: the gate counts what waits, and its queue may be looked at by
            # weigh() still.
            if queue.deleted or held.front:
                continue
            # A hidden queue keeps what a transaction has parked; what that does about `due` is decided when it is
            # published.
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
            # A deleted queue may get its mark; nobody hands out from it.
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
