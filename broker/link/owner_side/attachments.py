"""Consumers of one edge at one owner, so that what concerns a session or a slot need not look at all of them.

Rule: of a slot there are only attachments of the newest epoch in which the edge has attached any: those before it are
of a leader that is no more. Must not know streams.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from broker.core.commands import Subscribe

NOT_YET: Final = -1


class Attached:
    """One attachment of a consumer, valid while the slot is led here in this epoch.

    opening   behind which Open it has been made; NOT_YET: it has been asked for, and what the shard says of the
              consumer meanwhile is of an earlier one.
    bodies    large ones the edge settles itself."""

    __slots__ = ("_asked", "bodies", "confirm", "epoch", "opening", "session", "slot")

    def __init__(self, command: Subscribe, epoch: int, opening: int) -> None:
        # The shard carries out so much a turn: others' messages may be handed out before this one is.
        self.opening = opening if command.resume is None else NOT_YET
        self._asked = opening
        self.slot = command.slot
        self.epoch = epoch
        self.session = command.session
        self.confirm = command.confirm
        self.bodies = command.bodies

    def happened(self, opening: int) -> None:
        """The shard has attached what came behind that Open."""
        if opening == self._asked:
            self.opening = opening

    def lost(self) -> None:
        """What was handed out to it reached nobody: nothing of that is ever confirmed."""
        self.confirm = False


class Attachments:
    """get(number): the attachment of a consumer, or None."""

    __slots__ = ("_all", "_epochs", "_slots", "get")

    def __init__(self) -> None:
        self._all: dict[int, Attached] = {}
        self._slots: dict[int, dict[int, dict[int, None]]] = {}
        """Slot → session → consumers."""
        self._epochs: dict[int, int] = {}
        # For each delivery: no call of ours in between.
        self.get = self._all.get

    def __len__(self) -> int:
        return len(self._all)

    def add(self, number: int, attached: Attached) -> None:
        """In the place of an earlier one."""
        self.end(number)
        slot = attached.slot
        # The first attachment in a new epoch ends all of the old one: their leader is gone, and what it handed out to
        # them is told by the Resume of each that comes again.
        if self._epochs.get(slot) != attached.epoch:
            self._forget(slot)
            self._epochs[slot] = attached.epoch
        self._all[number] = attached
        self._slots.setdefault(slot, {}).setdefault(attached.session, {})[number] = None

    def end(self, number: int) -> None:
        """The consumer is no more, if it ever was."""
        attached = self._all.pop(number, None)
        if attached is None:
            return
        sessions = self._slots[attached.slot]
        consumers = sessions[attached.session]
        del consumers[number]
        if not consumers:
            del sessions[attached.session]

    def end_session(self, slot: int, session: int) -> None:
        for number in self._slots.get(slot, {}).pop(session, ()):
            del self._all[number]

    def keep(self, led: Mapping[int, int], most: int) -> bool:
        """Only those of slots that are led in their epoch (slot → epoch) stay. False: about `most` were forgotten,
        there are more."""
        gone = 0
        # Whole slots, so that a step may be some consumers too long but never half a slot.
        for slot in [slot for slot, epoch in self._epochs.items() if led.get(slot) != epoch]:
            if gone >= most:
                return False
            gone += self._forget(slot)
        return True

    def sessions(self, led: Mapping[int, int]) -> Iterator[tuple[int, int]]:
        """(slot, session) of all in slots that are led in their epoch (slot → epoch), which are gone with that; the
        others are not looked at. One by one: there may be 100,000."""
        for slot, sessions in list(self._slots.items()):
            if led.get(slot) == self._epochs[slot]:
                for session in list(sessions):
                    self.end_session(slot, session)
                    yield slot, session

    def _forget(self, slot: int) -> int:
        self._epochs.pop(slot, None)
        before = len(self._all)
        for consumers in self._slots.pop(slot, {}).values():
            for number in consumers:
                del self._all[number]
        return before - len(self._all)
