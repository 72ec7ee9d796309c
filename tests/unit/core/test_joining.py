"""Messages that are joined into one run, and times of messages that are lengths."""

from __future__ import annotations

import pytest

from broker.core.address import Routing
from broker.core.commands import Publish
from broker.core.message import DURABLE, NO_IDS, TEXT, Run


def run(lines: bytes, *records: bytes, flags: int = 0) -> Run:
    return Run(NO_IDS, lines, list(records), sum(map(len, records)) + len(records) * len(lines), flags)


def whole(messages: Run) -> list[bytes]:
    return [messages.lines + record for record in messages.records]


@pytest.mark.parametrize("first", [b"", b"a:1\n"])
@pytest.mark.parametrize("second", [b"", b"a:1\n", b"b:2\n"])
def test_joined_messages_are_what_they_were(first: bytes, second: bytes) -> None:
    one, other = run(first, b"\nx\0", b"\nyy\0", flags=DURABLE), run(second, b"\nz\0", flags=TEXT)
    expected, nbytes = whole(one) + whole(other), one.nbytes + other.nbytes
    one.join(other.lines, other.records, other.nbytes, other.flags)
    assert whole(one) == expected and one.nbytes == nbytes == sum(map(len, expected))
    assert one.flags == DURABLE | TEXT and whole(other) == expected[2:], "what came is left as it was"
    assert one.lines == (first if first == second else b""), "lines that all have are kept once"


def publish() -> Publish:
    return Publish(0, 1, 0, "a", Routing.UNSET, run(b"", b"\nx\0"))


@pytest.mark.parametrize(
    ("ttl", "delay", "due", "expected"),
    [
        (0, 0, 0, (0, 0, 0, 0)),
        (50, 0, 0, (50, 0, 1050, 0)),
        (0, 30, 0, (0, 30, 0, 1030)),
        (50, 30, 0, (50, 30, 1050, 1030)),
        (0, 30, 7000, (0, 0, 0, 7000)),
        (0, 0, 7000, (0, 0, 0, 7000)),
    ],
)
def test_lengths_are_told_beside_moments_and_a_moment_counts_first(
    ttl: int, delay: int, due: int, expected: tuple[int, ...]
) -> None:
    message = publish()
    message.lives(ttl, delay, due, 1000)
    assert (message.ttl, message.delay, message.run.expires, message.run.due) == expected


def test_what_a_message_has_waited_is_part_of_its_times() -> None:
    message = publish()
    message.lives(50, 30, 0, 1000)
    message.waited(20)
    assert (message.ttl, message.delay) == (30, 10)
    message.waited(980)
    assert (message.ttl, message.delay) == (1, 1), "0 would mean: for ever, and at once by another clock"
    plain = publish()
    plain.waited(1000)
    assert (plain.ttl, plain.delay) == (0, 0)
