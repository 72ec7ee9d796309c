"""Where the body is of a message that a consumer holds: from memory, or read back where it is known by number only."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from broker.core.message import Blob, Run
from broker.owner.bodies.held_bodies import HeldBodies

from .hand_io import HandIo

BODY = Blob(0x2A, 100)


class Holding:
    """Slot 3 is led here; consumer 7 holds `run` as message 5. read: what the journal finds."""

    def __init__(self, run: object, read: list[Run] | Exception = ()) -> None:
        known = SimpleNamespace(has=lambda message: run if message == 5 else None)
        engine = SimpleNamespace(shown=SimpleNamespace(consumers={7: known}))
        self.asked: list[tuple] = []
        self.read = read
        self.io = HandIo()
        self.bodies = HeldBodies({3: engine}, SimpleNamespace(read=self._read), self.io)
        self.told: list[Blob | None] = []

    def _read(self, positions, nbytes):
        self.asked.append(tuple(positions))
        if isinstance(self.read, Exception):
            raise self.read
        return self.read

    def find(self, slot: int = 3, consumer: int = 7, message: int = 5) -> list[Blob | None]:
        self.bodies.find(slot, consumer, message, self.told.append)
        return self.told


def run(first: int, blob: Blob | None, position: int = 0) -> SimpleNamespace:
    return SimpleNamespace(ids=range(first, first + 2), blob=blob, position=position)


def test_what_is_in_memory_is_answered_at_once():
    holding = Holding(run(5, BODY, position=9))
    assert holding.find() == [BODY] and not holding.io.jobs


@pytest.mark.parametrize("asked", [{"slot": 4}, {"consumer": 8}, {"message": 6}])
def test_what_is_not_held_has_none(asked):
    assert Holding(run(5, BODY)).find(**asked) == [None]


def test_a_message_that_is_nowhere_has_none():
    assert Holding(run(5, None)).find() == [None]


def test_what_is_known_by_number_is_read_back_and_only_its_own_body_counts():
    other = Blob(0x2B, 1)
    holding = Holding(run(5, None, position=9), [run(1, other), run(5, None), run(5, BODY)])
    assert holding.find() == [] and len(holding.io.jobs) == 1
    holding.io.all()
    assert holding.told == [BODY] and holding.asked == [(9,)]


@pytest.mark.parametrize("read", [[], [run(1, BODY)], OSError("gone")])
def test_what_cannot_be_read_back_is_nobodys_end(read):
    holding = Holding(run(5, None, position=9), read)
    holding.find()
    holding.io.all()
    assert holding.told == [None]
