"""A large body from one owner's file to another's: bounded pieces, told once, and synced before that."""

from __future__ import annotations

from broker.core.message import Blob
from broker.owner.bodies.body_transfer import PIECE, WINDOW, Carry

THERE = Blob(1, 5)


class Ends:
    """Both ends of a body of so many pieces; the sink drains when it is told to."""

    def __init__(self, pieces: list[bytes | None], drains: bool = True) -> None:
        self.pieces = pieces
        self.drains = drains
        self.pending = 0
        self.written: list[bytes] = []
        self.log: list[object] = []
        self.told: list[tuple] = []
        self.waiting: list = []
        self.carry = Carry(self, self.begin, lambda *told: self.told.append(told))

    def begin(self, on_drain):
        self.on_drain = on_drain
        return self

    def read(self, n, done):
        assert n == PIECE and not self.waiting, "one at a time"
        self.waiting.append(done)

    def arrive(self) -> None:
        data = self.pieces.pop(0) if self.pieces else b""
        self.waiting.pop()(data, "" if data is not None else "rot")

    def write(self, data):
        self.written.append(data)
        self.pending += 0 if self.drains else len(data)

    def close(self):
        self.log.append("closed")

    def abort(self):
        self.log.append("aborted")

    def finish(self, sync, done):
        self.log.append(("finish", sync))
        done(THERE, "")


def test_it_is_told_when_all_of_it_is_synced_there():
    ends = Ends([b"one", b"two"])
    for _ in range(3):
        ends.arrive()
    assert ends.written == [b"one", b"two"]
    assert ends.log == ["closed", ("finish", True)] and ends.told == [(THERE, "")]
    ends.on_drain()
    assert not ends.waiting and len(ends.told) == 1 and not ends.carry.unread


def test_it_reads_no_further_than_the_other_end_takes():
    ends = Ends([b"x" * PIECE] * 100, drains=False)
    while ends.waiting:
        ends.arrive()
    assert WINDOW < ends.pending <= WINDOW + PIECE
    ends.pending = WINDOW
    ends.on_drain()
    ends.on_drain()
    assert len(ends.waiting) == 1, "and goes on once"


def test_what_cannot_be_read_is_our_end_and_leaves_nothing_there():
    ends = Ends([b"one", None])
    ends.arrive()
    ends.arrive()
    assert ends.log == ["closed", "aborted"] and ends.told == [(None, "rot")] and ends.carry.unread
    ends.on_drain()
    assert not ends.waiting


def test_what_is_not_needed_any_more_goes_there():
    ends = Ends([])
    ends.arrive()
    ends.carry.drop()
    assert ends.log[-1] == "aborted"
