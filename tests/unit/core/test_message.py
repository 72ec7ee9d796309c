"""Runs: cut and joined without copying a byte, and their sums hold whatever happens to them."""

from __future__ import annotations

from random import Random

import pytest

from broker.core.message import (
    DURABLE,
    ESCAPED,
    NO_IDS,
    PART,
    REDELIVERED,
    TRANSIENT,
    WAS_DURABLE,
    Blob,
    Run,
    is_text,
)  # fmt: skip


def run(count: int, lines: bytes = b"a:b\n", **more) -> Run:
    records = [b"\n%d\0" % n for n in range(count)]
    return Run(range(1, count + 1), lines, records, sum(map(len, records)) + count * len(lines), **more)


def holds(one: Run) -> bool:
    blob = one.blob.length + 1 if one.blob and one.records else 0
    return one.nbytes == sum(map(len, one.records)) + len(one.records) * len(one.lines) + blob


def test_picked_and_cut_they_are_the_same_messages():
    random = Random(7)
    for _ in range(200):
        whole = run(random.randint(1, 12), flags=DURABLE, priority=7, attempts=2, position=random.choice((0, 99)))
        at = sorted(random.sample(range(len(whole)), random.randint(1, len(whole))))
        for part, expected in (
            (whole.pick(at), at),
            (whole.cut(slice(1, None, 2)), range(1, len(whole), 2)),
            (whole.cut(slice(0)), ()),
        ):
            assert list(part.ids) == [whole.ids[n] for n in expected]
            assert part.records == [whole.records[n] for n in expected] and holds(part)
            assert all(any(record is own for own in whole.records) for record in part.records)
            assert (part.priority, part.attempts, part.position) == (7, 2, whole.position)
            assert bool(part.flags & PART) is bool(whole.position and len(part) < len(whole))
    assert run(2).pick([0]).ids == [1] and Run(NO_IDS, b"", [b"\n\0"], 2).pick([0]).ids is NO_IDS


def test_runs_of_other_header_lines_are_joined_whole():
    one, same = run(1), run(1)
    one.join(b"a:b\n", list(same.records), same.nbytes, DURABLE)
    assert (one.lines, len(one), one.flags) == (b"a:b\n", 2, DURABLE) and holds(one)
    one.join(b"c:d\n", [b"\nx\0"], len(b"c:d\n\nx\0"), 0)
    assert one.lines == b"" and one.records[0] == b"a:b\n\n0\0" and one.records[2] == b"c:d\n\nx\0" and holds(one)


def test_header_lines_in_front_are_not_what_the_journal_has():
    one = run(2, position=5)
    one.in_front(b"x:a\\cb\n")
    assert one.lines == b"x:a\\cb\na:b\n" and holds(one) and one.position == 0 and one.flags & ESCAPED


def test_a_large_body_counts_where_its_message_is():
    blob = Blob(3, 1000)
    one = Run(range(1, 2), b"", [b"a:b\n\n"], 5 + 1001, blob=blob)
    assert holds(one) and one.size_of(0) == 5 + 1001 and holds(one.cut(slice(0))) and one.cut(slice(0)).nbytes == 0


def test_what_is_known_of_deliveries():
    one = run(1)
    one.came_again()
    assert one.flags & REDELIVERED and one.attempts == 0, "it may have been out, and nobody failed"
    one.came_back(failed=True)
    one.came_back(failed=False)
    assert one.attempts == 1
    one.came_again(7)
    assert one.attempts == 7
    one.anew(DURABLE)
    assert (one.ids, one.attempts, one.flags) == (NO_IDS, 0, 0)


def test_what_goes_to_the_journal_for_want_of_memory_does_not_last_and_may_again():
    one = run(1, flags=DURABLE)
    one.spilled()
    assert one.flags == TRANSIENT | WAS_DURABLE
    one.lasts()
    assert one.flags & DURABLE and not one.flags & TRANSIENT
    other = run(1)
    other.spilled()
    assert other.flags == TRANSIENT


@pytest.mark.parametrize(
    ("lines", "text"),
    [
        (b"destination:a", True),
        (b"destination:a\ncontent-length:1", True),
        (b"content-length:1\ndestination:a", False),
        (b"content-length:1\ndestination:a\nx-content-length:1", False),
        (b"x-content-length:1\ndestination:a\ncontent-length:1", True),
        (b"content-length:1", True),  # the other lines are those of all messages (Run.lines)
        (b"dead-letter-reason:x\ncontent-length:1\ndestination:a", False),
        (b"dead-letter-reason:x\ndestination:a\ncontent-length:1", True),
    ],
)
def test_whose_a_content_length_is_says_the_place_where_it_stands(lines, text):
    assert is_text(lines + b"\n\ncontent-length:9\n\n\0") is text
