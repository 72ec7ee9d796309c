"""SENDs the cheapest way that fits: the same result whichever it is, and what it costs is counted."""

from __future__ import annotations

import pytest

from broker.wire.memo import Memo
from broker.wire.shortcuts.known_layouts import LEARN_AFTER
from broker.wire.shortcuts.known_sends import MAKING, PATIENCE
from broker.wire.shortcuts.layouts import FAMILIES, SPARE

from .cutting import HEAD, SMALL, V12, feed, logged_in


def test_large_block_that_is_known():
    """The stream's lines do not depend on how the block was understood."""
    small_frame = HEAD + b"content-length:3\n\nabc\0"
    large_frame = HEAD + b"content-length:1500\n\n%b\0" % (b"q" * 1500)
    memo = Memo(100)
    for _ in range(5):
        flat = feed(logged_in(V12, SMALL, memo), [(small_frame + large_frame) * 4])
        assert [f[2] for f in flat if f[0] == "START"] == [b"destination:d\n"] * 4


def test_only_plain_blocks_are_learned():
    memo = Memo(8)
    for _ in range(LEARN_AFTER + 1):
        for line in (b"a:\\c", b"a:b:c", b"a\\c:1", b"a:\xc3\xa9", b"d:1\nd:2"):
            logged_in(V12, memo=memo).receive(HEAD + line + b"\ncontent-length:1\n\nx\0")
        logged_in(V12, memo=memo).receive(b"SEND\r\ndestination:d\r\ncontent-length:1\r\n\r\nx\0")
    assert not memo.layouts(V12).known


def test_what_layouts_keep_is_bounded():
    """A destination of its own in each message, and a client whose names never fit what was learned."""
    memo = Memo(8)
    connection = logged_in(V12, memo=memo)
    frame = b"SEND\ndestination:d%d\nn:%d\n\nx\0"
    connection.receive(b"".join(frame % (n, n) for n in range(FAMILIES + SPARE + 500)))
    [layout] = memo.layouts(V12).known.values()
    assert FAMILIES < len(layout.families) <= FAMILIES + SPARE
    frame = b"SEND\ndestination:d%d\nother:%d\n\nx\0"
    connection.receive(b"".join(frame % (n, n) for n in range(FAMILIES + 500)))
    assert 0 < len(memo.layouts(V12).known[b"destination", b"other"].families) <= FAMILIES
    connection.receive(b"".join(b"SEND\ndestination:d\nn%d:1\n\nx\0" % n for n in range(PATIENCE + 1)))
    assert not connection._known._layouts


def looked_at(connection):
    """What a receive() has held against patterns, in bytes; whatever came of it."""
    seen = 0

    class Counted:
        def __init__(self, layout):
            self.match_of = layout.match

        def __call__(self, data, at, stop):
            nonlocal seen
            seen += min(data.index(b"\n\n", at), stop) - at
            return self.match_of(data, at, stop)

    for layout in connection._known._known.known.values():
        layout.match = Counted(layout)
    events = connection.receive(b"")
    return sum(len(event.records) for event in events), seen


@pytest.mark.parametrize(("size", "kinds"), [(10, 4), (200, 4), (200, 5), (2000, 1), (2000, 5), (9000, 4), (9000, 5)])
def test_frames_held_against_names_that_do_not_fit_count_as_more(size, kinds):
    """Names that differ at the end only, in turn: each is held against four patterns. 16 KB take 0.25 ms."""
    connection = logged_in(V12)
    frames = [b"SEND\ndestination:%b\nn%d:1\n\nx\0" % (b"d" * size, n) for n in range(kinds)]
    for frame in frames:
        connection.receive(frame * LEARN_AFTER)
    connection.burst = 0
    connection.receive(b"".join(frames) * (4_000_000 // size // kinds if size > 10 else 4000))
    connection.burst = 128
    taken, seen = looked_at(connection)
    assert connection.more
    assert taken * 2 + seen / 64 <= 128 * 16 * 4, "as much as 128 frames of 30 µs: 2 µs a frame, 15 ns a byte"


def test_making_layouts_counts_as_work():
    """Of names that each come three times; a pattern takes as long as some frames."""
    connection = logged_in()
    connection.burst = 128
    names = b"".join(b"SEND\ndestination:d\nn%d:1\n\nx\0" % (n // LEARN_AFTER) for n in range(600))
    connection.receive(names)
    assert connection.more
    assert 0 < len(connection._known._known.known) <= 128 // MAKING
