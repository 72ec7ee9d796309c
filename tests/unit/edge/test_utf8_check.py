"""Is a large body text: asked piece by piece, answered once."""

from __future__ import annotations

import pytest

from broker.edge.subscriptions.utf8_check import PIECE, TextCheck


class Body:
    """A reader that answers when it is told to."""

    def __init__(self, data: bytes) -> None:
        self.data, self.at, self.closed, self.most = data, 0, False, 0
        self.asked = None

    def read(self, most, done) -> None:
        self.most = max(self.most, most)
        self.asked = (most, done)

    def close(self) -> None:
        self.closed = True

    def answer(self) -> None:
        most, done = self.asked
        piece = self.data[self.at : self.at + most]
        self.at += len(piece)
        done(piece, "")


def check(data: bytes, head: bytes = b"a:b\n\n") -> tuple[list[bool], Body]:
    told: list[bool] = []
    body = Body(data)
    TextCheck(body, len(data), told.append).start(head)
    while not told:
        body.answer()
    assert body.closed and body.most <= PIECE
    return told, body


@pytest.mark.parametrize(
    ("data", "text"),
    [
        (b"x" * (2 * PIECE + 5), True),
        ("ä".encode() * PIECE, True),
        (b"x" * (PIECE - 1) + "ä".encode(), True),  # cut in the middle of a character
        (b"x" * 10 + b"\xff", False),
        (b"x" * PIECE + "ä".encode()[:1], False),  # ends in the middle of one
        (b"", True),
    ],
)
def test_to_the_last_byte(data, text):
    assert check(data)[0] == [text]


def test_what_is_not_text_is_known_by_its_first_piece():
    told, body = check(b"\xff" + b"x" * (9 * PIECE))
    assert told == [False] and body.at <= PIECE
    assert check(b"x", head=b"\xff")[1].at == 0


def test_a_body_that_cannot_be_read_is_none_and_who_leaves_hears_nothing():
    told: list[bool] = []
    body = Body(b"x")
    TextCheck(body, 1, told.append).start(b"")
    body.asked[1](None, "the disk says no")
    assert told == [False]
    left = TextCheck(Body(b"x"), 1, told.append)
    left.start(b"")
    left.close()
    left._arrived(b"x", "")
    assert told == [False]
