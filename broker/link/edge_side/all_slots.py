"""What an edge asks of all slots at once, as many requests to their owners; and their answers as one.

Rule: Done when all are, a refusal as soon as one is. Must not know channels.
"""

# Example. A client subscribes to `orders.#` in a cluster: 256 SubscribeAll parts, each with the number -7. 255 slots
# say Done: told() gives the edge nothing. Slot 12 refuses: the edge hears the refusal at once, with its own number,
# and the other answers, before and behind it, count down in silence. Numbers below zero can be nobody's: an edge's
# own begin at 1.

from __future__ import annotations

from collections.abc import Iterator

from broker.core.commands import Command, Disconnect, SubscribeAll, Unsubscribe, UnsubscribeAll, Wide
from broker.core.effects import Done, Effect, Refused
from broker.core.ids import SLOTS


class Together:
    """Requests under way whose parts have one number below zero in place of their own."""

    __slots__ = ("_last", "_open")

    def __init__(self) -> None:
        self._last = 0
        self._open: dict[int, list[int]] = {}
        """Number → session, its request (0: it has been told), parts without an answer."""

    def parts(self, command: Wide) -> Iterator[Command]:
        """The same, slot by slot."""
        seq = self._begin(command.session, command.seq) if command.seq else 0
        if isinstance(command, SubscribeAll):
            for part in command.parts():
                yield part.asked_as(seq)
        elif isinstance(command, UnsubscribeAll):
            for slot in range(SLOTS):
                yield Unsubscribe(slot, command.session, seq, command.consumer + slot, command.address)
        else:
            for slot in range(SLOTS):
                yield Disconnect(slot, command.session, command.calm)

    def _begin(self, session: int, seq: int) -> int:
        self._last -= 1
        self._open[self._last] = [session, seq, SLOTS]
        return self._last

    def told(self, answer: Effect | None) -> Effect | None:
        """What the edge is told of an answer, which may be that of a part."""
        if not isinstance(answer, Done | Refused) or answer.seq >= 0:
            return answer
        request = self._open[answer.seq]
        session, seq, _ = request
        # Counted to the end also when it has been refused: the number must not be forgotten before its last answer.
        request[2] -= 1
        if not request[2]:
            del self._open[answer.seq]
        if seq and isinstance(answer, Refused):
            request[1] = 0
            return Refused(session, seq, answer.code, answer.detail)
        return Done(session, seq) if seq and not request[2] else None
